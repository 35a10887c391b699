//! Values as Python shows them, charged to the budget.

use super::budget;
use super::meter::{is_a, keep};
use super::number::python_float;
use fancy_regex::{Captures, Regex};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

/// A text that stops growing at the limit, for values whose size is not known beforehand.
struct Capped(String);

impl Write for Capped {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        if self.0.len() + s.len() > budget::OUTPUT {
            return Err(std::fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

impl Capped {
    fn add(&mut self, text: std::fmt::Arguments) -> Result<(), Error> {
        self.write_fmt(text)
            .map_err(|_| budget::too_much(format!("a text of more than {} bytes", budget::OUTPUT)))
    }

    /// Adds `repr(value)` of Python. The engine writes floats inside of others in its own way.
    fn repr(&mut self, value: &Value) -> Result<(), Error> {
        if let Some(number) = float(value) {
            return self.add(format_args!("{}", python_float(number)));
        }
        if value.is_undefined() {
            return self.add(format_args!("Undefined"));
        }
        if !is_container(value) {
            let text = format!("{value:?}");
            return self.add(format_args!("{}", escaped(&text)));
        }
        let is_map = value.kind() == ValueKind::Map;
        let is_tuple = value.is_tuple() || is_a(value, "GroupTuple");
        let (open, close) = match (is_map, is_tuple) {
            (true, _) => ("{", "}"),
            (_, true) if value.len() == Some(1) => ("(", ",)"),
            (_, true) => ("(", ")"),
            _ => ("[", "]"),
        };
        self.add(format_args!("{open}"))?;
        for (i, item) in value.try_iter()?.enumerate() {
            if i > 0 {
                self.add(format_args!(", "))?;
            }
            self.repr(&item)?;
            if is_map {
                self.add(format_args!(": "))?;
                self.repr(&value.get_item(&item)?)?;
            }
        }
        self.add(format_args!("{close}"))
    }
}

/// What shows nothing, or another space than that of ASCII, is escaped.
fn escaped(text: &str) -> Cow<'_, str> {
    static HIDDEN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}&&[^\x00-\x7f]]").ok());
    match &*HIDDEN {
        Some(hidden) if !text.is_ascii() => hidden.replace_all(text, |found: &Captures| {
            found
                .get(0)
                .map_or("", |c| c.as_str())
                .chars()
                .map(ascii)
                .collect::<String>()
        }),
        _ => text.into(),
    }
}

/// A character as `ascii` of Python writes it.
pub fn ascii(c: char) -> String {
    match c as u32 {
        ..0x80 => c.to_string(),
        n @ ..0x100 => format!("\\x{n:02x}"),
        n @ ..0x10000 => format!("\\u{n:04x}"),
        n => format!("\\U{n:08x}"),
    }
}

/// `repr(value)` of Python, charged.
pub fn repr_of(value: &Value) -> Result<String, Error> {
    // A text may become ten times as long.
    budget::text(
        value
            .as_str()
            .map_or(0, |text| text.len().saturating_mul(10)),
    )?;
    keep(value)?;
    let mut out = Capped(String::new());
    out.repr(value)?;
    budget::text(out.0.len())?;
    Ok(out.0)
}

/// `str(value)` of Python, charged.
pub fn text_of(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        budget::text(text.len())?;
        return Ok(text.to_string());
    }
    if let Some(number) = float(value) {
        return Ok(python_float(number));
    }
    keep(value)?;
    let mut out = Capped(String::new());
    if is_container(value) {
        out.repr(value)?;
    } else {
        out.add(format_args!("{value}"))?;
    }
    budget::text(out.0.len())?;
    Ok(out.0)
}

/// A number that is no integer.
fn float(value: &Value) -> Option<f64> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    f64::try_from(value.clone()).ok()
}

/// Whether it shows as what is in it.
pub fn is_container(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq => !is_a(value, "Range"),
        ValueKind::Iterable => value.len().is_some(),
        ValueKind::Map => !is_a(value, "Loop"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As repr() of Python shows them.
    #[test]
    fn what_shows_nothing_is_escaped() {
        budget::begin(budget::UNITS);
        let value = Value::from(vec!["a\u{a0}b", "\u{200b}\u{feff}", "é漢 x", "\u{e0001}"]);
        let wanted = r"['a\xa0b', '\u200b\ufeff', 'é漢 x', '\U000e0001']";
        assert_eq!(text_of(&value).unwrap(), wanted);
    }
}
