//! Filters whose result can be much larger than what they are given. Each computes its
//! size first.

use super::arguments::Arguments;
use super::budget::{self, push};
use super::markup::like;
use super::show::text_of;
use super::strings::{charge_replace, lines};
use minijinja::value::{Kwargs, Rest};
use minijinja::{Error, ErrorKind, Value};

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_string())
}

/// `replace(old, new, count=None)`.
pub fn replace(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let args = Arguments::new(args, kwargs, 3)?;
    let text_of_argument = |position, name| match args.value(position, name)? {
        Some(value) => text_of(&value),
        None => Err(Error::from(ErrorKind::MissingArgument)),
    };
    let (old, new) = (text_of_argument(0, "old")?, text_of_argument(1, "new")?);
    let count = args.number(2, "count", -1)?;
    args.end()?;
    let text = text_of(value)?;
    charge_replace(&text, &old, &new)?;
    Ok(match usize::try_from(count) {
        Ok(count) => text.replacen(&*old, &new, count),
        Err(_) => text.replace(&*old, &new),
    })
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
pub fn indent(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
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
    let lines = lines(&text, false);
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
    Ok(like(value, out))
}

pub fn string(value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    text_of(value).map(Value::from)
}
