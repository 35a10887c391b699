//! Control characters that no text has, since they could only be written as \u: those but \b, \t, \n, \f and \r.
//!
//! The crate would leave them out of what it writes. In a class of characters it leaves them out of the class.

use serde_json::Value;

fn is_control(c: char) -> bool {
    c.is_ascii_control() && !['\u{8}', '\t', '\n', '\u{c}', '\r'].contains(&c)
}

/// The first one in the texts of a value.
pub fn in_value(value: &Value) -> Option<char> {
    match value {
        Value::String(text) => text.chars().find(|c| is_control(*c)),
        Value::Array(all) => all.iter().find_map(in_value),
        Value::Object(all) => all.values().find_map(in_value),
        _ => None,
    }
}

/// The first one that a text of this regular expression must have: it stands in no class, or alone in one.
pub fn in_pattern(pattern: &str) -> Option<char> {
    let mut rest = pattern;
    let (mut is_class, mut is_first) = (false, false);
    while let Some(first) = rest.chars().next() {
        let (c, after) = match first {
            '\\' => escaped(&rest[1..]),
            _ => (Some(first), &rest[first.len_utf8()..]),
        };
        match (first, is_class) {
            ('[', false) => (is_class, is_first, rest) = (true, true, after),
            (']', true) if !is_first => (is_class, rest) = (false, after),
            _ => {
                let is_alone = !is_class || (is_first && after.starts_with(']'));
                if let Some(c) = c.filter(|c| is_control(*c) && is_alone) {
                    return Some(c);
                }
                (is_first, rest) = (false, after);
            }
        }
    }
    None
}

/// The character that stands behind a backslash, where its number or one of the letters for controls does.
fn escaped(rest: &str) -> (Option<char>, &str) {
    let Some(kind) = rest.chars().next() else {
        return (None, rest);
    };
    let after = &rest[kind.len_utf8()..];
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'a' => return (Some('\u{7}'), after),
        'v' => return (Some('\u{b}'), after),
        _ => return (None, after),
    };
    let (number, after) = match after.strip_prefix('{') {
        Some(after) => after.split_once('}').unwrap_or((after, "")),
        None => after.split_at_checked(digits).unwrap_or((after, "")),
    };
    let number = u32::from_str_radix(number, 16).ok();
    (number.and_then(char::from_u32), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_must_come_are_found_however_they_are_written() {
        for (pattern, found) in [
            ("a\u{1}b", Some('\u{1}')),
            (r"a\x01b", Some('\u{1}')),
            (r"\x{7F}", Some('\u{7f}')),
            (r"\u001f", Some('\u{1f}')),
            (r"\u{0}", Some('\0')),
            (r"\U0000001b[0m", Some('\u{1b}')),
            (r"a\v", Some('\u{b}')),
            (r"[\x01]", Some('\u{1}')),
            (r"[a]\a", Some('\u{7}')),
            (r"[]\x01]", None),
            (r"^[^\x00-\x1f\x7f]*$", None),
            (r"\n\t\x0d\x41\\x01", None),
            (r"[\x01-\x05]", None),
            ("a\\", None),
            ("\\u\u{e9}", None),
        ] {
            assert_eq!(in_pattern(pattern), found, "{pattern}");
        }
    }
}
