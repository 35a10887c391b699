//! Filters, tests and functions of Jinja, charged to the budget. Filters that go through a list charge
//! all of it, and `map` applies only filters that are themselves charged, so that no single call can
//! do more than the budget has.

use super::arguments::Arguments;
use super::markup::{escape, like};
use super::meter::{copied, is_a, weigh};
use super::objects::Generated;
use super::operators::add;
use super::show::text_of;
use super::strings::{is_space, pad, strip, Side};
use super::{budget, case, cycles, filters, format, json, kinds, objects};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{tests, Environment, Error, ErrorKind, State, Value};

/// The engine's filters that read or copy whole lists, under a name that no template can write.
const LISTS: &[(&str, &str)] = &[
    ("batch", ":batch"),
    ("groupby", ":groupby"),
    ("list", ":list"),
    ("map", ":map"),
    ("max", ":max"),
    ("min", ":min"),
    ("reject", ":reject"),
    ("rejectattr", ":rejectattr"),
    ("reverse", ":reverse"),
    ("select", ":select"),
    ("selectattr", ":selectattr"),
    ("slice", ":slice"),
    ("sort", ":sort"),
    ("unique", ":unique"),
    ("items", ":items"),
];
/// Those of LISTS that give no list in Jinja but a generator.
const GENERATORS: &[&str] = &[
    "batch",
    "items",
    "map",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "slice",
    "unique",
];
/// What the engine has and Jinja has not, or what no prompt needs.
const REMOVED: &[&str] = &["bool", "chain", "lines", "pprint", "split", "zip"];
const REMOVED_TESTS: &[&str] = &["endingwith", "int", "safe", "startingwith"];

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Each argument may be looked at once for each element, and sorting compares some times.
fn charge_list(args: &[Value]) -> Result<(), Error> {
    let Some((list, args)) = args.split_first() else {
        return Ok(());
    };
    let mut each = 1u64;
    for arg in args {
        each = each.saturating_add(weigh(arg)?);
        if let Ok(count) = i64::try_from(arg.clone()) {
            // batch and slice make that many elements.
            budget::spend(count.max(0) as u64 * 16)?;
        }
    }
    let count = match list.as_str() {
        Some(text) => text.chars().count(),
        None => list.len().unwrap_or(0),
    };
    let rounds = u64::from(count.max(1).ilog2()) + 1;
    budget::spend(
        weigh(list)?
            .saturating_mul(each)
            .saturating_add(count as u64 * each.saturating_mul(rounds)),
    )?;
    copied(count)
}

/// A comparison reads both sides to their depth.
fn comparing(
    test: fn(&Value, &Value) -> bool,
) -> impl Fn(&Value, &Value) -> Result<bool, Error> + Send + Sync {
    move |a, b| {
        budget::spend(weigh(a)?.saturating_add(weigh(b)?))?;
        Ok(test(a, b))
    }
}

/// A text of a filter: everything has one.
fn text(value: &Value) -> Result<String, Error> {
    text_of(value)
}

fn trim(value: &Value, chars: Option<&str>) -> Result<Value, Error> {
    Ok(like(value, strip(&text(value)?, chars, Side::Both)))
}

/// Jinja's own idea of a title: words begin behind white space, hyphens and brackets.
fn title(value: &Value) -> Result<String, Error> {
    let text = text(value)?;
    let is_between = |c: char| matches!(c, '-' | '(' | '{' | '[' | '<') || is_space(c);
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(is_between) {
        let mut rest = word.chars();
        if let Some(first) = rest.next() {
            out.extend(first.to_uppercase());
        }
        out.push_str(&rest.as_str().to_lowercase());
    }
    Ok(out)
}

/// `default(default_value="", boolean=False)`.
fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    // The default itself may be none.
    let given = match args.first() {
        Some(given) => Some(given.clone()),
        None => kwargs.get::<Option<Value>>("default_value")?,
    };
    let args = Arguments::new(args, kwargs, 2)?;
    let also_false = args.flag(1, "boolean")?;
    args.end()?;
    let absent = value.is_undefined() || (also_false && !value.is_true());
    Ok(match absent {
        true => given.unwrap_or_else(|| Value::from("")),
        false => value.clone(),
    })
}

