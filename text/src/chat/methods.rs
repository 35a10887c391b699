//! Methods of Python's types on values of templates. The engine has most of them, and some otherwise.

use super::format::braces;
use super::markup::like;
use super::meter::{compared, copied, scan};
use super::show::text_of;
use super::strings::{
    charge_replace, expandtabs, is_space, lines, pad, split_space, split_space_right, strip, zfill,
    Side,
};
use super::{budget, case, kinds};
use crate::error::quote;
use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::borrow::Cow;

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

fn split(text: &str, args: &[Value], right: bool) -> Result<Value, Error> {
    let separator = argument(args, 0).filter(|v| !v.is_none());
    let most = match argument(args, 1) {
        Some(n) => usize::try_from(i64::try_from(n.clone())?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    // Every piece is a value of its own.
    let found = match separator.map(string).transpose()? {
        Some("") => return Err(invalid("empty separator")),
        Some(separator) => {
            budget::spend(text.matches(separator).count() as u64 * 32)?;
            let limit = most.saturating_add(1);
            if right {
                let mut found: Vec<&str> = text.rsplitn(limit, separator).collect();
                found.reverse();
                found
            } else {
                text.splitn(limit, separator).collect()
            }
        }
        None => {
            budget::spend(text.chars().filter(|c| is_space(*c)).count() as u64 * 32)?;
            if right {
                split_space_right(text, most)
            } else {
                split_space(text, most)
            }
        }
    };
    budget::text(text.len())?;
    Ok(found.into_iter().map(Value::from).collect())
}

fn partition(text: &str, separator: &str, right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let found = if right {
        text.rsplit_once(separator)
    } else {
        text.split_once(separator)
    };
    let (before, middle, after) = match found {
        Some((before, after)) => (before, separator, after),
        None if right => ("", "", text),
        None => (text, "", ""),
    };
    Ok(Value::from(Tuple::from([
        before.into(),
        middle.into(),
        after.into(),
    ])))
}

/// The number of characters before a place.
fn position(text: &str, at: Option<usize>) -> Option<i64> {
    at.map(|at| text[..at].chars().count() as i64)
}

fn argument(args: &[Value], n: usize) -> Option<&Value> {
    args.get(n).filter(|v| !v.is_undefined())
}

fn string(value: &Value) -> Result<&str, Error> {
    value
        .as_str()
        .ok_or_else(|| invalid(format!("{} is not a text", value.kind())))
}

fn not_found() -> Error {
    invalid("substring not found")
}

fn needed(args: &[Value], n: usize) -> Result<&Value, Error> {
    argument(args, n).ok_or_else(|| Error::from(ErrorKind::MissingArgument))
}

fn width(args: &[Value]) -> Result<(i64, char), Error> {
    let width = i64::try_from(needed(args, 0)?.clone())?;
    let fill = match argument(args, 1) {
        None => ' ',
        Some(text) => {
            let mut chars = string(text)?.chars();
            match (chars.next(), chars.next()) {
                (Some(fill), None) => fill,
                _ => return Err(invalid("the fill is not one character")),
            }
        }
    };
    Ok((width, fill))
}

/// The parameters of a method that Python takes by name too, in their order.
fn parameters(method: &str) -> &'static [&'static str] {
    match method {
        "split" | "rsplit" => &["sep", "maxsplit"],
        "splitlines" => &["keepends"],
        "expandtabs" => &["tabsize"],
        _ => &[],
    }
}

/// The arguments of a method with those by name at their positions.
fn by_position<'a>(method: &str, args: &'a [Value]) -> Result<Cow<'a, [Value]>, Error> {
    let Some((last, positions)) = args.split_last().filter(|(last, _)| last.is_kwargs()) else {
        return Ok(args.into());
    };
    let named = Kwargs::try_from(last.clone())?;
    let mut all = positions.to_vec();
    for name in named.args() {
        let at = parameters(method).iter().position(|p| *p == name);
        let at = at.filter(|at| *at >= positions.len()).ok_or_else(|| {
            // The template is in a dialect that is not known here; the messages are not at fault.
            Error::new(
                ErrorKind::UnknownMethod,
                format!("{} with an argument {}", quote(method), quote(name)),
            )
        })?;
        if all.len() <= at {
            all.resize(at + 1, Value::UNDEFINED);
        }
        all[at] = named.get(name)?;
    }
    Ok(all.into())
}

/// `text[start:end]` for a method that looks at that part only, and the number of characters before
/// it; None where the part would end before it begins.
fn part<'a>(text: &'a str, bounds: &[Value]) -> Result<Option<(&'a str, i64)>, Error> {
    if bounds.len() > 2 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let count = text.chars().count() as i64;
    let bound = |n: usize, otherwise: i64| {
        let Some(given) = argument(bounds, n).filter(|v| !v.is_none()) else {
            return Ok(otherwise);
        };
        let at = i64::try_from(given.clone())?;
        Ok::<_, Error>(if at < 0 {
            at.saturating_add(count).max(0)
        } else {
            at
        })
    };
    let (start, end) = (bound(0, 0)?, bound(1, count)?.min(count));
    if start > end {
        return Ok(None);
    }
    let byte = |n: i64| {
        let at = text.char_indices().nth(n as usize);
        at.map_or(text.len(), |(at, _)| at)
    };
    Ok(Some((&text[byte(start)..byte(end)], start)))
}

