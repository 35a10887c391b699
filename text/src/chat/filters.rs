//! Filters and methods whose result can be much larger than what they are given. Each computes its
//! size first.

use super::arguments::Arguments;
use super::meter::{compared, scan, text_of};
use super::{budget, builtins, python};
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

pub fn replace(
    value: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
) -> Result<String, Error> {
    let (text, old, new) = (text_of(value)?, text_of(old)?, text_of(new)?);
    charge_replace(&text, &old, &new)?;
    Ok(match count.map(usize::try_from) {
        Some(Ok(count)) => text.replacen(&*old, &new, count),
        _ => text.replace(&*old, &new),
    })
}

/// Appends to a text that grows, within the budget.
pub fn push(out: &mut String, separator: &str, piece: &str) -> Result<(), Error> {
    budget::text(out.len() + separator.len() + piece.len()).and(budget::refund(out.len()))?;
    out.push_str(separator);
    out.push_str(piece);
    Ok(())
}

/// `item.a.b` for "a.b"; a number is an index.
pub fn attribute(item: &Value, path: &str) -> Result<Value, Error> {
    let mut found = item.clone();
    budget::spend(path.len() as u64 / 16)?;
    for name in path.split('.') {
        found = match name.parse::<i64>() {
            Ok(index) => found.get_item(&Value::from(index))?,
            Err(_) => found.get_item(&Value::from(name))?,
        };
    }
    Ok(found)
}

pub fn join(
    value: &Value,
    separator: Option<&Value>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let name: Option<&str> = attribute.or(kwargs.get("attribute")?);
    let keyword: Option<Value> = kwargs.get("d")?;
    kwargs.assert_all_used()?;
    let separator = match separator.or(keyword.as_ref()) {
        Some(value) => text_of(value)?,
        None => String::new(),
    };
    if value.is_none() {
        return Err(invalid("none cannot be joined"));
    }
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        let item = match name {
            Some(name) => self::attribute(&item, name)?,
            None => item,
        };
        let between = if i > 0 { &*separator } else { "" };
        push(&mut out, between, &text_of(&item)?)?;
    }
    Ok(out)
}

/// Jinja's `indent(width=4, first=False, blank=False)`, which makes every line end "\n".
pub fn indent(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let args = Arguments::new(args, kwargs, 3)?;
    let width = args.get(0, "width")?;
    let first = args.flag(1, "first")?;
    let blank = args.flag(2, "blank")?;
    args.end()?;
    let by = match width {
        None => "    ".to_string(),
        Some(w) => match w.as_str() {
            Some(text) => text.to_string(),
            None => {
                let n = usize::try_from(i64::try_from(w)?).unwrap_or(0);
                budget::text(n)?;
                " ".repeat(n)
            }
        },
    };
    let text = value
        .as_str()
        .ok_or_else(|| invalid(&format!("{} cannot be indented", value.kind())))?;
    budget::text(text.len() + 1)?;
    let text = format!("{text}\n");
    let lines = python::lines(&text, false);
    budget::spend(lines.len() as u64 * 16)?;
    budget::text(
        text.len()
            .saturating_add(lines.len().saturating_mul(by.len())),
    )?;
    let mut out = String::new();
    for (i, line) in lines.into_iter().enumerate() {
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

/// A method that looks at `text[start:end]` only.
fn in_part(
    state: &mut State,
    text: &str,
    name: &str,
    what: &Value,
    bounds: &[Value],
) -> Result<Value, Error> {
    budget::text(text.len())?;
    let Some((part, before)) = python::part(text, bounds)? else {
        return match name {
            "find" | "rfind" => Ok(Value::from(-1)),
            "count" => Ok(Value::from(0)),
            "startswith" | "endswith" => Ok(Value::from(false)),
            _ => Err(python::not_found()),
        };
    };
    let found = method(state, &Value::from(part), name, std::slice::from_ref(what))?;
    if !matches!(name, "find" | "rfind" | "index" | "rindex") {
        return Ok(found);
    }
    let at = i64::try_from(found)?;
    Ok(Value::from(if at < 0 { at } else { at + before }))
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
    let named;
    let args = match (value.as_str(), name) {
        (Some(_), "format") => args, // has names of its own
        _ => {
            named = python::by_position(name, args)?;
            &*named
        }
    };
    if let Some(text) = value.as_str() {
        match (name, args) {
            (
                "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith",
                [what, bounds @ ..],
            ) if !bounds.is_empty() => return in_part(state, text, name, what, bounds),
            ("replace", [old, new, ..]) => {
                if let (Some(old), Some(new)) = (old.as_str(), new.as_str()) {
                    charge_replace(text, old, new)?;
                }
            }
            ("join", [list]) => return python::join(text, list).map(Value::from),
            ("format", _) => return super::format::braces(text, args).map(Value::from),
            _ => budget::text(text.len())?,
        }
        if let Some(result) = python::method(text, name, args) {
            return result;
        }
    } else {
        match (value.kind(), name) {
            (ValueKind::Map, "keys" | "values" | "items") if args.is_empty() => {
                return builtins::map_items(value, name);
            }
            (ValueKind::Seq, "index" | "count") => {
                for operand in [value].into_iter().chain(args) {
                    compared(operand)?;
                }
            }
            _ => {}
        }
        if let Some(result) = python::collection_method(value, name, args) {
            return result;
        }
    }
    unknown_method_callback(state, value, name, args)
}
