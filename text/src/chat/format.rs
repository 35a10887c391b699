//! `"..." % values`, `"..." | format(...)` and `"...".format(...)`. The engine writes the numbers. Texts
//! are written here, since it counts their bytes and Python their characters.

use super::budget::{self, push};
use super::show::{ascii, is_container, repr_of, text_of};
use super::strings::{pad, Side};
use minijinja::formatting::{self, FormatStyle};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::borrow::Cow;

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Most digits behind the point: of numbers the engine writes no more.
const MAX_DIGITS: i64 = u16::MAX as i64;

/// A width or a precision that is charged, since a few digits ask for any size.
fn charged(size: i64) -> Result<i64, Error> {
    budget::text(usize::try_from(size).unwrap_or(0))?;
    Ok(size)
}

/// The digits of a width or a precision, if there are any.
fn size(rest: &mut &str) -> Result<Option<i64>, Error> {
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    let size = digits.parse();
    let size = size.map_err(|_| budget::too_much(format!("a text of {digits} characters")))?;
    charged(size).map(Some)
}

fn precision(rest: &mut &str) -> Result<Option<i64>, Error> {
    match rest.strip_prefix('.') {
        Some(digits) => {
            *rest = digits;
            Ok(Some(size(rest)?.unwrap_or(0)))
        }
        None => Ok(None),
    }
}

/// Refuses digits that the engine cannot write.
fn check_digits(precision: Option<i64>) -> Result<(), Error> {
    match precision.filter(|digits| *digits > MAX_DIGITS) {
        None => Ok(()),
        Some(digits) => Err(budget::too_much(format!(
            "a format asks for {digits} digits; the limit is {MAX_DIGITS}"
        ))),
    }
}

fn cut(text: String, most: Option<i64>) -> String {
    match most {
        Some(most) => text.chars().take(most as usize).collect(),
        None => text,
    }
}

fn converted(value: &Value, kind: char) -> Result<String, Error> {
    Ok(match kind {
        'r' => repr_of(value)?,
        'a' => repr_of(value)?.chars().map(ascii).collect(),
        _ => text_of(value)?,
    })
}

/// What is left after the name of a field in parentheses, and the name.
fn key(rest: &str) -> Result<(Option<&str>, &str), Error> {
    match rest.strip_prefix('(') {
        Some(inner) => inner
            .split_once(')')
            .map(|(name, rest)| (Some(name), rest))
            .ok_or_else(|| invalid("incomplete format key")),
        None => Ok((None, rest)),
    }
}

/// The values of a format, by position.
struct Positions<'a> {
    args: &'a [Value],
    used: usize,
}

impl Positions<'_> {
    fn next(&mut self) -> Result<Value, Error> {
        self.used += 1;
        let value = self.args.get(self.used - 1).cloned();
        value.ok_or_else(|| invalid("not enough arguments for format string"))
    }

    /// A width or a precision, which "*" takes from the values.
    fn size(&mut self, rest: &mut &str) -> Result<Option<i64>, Error> {
        let Some(after) = rest.strip_prefix('*') else {
            return size(rest);
        };
        *rest = after;
        let value = self.next()?;
        if !value.is_integer() {
            return Err(invalid(format!("* wants int, not {}", value.kind())));
        }
        let size = i64::try_from(value)?;
        charged(size.saturating_abs())?;
        Ok(Some(size))
    }

    fn precision(&mut self, rest: &mut &str) -> Result<Option<i64>, Error> {
        match rest.strip_prefix('.') {
            Some(digits) => {
                *rest = digits;
                Ok(Some(self.size(rest)?.unwrap_or(0).max(0)))
            }
            None => Ok(None),
        }
    }
}

