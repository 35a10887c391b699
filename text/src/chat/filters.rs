//! Filters and methods whose result can be much larger than what they are given. Each computes its
//! size first.

use super::budget;
use super::meter::{scan, text_of};
use minijinja::formatting::{self, FormatStyle};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_string())
}

/// Charges `text.replace(old, new)`.
fn charge_replace(text: &str, old: &str, new: &str) -> Result<(), Error> {
    let most = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    budget::text(text.len().saturating_add(most.saturating_mul(new.len())))
}

pub fn replace(value: &Value, old: &str, new: &str) -> Result<String, Error> {
    let text = text_of(value)?;
    charge_replace(&text, old, new)?;
    Ok(text.replace(old, new))
}

pub fn join(value: &Value, separator: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    let attribute: Option<&str> = kwargs.get("attribute")?;
    let keyword: Option<&str> = kwargs.get("d")?;
    kwargs.assert_all_used()?;
    let separator = separator.or(keyword).unwrap_or("");
    let mut out = String::new();
    if value.is_undefined() || value.is_none() {
        return Ok(out);
    }
    for (i, item) in value.try_iter()?.enumerate() {
        let item = match attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        let piece = text_of(&item)?;
        budget::text(out.len() + separator.len() + piece.len()).and(budget::refund(out.len()))?;
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(&piece);
    }
    Ok(out)
}

/// Jinja's `indent(width=4, first=False, blank=False)`.
pub fn indent(value: &Value, width: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let keyword: Option<Value> = kwargs.get("width")?;
    let first = kwargs.get::<Option<bool>>("first")?.unwrap_or(false);
    let blank = kwargs.get::<Option<bool>>("blank")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let by = match width.or(keyword) {
        None => "    ".to_string(),
        Some(w) => match w.as_str() {
            Some(text) => text.to_string(),
            None => {
                let n = usize::try_from(w)?;
                budget::text(n)?;
                " ".repeat(n)
            }
        },
    };
    let text = text_of(value)?;
    let lines = text.split('\n').count();
    budget::text(text.len().saturating_add(lines.saturating_mul(by.len())))?;
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 {
            first
        } else {
            blank || !line.is_empty()
        } {
            out.push_str(&by);
        }
        out.push_str(line);
    }
    Ok(out)
}

pub fn string(value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    text_of(value).map(Value::from)
}

/// `"..." | format(...)` and `"...".format(...)` can pad to any width; a width of more than three
/// digits is refused.
fn charge_format(format: &str, args: &[Value]) -> Result<(), Error> {
    let mut digits = 0;
    for c in format.chars() {
        digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > 3 || c == '*' {
            return Err(invalid("a format with such a width is not supported"));
        }
    }
    let fields = format.matches(['{', '%']).count();
    let mut size = format.len() + fields * 1024;
    for arg in args {
        size = size.saturating_add(text_of(arg)?.len().saturating_mul(fields.max(1)));
    }
    budget::text(size)
}

pub fn format(format: &str, args: Rest<Value>) -> Result<String, Error> {
    charge_format(format, &args)?;
    formatting::format(FormatStyle::Printf, format, &args)
}

/// Methods of Python's types on values of templates.
pub fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    scan(value)?;
    for arg in args {
        scan(arg)?;
    }
    if let Some(text) = value.as_str() {
        match (name, args) {
            ("replace", [old, new, ..]) => {
                if let (Some(old), Some(new)) = (old.as_str(), new.as_str()) {
                    charge_replace(text, old, new)?;
                }
            }
            ("join", [list]) => {
                if matches!(
                    list.kind(),
                    ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
                ) {
                    return join(
                        list,
                        Some(text),
                        Kwargs::from_iter::<[(&str, Value); 0]>([]),
                    )
                    .map(Value::from);
                }
            }
            ("format", _) => charge_format(text, args)?,
            // Every piece is a value of its own.
            ("split" | "splitlines", _) => budget::spend(text.len() as u64)?,
            ("removeprefix", [prefix]) => {
                let prefix = prefix.as_str().ok_or_else(|| invalid("not a text"))?;
                return Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)));
            }
            ("removesuffix", [suffix]) => {
                let suffix = suffix.as_str().ok_or_else(|| invalid("not a text"))?;
                return Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)));
            }
            _ => budget::spend(text.len() as u64 / 4)?,
        }
    }
    unknown_method_callback(state, value, name, args)
}
