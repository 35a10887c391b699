//! Texts as the methods of Python see them, and slices. The engine is close, but a prompt must be the
//! same to the byte.

use super::format::printf;
use super::meter::text_of;
use super::{budget, case, kinds};
use crate::error::quote;
use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// `str.isspace`: the four separators of ASCII count too.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Both,
    Left,
    Right,
}

/// `strip`, `lstrip` and `rstrip`.
pub fn strip<'a>(text: &'a str, chars: Option<&str>, side: Side) -> &'a str {
    let gone = |c: char| chars.map_or(is_space(c), |set| set.contains(c));
    let text = if side == Side::Right {
        text
    } else {
        text.trim_start_matches(gone)
    };
    if side == Side::Left {
        text
    } else {
        text.trim_end_matches(gone)
    }
}

/// `splitlines`: at every kind of line end that Python knows; no empty line at the end.
pub fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    while let Some(at) = rest.find(is_end) {
        let width = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        found.push(&rest[..at + if keep_ends { width } else { 0 }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

/// At white space: `most` cuts from the left.
fn split_space(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if found.len() == most {
            found.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    found
}

/// At white space: `most` cuts from the right.
fn split_space_right(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if found.len() == most {
            found.push(rest);
            break;
        }
        let begin = rest
            .char_indices()
            .rev()
            .find(|(_, c)| is_space(*c))
            .map_or(0, |(at, c)| at + c.len_utf8());
        found.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    found.reverse();
    found
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

/// `width` characters, filled on one or both sides.
pub fn pad(text: &str, width: i64, fill: char, side: Side) -> Result<String, Error> {
    let have = text.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(have);
    budget::text(
        text.len()
            .saturating_add(missing.saturating_mul(fill.len_utf8())),
    )?;
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        // Python's own rounding.
        Side::Both => missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1),
    };
    let run = |n: usize| std::iter::repeat_n(fill, n);
    Ok(run(left)
        .chain(text.chars())
        .chain(run(missing - left))
        .collect())
}

fn zfill(text: &str, width: i64) -> Result<String, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = &text[..text.len() - digits.len()];
    Ok(sign.to_string() + &pad(digits, width - sign.len() as i64, '0', Side::Left)?)
}

fn expandtabs(text: &str, size: i64) -> Result<String, Error> {
    let size = usize::try_from(size).unwrap_or(0);
    let tabs = text.matches('\t').count();
    budget::text(text.len().saturating_add(tabs.saturating_mul(size)))?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let n = size - column % size;
                out.extend(std::iter::repeat_n(' ', n));
                column += n;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    Ok(out)
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

pub fn not_found() -> Error {
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
pub fn by_position<'a>(method: &str, args: &'a [Value]) -> Result<Cow<'a, [Value]>, Error> {
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
pub fn part<'a>(text: &'a str, bounds: &[Value]) -> Result<Option<(&'a str, i64)>, Error> {
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
pub fn method(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
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
pub fn collection_method(
    value: &Value,
    name: &str,
    args: &[Value],
) -> Option<Result<Value, Error>> {
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

/// `value[start:stop:step]`.
pub fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |v: &Value| -> Result<Option<i64>, Error> {
        if v.is_none() {
            return Ok(None);
        }
        i64::try_from(v.clone()).map(Some)
    };
    let (start, stop) = (bound(start)?, bound(stop)?);
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(invalid("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        budget::text(text.len())?;
        if step == 1 && text.is_ascii() {
            let (from, to) = range(start, stop, step, text.len());
            return Ok(Value::from(&text[from as usize..to.max(from) as usize]));
        }
        // A vector of characters has four times the bytes of ASCII.
        budget::text(text.len())?;
        let chars: Vec<char> = text.chars().collect();
        return Ok(Value::from(
            picked(start, stop, step, chars.len())
                .map(|i| chars[i])
                .collect::<String>(),
        ));
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(invalid(format!("{} cannot be sliced", value.kind())));
    }
    budget::spend(value.len().unwrap_or(0) as u64 * 16)?;
    let items: Vec<Value> = value.try_iter()?.collect();
    let found: Vec<Value> = picked(start, stop, step, items.len())
        .map(|i| items[i].clone())
        .collect();
    Ok(if value.is_tuple() {
        Value::from(Tuple::from(found))
    } else {
        Value::from(found)
    })
}

/// Where a slice of `count` elements begins and where it stops, as `slice.indices` has it.
fn range(start: Option<i64>, stop: Option<i64>, step: i64, count: usize) -> (i64, i64) {
    let count = count as i64;
    let (lowest, highest) = if step > 0 {
        (0, count)
    } else {
        (-1, count - 1)
    };
    let clamp = |n: i64| {
        if n < 0 {
            (n.saturating_add(count)).max(lowest)
        } else {
            n.min(highest)
        }
    };
    let (first, last) = if step > 0 {
        (lowest, highest)
    } else {
        (highest, lowest)
    };
    (start.map_or(first, clamp), stop.map_or(last, clamp))
}

fn picked(
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    count: usize,
) -> impl Iterator<Item = usize> {
    let (start, stop) = range(start, stop, step, count);
    let inside = move |i: &i64| if step > 0 { *i < stop } else { *i > stop };
    std::iter::successors(Some(start).filter(inside), move |i| {
        i.checked_add(step).filter(inside)
    })
    .map(|i| i as usize)
}

/// `format % values`.
pub fn percent(format: &str, values: &Value) -> Result<Value, Error> {
    if values.is_tuple() {
        let args: Vec<Value> = values.try_iter()?.collect();
        return printf(format, &args, false).map(Value::from);
    }
    let may_be_left = matches!(values.kind(), ValueKind::Seq | ValueKind::Map);
    printf(format, std::slice::from_ref(values), may_be_left).map(Value::from)
}

/// `separator.join(list)`: of texts only.
pub fn join(separator: &str, list: &Value) -> Result<String, Error> {
    if !matches!(
        list.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::String
    ) {
        return Err(invalid(format!("cannot join {}", list.kind())));
    }
    let mut out = String::new();
    for (i, item) in list.try_iter()?.enumerate() {
        string(&item)?;
        super::filters::push(
            &mut out,
            if i > 0 { separator } else { "" },
            &text_of(&item)?,
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_those_of_python() {
        let all: Vec<i64> = (0..5).collect();
        let bounds = [
            None,
            Some(-7),
            Some(-5),
            Some(-2),
            Some(0),
            Some(1),
            Some(4),
            Some(5),
            Some(9),
        ];
        for start in bounds {
            for stop in bounds {
                for step in [1, 2, 3, -1, -2, 7, -7, i64::MAX, i64::MIN] {
                    // By the definition: every index that the three numbers name.
                    let n = all.len() as i64;
                    let fix = |i: i64| if i < 0 { i + n } else { i };
                    let wanted: Vec<i64> = if step > 0 {
                        let from = start.map_or(0, |i| fix(i).max(0));
                        let to = stop.map_or(n, fix);
                        (from..to.min(n))
                            .filter(|i| (i - from) % step == 0)
                            .collect()
                    } else {
                        let from = start.map_or(n - 1, |i| fix(i).min(n - 1));
                        let to = stop.map_or(-1, |i| fix(i).max(-1));
                        (to + 1..=from)
                            .rev()
                            .filter(|i| (from - i) as i128 % (step as i128).abs() == 0)
                            .collect()
                    };
                    let found: Vec<i64> = picked(start, stop, step, all.len())
                        .map(|i| all[i])
                        .collect();
                    assert_eq!(found, wanted, "[{start:?}:{stop:?}:{step}]");
                }
            }
        }
        assert_eq!(picked(None, None, -1, 0).count(), 0);
    }

    #[test]
    fn lines_and_words_are_those_of_python() {
        assert_eq!(lines("a\r\nb\u{2028}c\n", false), ["a", "b", "c"]);
        assert_eq!(lines("a\n\nb", true), ["a\n", "\n", "b"]);
        assert_eq!(lines("", false), [""; 0]);
        assert_eq!(split_space(" a  b c ", 1), ["a", "b c "]);
        assert_eq!(split_space_right(" a  b c ", 1), [" a  b", "c"]);
        super::budget::begin(3); // bytes of the padded digits
        assert_eq!(zfill("-7", 4).unwrap(), "-007");
        assert!(zfill("-7", 4).is_err());
    }
}
