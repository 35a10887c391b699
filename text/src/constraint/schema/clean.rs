//! A schema as the crate shall see it: what it says of values, and nothing else.
//!
//! What JSON Schema does not know, or what only tells of a schema, goes: beside a reference the crate takes it for one
//! more schema, and copies what the reference names. Each place that a reference names stands once in `$defs`, so that
//! a schema is as large as what can be reached in it. In each schema the words that are one part together stand
//! together, where `properties` stands, since names come in that order.

use super::bounds::Bounds;
use super::faults::{fault, is_beyond};
use super::plain::Plain;
use super::words::{type_of_value, FORMLESS, OWN, PARTS, REFUSED, TYPES};
use crate::error::{quote, Error, Result};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Values of a schema with what its references name: places that lie in each other are copied.
const MAX_VALUES: usize = 100_000;
/// Bytes of a text that count as a value.
const BYTES: usize = 256;
/// How far the type of a schema is looked for, from reference to reference.
const MAX_DEPTH: usize = 64;

pub fn clean(schema: &Value) -> Result<Value> {
    let mut cleaner = Cleaner {
        root: schema,
        values: 0,
        places: HashMap::new(),
        waiting: Vec::new(),
        names: HashSet::new(),
        given: HashMap::new(),
        types: HashMap::new(),
    };
    let mut whole = cleaner.place(schema)?;
    let (Value::Object(all), Value::Object(given)) = (&mut whole, schema) else {
        return Ok(whole);
    };
    let mut defs = Map::new();
    while let Some((name, target)) = cleaner.waiting.get(defs.len()).cloned() {
        defs.insert(name, cleaner.place(target)?);
    }
    if !defs.is_empty() {
        all.insert("$defs".into(), defs.into());
    }
    for key in ["$schema", "x-guidance"] {
        if let Some(value) = given.get(key) {
            all.insert(key.into(), value.clone());
        }
    }
    Ok(whole)
}

struct Cleaner<'a> {
    root: &'a Value,
    values: usize,
    /// Of places that references name: where each stands in `waiting`.
    places: HashMap<*const Value, usize>,
    /// With their names in `$defs`.
    waiting: Vec<(String, &'a Value)>,
    names: HashSet<String>,
    /// How often each was wanted.
    given: HashMap<&'a str, usize>,
    /// The one type of the values of a schema.
    types: HashMap<*const Value, Option<&'static str>>,
}

impl<'a> Cleaner<'a> {
    fn count(&mut self, values: usize) -> Result<()> {
        self.values += values;
        match self.values <= MAX_VALUES {
            true => Ok(()),
            false => Err(Error::range(format!(
                "more than {MAX_VALUES} values with those that its references name, the limit"
            ))),
        }
    }

    fn copy(&mut self, value: &Value) -> Result<Value> {
        self.count(size(value))?;
        Ok(value.clone())
    }

    /// A schema that has a name, or is the whole one.
    fn place(&mut self, schema: &'a Value) -> Result<Value> {
        match schema {
            Value::Object(all) => Ok(match self.put_together(all)? {
                Some(plain) => self.plain(plain)?.into(),
                None => self.object(all)?.into(),
            }),
            other => self.copy(other),
        }
    }

    fn schema(&mut self, schema: &'a Value) -> Result<Value> {
        match schema {
            Value::Object(all) => Ok(match self.put_together(all)? {
                // Under a name of its own, since it may be a part of itself.
                Some(_) => {
                    let name = self.name_of(schema, "part");
                    Map::from_iter([("$ref".to_string(), name.into())]).into()
                }
                None => self.object(all)?.into(),
            }),
            other => self.copy(other),
        }
    }

