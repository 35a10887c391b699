//! Texts with fields, which a caller's texts take the place of: "Query: {query}".

use crate::error::{quote, Error, Result};

/// A text that the caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Instruction,
    Query,
    Document,
    Text,
    Context,
    Question,
    Prompt,
    Labels,
    Label,
    /// Of a list: all its documents, how many they are, and the number of one of them.
    Documents,
    Count,
    Index,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Fixed(String),
    Field(Field),
}

/// Parts that are encoded together.
pub type Piece = Vec<Part>;

/// What a name stands for; an error says which there are.
pub fn one_of<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T> {
    known
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
            Error::format(format!(
                "{what} is {}; it must be one of {}",
                quote(name),
                names.join(", ")
            ))
        })
}

/// Splits "a {field} b" into its parts; "{{" and "}}" are braces.
pub fn parse_piece(text: &str, known: &[(&str, Field)]) -> Result<Piece> {
    let mut piece = Piece::new();
    let mut fixed = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        fixed.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        let after = &rest[at + 1..];
        if after.starts_with(brace) {
            fixed.push_str(brace);
            rest = &after[1..];
            continue;
        }
        let end = after.find('}').filter(|_| brace == "{").ok_or_else(|| {
            Error::format(format!(
                "a lone \"{brace}\" in {}; write it twice for the character itself",
                quote(text)
            ))
        })?;
        let field = one_of("a field", &after[..end], known)?;
        if !fixed.is_empty() {
            piece.push(Part::Fixed(std::mem::take(&mut fixed)));
        }
        piece.push(Part::Field(field));
        rest = &after[end + 1..];
    }
    fixed.push_str(rest);
    if !fixed.is_empty() {
        piece.push(Part::Fixed(fixed));
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_split_at_fields() {
        let known = [("a", Field::Text), ("b", Field::Query)];
        let parts = parse_piece("x{a}{{y}}{b}", &known).unwrap();
        assert_eq!(
            parts,
            [
                Part::Fixed("x".into()),
                Part::Field(Field::Text),
                Part::Fixed("{y}".into()),
                Part::Field(Field::Query)
            ]
        );
        for wrong in ["{", "}", "{c}", "{a", "a}b"] {
            assert!(parse_piece(wrong, &known).is_err(), "{wrong}");
        }
    }
}