/// A text that Python reads as a number, without what the engine does not read: white space around it and
/// underscores between its digits.
fn number_text(value: Value) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return Ok(value);
    };
    budget::text(text.len())?;
    let text = strip(text, None, Side::Both);
    let digit = |at: Option<usize>| {
        let byte = at.and_then(|at| text.as_bytes().get(at));
        byte.is_some_and(u8::is_ascii_digit)
    };
    let mut gaps = text.match_indices('_');
    let is_number = gaps.all(|(at, _)| digit(at.checked_sub(1)) && digit(Some(at + 1)));
    Ok(Value::from(match is_number {
        true => text.replace('_', ""),
        false => text.to_string(),
    }))
}

/// Something that is no number is `default`.
fn int(
    state: &mut State,
    value: Value,
    default: Option<Value>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let default = default
        .or(kwargs.get("default")?)
        .unwrap_or_else(|| Value::from(0));
    let base = base.or(kwargs.get("base")?).unwrap_or(10);
    kwargs.assert_all_used()?;
    budget::spend(weigh(&value)?)?;
    let args = [number_text(value)?, default.clone(), Value::from(base)];
    let is_endless = |text: &str| text.parse::<f64>().is_ok_and(|n| !n.is_finite());
    if args[0].as_str().is_some_and(is_endless) {
        return Ok(default);
    }
    Ok(state.apply_filter(":int", &args).unwrap_or(default))
}

fn float(
    state: &mut State,
    value: Value,
    default: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let default = default
        .or(kwargs.get("default")?)
        .unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    budget::spend(weigh(&value)?)?;
    Ok(state
        .apply_filter(":float", &[number_text(value)?, default.clone()])
        .unwrap_or(default))
}

fn length(value: &Value) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => {
            budget::spend(text.len() as u64 / 16 + 1)?;
            Ok(text.chars().count())
        }
        None if value.is_undefined() => Ok(0),
        None => value
            .len()
            .ok_or_else(|| invalid(format!("{} has no length", value.kind()))),
    }
}

/// `attr(name)`: the attributes of objects. The keys of a map are none; a namespace and a loop are no
/// maps, though the engine says so.
fn attr(value: &Value, name: &str) -> Result<Value, Error> {
    if value.kind() == ValueKind::Map && !is_a(value, "Namespace") && !is_a(value, "Loop") {
        return Ok(Value::UNDEFINED);
    }
    minijinja::filters::attr(value, &Value::from(name))
}

fn first(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    minijinja::filters::first(value)
}

fn last(value: Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    if value.as_str().is_none() {
        copied(value.len().unwrap_or(0))?;
    }
    if value.kind() == ValueKind::Map {
        return Ok(reversed(&value)?.first().cloned().unwrap_or_default());
    }
    minijinja::filters::last(value)
}

/// The elements of a list, or the keys of a map, from the last to the first.
fn reversed(list: &Value) -> Result<Vec<Value>, Error> {
    let mut all: Vec<Value> = list.try_iter()?.collect();
    all.reverse();
    Ok(all)
}

/// What Jinja takes by position and the engine by name only.
fn by_name(filter: &str) -> &'static [&'static str] {
    match filter {
        "sort" => &["reverse", "case_sensitive", "attribute"],
        "unique" | "min" | "max" => &["case_sensitive", "attribute"],
        _ => &[],
    }
}

/// A filter that goes through a list, by the engine's own.
fn list_filter(
    state: &mut State,
    (name, hidden): (&str, &str),
    args: Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let mut args = args.to_vec();
    let names = by_name(name);
    let mut named: Vec<(&str, Value)> = Vec::new();
    if args.len() > 1 && !names.is_empty() {
        if args.len() - 1 > names.len() {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        named.extend(names.iter().copied().zip(args.drain(1..)));
    }
    for name in kwargs.args() {
        named.push((name, kwargs.get::<Value>(name)?));
    }
    if !named.is_empty() {
        args.push(Kwargs::from_iter(named).into());
    }
    charge_list(&args)?;
    match args.first() {
        // Of several that are the largest the engine takes the last, and Python the first.
        Some(list) if name == "max" && !list.is_undefined() => args[0] = reversed(list)?.into(),
        Some(map) if name == "reverse" && map.kind() == ValueKind::Map => {
            return Ok(Generated::value(reversed(map)?));
        }
        _ => {}
    }
    let found = state.apply_filter(hidden, &args)?;
    // To find an element of what the engine goes through anew each time would cost all before it.
    let is_list = matches!(found.kind(), ValueKind::Seq | ValueKind::Iterable);
    match GENERATORS.contains(&name) && is_list {
        true => Ok(Generated::value(found.try_iter()?.collect())),
        false => Ok(found),
    }
}

/// What is not there has no items.
fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    minijinja::filters::items(value)
}

