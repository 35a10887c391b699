//! JSON as Python's `json.dumps` writes it: prompts with tools contain it, so a different space or
//! escape is a different prompt.

use super::budget;
use super::number::python_float;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub struct Style {
    pub ensure_ascii: bool,
    /// What one level is indented by; None for everything on one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

/// The `tojson` filter that transformers puts in place of Jinja's own.
pub fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let indent = match indent {
        Some(v) if v.is_none() => None,
        Some(v) => Some(match v.as_str() {
            Some(text) => text.to_string(),
            None => {
                let n = i64::try_from(v)?.clamp(0, 64);
                " ".repeat(n as usize)
            }
        }),
        None => None,
    };
    let (item, key) = match separators {
        Some(pair) => <[String; 2]>::try_from(pair)
            .map(|[a, b]| (a, b))
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "separators are not two"))?,
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
    };
    let style = Style {
        ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        indent,
        item_separator: item,
        key_separator: key,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    write_value(value, &style, 0, &mut out)?;
    Ok(Value::from(out))
}

fn newline(style: &Style, level: usize, out: &mut String) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..level {
            out.push_str(indent);
        }
    }
}

fn write_value(value: &Value, style: &Style, level: usize, out: &mut String) -> Result<(), Error> {
    budget::depth(level)?;
    let before = out.len();
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(value, out),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Seq => {
            let mut empty = true;
            out.push('[');
            for item in value.try_iter()? {
                if !empty {
                    out.push_str(&style.item_separator);
                }
                empty = false;
                newline(style, level + 1, out);
                write_value(&item, style, level + 1, out)?;
            }
            if !empty {
                newline(style, level, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            let mut empty = true;
            out.push('{');
            for key in keys {
                if !empty {
                    out.push_str(&style.item_separator);
                }
                empty = false;
                newline(style, level + 1, out);
                write_key(&key, style, out)?;
                out.push_str(&style.key_separator);
                write_value(&value.get_item(&key)?, style, level + 1, out)?;
            }
            if !empty {
                newline(style, level, out);
            }
            out.push('}');
        }
        other => {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("{other} is not JSON serializable"),
            ));
        }
    }
    budget::spend((out.len() - before).min(1024) as u64 + 1)
}

fn write_key(key: &Value, style: &Style, out: &mut String) -> Result<(), Error> {
    match key.kind() {
        ValueKind::String => write_string(key.as_str().unwrap_or_default(), style, out),
        ValueKind::Number => {
            out.push('"');
            write_number(key, out);
            out.push('"');
        }
        ValueKind::Bool => out.push_str(if key.is_true() {
            "\"true\""
        } else {
            "\"false\""
        }),
        ValueKind::None => out.push_str("\"null\""),
        other => {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("a key cannot be {other}"),
            ));
        }
    }
    Ok(())
}

fn write_number(value: &Value, out: &mut String) {
    if value.is_integer() {
        out.push_str(&value.to_string());
    } else {
        let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
        out.push_str(&match number {
            n if n.is_nan() => "NaN".to_string(),
            n if n.is_infinite() && n > 0.0 => "Infinity".to_string(),
            n if n.is_infinite() => "-Infinity".to_string(),
            n => python_float(n),
        });
    }
}

fn write_string(text: &str, style: &Style, out: &mut String) {
    use std::fmt::Write;
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
}
