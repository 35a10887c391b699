//! What a schema costs the crate before its own limits count: how deep it goes, and how often it copies.
//!
//! An object with several of $ref, allOf, anyOf and so on is their intersection. The crate makes it of copies: of each
//! part, one for each alternative of the others, with all that its references name. A chain of such references doubles
//! with every link, so what comes of it is counted first, with no copy.

use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Copies and steps, each of some microseconds and kilobytes.
pub const MOST_COST: usize = 100_000;
/// Levels of objects and arrays: those of the schema and of all that references name, which may be a chain.
const MOST_LEVELS: usize = 6000;
/// Names of properties, which the crate takes one within the other.
const MOST_NAMES: usize = 2000;

/// Of a factor, without its point: the automaton of its multiples has as many states.
const MOST_FACTOR: f64 = 100_000.0;
const MOST_PLACES: usize = 8;

/// Beyond it numbers of a schema, which are 64-bit floating point, are no longer the ones that were written; and at the
/// ends of 64 bits the crate turns in a circle.
const MOST_NUMBER: f64 = 9_007_199_254_740_992.0;

/// What a schema may say to the crate itself. Other words of it make no JSON.
const GUIDANCE: [&str; 2] = ["whitespace_flexible", "coerce_one_of"];

/// Keywords whose values are intersected with each other.
const PARTS: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "enum", "const"];
/// Keywords that are one more part together.
const OWN: [&str; 21] = [
    "type",
    "items",
    "additionalItems",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "patternProperties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// What it costs; an error when that is too much.
pub fn check(schema: &Value) -> Result<usize> {
    let cost = cost(schema)?;
    match cost <= MOST_COST {
        true => Ok(cost),
        false => Err(Error::range(format!(
            "its parts are {cost} units with the copies that references and intersections make; the limit is {MOST_COST}"
        ))),
    }
}

pub fn cost(schema: &Value) -> Result<usize> {
    let mut counter = Counter {
        root: schema,
        levels: 0,
        names: 0,
        fault: None,
        circle: ONE,
        refs: HashMap::new(),
        sizes: HashMap::new(),
    };
    let mut cost = counter.own(schema);
    // Those of a target are found while it is counted.
    let mut counted = HashSet::new();
    loop {
        let refs: Vec<_> = counter.refs.iter().map(|(name, at)| (*name, *at)).collect();
        let before = counted.len();
        for (name, target) in refs {
            if counted.insert(name) {
                cost = cost.saturating_add(counter.own(target));
            }
        }
        if counted.len() == before {
            break;
        }
    }
    for (what, count, most) in [
        (
            "levels with those of its references",
            counter.levels,
            MOST_LEVELS,
        ),
        ("names of properties", counter.names, MOST_NAMES),
    ] {
        if count > most {
            return Err(Error::range(format!("{count} {what}; the limit is {most}")));
        }
    }
    if let Some(fault) = counter.fault {
        return Err(Error::range(fault));
    }
    counter.circle = Size {
        nodes: cost,
        ways: cost,
        spreads: true,
    };
    Ok(cost.saturating_add(counter.intersections(schema)))
}

/// Of a schema with all that its references name.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    /// Most ways to read it, over all of its paths.
    ways: usize,
    /// Whether a part of it goes to every property or item of another schema.
    spreads: bool,
}

struct Counter<'a> {
    root: &'a Value,
    levels: usize,
    names: usize,
    /// The first of what cannot be kept.
    fault: Option<String>,
    /// What stands for a schema where it is a part of itself.
    circle: Size,
    refs: HashMap<&'a str, &'a Value>,
    sizes: HashMap<*const Value, Size>,
}

impl<'a> Counter<'a> {
    /// Without what its references name, which are noted.
    fn own(&mut self, node: &'a Value) -> usize {
        let (cost, levels) = self.walk(node);
        self.levels += levels;
        cost
    }

    fn walk(&mut self, node: &'a Value) -> (usize, usize) {
        let (weight, values): (usize, Vec<&Value>) = match node {
            Value::Array(all) => (0, all.iter().collect()),
            Value::Object(all) => {
                self.note(all);
                (weight(all, false), all.values().collect())
            }
            _ => return (1, 0),
        };
        let (mut cost, mut below) = (1 + weight, 0);
        for value in values {
            let (its, levels) = self.walk(value);
            cost = cost.saturating_add(its);
            below = below.max(levels);
        }
        (cost, below + 1)
    }

