//! JSON as Python's `json.dumps` writes it: prompts with tools contain it, so a different space or
//! escape is a different prompt.

use super::arguments::Arguments;
use super::budget;
use super::meter::is_a;
use super::number::python_float;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub struct Style {
    pub ensure_ascii: bool,
    /// What one level is indented by; None for everything on one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

/// The `tojson` filter that transformers puts in place of Jinja's own:
/// `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let args = Arguments::new(args, kwargs, 4)?;
    let ensure_ascii = args.flag(0, "ensure_ascii")?;
    let indent = match args.get(1, "indent")? {
        Some(v) => Some(match v.as_str() {
            Some(text) => text.to_string(),
            None => {
                let n = usize::try_from(i64::try_from(v)?).unwrap_or(0);
                budget::text(n)?;
                " ".repeat(n)
            }
        }),
        None => None,
    };
    let (item_separator, key_separator) = match args.get(2, "separators")? {
        Some(pair) => separators(&pair)?,
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
    };
    let style = Style {
        ensure_ascii,
        indent,
        item_separator,
        key_separator,
        sort_keys: args.flag(3, "sort_keys")?,
    };
    args.end()?;
    let mut out = Json(String::new());
    write_value(value, &style, 0, &mut out)?;
    Ok(Value::from(out.0))
}

fn separators(pair: &Value) -> Result<(String, String), Error> {
    let wrong = || Error::new(ErrorKind::InvalidOperation, "separators are not two texts");
    let mut parts = pair.try_iter()?.map(|v| v.as_str().map(str::to_string));
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Some(item)), Some(Some(key)), None) => Ok((item, key)),
        _ => Err(wrong()),
    }
}

/// A text that is charged as it grows.
struct Json(String);

impl Json {
    fn push(&mut self, piece: &str) -> Result<(), Error> {
        budget::push(&mut self.0, "", piece)
    }
}

fn newline(style: &Style, level: usize, out: &mut Json) -> Result<(), Error> {
    if let Some(indent) = &style.indent {
        out.push("\n")?;
        for _ in 0..level {
            out.push(indent)?;
        }
    }
    Ok(())
}

fn write_value(value: &Value, style: &Style, level: usize, out: &mut Json) -> Result<(), Error> {
    budget::depth(level)?;
    budget::spend(1)?;
    match value.kind() {
        ValueKind::None => out.push("null"),
        ValueKind::Bool => out.push(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push(&number(value)),
        ValueKind::String => out.push(&string(value.as_str().unwrap_or_default(), style)?),
        // As Python has it: a range is no list.
        ValueKind::Seq if is_a(value, "Range") => Err(Error::new(
            ErrorKind::BadSerialization,
            "a range is not JSON serializable",
        )),
        ValueKind::Seq => {
            let mut empty = true;
            out.push("[")?;
            for item in value.try_iter()? {
                if !empty {
                    out.push(&style.item_separator)?;
                }
                empty = false;
                newline(style, level + 1, out)?;
                write_value(&item, style, level + 1, out)?;
            }
            if !empty {
                newline(style, level, out)?;
            }
            out.push("]")
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            let mut empty = true;
            out.push("{")?;
            for key in keys {
                if !empty {
                    out.push(&style.item_separator)?;
                }
                empty = false;
                newline(style, level + 1, out)?;
                out.push(&name(&key, style)?)?;
                out.push(&style.key_separator)?;
                write_value(&value.get_item(&key)?, style, level + 1, out)?;
            }
            if !empty {
                newline(style, level, out)?;
            }
            out.push("}")
        }
        other => Err(Error::new(
            ErrorKind::BadSerialization,
            format!("{other} is not JSON serializable"),
        )),
    }
}

/// A key as a JSON string.
fn name(key: &Value, style: &Style) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => string(key.as_str().unwrap_or_default(), style)?,
        ValueKind::Number => format!("\"{}\"", number(key)),
        ValueKind::Bool => format!("\"{}\"", key.is_true()),
        ValueKind::None => "\"null\"".to_string(),
        other => {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("a key cannot be {other}"),
            ));
        }
    })
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()).unwrap_or(f64::NAN) {
        n if n.is_nan() => "NaN".to_string(),
        n if n.is_infinite() && n > 0.0 => "Infinity".to_string(),
        n if n.is_infinite() => "-Infinity".to_string(),
        n => python_float(n),
    }
}

fn string(text: &str, style: &Style) -> Result<String, Error> {
    use std::fmt::Write;
    budget::text(text.len())?;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20
                || (style.ensure_ascii && !c.is_ascii())
                || c == '\u{7f}' && style.ensure_ascii =>
            {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(out)
}
