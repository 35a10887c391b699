//! JSON texts of callers and of files.

use crate::error::{quote, Error};
use serde_json::Value;

/// The value, or what is wrong with the text. A byte order mark is not JSON; to skip it here would
/// only move the surprise to the next reader.
pub fn parse(text: &str) -> Result<Value, String> {
    if text.starts_with('\u{feff}') {
        return Err("it starts with a byte order mark".to_string());
    }
    serde_json::from_str(text).map_err(|e| said(&e.to_string()))
}

/// What serde_json says of an escape such as "\ud800" that stands alone, in plainer words.
fn said(error: &str) -> String {
    let known = [
        "unexpected end of hex escape",
        "lone leading surrogate in hex escape",
    ];
    let place = known.iter().find_map(|words| error.strip_prefix(words));
    place.map_or(error.to_string(), |place| {
        format!("half of a surrogate pair{place}")
    })
}

/// The value of an argument `what` that a template may write into a prompt. A `Value` has a whole number
/// beyond 64 bits as a float, which is another number, so it is refused.
pub fn parse_exact(text: &str, what: &str) -> Result<Value, Error> {
    let value = parse(text).map_err(|e| Error::argument(format!("{what} is not JSON: {e}")))?;
    match beyond_64_bits(text) {
        None => Ok(value),
        Some(number) => Err(Error::argument(format!(
            "{what} has the whole number {}; whole numbers are from {} to {}",
            quote(number),
            i64::MIN,
            u64::MAX
        ))),
    }
}

/// The first whole number of a JSON text that no 64 bits hold.
fn beyond_64_bits(json: &str) -> Option<&str> {
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = after_string(text);
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let is_whole = !number.contains(['.', 'e', 'E']);
        if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(number);
        }
        rest = after;
    }
    None
}

/// What follows the end of a string that has begun.
fn after_string(text: &str) -> &str {
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\\']) {
        let (end, after) = rest[at..].split_at(1);
        if end == "\"" {
            return after;
        }
        let mut escaped = after.chars();
        escaped.next();
        rest = escaped.as_str();
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_surrogate_pair_is_called_so() {
        for json in [r#"["\ud800"]"#, r#"["\ud800\u0041"]"#, r#"["\udc00"]"#] {
            let error = parse(json).unwrap_err();
            assert!(
                error.starts_with("half of a surrogate pair at line 1 column "),
                "{json}: {error}"
            );
        }
        assert!(parse(r#"["\ud83d\ude00"]"#).is_ok());
        assert!(parse("[").unwrap_err().starts_with("EOF"));
    }

    #[test]
    fn whole_numbers_have_64_bits() {
        for json in [
            "[18446744073709551615, -9223372036854775808, -0, 0]",
            "[1e400, 123456789012345678901234567890.0, 12345678901234567890123e-3]",
            r#"{"12345678901234567890123": "\"98765432109876543210987 \\", "x": "\\\""}"#,
            "",
        ] {
            assert_eq!(beyond_64_bits(json), None, "{json}");
        }
        for (json, number) in [
            ("18446744073709551616", "18446744073709551616"),
            ("[1,-9223372036854775809]", "-9223372036854775809"),
            (
                r#"{"a\\": {"b\"": 99999999999999999999}, "c": 1}"#,
                "99999999999999999999",
            ),
        ] {
            assert_eq!(beyond_64_bits(json), Some(number), "{json}");
        }
    }
}
