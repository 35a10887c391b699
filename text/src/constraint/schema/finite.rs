//! Schemas that have no value, since each would be a part of another one, and that one of the next.
//!
//! The crate would let a text begin there that nothing ends.

use super::bounds::Bounds;
use super::words::{schemas, type_of_value, TYPES};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Puts `false` in the place of references to them. An error when the whole schema is one.
pub fn drop_endless(schema: &mut Value) -> Result<()> {
    let Value::Object(whole) = &*schema else {
        return Ok(());
    };
    let defs = schemas(whole, "$defs").into_iter().flatten();
    let places = std::iter::once(("#".to_string(), &*schema))
        .chain(defs.map(|(name, one)| (format!("#/$defs/{name}"), one)));
    let endless = endless(places.collect());
    // Where it has none even if all that it names had, the crate says why.
    let mut alone = Needs::default();
    let root = alone.schema(schema).place;
    if endless.contains("#") && alone.met()[root] {
        return Err(Error::argument(
            "no value of it has an end: each is a part of another one",
        ));
    }
    if !endless.is_empty() {
        drop_references(schema, &endless);
    }
    Ok(())
}

/// Names of those that have no value.
fn endless(places: Vec<(String, &Value)>) -> HashSet<String> {
    let mut needs = Needs::default();
    for (name, _) in &places {
        let place = needs.add(1);
        needs.named.insert(name.clone(), place);
    }
    for (name, one) in &places {
        let (place, own) = (needs.named[name], needs.schema(one).place);
        needs.parents[own].push(place);
    }
    let met = needs.met();
    let named = needs.named.into_iter().filter(|(_, place)| !met[*place]);
    named.map(|(name, _)| name).collect()
}

/// What must have a value so that others have one: each place waits for some others, for all of them or for the first
/// of them to have it.
#[derive(Default)]
struct Needs {
    /// How many it waits for.
    missing: Vec<usize>,
    parents: Vec<Vec<usize>>,
    /// Places of what references name; what others name is taken to have a value.
    named: HashMap<String, usize>,
}

/// Of a schema: where it stands in `Needs`, and the types that its values may have, a bit for each of `TYPES`.
struct Node {
    place: usize,
    kinds: u8,
}

const ALL: u8 = (1 << TYPES.len()) - 1;

fn kind(name: &str) -> u8 {
    let name = match name {
        "integer" => "number",
        name => name,
    };
    let at = TYPES.iter().position(|one| *one == name);
    // The crate says which types it does not have.
    at.map_or(ALL, |at| 1 << at)
}

impl Needs {
    fn add(&mut self, missing: usize) -> usize {
        self.missing.push(missing);
        self.parents.push(Vec::new());
        self.missing.len() - 1
    }

    /// Waits for all of these.
    fn all(&mut self, parts: &[usize]) -> usize {
        let place = self.add(parts.len());
        parts.iter().for_each(|one| self.parents[*one].push(place));
        place
    }

    fn any(&mut self, parts: &[usize]) -> usize {
        let place = self.add(1);
        parts.iter().for_each(|one| self.parents[*one].push(place));
        place
    }

    /// Which have a value, each looked at once.
    fn met(&mut self) -> Vec<bool> {
        let mut met: Vec<bool> = self.missing.iter().map(|n| *n == 0).collect();
        let mut waiting: Vec<usize> = (0..met.len()).filter(|at| met[*at]).collect();
        while let Some(at) = waiting.pop() {
            for parent in std::mem::take(&mut self.parents[at]) {
                self.missing[parent] = self.missing[parent].saturating_sub(1);
                if self.missing[parent] == 0 && !met[parent] {
                    met[parent] = true;
                    waiting.push(parent);
                }
            }
        }
        met
    }

    /// As far as it can be seen without intersections.
    fn schema(&mut self, schema: &Value) -> Node {
        let Value::Object(object) = schema else {
            let is_none = schema == &Value::Bool(false);
            return Node {
                place: self.add(usize::from(is_none)),
                kinds: if is_none { 0 } else { ALL },
            };
        };
        let mut kinds = own_kinds(object);
        let mut parts = Vec::new();
        for (key, value) in object {
            match (&**key, value) {
                ("$ref", Value::String(name)) => parts.extend(self.named.get(name)),
                ("allOf", Value::Array(all)) => {
                    for one in all {
                        let one = self.schema(one);
                        kinds &= one.kinds;
                        parts.push(one.place);
                    }
                }
                ("anyOf" | "oneOf", Value::Array(all)) => {
                    let options = all.iter().map(|one| self.schema(one));
                    let mut options: Vec<Node> = options.collect();
                    options.retain(|one| one.kinds & kinds != 0);
                    kinds &= options.iter().fold(0, |all, one| all | one.kinds);
                    let options: Vec<_> = options.iter().map(|one| one.place).collect();
                    parts.push(self.any(&options));
                }
                _ => {}
            }
        }
        if kinds & !(kind("object") | kind("array")) == 0 {
            let mut options = Vec::new();
            if kinds & kind("object") != 0 {
                options.push(self.object(object));
            }
            if kinds & kind("array") != 0 {
                options.push(self.array(object));
            }
            parts.push(self.any(&options));
        }
        let place = self.all(&parts);
        Node { place, kinds }
    }

