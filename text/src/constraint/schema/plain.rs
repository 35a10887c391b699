//! Objects that are put together of parts: a base by reference and what is added to it, as inheritance is written.
//!
//! Where each part only names properties, and no two the same, their intersection is one object with all of them. The
//! crate would copy the base, and cannot where the base names what is made of it.

use super::words::{OWN, PARTS, REFUSED};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Parts within parts.
const MAX_DEPTH: usize = 64;

#[derive(Default)]
pub struct Plain<'a> {
    /// Whether a part says that it is an object.
    pub is_object: bool,
    pub properties: Vec<(&'a str, &'a Value)>,
    pub required: Vec<&'a str>,
    names: HashSet<&'a str>,
    /// What references named: a part that comes again says nothing new.
    seen: HashSet<*const Value>,
    /// Whether it is put together, and of such parts.
    pub is_one: bool,
    /// Schemas and names that were looked at.
    pub looked_at: usize,
}

impl<'a> Plain<'a> {
    pub fn of(
        object: &'a Map<String, Value>,
        target: impl Fn(&str) -> Option<&'a Value>,
    ) -> Plain<'a> {
        let all_of = object.get("allOf").and_then(Value::as_array);
        let own = OWN.iter().any(|key| object.contains_key(*key));
        let reference = object.contains_key("$ref");
        let parts = all_of.map_or(0, Vec::len) + usize::from(own) + usize::from(reference);
        let mut plain = Plain::default();
        plain.is_one = parts > 1 && plain.add(object, &target, 0);
        plain
    }

    fn add(
        &mut self,
        object: &'a Map<String, Value>,
        target: &impl Fn(&str) -> Option<&'a Value>,
        depth: usize,
    ) -> bool {
        self.looked_at += 1 + object.len();
        depth < MAX_DEPTH
            && object.iter().all(|(key, value)| match (&**key, value) {
                ("type", Value::String(kind)) => {
                    self.is_object = true;
                    kind == "object"
                }
                ("properties", Value::Object(all)) => all.iter().all(|(name, one)| {
                    self.looked_at += 1;
                    self.properties.push((name, one));
                    self.names.insert(name)
                }),
                ("required", Value::Array(all)) => all.iter().all(|name| {
                    self.required.extend(name.as_str());
                    name.is_string()
                }),
                ("additionalProperties", Value::Bool(true)) => true,
                ("allOf", Value::Array(all)) => all.iter().all(|one| match one {
                    Value::Object(one) => self.add(one, target, depth + 1),
                    _ => false,
                }),
                ("$ref", Value::String(name)) => match target(name) {
                    Some(found @ Value::Object(one)) => {
                        !self.seen.insert(found) || self.add(one, target, depth + 1)
                    }
                    _ => false,
                },
                (key, _) => !OWN.contains(&key) && !PARTS.contains(&key) && !REFUSED.contains(&key),
            })
    }
}
