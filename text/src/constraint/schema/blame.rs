//! Which text or number of a schema something is wrong with, and where it stands.
//!
//! The crate says neither; it is looked for only when there is an error to explain.

use super::clean::clean;
use super::leaf::{ask, is_sure};
use super::shape::{Kind, Part, Shape};
use super::trial::Trial;
use super::wording::Said;
use crate::error::quote;
use serde_json::{json, Value};
use std::collections::HashSet;
use std::rc::Rc;

/// Other words that are named one by one.
const MOST: usize = 4;

/// The first one of which the crate cannot tell whether any is left.
pub fn undecided(schema: &Value) -> Option<String> {
    let what = find(schema, |said| ask(said).is_err())?;
    Some(format!(
        "{what}: whether a text is left takes more than 10000 steps to find out, the limit"
    ))
}

/// The first one that cannot be written: `can` is asked for the schema of each.
pub fn unwritable(schema: &Value, mut can: impl FnMut(Value) -> bool) -> Option<String> {
    let what = find(schema, |said| !can(json!({"allOf": said.parts()})))?;
    Some(format!("{what}: no value is left that can be written"))
}

fn find(schema: &Value, mut is_it: impl FnMut(&Said) -> bool) -> Option<String> {
    let cleaned = clean(schema).ok()?;
    let trial = Trial::of(&cleaned).ok()?;
    let mut seen = HashSet::new();
    let mut waiting: Vec<Part> = trial.made.values().chain(&trial.whole).cloned().collect();
    while let Some(part) = waiting.pop() {
        if !seen.insert(Rc::as_ptr(&part)) || is_sure(&part.kind).is_some() {
            continue;
        }
        match &part.kind {
            Kind::Text(text) if is_it(&text.said) => return Some(shown(schema, &text.said)),
            Kind::Number { said, .. } if is_it(said) => return Some(shown(schema, said)),
            kind => waiting.extend(within(kind)),
        }
    }
    None
}

/// In the order in which the last one is looked at first.
fn within(kind: &Kind) -> Vec<Rc<Shape>> {
    let parts: Vec<&Part> = match kind {
        Kind::Array(array) => array.first.iter().chain(&array.items).collect(),
        Kind::Object(object) => {
            let named = object.named.values().chain(object.patterns.values());
            named.chain(&object.others).collect()
        }
        Kind::Either { options, .. } => options.iter().collect(),
        _ => Vec::new(),
    };
    parts.into_iter().rev().cloned().collect()
}

/// "pattern \"a\" at #/properties/b, with minLength 3".
fn shown(schema: &Value, said: &Said) -> String {
    let parts = said.parts();
    let words = parts.iter().filter_map(|part| part.as_object()).flatten();
    let mut words: Vec<(&str, &Value)> = words.map(|(key, value)| (&**key, value)).collect();
    words.retain(|(key, value)| *key != "type" || *value == "integer");
    // The one that says most of the place.
    let rank = |key: &str| {
        ["pattern", "multipleOf", "format"]
            .iter()
            .position(|one| *one == key)
    };
    let Some((key, value)) = words
        .iter()
        .copied()
        .min_by_key(|(key, _)| rank(key).unwrap_or(MOST))
    else {
        return "a value".into();
    };
    let first = words
        .iter()
        .position(|word| *word == (key, value))
        .unwrap_or(0);
    words.remove(first);
    let word = |(key, value): &(&str, &Value)| match value {
        Value::String(text) => format!("{key} {}", quote(text)),
        value => format!("{key} {value}"),
    };
    let others: Vec<String> = words.iter().map(word).collect();
    let others = match others.len() {
        0 => String::new(),
        1..=MOST => format!(", with {}", others.join(", ")),
        n => format!(", with {n} more of the same value"),
    };
    let place = place_of(schema, key, value).unwrap_or_default();
    format!("{}{place}{others}", word(&(key, value)))
}

/// Where the schema says so first.
fn place_of(schema: &Value, key: &str, value: &Value) -> Option<String> {
    let mut waiting = vec![(schema, "#".to_string())];
    while let Some((at, path)) = waiting.pop() {
        if at.get(key) == Some(value) {
            return Some(format!(" at {path}"));
        }
        match at {
            Value::Object(all) => waiting.extend(all.iter().rev().map(|(name, one)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                (one, format!("{path}/{name}"))
            })),
            Value::Array(all) => {
                let places = all.iter().enumerate().rev();
                waiting.extend(places.map(|(at, one)| (one, format!("{path}/{at}"))));
            }
            _ => {}
        }
    }
    None
}