fn sum(
    values: &Value,
    attribute: Option<&str>,
    start: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let attribute = attribute.or(kwargs.get("attribute")?);
    let mut total = start
        .or(kwargs.get("start")?)
        .unwrap_or_else(|| Value::from(0));
    kwargs.assert_all_used()?;
    if total.as_str().is_some() {
        return Err(invalid("sum cannot add texts; join can"));
    }
    for item in values.try_iter()? {
        budget::spend(1)?;
        let item = match attribute {
            Some(name) => filters::attribute(&item, name)?,
            None => item,
        };
        total = add(&total, &item)?;
    }
    Ok(total)
}

/// `dictsort(case_sensitive=False, by="key", reverse=False)`.
fn dictsort(
    state: &mut State,
    map: Value,
    args: Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let args = Arguments::new(args, kwargs, 3)?;
    let case_sensitive = args.flag(0, "case_sensitive")?;
    let by = args.text(1, "by", "key")?;
    let reverse = args.flag(2, "reverse")?;
    args.end()?;
    if by != "key" && by != "value" {
        return Err(invalid("dictsort is by \"key\" or by \"value\""));
    }
    charge_list(std::slice::from_ref(&map))?;
    let options = Kwargs::from_iter([
        ("case_sensitive", Value::from(case_sensitive)),
        ("by", Value::from(by)),
        ("reverse", Value::from(reverse)),
    ]);
    state.apply_filter(":dictsort", &[map, options.into()])
}

fn wordcount(value: &Value) -> Result<usize, Error> {
    Ok(kinds::words(&text(value)?))
}

/// `truncate(length=255, killwords=False, end="...", leeway=5)`.
fn truncate(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let args = Arguments::new(args, kwargs, 4)?;
    let length = args.number(0, "length", 255)?;
    let killwords = args.flag(1, "killwords")?;
    let end = args.text(2, "end", "...")?;
    let leeway = args.number(3, "leeway", 5)?;
    args.end()?;
    let text = text(value)?;
    let (have, behind) = (text.chars().count() as i64, end.chars().count() as i64);
    if length < behind || leeway < 0 {
        return Err(invalid(format!(
            "truncate to {length} with an end of {behind}"
        )));
    }
    if have <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take((length - behind) as usize).collect();
    let kept = match kept.rfind(' ') {
        Some(at) if !killwords => &kept[..at],
        _ => &kept,
    };
    budget::text(kept.len() + end.len())?;
    Ok(kept.to_string() + &end)
}

/// `dict(map, key=value)` and `dict([[key, value]])`.
fn dict(source: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(source) = source {
        copied(source.len().unwrap_or(0))?;
        for item in source.try_iter()? {
            if source.kind() == ValueKind::Map {
                pairs.push((item.clone(), source.get_item(&item)?));
                continue;
            }
            let pair: Vec<Value> = item.try_iter()?.collect();
            let [key, value] =
                <[Value; 2]>::try_from(pair).map_err(|_| invalid("dict() wants pairs"))?;
            pairs.push((key, value));
        }
    }
    for name in kwargs.args() {
        pairs.push((Value::from(name), kwargs.get::<Value>(name)?));
    }
    super::meter::keep(&Value::from_pairs(pairs))
}

