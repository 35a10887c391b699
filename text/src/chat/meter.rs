//! The operations that `rewrite` puts into a template: what Jinja does, charged to the budget
//! before it is done.

use super::budget;
use super::number::python_float;
use fancy_regex::{Captures, Regex};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

/// Most elements of a list that is put together.
const MOST_ELEMENTS: usize = 1 << 20;

/// What it costs to look at one value.
const VISIT: u64 = 4;

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

/// A finite number that is no integer.
fn float(value: &Value) -> Option<f64> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    let number = f64::try_from(value.clone()).ok();
    number.filter(|number| number.is_finite())
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

pub fn concat(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        budget::text(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    let (a, b) = (text_of(left)?, text_of(right)?);
    budget::text(a.len() + b.len())?;
    Ok(Value::from(a + &b))
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// The elements of a list, charged as many times as they will be copied.
fn elements(value: &Value, times: usize) -> Result<Vec<Value>, Error> {
    let count = value.len().unwrap_or(MOST_ELEMENTS + 1);
    copied(count.saturating_mul(times))?;
    Ok(value.try_iter()?.collect())
}

fn list(elements: Vec<Value>, is_tuple: bool) -> Value {
    match is_tuple {
        true => Value::from(Tuple::from(elements)),
        false => Value::from(elements),
    }
}

fn number(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

/// An operation on two numbers: exact on integers, otherwise on floats.
fn arithmetic(
    name: &str,
    left: &Value,
    right: &Value,
    exact: fn(i128, i128) -> Option<i128>,
    float: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let is_number = |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool);
    if !is_number(left) || !is_number(right) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!(
                "unsupported operands for {name}: {} and {}",
                left.kind(),
                right.kind()
            ),
        ));
    }
    let whole = |v: &Value| v.is_integer() || v.kind() == ValueKind::Bool;
    if whole(left) && whole(right) {
        let (a, b) = (
            i128::try_from(left.clone())?,
            i128::try_from(right.clone())?,
        );
        return exact(a, b)
            .map(number)
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{name} overflows")));
    }
    let (a, b) = (f64::try_from(left.clone())?, f64::try_from(right.clone())?);
    Ok(Value::from(float(a, b)))
}

pub fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        budget::text(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    if is_list(left) && is_list(right) {
        let mut all = elements(left, 1)?;
        all.extend(elements(right, 1)?);
        if all.len() > MOST_ELEMENTS {
            return Err(budget::too_much(format!(
                "a list of more than {MOST_ELEMENTS} elements"
            )));
        }
        return keep(&list(all, left.is_tuple() && right.is_tuple()));
    }
    arithmetic("+", left, right, i128::checked_add, |a, b| a + b)
}

pub fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let (repeated, count) = if left.as_str().is_some() || is_list(left) {
        (left, right)
    } else {
        (right, left)
    };
    if repeated.as_str().is_none() && !is_list(repeated) {
        return arithmetic("*", left, right, i128::checked_mul, |a, b| a * b);
    }
    // A negative count gives nothing.
    let count = i64::try_from(count.clone())?.max(0) as usize;
    if let Some(text) = repeated.as_str() {
        budget::text(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    let once = elements(repeated, count.max(1))?;
    let mut all = Vec::with_capacity(once.len() * count);
    for _ in 0..count {
        all.extend_from_slice(&once);
    }
    keep(&list(all, repeated.is_tuple()))
}

/// A value that the template has built: refused when it is too deep or too large. A namespace may
/// not become part of another value, for then a value could contain itself.
pub fn keep(value: &Value) -> Result<Value, Error> {
    walk(value, 0)?;
    Ok(value.clone())
}

/// Whether it is an object of the engine of this kind.
pub fn is_a(value: &Value, kind: &str) -> bool {
    value
        .as_object()
        .is_some_and(|o| o.type_name().rsplit("::").next() == Some(kind))
}

fn walk(value: &Value, level: usize) -> Result<(), Error> {
    budget::depth(level)?;
    budget::spend(VISIT)?;
    match value.kind() {
        // Iterables too: they may hold a value as deep as any other.
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                walk(&item, level + 1)?;
            }
        }
        ValueKind::Map => {
            if is_a(value, "Namespace") {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "a namespace cannot be put into another value",
                ));
            }
            for key in value.try_iter()? {
                // To look a key up is to read it.
                budget::spend(key.as_str().map_or(0, |text| text.len() as u64 / 16))?;
                walk(&value.get_item(&key)?, level + 1)?;
            }
        }
        // The texts themselves are shared, not copied.
        _ => {}
    }
    Ok(())
}

/// A value that an instruction is about to look into: a text has to be searched, a list has not.
pub fn scan(value: &Value) -> Result<Value, Error> {
    budget::spend(value.as_str().map_or(0, |text| text.len() as u64 / 16) + 1)?;
    Ok(value.clone())
}

/// What a loop goes through. Each step counts as instructions. A text is a list of its characters: of
/// the text itself the engine does not know the length, and so no last one.
pub fn each(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "none is not iterable",
        ));
    }
    if let Some(text) = value.as_str() {
        copied(text.chars().count())?;
        return Ok(text.chars().map(|c| Value::from(c.to_string())).collect());
    }
    scan(value)
}

/// A value that is about to be compared, to its full depth.
pub fn compared(value: &Value) -> Result<Value, Error> {
    budget::spend(weigh(value)?)?;
    Ok(value.clone())
}

/// What it costs to go through a value: its values and a sixteenth of the bytes of its texts.
pub fn weigh(value: &Value) -> Result<u64, Error> {
    fn add(value: &Value, level: usize, total: &mut u64) -> Result<(), Error> {
        budget::depth(level)?;
        *total += VISIT + value.as_str().map_or(0, |text| text.len() as u64 / 16);
        if *total > budget::UNITS {
            return Err(budget::too_much(format!(
                "values of more than {} parts",
                budget::UNITS
            )));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    add(&item, level + 1, total)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    add(&key, level + 1, total)?;
                    add(&value.get_item(&key)?, level + 1, total)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    let mut total = 0;
    add(value, 0, &mut total)?;
    Ok(total)
}

/// Charges a list of `count` elements that is about to be made.
pub fn copied(count: usize) -> Result<(), Error> {
    if count > MOST_ELEMENTS {
        return Err(budget::too_much(format!(
            "a list of more than {MOST_ELEMENTS} elements"
        )));
    }
    budget::spend(count as u64 * 16)
}

/// `left % right`: texts are formats.
pub fn remainder(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        return super::python::percent(format, right);
    }
    if f64::try_from(right.clone()).is_ok_and(|n| n == 0.0) {
        return Err(Error::new(ErrorKind::InvalidOperation, "division by zero"));
    }
    // The sign of the result is that of the divisor.
    let exact = |a: i128, b: i128| {
        let rest = a.checked_rem(b)?;
        Some(if rest != 0 && (rest < 0) != (b < 0) {
            rest + b
        } else {
            rest
        })
    };
    let float = |a: f64, b: f64| {
        let rest = a % b;
        if rest == 0.0 {
            0.0f64.copysign(b)
        } else if (rest < 0.0) != (b < 0.0) {
            rest + b
        } else {
            rest
        }
    };
    arithmetic("%", left, right, exact, float)
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
