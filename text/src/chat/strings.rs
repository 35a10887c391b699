//! Texts as the methods of Python's texts see them. Rust's own are close, but a prompt must be the same to
//! the byte.

use super::budget;
use minijinja::Error;

/// `str.isspace`: the four separators of ASCII count too.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Both,
    Left,
    Right,
}

/// `strip`, `lstrip` and `rstrip`.
pub fn strip<'a>(text: &'a str, chars: Option<&str>, side: Side) -> &'a str {
    let gone = |c: char| chars.map_or(is_space(c), |set| set.contains(c));
    let text = if side == Side::Right {
        text
    } else {
        text.trim_start_matches(gone)
    };
    if side == Side::Left {
        text
    } else {
        text.trim_end_matches(gone)
    }
}

/// `splitlines`: at every kind of line end that Python knows; no empty line at the end.
pub fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    while let Some(at) = rest.find(is_end) {
        let width = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        found.push(&rest[..at + if keep_ends { width } else { 0 }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

/// At white space: `most` cuts from the left.
pub fn split_space(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if found.len() == most {
            found.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    found
}

/// At white space: `most` cuts from the right.
pub fn split_space_right(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if found.len() == most {
            found.push(rest);
            break;
        }
        let begin = rest
            .char_indices()
            .rev()
            .find(|(_, c)| is_space(*c))
            .map_or(0, |(at, c)| at + c.len_utf8());
        found.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    found.reverse();
    found
}

/// `width` characters, filled on one or both sides.
pub fn pad(text: &str, width: i64, fill: char, side: Side) -> Result<String, Error> {
    let have = text.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(have);
    budget::text(
        text.len()
            .saturating_add(missing.saturating_mul(fill.len_utf8())),
    )?;
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        // Python's own rounding.
        Side::Both => missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1),
    };
    let run = |n: usize| std::iter::repeat_n(fill, n);
    Ok(run(left)
        .chain(text.chars())
        .chain(run(missing - left))
        .collect())
}

pub fn zfill(text: &str, width: i64) -> Result<String, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = &text[..text.len() - digits.len()];
    Ok(sign.to_string() + &pad(digits, width - sign.len() as i64, '0', Side::Left)?)
}

pub fn expandtabs(text: &str, size: i64) -> Result<String, Error> {
    let size = usize::try_from(size).unwrap_or(0);
    let tabs = text.matches('\t').count();
    budget::text(text.len().saturating_add(tabs.saturating_mul(size)))?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let n = size - column % size;
                out.extend(std::iter::repeat_n(' ', n));
                column += n;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    Ok(out)
}

/// Charges `text.replace(old, new)`.
pub fn charge_replace(text: &str, old: &str, new: &str) -> Result<(), Error> {
    let most = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    budget::text(text.len().saturating_add(most.saturating_mul(new.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_are_those_of_python() {
        assert_eq!(lines("a\r\nb\u{2028}c\n", false), ["a", "b", "c"]);
        assert_eq!(lines("a\n\nb", true), ["a\n", "\n", "b"]);
        assert_eq!(lines("", false), [""; 0]);
        assert_eq!(split_space(" a  b c ", 1), ["a", "b c "]);
        assert_eq!(split_space_right(" a  b c ", 1), [" a  b", "c"]);
        super::budget::begin(3); // bytes of the padded digits
        assert_eq!(zfill("-7", 4).unwrap(), "-007");
        assert!(zfill("-7", 4).is_err());
    }
}
