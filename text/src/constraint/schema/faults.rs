//! What a schema may say that the crate would take and not keep to.

use super::control;
use super::words::schemas;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Of a factor, without its point: the automaton of its multiples has as many states.
pub const MAX_FACTOR: f64 = 100_000.0;
const MAX_PLACES: usize = 8;

/// Beyond it numbers of a schema, which are 64-bit floating point, are no longer the ones that were written; and at the
/// ends of 64 bits the crate turns in a circle.
const MAX_NUMBER: f64 = 9_007_199_254_740_992.0;

/// What a schema may say to the crate itself. Other words of it make no JSON.
const GUIDANCE: [&str; 2] = ["whitespace_flexible", "coerce_one_of"];

/// The first fault of a schema, without those within it.
pub fn fault(object: &Map<String, Value>) -> Option<String> {
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    if let Some(factor) = number("multipleOf").filter(|factor| !is_exact(*factor)) {
        return Some(format!(
            "multipleOf {factor}; the limit is {MAX_FACTOR} without its point, and {MAX_PLACES} places behind it"
        ));
    }
    for key in [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "const",
        "enum",
    ] {
        if is_beyond(key, object.get(key)) {
            continue;
        }
        if let Some(number) = object.get(key).and_then(too_large) {
            return Some(format!(
                "{key} has {number}; the limit is {MAX_NUMBER} on either side"
            ));
        }
    }
    if let Some((key, c)) = control(object) {
        return Some(format!(
            "{key} has the control character U+{:04X}; texts have none but \\b, \\t, \\n, \\f and \\r",
            u32::from(c)
        ));
    }
    // Names that the schema does not have may come again and again.
    let least = number("minProperties").unwrap_or(0.0);
    let required = match object.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => HashSet::new(),
    };
    let most = required.len() + 1;
    if least > most as f64 {
        return Some(format!(
            "minProperties is {least}; the limit is one more than are required, {most}"
        ));
    }
    let guidance = match object.get("x-guidance") {
        Some(Value::Object(own)) => own.keys().find(|key| !GUIDANCE.contains(&key.as_str())),
        _ => None,
    };
    guidance.map(|key| format!("x-guidance has {key}; it takes {}", GUIDANCE.join(" and ")))
}

fn control(object: &Map<String, Value>) -> Option<(&'static str, char)> {
    let values = ["const", "enum"].into_iter().filter_map(|key| {
        let c = object.get(key).and_then(control::in_value)?;
        Some((key, c))
    });
    let pattern = object.get("pattern").and_then(Value::as_str);
    let names = schemas(object, "patternProperties").into_iter().flatten();
    let patterns = pattern.map(|pattern| ("pattern", pattern)).into_iter();
    let patterns = patterns.chain(names.map(|(name, _)| ("patternProperties", &**name)));
    let patterns = patterns.filter_map(|(key, pattern)| Some((key, control::in_pattern(pattern)?)));
    values.chain(patterns).next()
}

/// Whether it is a bound that every number of 64 bits keeps, which generators of schemas write.
pub fn is_beyond(key: &str, value: Option<&Value>) -> bool {
    const WIDEST: f64 = i64::MAX as f64;
    let sign = match key {
        "minimum" | "exclusiveMinimum" => -1.0,
        "maximum" | "exclusiveMaximum" => 1.0,
        _ => return false,
    };
    let number = value.and_then(Value::as_f64);
    number.is_some_and(|number| number * sign >= WIDEST)
}

/// A number of these that is no longer the one that was written.
fn too_large(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let size = number.as_f64().map_or(f64::INFINITY, f64::abs);
            (size > MAX_NUMBER).then(|| number.to_string())
        }
        Value::Array(all) => all.iter().find_map(too_large),
        Value::Object(all) => all.values().find_map(too_large),
        _ => None,
    }
}

/// Whether the crate computes with such a factor.
fn is_exact(factor: f64) -> bool {
    let mut digits = factor.abs();
    (0..=MAX_PLACES).any(|_| {
        let is_whole = digits.fract() == 0.0;
        let is_exact = is_whole && digits <= MAX_FACTOR;
        digits *= 10.0;
        is_exact
    })
}