pub fn install(env: &mut Environment<'static>) {
    for name in REMOVED {
        env.remove_filter(name);
    }
    for name in REMOVED_TESTS {
        env.remove_test(name);
    }
    env.remove_global("debug");

    use minijinja::filters as engine;
    env.add_filter(":batch", engine::batch);
    env.add_filter(":groupby", engine::groupby);
    env.add_filter(":list", engine::list);
    env.add_filter(":map", engine::map);
    env.add_filter(":max", engine::max);
    env.add_filter(":min", engine::min);
    env.add_filter(":reject", engine::reject);
    env.add_filter(":rejectattr", engine::rejectattr);
    env.add_filter(":reverse", engine::reverse);
    env.add_filter(":select", engine::select);
    env.add_filter(":selectattr", engine::selectattr);
    env.add_filter(":slice", engine::slice);
    env.add_filter(":sort", engine::sort);
    env.add_filter(":unique", engine::unique);
    env.add_filter(":items", items);
    for (name, hidden) in LISTS {
        let filter = move |state: &mut State, args: Rest<Value>, kwargs: Kwargs| {
            list_filter(state, (name, hidden), args, kwargs)
        };
        env.add_filter(*name, filter);
    }
    env.add_filter(":dictsort", engine::dictsort);
    env.add_filter("dictsort", dictsort);
    env.add_filter(":int", engine::int);
    env.add_filter("int", int);
    env.add_filter(":float", engine::float);
    env.add_filter("float", float);

    env.add_filter("upper", |value: &Value| {
        text(value).map(|t| like(value, t.to_uppercase()))
    });
    env.add_filter("lower", |value: &Value| {
        text(value).map(|t| like(value, t.to_lowercase()))
    });
    env.add_filter("capitalize", |value: &Value| {
        text(value).map(|t| like(value, case::capitalize(&t)))
    });
    env.add_filter("title", title);
    env.add_filter("trim", trim);
    env.add_filter("escape", escape);
    env.add_filter("e", escape);
    env.add_filter("forceescape", |value: &Value| {
        escape(&Value::from(text(value)?))
    });
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("attr", attr);
    env.add_filter("first", first);
    env.add_filter("last", last);
    env.add_filter("sum", sum);
    env.add_filter("wordcount", wordcount);
    env.add_filter("truncate", truncate);
    env.add_filter("center", |value: &Value, width: Option<i64>| {
        let padded = pad(&text(value)?, width.unwrap_or(80), ' ', Side::Both)?;
        Ok::<_, Error>(like(value, padded))
    });
    env.add_filter("tojson", json::tojson);
    env.add_filter("replace", filters::replace);
    env.add_filter("join", filters::join);
    env.add_filter("indent", filters::indent);
    env.add_filter("string", filters::string);
    env.add_filter("format", format::format);

    for (names, test) in [
        (
            ["eq", "equalto", "=="],
            tests::is_eq as fn(&Value, &Value) -> bool,
        ),
        (["ne", "!=", "ne"], tests::is_ne),
        (["lt", "lessthan", "<"], tests::is_lt),
        (["le", "<=", "le"], tests::is_le),
        (["gt", "greaterthan", ">"], tests::is_gt),
        (["ge", ">=", "ge"], tests::is_ge),
        (["sameas"; 3], tests::is_sameas),
    ] {
        for name in names {
            env.add_test(name, comparing(test));
        }
    }
    for (name, test) in [
        ("lower", tests::is_lower as fn(&Value) -> bool),
        ("upper", tests::is_upper),
    ] {
        env.add_test(name, move |value: &Value| {
            budget::spend(weigh(value)?)?;
            Ok::<_, Error>(test(value))
        });
    }
    env.add_test("in", |state: &State, value: &Value, list: &Value| {
        budget::spend(weigh(list)?.saturating_add(weigh(value)?))?;
        tests::is_in(state, value, list)
    });
    env.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined
        )
    });
    // The engine goes through none as through an empty list; templates tell the two apart.
    env.add_test("iterable", |value: &Value| {
        !value.is_none() && (value.as_str().is_some() || value.try_iter().is_ok())
    });

    env.add_function("range", objects::range);
    env.add_function("dict", dict);
    env.add_function("joiner", cycles::joiner);
    env.add_function("cycler", cycles::cycler);
    env.add_global("self", objects::template_reference());
}