    fn object(&mut self, object: &Map<String, Value>) -> usize {
        let names = object.get("required").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        // A name may stand there again.
        let names: HashSet<&str> = names.collect();
        let properties = schemas(object, "properties");
        let parts = names.into_iter().filter_map(|name| properties?.get(name));
        let parts: Vec<_> = parts.map(|one| self.schema(one).place).collect();
        self.all(&parts)
    }

    fn array(&mut self, object: &Map<String, Value>) -> usize {
        let (items, more) = (object.get("items"), object.get("additionalItems"));
        let (first, items) = match items {
            Some(Value::Array(_)) => (items, more),
            items => (object.get("prefixItems"), items),
        };
        let first = first.and_then(Value::as_array).map_or(&[][..], |all| all);
        let least = object.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        let items = items.filter(|_| least > first.len());
        let parts = first.iter().take(least).chain(items);
        let parts: Vec<_> = parts.map(|one| self.schema(one).place).collect();
        self.all(&parts)
    }
}

/// Of its words alone, without those that can be of no value.
fn own_kinds(object: &Map<String, Value>) -> u8 {
    let mut kinds = match object.get("type") {
        Some(Value::String(name)) => kind(name),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names.fold(0, |all, name| all | kind(name))
        }
        _ => ALL,
    };
    let of_value = |value: &Value| kind(type_of_value(value));
    if let Some(value) = object.get("const") {
        kinds &= of_value(value);
    }
    if let Some(Value::Array(all)) = object.get("enum") {
        kinds &= all.iter().fold(0, |all, one| all | of_value(one));
    }
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    for (least, most, name) in [
        ("minLength", "maxLength", "string"),
        ("minItems", "maxItems", "array"),
        ("minProperties", "maxProperties", "object"),
    ] {
        if number(least) > number(most) && number(most).is_some() {
            kinds &= !kind(name);
        }
    }
    match Bounds::of(object).is_empty() {
        true => kinds & !kind("number"),
        false => kinds,
    }
}

fn drop_references(schema: &mut Value, endless: &HashSet<String>) {
    match schema {
        Value::Object(all) => {
            let name = all.get("$ref").and_then(Value::as_str);
            if name.is_some_and(|name| endless.contains(name)) {
                *schema = Value::Bool(false);
                return;
            }
            for (key, value) in all {
                match (&**key, value) {
                    // Values, which are not schemas.
                    ("const" | "enum", _) => {}
                    ("properties" | "patternProperties" | "$defs", Value::Object(all)) => all
                        .values_mut()
                        .for_each(|one| drop_references(one, endless)),
                    (_, value) => drop_references(value, endless),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| drop_references(one, endless)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_no_end_is_nothing() {
        for (mut schema, left) in [
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "enum": {"$ref": "#/$defs/A"}, "$ref": {"const": {"$ref": "#/$defs/A"}}}, "$defs":
                    {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}}}),
                json!({"type": "object", "properties": {"a": false, "enum": false, "$ref": {"const": {"$ref": "#/$defs/A"}}}, "$defs":
                    {"A": {"anyOf": [false]}, "B": false}}),
            ),
            (
                json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "array", "minItems": 2, "prefixItems": [{}],
                    "items": {"$ref": "#/$defs/A"}}}}),
                json!({"items": false, "$defs": {"A": {"type": "array", "minItems": 2, "prefixItems": [{}], "items": false}}}),
            ),
        ] {
            drop_endless(&mut schema).unwrap();
            assert_eq!(schema, left);
        }
        for mut schema in [
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#"}),
            json!({"type": ["object", "array"], "required": ["a"], "properties": {"a": {"$ref": "#"}}, "minItems": 1,
                "items": [{"$ref": "#"}]}),
            // What is beside itself is of no value.
            json!({"oneOf": [{"$ref": "#"}, {"type": "string", "const": 1}]}),
            json!({"oneOf": [{"$ref": "#"}, {"allOf": [{"type": "string"}, {"enum": [1, null]}]}]}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "string",
                "minLength": 2, "maxLength": 1}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "integer",
                "minimum": 2, "exclusiveMaximum": 2}]}}),
            json!({"anyOf": [{"type": "null"}, {"$ref": "#"}], "type": "object"}),
        ] {
            let error = drop_endless(&mut schema).unwrap_err();
            assert_eq!(
                error.message,
                "no value of it has an end: each is a part of another one"
            );
        }
        for schema in [
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"anyOf": [{"type": "array", "minItems": 1, "items": {"$ref": "#"}}, {"type": "null"}]}),
            json!({"anyOf": []}),
        ] {
            let mut same = schema.clone();
            drop_endless(&mut same).unwrap();
            assert_eq!(same, schema);
        }
    }

    /// Each is looked at once, however often it is named and whatever comes first.
    #[test]
    fn it_takes_one_look_at_each() {
        let twice = |one: Value, _| json!({"type": ["object", "object"], "required": ["a", "a"], "properties": {"a": one}});
        let mut deep = (0..50).fold(json!({}), twice);
        let same = deep.clone();
        drop_endless(&mut deep).unwrap();
        assert_eq!(deep, same);
        let back = |i: usize| json!({"allOf": [{"$ref": format!("#/$defs/{}", i.max(1) - 1)}]});
        let mut defs: Map<_, _> = (0..20_000).map(|i| (i.to_string(), back(i))).collect();
        defs["0"] = json!({});
        let mut chain = json!({"$ref": "#/$defs/19999", "$defs": defs});
        let same = chain.clone();
        drop_endless(&mut chain).unwrap();
        assert_eq!(chain, same);
    }
}
