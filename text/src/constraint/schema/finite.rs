//! Schemas that have no value, since each would be a part of another one, and that one of the next.
//!
//! The crate would let a text begin there that nothing ends.

use super::words::{schemas, TYPES};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Puts `false` in the place of references to them. An error when the whole schema is one.
pub fn drop_endless(schema: &mut Value) -> Result<()> {
    let Value::Object(whole) = &*schema else {
        return Ok(());
    };
    let defs = schemas(whole, "$defs");
    let places: Vec<(String, &Value)> = std::iter::once(("#".to_string(), &*schema))
        .chain(
            defs.into_iter()
                .flatten()
                .map(|(name, one)| (format!("#/$defs/{name}"), one)),
        )
        .collect();
    // Names of those that have a value.
    let mut finite: HashSet<&str> = HashSet::new();
    loop {
        let before = finite.len();
        // What a place names mostly stands behind it.
        for (name, one) in places.iter().rev() {
            if !finite.contains(&**name) && is_finite(one, &|name| finite.contains(name)) {
                finite.insert(name);
            }
        }
        if finite.len() == before {
            break;
        }
    }
    if !finite.contains("#") && is_finite(schema, &|_| true) {
        return Err(Error::argument(
            "no value of it has an end: each is a part of another one",
        ));
    }
    let endless: HashSet<String> = places
        .iter()
        .filter(|(name, _)| !finite.contains(&**name))
        .map(|(name, _)| name.clone())
        .collect();
    if !endless.is_empty() {
        drop_references(schema, &endless);
    }
    Ok(())
}

/// As far as it can be seen without intersections. `has`: of what a reference names.
fn is_finite(schema: &Value, has: &dyn Fn(&str) -> bool) -> bool {
    let Value::Object(object) = schema else {
        return schema != &Value::Bool(false);
    };
    let parts = object.iter().all(|(key, value)| match (&**key, value) {
        ("$ref", Value::String(name)) => has(name),
        ("allOf", Value::Array(all)) => all.iter().all(|one| is_finite(one, has)),
        ("anyOf" | "oneOf", Value::Array(all)) => all.iter().any(|one| is_finite(one, has)),
        _ => true,
    });
    parts
        && match object.get("type") {
            Some(Value::String(kind)) => is_finite_of(kind, object, has),
            Some(Value::Array(kinds)) => {
                let mut kinds = kinds.iter().filter_map(Value::as_str);
                kinds.any(|kind| is_finite_of(kind, object, has))
            }
            _ => TYPES.iter().any(|kind| is_finite_of(kind, object, has)),
        }
}

fn is_finite_of(kind: &str, object: &Map<String, Value>, has: &dyn Fn(&str) -> bool) -> bool {
    let is_finite = |one: &Value| is_finite(one, has);
    match kind {
        "object" => {
            let names = object.get("required").and_then(Value::as_array);
            let mut names = names.into_iter().flatten().filter_map(Value::as_str);
            let properties = schemas(object, "properties");
            names.all(|name| {
                properties
                    .and_then(|all| all.get(name))
                    .is_none_or(is_finite)
            })
        }
        "array" => {
            let least = object.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let first = object.get("prefixItems").and_then(Value::as_array);
            let first = first.map_or(&[][..], |all| all);
            let most = usize::try_from(least).unwrap_or(usize::MAX);
            let items = object.get("items").filter(|_| most > first.len());
            first.iter().take(most).chain(items).all(is_finite)
        }
        _ => true,
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
}