/// `"%s" % values`; `may_be_left`: of which some may not be used.
pub fn printf(format: &str, args: &[Value], may_be_left: bool) -> Result<String, Error> {
    let (mut out, mut rest) = (String::new(), format);
    let mut values = Positions { args, used: 0 };
    while let Some((before, field)) = rest.split_once('%') {
        push(&mut out, before, "")?;
        let (name, mut spec) = key(field)?;
        let behind = spec.trim_start_matches(['-', '+', ' ', '#', '0']);
        let mut flags = spec[..spec.len() - behind.len()].to_string();
        spec = behind;
        let mut width = values.size(&mut spec)?.unwrap_or(0);
        if width < 0 {
            flags.push('-');
            width = -width;
        }
        let most = values.precision(&mut spec)?;
        spec = spec.trim_start_matches(['h', 'l', 'L']);
        let kind = spec
            .chars()
            .next()
            .ok_or_else(|| invalid("incomplete format"))?;
        rest = &spec[kind.len_utf8()..];
        if kind == '%' {
            push(&mut out, "%", "")?;
            continue;
        }
        let value = match (name, args) {
            (Some(name), [names]) if names.kind() == ValueKind::Map => {
                values.used = 1;
                let value = names.get_item(&Value::from(name))?;
                if value.is_undefined() {
                    return Err(invalid(format!("a format has no value for {name:?}")));
                }
                value
            }
            (Some(_), _) => return Err(invalid("format requires a mapping")),
            (None, _) => values.next()?,
        };
        let piece = match kind {
            's' | 'r' | 'a' => {
                let text = cut(converted(&value, kind)?, most);
                let is_left = flags.contains('-');
                pad(
                    &text,
                    width,
                    ' ',
                    if is_left { Side::Right } else { Side::Left },
                )?
            }
            _ => {
                check_digits(most)?;
                let whole = match f64::try_from(value.clone()) {
                    Ok(float) if matches!(kind, 'd' | 'i' | 'u') && !value.is_integer() => {
                        whole(float)?
                    }
                    _ => value,
                };
                let kind = if kind == 'u' { 'd' } else { kind };
                let width = Some(width).filter(|width| *width > 0);
                let width = width.map_or(String::new(), |width| width.to_string());
                let digits = most.map_or(String::new(), |digits| format!(".{digits}"));
                let format = format!("%{flags}{width}{digits}{kind}");
                formatting::format(FormatStyle::Printf, &format, &[whole])?
            }
        };
        push(&mut out, "", &piece)?;
    }
    push(&mut out, "", rest)?;
    if values.used < args.len() && !may_be_left {
        return Err(invalid(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(out)
}

/// The digits before the point.
fn whole(float: f64) -> Result<Value, Error> {
    // Exact, where a float is a whole number of at most 127 bits.
    match float.trunc() {
        n if n.abs() < 2f64.powi(126) => Ok(Value::from(n as i128)),
        n => Err(invalid(format!("{n} is not a whole number"))),
    }
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

/// `"..." | format(...)`.
pub fn format(format: &str, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let named: Vec<(&str, Value)> = kwargs
        .args()
        .map(|name| Ok((name, kwargs.get::<Value>(name)?)))
        .collect::<Result<_, Error>>()?;
    if named.is_empty() {
        return printf(format, &args, false);
    }
    printf(format, &[Value::from_pairs(named)], true)
}

/// A text after a colon in braces: [[fill]align][width][.precision][s].
fn aligned(text: String, spec: &str) -> Result<String, Error> {
    let side = |c: char| match c {
        '<' => Some(Side::Right),
        '>' => Some(Side::Left),
        '^' => Some(Side::Both),
        _ => None,
    };
    let mut chars = spec.chars();
    let (first, second) = (chars.next(), chars.next());
    let (fill, to, mut rest) = match (first, second.and_then(side), first.and_then(side)) {
        (Some(fill), Some(to), _) => (fill, to, chars.as_str()),
        (_, _, Some(to)) => (' ', to, &spec[1..]),
        _ => (' ', Side::Right, spec),
    };
    let fill = match rest.starts_with('0') && fill == ' ' {
        true => '0',
        false => fill,
    };
    let width = size(&mut rest)?.unwrap_or(0);
    let most = precision(&mut rest)?;
    if !matches!(rest, "" | "s") {
        return Err(invalid(format!("a text cannot be formatted as {rest:?}")));
    }
    let text = cut(text, most);
    match to {
        // An odd space is on the right; that of `center` is elsewhere.
        Side::Both => {
            let missing = width.saturating_sub(text.chars().count() as i64).max(0);
            let left = text.chars().count() as i64 + missing / 2;
            pad(
                &pad(&text, left, fill, Side::Left)?,
                width,
                fill,
                Side::Right,
            )
        }
        side => pad(&text, width, fill, side),
    }
}

/// `value.name[key]`, behind the name of a field.
fn inside(mut value: Value, mut path: &str) -> Result<Value, Error> {
    while !path.is_empty() {
        let key = match path.strip_prefix('[') {
            Some(inner) => {
                let (key, after) = inner
                    .split_once(']')
                    .ok_or_else(|| invalid("a format has a [ without a ]"))?;
                path = after;
                key
            }
            None => {
                let name = path
                    .strip_prefix('.')
                    .ok_or_else(|| invalid("a format has something else than . or [ behind a ]"))?;
                let end = name.find(['.', '[']).unwrap_or(name.len());
                path = &name[end..];
                &name[..end]
            }
        };
        value = match key.parse::<usize>() {
            Ok(index) => value.get_item(&Value::from(index))?,
            Err(_) => value.get_item(&Value::from(key))?,
        };
        if value.is_undefined() {
            return Err(invalid(format!("a format has no value for {key:?}")));
        }
    }
    Ok(value)
}

/// The values of a format in braces.
struct Arguments<'a> {
    positions: &'a [Value],
    named: Option<Kwargs>,
    next: usize,
}

impl Arguments<'_> {
    /// What the name of a field leads to.
    fn get(&mut self, name: &str) -> Result<Value, Error> {
        let (head, path) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
        let value = match head.parse::<usize>() {
            _ if head.is_empty() => {
                self.next += 1;
                self.positions.get(self.next - 1).cloned()
            }
            Ok(index) => self.positions.get(index).cloned(),
            Err(_) => self.named.as_ref().and_then(|named| named.peek(head).ok()),
        };
        let value = value.ok_or_else(|| invalid(format!("a format has no value for {head:?}")))?;
        inside(value, path)
    }
}

/// Up to the brace that ends a field, and what is behind it. A field may have others inside.
fn field(text: &str) -> Option<(&str, &str)> {
    let mut open = 0;
    for (at, c) in text.match_indices(['{', '}']) {
        match (c, open) {
            ("{", _) => open += 1,
            (_, 0) => return Some((&text[..at], &text[at + 1..])),
            _ => open -= 1,
        }
    }
    None
}

/// `"...".format(...)`.
pub fn braces(format: &str, args: &[Value]) -> Result<String, Error> {
    let named = args.last().filter(|last| last.is_kwargs());
    let named = named.cloned().map(Kwargs::try_from).transpose()?;
    let count = args.len() - usize::from(named.is_some());
    let mut arguments = Arguments {
        positions: &args[..count],
        named,
        next: 0,
    };
    filled(format, &mut arguments, true)
}

/// `outer`: it is no format inside of a field.
fn filled(format: &str, arguments: &mut Arguments, outer: bool) -> Result<String, Error> {
    let (mut out, mut rest) = (String::new(), format);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, begun) = rest.split_at(at);
        push(&mut out, "", before)?;
        if let Some(after) = begun.strip_prefix("{{").or(begun.strip_prefix("}}")) {
            push(&mut out, "", &begun[..1])?;
            rest = after;
            continue;
        }
        let Some((inner, after)) = field(&begun[1..]).filter(|_| begun.starts_with('{')) else {
            return Err(invalid("a single brace in a format"));
        };
        rest = after;
        let (name, spec) = inner.split_once(':').unwrap_or((inner, ""));
        let (name, kind) = name.split_once('!').unwrap_or((name, ""));
        let value = arguments.get(name)?;
        let spec = match spec.contains(['{', '}']) {
            true if outer => Cow::from(filled(spec, arguments, false)?),
            true => {
                return Err(invalid(
                    "fields of a format are nested deeper than one level",
                ))
            }
            false => spec.into(),
        };
        push(&mut out, "", &shown(&value, kind, &spec)?)?;
    }
    push(&mut out, "", rest)?;
    Ok(out)
}

