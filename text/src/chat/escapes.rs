//! Escapes in the texts of a template as Jinja reads them, which is as Python does. The engine lacks some and takes
//! a stroke out of `\/`.

use super::show::ascii;
use minijinja::{Error, ErrorKind};
use std::str::Chars;

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::SyntaxError, what.into())
}

/// What literals stand for that the parser has taken for one, as `'a' "b"`; none where nothing in them is escaped.
pub fn text_of_literals(source: &str) -> Result<Option<String>, Error> {
    if !source.contains('\\') {
        return Ok(None);
    }
    // As units, for a character may be two of them, each with an escape of its own.
    let mut units = Vec::new();
    let mut chars = source.chars();
    while let Some(quote) = chars.find(|c| matches!(c, '\'' | '"')) {
        while let Some(c) = chars.next().filter(|c| *c != quote) {
            match c {
                '\\' => escaped(&mut chars, &mut units)?,
                c => push(&mut units, c),
            }
        }
    }
    let text = String::from_utf16(&units);
    text.map(Some)
        .map_err(|_| wrong("a text has half a surrogate pair"))
}

fn push(units: &mut Vec<u16>, c: char) {
    units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
}

/// What follows a backslash.
fn escaped(chars: &mut Chars, units: &mut Vec<u16>) -> Result<(), Error> {
    let before = chars.as_str();
    let Some(c) = chars.next() else { return Ok(()) };
    let number = match c {
        '\n' => return Ok(()), // the line goes on in the next
        '\\' | '\'' | '"' => c as u32,
        'a' => 0x07,
        'b' => 0x08,
        't' => 0x09,
        'n' => 0x0a,
        'v' => 0x0b,
        'f' => 0x0c,
        'r' => 0x0d,
        '0'..='7' => {
            let count = before
                .bytes()
                .take(3)
                .take_while(|b| matches!(b, b'0'..=b'7'));
            *chars = before.chars();
            digits(chars, 8, count.count())?
        }
        'x' => digits(chars, 16, 2)?,
        'u' => digits(chars, 16, 4)?,
        'U' => digits(chars, 16, 8)?,
        'N' => {
            return Err(wrong(
                "a character by its name, as \\N{...}, is not supported",
            ))
        }
        c => {
            if c.is_ascii() {
                push(units, '\\');
            }
            // Of another character Python has made an escape before, whose backslash this one escapes.
            ascii(c).chars().for_each(|c| push(units, c));
            return Ok(());
        }
    };
    match u16::try_from(number) {
        Ok(unit) => units.push(unit),
        Err(_) => {
            let c = char::from_u32(number);
            push(
                units,
                c.ok_or_else(|| wrong(format!("there is no character {number:#x}")))?,
            );
        }
    }
    Ok(())
}

fn digits(chars: &mut Chars, radix: u32, count: usize) -> Result<u32, Error> {
    let rest = chars.as_str();
    let digits = rest
        .get(..count)
        .filter(|d| d.chars().all(|c| c.is_digit(radix)));
    let digits =
        digits.ok_or_else(|| wrong(format!("an escape in a text lacks its {count} digits")))?;
    *chars = rest[count..].chars();
    u32::from_str_radix(digits, radix).map_err(|why| wrong(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_literals_each_ends_at_its_own_quote() {
        let text = text_of_literals(r#"'it\'s "a"'  "\x62'\"" "#).unwrap();
        assert_eq!(text.as_deref(), Some(r#"it's "a"b'""#));
        assert_eq!(text_of_literals("'a' \"b\"").unwrap(), None);
    }

    #[test]
    fn halves_of_a_character_make_one() {
        let text = text_of_literals(r"'\ud83d' '\ude00\U0001f601'").unwrap();
        assert_eq!(text.as_deref(), Some("😀😁"));
        assert!(text_of_literals(r"'\U0000d83d'").is_err());
    }

    #[test]
    fn what_names_no_character_is_refused() {
        for literal in [
            r"'\U00110000'",
            r"'\U0001F60'",
            r"'\N{BULLET}'",
            r"'\x+1'",
            r"'\u00é9'",
        ] {
            let error = text_of_literals(literal).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SyntaxError, "{literal}");
        }
    }
}
