//! Whether a value is of a schema, by the words of JSON Schema and not as the crate reads them.

use fancy_regex::Regex;
use serde_json::Value;

fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(text).unwrap()
}

/// Numbers are the same however they are written.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_in = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(is_in)
        }
        (a, b) => a == b,
    }
}

/// What is wrong with a value, by the words of JSON Schema.
pub fn fault(schema: &Value, value: &Value, root: &Value) -> Option<String> {
    let Value::Object(keys) = schema else {
        return (schema == &Value::Bool(false)).then(|| format!("{value} of nothing"));
    };
    let fits = |schema: &Value, value: &Value| fault(schema, value, root).is_none();
    let number = value.as_f64();
    let text = value.as_str();
    let length = text.map(|text| text.chars().count() as f64);
    let items = value.as_array();
    let object = value.as_object();
    let names = |key: &str| schema[key].as_object();
    let holds = |key: &str, rule: &Value| -> bool {
        let limit = rule.as_f64().unwrap_or_default();
        match key {
            "type" => {
                let one = |kind: &Value| match kind.as_str().unwrap() {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "integer" => number.is_some_and(|n| n.fract() == 0.0),
                    "number" => number.is_some(),
                    "string" => text.is_some(),
                    "array" => items.is_some(),
                    _ => object.is_some(),
                };
                rule.as_array()
                    .map_or_else(|| one(rule), |kinds| kinds.iter().any(one))
            }
            "const" => is_same(value, rule),
            "enum" => rule
                .as_array()
                .unwrap()
                .iter()
                .any(|one| is_same(value, one)),
            "$ref" => {
                let path = rule.as_str().unwrap()[1..].replace("%25", "%");
                fits(root.pointer(&path).unwrap(), value)
            }
            "anyOf" | "oneOf" => rule.as_array().unwrap().iter().any(|one| fits(one, value)),
            "allOf" => rule.as_array().unwrap().iter().all(|one| fits(one, value)),
            "minimum" => number.is_none_or(|n| n >= limit),
            "maximum" => number.is_none_or(|n| n <= limit),
            "exclusiveMinimum" => number.is_none_or(|n| n > limit),
            "exclusiveMaximum" => number.is_none_or(|n| n < limit),
            "multipleOf" => number.is_none_or(|n| {
                let times = n / limit;
                (times - times.round()).abs() < 1e-6
            }),
            "minLength" => length.is_none_or(|n| n >= limit),
            "maxLength" => length.is_none_or(|n| n <= limit),
            "pattern" => text.is_none_or(|text| matches(rule.as_str().unwrap(), text)),
            "minItems" => items.is_none_or(|all| all.len() as f64 >= limit),
            "maxItems" => items.is_none_or(|all| all.len() as f64 <= limit),
            "items" if rule.is_array() => items.is_none_or(|all| {
                all.iter()
                    .zip(rule.as_array().unwrap())
                    .all(|(one, rule)| fits(rule, one))
            }),
            "additionalItems" => items.is_none_or(|all| {
                let before = schema["items"].as_array().map_or(usize::MAX, Vec::len);
                all.iter().skip(before).all(|one| fits(rule, one))
            }),
            "items" => items.is_none_or(|all| {
                let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
                all.iter().skip(before).all(|one| fits(rule, one))
            }),
            "prefixItems" => items.is_none_or(|all| {
                all.iter()
                    .zip(rule.as_array().unwrap())
                    .all(|(one, rule)| fits(rule, one))
            }),
            "properties" => object.is_none_or(|all| {
                all.iter()
                    .all(|(name, one)| rule.get(name).is_none_or(|rule| fits(rule, one)))
            }),
            "required" => object.is_none_or(|all| {
                rule.as_array()
                    .unwrap()
                    .iter()
                    .all(|name| all.contains_key(name.as_str().unwrap()))
            }),
            "patternProperties" => object.is_none_or(|all| {
                all.iter().all(|(name, one)| {
                    let rules = rule.as_object().unwrap().iter();
                    rules
                        .filter(|(pattern, _)| matches(pattern, name))
                        .all(|(_, rule)| fits(rule, one))
                })
            }),
            "additionalProperties" => object.is_none_or(|all| {
                let is_named = |name: &str| {
                    let patterns = names("patternProperties").into_iter().flatten();
                    names("properties").is_some_and(|named| named.contains_key(name))
                        || patterns
                            .into_iter()
                            .any(|(pattern, _)| matches(pattern, name))
                };
                all.iter()
                    .all(|(name, one)| is_named(name) || fits(rule, one))
            }),
            "minProperties" => object.is_none_or(|all| all.len() as f64 >= limit),
            "maxProperties" => object.is_none_or(|all| all.len() as f64 <= limit),
            _ => true,
        }
    };
    let broken = keys.iter().find(|(key, rule)| !holds(key, rule));
    broken.map(|(key, rule)| format!("{value}: {key} is {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_finds_what_is_wrong() {
        for (schema, value) in [
            (json!({"type": "object", "required": ["a"]}), json!({})),
            (
                json!({"properties": {"a": {"enum": [1, 2]}}}),
                json!({"a": 3}),
            ),
            (
                json!({"additionalProperties": false, "properties": {"a": {}}}),
                json!({"b": 3}),
            ),
            (
                json!({"items": {"$ref": "#/d"}, "d": {"multipleOf": 2}}),
                json!([2, 3]),
            ),
            (json!({"pattern": "^a$"}), json!("ab")),
            (json!({"maxLength": 1}), json!("ab")),
        ] {
            assert!(fault(&schema, &value, &schema).is_some(), "{value}");
        }
    }
}