    fn put_together(&mut self, object: &'a Map<String, Value>) -> Result<Option<Plain<'a>>> {
        if let Some(fault) = fault(object) {
            return Err(Error::range(fault));
        }
        let plain = Plain::of(object, |name| self.target(name).ok());
        self.count(plain.looked_at)?;
        Ok(plain.is_one.then_some(plain))
    }

    fn schemas(&mut self, value: &'a Value) -> Result<Value> {
        self.count(1)?;
        match value {
            Value::Object(all) => {
                let clean = all.iter().map(|(name, one)| {
                    self.count(units(name))?;
                    let clean = self.schema(one)?;
                    Ok((name.clone(), clean))
                });
                clean.collect::<Result<Map<_, _>>>().map(Value::Object)
            }
            Value::Array(all) => all.iter().map(|one| self.schema(one)).collect(),
            other => self.copy(other),
        }
    }

    fn object(&mut self, object: &'a Map<String, Value>) -> Result<Map<String, Value>> {
        self.count(1)?;
        let named = object.contains_key("properties");
        let says_type = self.says_type(object);
        let (mut all, mut own, mut place) = (Vec::new(), Vec::new(), 0);
        for (key, value) in object {
            let key = key.as_str();
            if PARTS.contains(&key) {
                all.push((key, self.part(key, value)?));
                continue;
            }
            if says_nothing(key, value) || (key == "type" && !says_type) {
                continue;
            }
            if REFUSED.contains(&key) {
                return Err(Error::argument(format!(
                    "it has {}, which structured output does not keep to",
                    quote(key)
                )));
            }
            if !OWN.contains(&key) {
                continue;
            }
            if key == "properties" || (!named && own.is_empty()) {
                place = all.len();
            }
            own.push((key, self.own(key, value)?));
        }
        if let Some((key, _, moved)) = Bounds::of(object).mistaken() {
            own.retain(|(own, _)| *own != key);
            own.push((key, moved.into()));
        }
        all.splice(place..place, own);
        let named = all.into_iter().map(|(key, value)| (key.to_string(), value));
        Ok(named.collect())
    }

    fn plain(&mut self, plain: Plain<'a>) -> Result<Map<String, Value>> {
        let required = plain.required.iter().map(|name| 1 + units(name));
        self.count(required.sum())?;
        let mut whole = Map::new();
        if plain.is_object {
            whole.insert("type".into(), "object".into());
        }
        let properties = plain.properties.into_iter().map(|(name, one)| {
            self.count(units(name))?;
            let clean = self.schema(one)?;
            Ok((name.to_string(), clean))
        });
        let properties: Map<_, _> = properties.collect::<Result<_>>()?;
        whole.insert("properties".into(), properties.into());
        whole.insert("required".into(), plain.required.into());
        Ok(whole)
    }

    fn part(&mut self, key: &str, value: &'a Value) -> Result<Value> {
        match (key, value) {
            ("$ref", Value::String(name)) => self.reference(name).map(Value::String),
            ("allOf" | "anyOf" | "oneOf", value) => self.schemas(value),
            (_, value) => self.copy(value),
        }
    }

    fn own(&mut self, key: &str, value: &'a Value) -> Result<Value> {
        match (key, value) {
            ("properties" | "patternProperties", Value::Object(_))
            | ("items" | "prefixItems", Value::Array(_)) => self.schemas(value),
            ("items" | "additionalItems" | "additionalProperties", value) => self.schema(value),
            (_, value) => self.copy(value),
        }
    }

    /// The new name of what a reference names: the last one of its path, which says to callers what it is.
    fn reference(&mut self, name: &'a str) -> Result<String> {
        let target = self.target(name)?;
        Ok(self.name_of(target, name.rsplit('/').next().unwrap_or_default()))
    }

    fn name_of(&mut self, target: &'a Value, last: &'a str) -> String {
        if std::ptr::eq(target, self.root) {
            return "#".into();
        }
        let key: *const Value = target;
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                let own = self.new_name(last);
                self.waiting.push((own, target));
                self.places.insert(key, self.waiting.len() - 1);
                self.waiting.len() - 1
            }
        };
        format!("#/$defs/{}", self.waiting[at].0)
    }

    fn new_name(&mut self, last: &'a str) -> String {
        let given = self.given.entry(last).or_insert(1);
        let mut name = last.to_string();
        while !self.names.insert(name.clone()) {
            *given += 1;
            name = format!("{last}.{given}");
        }
        name
    }

    fn target(&self, name: &str) -> Result<&'a Value> {
        let path = match name {
            "#" | "#/" => return Ok(self.root),
            name => name.strip_prefix("#/").ok_or_else(|| {
                Error::argument(format!(
                    "$ref begins with \"#/\" and names a place in the schema; there is {}",
                    quote(name)
                ))
            })?,
        };
        let step = |at: &'a Value, key: &str| match at {
            Value::Array(all) => all.get(key.parse::<usize>().ok()?),
            at => at.get(key).or_else(|| at.get(unescaped(key))),
        };
        let target = path.split('/').try_fold(self.root, step);
        target.ok_or_else(|| {
            Error::argument(format!("$ref {} names nothing in the schema", quote(name)))
        })
    }

    /// Whether its type says more than the parts beside it do. Where it is all that stands there, the crate copies what
    /// a reference names only to intersect it with all values of that type, and cannot where that is within itself.
    fn says_type(&mut self, object: &'a Map<String, Value>) -> bool {
        let Some(Value::String(own)) = object.get("type") else {
            return true;
        };
        let others = object.iter().any(|(key, value)| {
            key != "type" && OWN.contains(&&**key) && !says_nothing(key, value)
        });
        others || self.type_of_parts(object, 0) != Some(own)
    }

    /// The type that the parts of an object alone leave, where one of them leaves one.
    fn type_of_parts(
        &mut self,
        object: &'a Map<String, Value>,
        depth: usize,
    ) -> Option<&'static str> {
        object
            .iter()
            .find_map(|(key, value)| match (&**key, value) {
                ("const", value) => Some(type_of_value(value)),
                ("enum", Value::Array(all)) => {
                    common(all.iter().map(|one| Some(type_of_value(one))))
                }
                ("$ref", Value::String(name)) => {
                    let target = self.target(name).ok()?;
                    self.type_of(target, depth + 1)
                }
                ("anyOf" | "oneOf", Value::Array(all)) => {
                    let types: Vec<_> =
                        all.iter().map(|one| self.type_of(one, depth + 1)).collect();
                    common(types.into_iter())
                }
                ("allOf", Value::Array(all)) => {
                    all.iter().find_map(|one| self.type_of(one, depth + 1))
                }
                _ => None,
            })
    }

    fn type_of(&mut self, schema: &'a Value, depth: usize) -> Option<&'static str> {
        let object = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
        let key: *const Value = schema;
        if let Some(found) = self.types.get(&key) {
            return *found;
        }
        // What is a part of itself leaves none.
        self.types.insert(key, None);
        let found = match object.get("type") {
            Some(Value::String(own)) => TYPES.into_iter().find(|one| one == own),
            _ => self.type_of_parts(object, depth),
        };
        self.types.insert(key, found);
        found
    }
}