    fn note(&mut self, object: &'a Map<String, Value>) {
        if self.fault.is_none() {
            self.fault = fault(object);
        }
        self.names += length(object, "properties") + length(object, "required");
        if let Some(Value::String(name)) = object.get("$ref") {
            // What names nothing the crate refuses where it comes to it: it may be in an example.
            if let Some(target) = self.target(name) {
                self.refs.insert(name, target);
            }
        }
    }

    /// As the crate finds it: keys as they are written.
    fn target(&self, name: &str) -> Option<&'a Value> {
        let path = name.strip_prefix('#')?;
        if path.is_empty() || path == "/" {
            return Some(self.root);
        }
        path.strip_prefix('/')?
            .split('/')
            .try_fold(self.root, |at, key| match at {
                Value::Array(all) => all.get(key.parse::<usize>().ok()?),
                at => at.get(key),
            })
    }

    /// Of all intersections in a schema.
    fn intersections(&mut self, node: &'a Value) -> usize {
        let below = match node {
            Value::Array(all) => all
                .iter()
                .map(|value| self.intersections(value))
                .fold(0, usize::saturating_add),
            Value::Object(all) => all
                .values()
                .map(|value| self.intersections(value))
                .fold(0, usize::saturating_add),
            _ => 0,
        };
        match node {
            Value::Object(all) if parts(all) > 1 => below.saturating_add(self.size(node).nodes),
            _ => below,
        }
    }

    fn size(&mut self, node: &'a Value) -> Size {
        let key: *const Value = node;
        if let Some(size) = self.sizes.get(&key) {
            return *size;
        }
        self.sizes.insert(key, self.circle);
        let size = match node {
            Value::Array(all) => self.sum(all),
            Value::Object(all) => self.object(all),
            _ => ONE,
        };
        self.sizes.insert(key, size);
        size
    }

    fn sum(&mut self, all: impl IntoIterator<Item = &'a Value>) -> Size {
        all.into_iter().fold(ONE, |sum, value| {
            let size = self.size(value);
            Size {
                nodes: sum.nodes.saturating_add(size.nodes),
                ways: sum.ways.max(size.ways),
                spreads: sum.spreads || size.spreads,
            }
        })
    }

    fn object(&mut self, object: &'a Map<String, Value>) -> Size {
        let mut found: Vec<Size> = Vec::new();
        let mut own = Vec::new();
        for (key, value) in object {
            match (&**key, value) {
                ("$ref", Value::String(name)) => {
                    if let Some(target) = self.target(name) {
                        found.push(self.size(target));
                    }
                }
                ("allOf", Value::Array(all)) => {
                    for value in all {
                        found.push(self.size(value));
                    }
                }
                ("anyOf" | "oneOf" | "enum", Value::Array(all)) => {
                    let sum = self.sum(all);
                    let ways = sum.ways.saturating_mul(all.len().max(1));
                    found.push(Size { ways, ..sum });
                }
                _ => own.push(value),
            }
        }
        let mut rest = self.sum(own);
        rest.nodes = rest.nodes.saturating_add(weight(object, true));
        if let Some(Value::Array(types)) = object.get("type") {
            rest.ways = rest.ways.saturating_mul(types.len().max(1));
        }
        let is_schema = |key| object.get(key).is_some_and(|value| !value.is_boolean());
        let to_all = [
            "additionalProperties",
            "patternProperties",
            "items",
            "additionalItems",
        ];
        rest.spreads |= to_all.into_iter().any(is_schema);
        found.push(rest);
        intersection(&found)
    }
}