/// Methods of texts that the engine lacks or has otherwise; None for the others.
fn of_text(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let chars = || {
        argument(args, 0)
            .filter(|v| !v.is_none())
            .map(string)
            .transpose()
    };
    let stripped = |side| chars().map(|set| Value::from(strip(text, set, side)));
    let padded = |side| {
        let (width, fill) = width(args)?;
        pad(text, width, fill, side).map(Value::from)
    };
    let place = |find: fn(&str, &str) -> Option<usize>| {
        let what = string(needed(args, 0)?)?;
        position(text, find(text, what))
            .map(Value::from)
            .ok_or_else(not_found)
    };
    Some(match name {
        "strip" => stripped(Side::Both),
        "lstrip" => stripped(Side::Left),
        "rstrip" => stripped(Side::Right),
        "split" => split(text, args, false),
        "rsplit" => split(text, args, true),
        "splitlines" => {
            let keep = argument(args, 0).is_some_and(Value::is_true);
            let found = lines(text, keep);
            budget::spend(found.len() as u64 * 32)
                .map(|()| found.into_iter().map(Value::from).collect())
        }
        "title" => Ok(Value::from(case::title(text))),
        "capitalize" => Ok(Value::from(case::capitalize(text))),
        "swapcase" => Ok(Value::from(case::swapcase(text))),
        "casefold" => Ok(Value::from(case::casefold(text))),
        "center" => padded(Side::Both),
        "ljust" => padded(Side::Right),
        "rjust" => padded(Side::Left),
        "zfill" => width(args)
            .and_then(|(width, _)| zfill(text, width))
            .map(Value::from),
        "expandtabs" => {
            let size = argument(args, 0).map_or(Ok(8), |n| i64::try_from(n.clone()));
            size.and_then(|size| expandtabs(text, size))
                .map(Value::from)
        }
        "partition" => needed(args, 0)
            .and_then(string)
            .and_then(|s| partition(text, s, false)),
        "rpartition" => needed(args, 0)
            .and_then(string)
            .and_then(|s| partition(text, s, true)),
        "index" if args.len() == 1 => place(|text, what| text.find(what)),
        "rindex" if args.len() == 1 => place(|text, what| text.rfind(what)),
        "removeprefix" => needed(args, 0)
            .and_then(string)
            .map(|s| Value::from(text.strip_prefix(s).unwrap_or(text))),
        "removesuffix" => needed(args, 0)
            .and_then(string)
            .map(|s| Value::from(text.strip_suffix(s).unwrap_or(text))),
        name if args.is_empty() => Ok(Value::from(kinds::is_of(text, name)?)),
        _ => return None,
    })
}

/// Methods of lists and maps that the engine lacks. Nothing that changes them: templates may not.
fn of_collection(value: &Value, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match (value.kind(), name) {
        (ValueKind::Seq | ValueKind::Map, "copy") if args.is_empty() => Ok(value.clone()),
        (ValueKind::Seq, "index") if args.len() == 1 => value.try_iter().and_then(|mut items| {
            let at = items.position(|item| item == args[0]);
            at.map(Value::from)
                .ok_or_else(|| invalid("the list does not have this value"))
        }),
        _ => return None,
    })
}

/// `separator.join(list)`: of texts only.
fn join(separator: &str, list: &Value) -> Result<String, Error> {
    if !matches!(
        list.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::String
    ) {
        return Err(invalid(format!("cannot join {}", list.kind())));
    }
    let mut out = String::new();
    for (i, item) in list.try_iter()?.enumerate() {
        string(&item)?;
        budget::push(
            &mut out,
            if i > 0 { separator } else { "" },
            &text_of(&item)?,
        )?;
    }
    Ok(out)
}

/// Method calls on maps give lists of their own: what they refer to cannot nest unseen.
fn map_items(map: &Value, name: &str) -> Result<Value, Error> {
    copied(map.len().unwrap_or(0) * 2)?;
    let mut found = Vec::new();
    for key in map.try_iter()? {
        found.push(match name {
            "keys" => key,
            "values" => map.get_item(&key)?,
            _ => {
                let value = map.get_item(&key)?;
                Value::from(Tuple::from([key, value]))
            }
        });
    }
    Ok(Value::from(found))
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
    let Some((part, before)) = part(text, bounds)? else {
        return match name {
            "find" | "rfind" => Ok(Value::from(-1)),
            "count" => Ok(Value::from(0)),
            "startswith" | "endswith" => Ok(Value::from(false)),
            _ => Err(not_found()),
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
    let found = unmarked(state, value, name, args)?;
    Ok(match found.as_str() {
        Some(text) if value.is_safe() => like(value, text),
        _ => found,
    })
}

fn unmarked(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    scan(value)?;
    for arg in args {
        match name {
            // A key that is looked up, and a value beside the one before it.
            "get" | "changed" => compared(arg)?,
            _ => scan(arg)?,
        };
    }
    let named;
    let args = match (value.as_str(), name) {
        (Some(_), "format") => args, // has names of its own
        _ => {
            named = by_position(name, args)?;
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
            ("join", [list]) => return join(text, list).map(Value::from),
            ("format", _) => return braces(text, args).map(Value::from),
            _ => budget::text(text.len())?,
        }
        if let Some(result) = of_text(text, name, args) {
            return result;
        }
    } else {
        match (value.kind(), name) {
            (ValueKind::Map, "keys" | "values" | "items") if args.is_empty() => {
                return map_items(value, name);
            }
            (ValueKind::Seq, "index" | "count") => {
                for operand in [value].into_iter().chain(args) {
                    compared(operand)?;
                }
            }
            _ => {}
        }
        if let Some(result) = of_collection(value, name, args) {
            return result;
        }
    }
    unknown_method_callback(state, value, name, args)
}