/// Words that leave all values as they are.
fn says_nothing(key: &str, value: &Value) -> bool {
    match (key, value) {
        ("uniqueItems", Value::Bool(false)) => true,
        ("format", Value::String(format)) => FORMLESS.contains(&&**format),
        (key, value) => is_beyond(key, Some(value)),
    }
}

fn common(mut types: impl Iterator<Item = Option<&'static str>>) -> Option<&'static str> {
    let first = types.next()??;
    types.all(|one| one == Some(first)).then_some(first)
}

/// Values in a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(size).sum::<usize>(),
        Value::Object(all) => all
            .iter()
            .fold(1, |sum, (name, one)| sum + units(name) + size(one)),
        Value::String(text) => 1 + units(text),
        _ => 1,
    }
}

fn units(text: &str) -> usize {
    text.len() / BYTES
}

/// A name of a pointer as RFC 6901 and URIs escape it.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_said_of_values_is_left() {
        for (schema, left) in [
            (json!(true), json!(true)),
            (json!(3), json!(3)),
            (
                json!({"title": "A", "$comment": "b", "nullable": true}),
                json!({}),
            ),
            // Names are names, whatever they are.
            (
                json!({"properties": {"title": {"title": "T", "type": "string"}, "$ref": {"x-a": 1}}}),
                json!({"properties": {"title": {"type": "string"}, "$ref": {}}}),
            ),
            // Only what can be reached, and each place once.
            (
                json!({"$ref": "#/definitions/a~1b", "discriminator": {"propertyName": "x"}, "definitions":
                    {"c": {"not": {}}, "a/b": {"items": {"$ref": "#/definitions/a%2Fb"}}}}),
                json!({"$ref": "#/$defs/a~1b", "$defs": {"a~1b": {"items": {"$ref": "#/$defs/a~1b"}}}}),
            ),
            (
                json!({"anyOf": [{"type": "integer"}, {"$ref": "#"}, {"$ref": "#/anyOf/0"}, {"$ref": "#/anyOf/0"}]}),
                json!({"anyOf": [{"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/0"}, {"$ref": "#/$defs/0"}],
                    "$defs": {"0": {"type": "integer"}}}),
            ),
            // Values are not schemas.
            (
                json!({"const": {"title": {"type": 3}}, "default": {"not": 3}}),
                json!({"const": {"title": {"type": 3}}}),
            ),
            // Words of one part together, where `properties` stands.
            (
                json!({"minProperties": 1, "allOf": [{}], "properties": {}, "$ref": "#", "required": ["a"]}),
                json!({"allOf": [{}], "minProperties": 1, "properties": {}, "required": ["a"], "$ref": "#"}),
            ),
            (
                json!({"$ref": "#", "minimum": 1, "allOf": [], "maximum": 2}),
                json!({"$ref": "#", "minimum": 1, "maximum": 2, "allOf": []}),
            ),
            (
                json!({"minimum": -1e20, "maximum": 9223372036854775807u64, "type": "integer", "format": "int64"}),
                json!({"type": "integer"}),
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "x-guidance": {}, "type": "null"}),
                json!({"type": "null", "$schema": "http://json-schema.org/draft-07/schema#", "x-guidance": {}}),
            ),
            // One object of several that only name properties.
            (
                json!({"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"$ref": "#"}}, "title": "B"}, {"$ref": "#/$defs/A"}],
                    "required": ["b"], "$defs": {"A": {"type": "object", "properties": {"a": {"x": 1}}, "required": ["a"]}}}),
                json!({"type": "object", "properties": {"a": {}, "b": {"$ref": "#"}}, "required": ["a", "b"]}),
            ),
            (
                json!({"$ref": "#/$defs/A", "required": ["a"], "$defs": {"A": {"properties": {"a": true}}}}),
                json!({"properties": {"a": true}, "required": ["a"]}),
            ),
            // It may be a part of itself, and two places may have the same name.
            (
                json!({"items": {"required": ["a"], "$ref": "#/x/A"}, "x": {"A": {"properties": {"a": {"$ref": "#/items"}, "b": {"$ref": "#/y/A"}}}},
                    "y": {"A": {"type": "null"}}}),
                json!({"items": {"$ref": "#/$defs/part"}, "$defs": {
                    "part": {"properties": {"a": {"$ref": "#/$defs/part"}, "b": {"$ref": "#/$defs/A"}}, "required": ["a"]},
                    "A": {"type": "null"}}}),
            ),
            (
                json!({"prefixItems": [{"$ref": "#/x/A"}, {"$ref": "#/y/A"}], "x": {"A": {"type": "null"}}, "y": {"A": {"type": "string"}}}),
                json!({"prefixItems": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A.2"}], "$defs": {
                    "A": {"type": "null"}, "A.2": {"type": "string"}}}),
            ),
            (
                json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}),
                json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}),
            ),
            (
                json!({"allOf": [{"properties": {"a": {}}}, {"minProperties": 1}]}),
                json!({"allOf": [{"properties": {"a": {}}}, {"minProperties": 1}]}),
            ),
            (
                json!({"allOf": [{"properties": {"a": {}}}, {"type": "object", "additionalProperties": false}]}),
                json!({"allOf": [{"properties": {"a": {}}}, {"type": "object", "additionalProperties": false}]}),
            ),
            // A type that the others leave.
            (
                json!({"type": "object", "oneOf": [{"$ref": "#/$defs/A"}, {"type": "object"}], "$defs": {"A": {"type": "object"}}}),
                json!({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "object"}], "$defs": {"A": {"type": "object"}}}),
            ),
            (
                json!({"type": "string", "enum": ["a", "b"], "format": "password"}),
                json!({"enum": ["a", "b"]}),
            ),
            (
                json!({"type": "string", "enum": ["a", 1]}),
                json!({"type": "string", "enum": ["a", 1]}),
            ),
            (
                json!({"type": "integer", "enum": [1, 1.5]}),
                json!({"type": "integer", "enum": [1, 1.5]}),
            ),
            (
                json!({"type": "object", "minProperties": 1, "anyOf": [{"type": "object"}]}),
                json!({"type": "object", "minProperties": 1, "anyOf": [{"type": "object"}]}),
            ),
        ] {
            assert_eq!(
                clean(&schema).unwrap().to_string(),
                left.to_string(),
                "{schema}"
            );
        }
    }

    #[test]
    fn a_reference_that_names_nothing_is_refused_with_its_name() {
        for (name, message) in [
            (
                "#/$defs/A",
                "$ref \"#/$defs/A\" names nothing in the schema",
            ),
            (
                "#/items/x",
                "$ref \"#/items/x\" names nothing in the schema",
            ),
            (
                "#a",
                "$ref begins with \"#/\" and names a place in the schema; there is \"#a\"",
            ),
        ] {
            let schema = json!({"items": [{"$ref": name}], "default": {"$ref": 7}});
            assert_eq!(clean(&schema).unwrap_err().message, message);
        }
        assert_eq!(
            unescaped("a~1b~0c%20%zz%e2%82%ac~01"),
            "a/b~c %zz\u{20ac}~1"
        );
    }

    #[test]
    fn places_within_places_have_a_limit() {
        let numbers: Vec<usize> = (0..5000).collect();
        let refs: Vec<Value> = (0..40)
            .map(|i| json!({"$ref": format!("#/x{}", "/items".repeat(i))}))
            .collect();
        let deep = (0..40).fold(json!({"enum": numbers}), |at, _| json!({"items": at}));
        let error = clean(&json!({"anyOf": refs, "x": deep})).unwrap_err();
        assert_eq!(
            error.message,
            "more than 100000 values with those that its references name, the limit"
        );
    }

    /// A name or a text that is copied with each object that has it.
    #[test]
    fn long_texts_count_as_values_that_are_as_long() {
        let long = "n".repeat(100_000);
        for base in [
            json!({"properties": {&long: {}}}),
            json!({"properties": {"a": {"const": long}}}),
            json!({"properties": {"a": {"properties": {&long: {}}}}}),
            json!({"required": [long]}),
        ] {
            let one = json!({"allOf": [{"$ref": "#/x"}, {"properties": {"b": {}}}]});
            let error = clean(&json!({"anyOf": vec![one; 400], "x": base})).unwrap_err();
            assert_eq!(
                error.message,
                "more than 100000 values with those that its references name, the limit"
            );
        }
    }
}