/// What the crate would take and not keep to.
fn fault(object: &Map<String, Value>) -> Option<String> {
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    if let Some(factor) = number("multipleOf").filter(|factor| !is_exact(*factor)) {
        return Some(format!(
            "multipleOf {factor}; the limit is {MOST_FACTOR} without its point, and {MOST_PLACES} places behind it"
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
        if let Some(number) = object.get(key).and_then(too_large) {
            return Some(format!(
                "{key} has {number}; the limit is {MOST_NUMBER} on either side"
            ));
        }
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

/// A number of these that is no longer the one that was written.
fn too_large(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let size = number.as_f64().map_or(f64::INFINITY, f64::abs);
            (size > MOST_NUMBER).then(|| number.to_string())
        }
        Value::Array(all) => all.iter().find_map(too_large),
        Value::Object(all) => all.values().find_map(too_large),
        _ => None,
    }
}

/// Takes bounds away that every number of 64 bits keeps, which generators of schemas write.
pub fn drop_widest_bounds(schema: &mut Value) {
    let all = match schema {
        Value::Array(all) => return all.iter_mut().for_each(drop_widest_bounds),
        Value::Object(all) => all,
        _ => return,
    };
    const WIDEST: f64 = i64::MAX as f64;
    let is_wide = |value: &mut Value, sign: f64| value.as_f64().is_some_and(|n| n * sign >= WIDEST);
    for (key, sign) in [
        ("minimum", -1.0),
        ("exclusiveMinimum", -1.0),
        ("maximum", 1.0),
        ("exclusiveMaximum", 1.0),
    ] {
        if all.get_mut(key).is_some_and(|value| is_wide(value, sign)) {
            all.shift_remove(key);
        }
    }
    for (key, value) in all {
        if !["const", "enum", "default", "examples"].contains(&key.as_str()) {
            drop_widest_bounds(value);
        }
    }
}

/// Whether the crate computes with such a factor.
fn is_exact(factor: f64) -> bool {
    let mut digits = factor.abs();
    (0..=MOST_PLACES).any(|_| {
        let is_whole = digits.fract() == 0.0;
        let is_exact = is_whole && digits <= MOST_FACTOR;
        digits *= 10.0;
        is_exact
    })
}

const ONE: Size = Size {
    nodes: 1,
    ways: 1,
    spreads: false,
};

/// Each part is copied for every way to read the others. One that spreads is copied for every node of the others.
fn intersection(parts: &[Size]) -> Size {
    let product = |of: fn(&Size) -> usize| parts.iter().map(of).fold(1, usize::saturating_mul);
    let ways = product(|part| part.ways);
    let spreads = parts.iter().any(|part| part.spreads);
    let copies = parts
        .iter()
        .map(|part| part.nodes.saturating_mul(ways / part.ways.max(1)));
    let nodes = match spreads && parts.len() > 1 {
        true => product(|part| part.nodes).saturating_mul(ways),
        false => copies.fold(0, usize::saturating_add),
    };
    Size {
        nodes,
        ways,
        spreads,
    }
}

/// How many schemas an object is the intersection of.
fn parts(object: &Map<String, Value>) -> usize {
    let all_of = object.get("allOf").and_then(Value::as_array);
    let others = PARTS
        .iter()
        .filter(|key| **key != "allOf" && object.contains_key(**key));
    let own = OWN.iter().any(|key| object.contains_key(*key));
    others.count() + all_of.map_or(0, Vec::len) + usize::from(own)
}

/// Of a keyword's value: entries, or bytes.
fn length(object: &Map<String, Value>, key: &str) -> usize {
    match object.get(key) {
        Some(Value::Object(all)) => all.len(),
        Some(Value::Array(all)) => all.len(),
        Some(Value::String(text)) => text.len(),
        _ => 0,
    }
}

/// What keywords cost beyond the nodes of their values. `is_part`: of an intersection.
fn weight(object: &Map<String, Value>, is_part: bool) -> usize {
    let has = |key: &&&str| object.contains_key(**key);
    let numbers = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ];
    let texts = ["pattern", "format"].iter().filter(has).count();
    let lengths = ["minLength", "maxLength"].iter().filter(has).count();
    let patterns = match object.get("patternProperties") {
        Some(Value::Object(all)) => all.keys().map(String::len).sum(),
        _ => 0,
    };
    // Whether a text is left that all of them have is looked for, step by step.
    let meet = match texts {
        1.. => texts + lengths > 1 || is_part,
        0 => false,
    };
    let parts = [
        usize::from(meet) * 1000,
        texts * 50 + (length(object, "pattern") + patterns).saturating_mul(4),
        numbers.iter().filter(has).count() * 20,
        // Those of properties are held against each other, as the options of a oneOf are.
        length(object, "patternProperties")
            .saturating_pow(2)
            .saturating_mul(500),
        length(object, "oneOf").saturating_pow(2) / 4,
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}