/// A value as a field shows it.
fn shown(value: &Value, kind: &str, spec: &str) -> Result<String, Error> {
    match kind {
        "s" => aligned(converted(value, 's')?, spec),
        "r" => aligned(converted(value, 'r')?, spec),
        "a" => aligned(converted(value, 'a')?, spec),
        "" if value.as_str().is_some() || (is_container(value) && spec.is_empty()) => {
            aligned(text_of(value)?, spec)
        }
        "" => {
            let mut digits = spec;
            while let Some(at) = digits.find(|c: char| c.is_ascii_digit()) {
                digits = &digits[at..];
                size(&mut digits)?;
            }
            if let Some((_, mut behind)) = spec.rsplit_once('.') {
                check_digits(size(&mut behind)?)?;
            }
            let format = format!("{{:{spec}}}");
            formatting::format(FormatStyle::StrFormat, &format, std::slice::from_ref(value))
        }
        _ => Err(invalid(format!("unknown conversion {kind:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 gives.
    #[test]
    fn texts_have_the_width_of_their_characters() {
        budget::begin(budget::UNITS);
        for (format, value, wanted) in [
            ("%5s|%%", Value::from("hé"), "   hé|%"),
            ("%-5s|", Value::from("hé"), "hé   |"),
            ("%05.1s|", Value::from("hé"), "    h|"),
            ("%r", Value::from("it's \u{a0}é"), "\"it's \\xa0é\""),
            ("%a", Value::from("é😀"), "'\\xe9\\U0001f600'"),
            ("%6r|", Value::from("é"), "   'é'|"),
            ("**%s** 2024", Value::from(1.0), "**1.0** 2024"),
            ("%d", Value::from(-3.99), "-3"),
            ("%05d", Value::from(-42), "-0042"),
            ("%(a)s %(a)r", Value::from_pairs([("a", "é")]), "é 'é'"),
        ] {
            assert_eq!(printf(format, &[value], false).unwrap(), wanted, "{format}");
        }
        for (format, value, wanted) in [
            ("{:>5}|{{}}", Value::from("hé"), "   hé|{}"),
            ("{:*^8}|", Value::from("abc"), "**abc***|"),
            ("{0:.1}|{0}", Value::from("hé"), "h|hé"),
            ("{0!r:>6}|", Value::from("é"), "   'é'|"),
            ("**{}** 2024", Value::from("a"), "**a** 2024"),
            ("{:,.2f}", Value::from(1234567.891), "1,234,567.89"),
            ("{0[1]:>4}|", Value::from(vec![1, 2]), "   2|"),
            ("{}", Value::from(vec![1.0, 1e16]), "[1.0, 1e+16]"),
        ] {
            assert_eq!(braces(format, &[value]).unwrap(), wanted, "{format}");
        }
        let named = Kwargs::from_iter([("a", Value::from("é"))]);
        assert_eq!(braces("{a:>3}|", &[named.into()]).unwrap(), "  é|");
    }

    #[test]
    fn what_python_refuses_is_refused() {
        budget::begin(budget::UNITS);
        let text = [Value::from("x")];
        for (format, says) in [
            ("abc", "not all arguments converted"),
            ("%s%s", "not enough arguments"),
            ("%(a)s", "requires a mapping"),
            ("%(a", "incomplete format key"),
            ("%5", "incomplete format"),
            ("%99999999999s", "99999999999 bytes"),
            ("%99999999999999999999s", "99999999999999999999 characters"),
            ("%*s", "* wants int"),
            ("%.70000f", "70000 digits; the limit is 65535"),
        ] {
            let error = printf(format, &text, false).unwrap_err().to_string();
            assert!(error.contains(says), "{format}: {error}");
        }
        let names = [Value::from_pairs([("a", 1)])];
        let error = printf("%(a)u %(b)s", &names, false).unwrap_err();
        assert!(error.to_string().contains("no value for \"b\""), "{error}");
        assert_eq!(printf("%(a)u", &names, false).unwrap(), "1");
        assert_eq!(printf("abc", &text, true).unwrap(), "abc");
        for (format, says) in [
            ("{}{}", "no value"),
            ("{b}", "no value"),
            ("{", "single brace"),
            ("}", "single brace"),
            ("{:99999999999}", "99999999999 bytes"),
            ("{:{0:{0}}}", "nested deeper"),
            ("{:=5}", "cannot be formatted"),
            ("{0[a}", "without a ]"),
            ("{!z}", "unknown conversion"),
            ("{!rx}", "unknown conversion"),
        ] {
            let error = braces(format, &text).unwrap_err().to_string();
            assert!(error.contains(says), "{format}: {error}");
        }
    }
}
