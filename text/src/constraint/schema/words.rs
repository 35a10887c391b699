//! The words of a schema.

use serde_json::{Map, Value};

/// Those whose values are intersected with each other, and with the others together.
pub const PARTS: [&str; 6] = ["const", "enum", "allOf", "anyOf", "oneOf", "$ref"];

/// Those that are one part together.
pub const OWN: [&str; 21] = [
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

/// Those that the crate refuses, by their names.
pub const REFUSED: [&str; 16] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "uniqueItems",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
];

/// Formats that say nothing of how a text looks, or are those of numbers.
pub const FORMLESS: [&str; 10] = [
    "int32",
    "int64",
    "float",
    "double",
    "password",
    "binary",
    "byte",
    "path",
    "file-path",
    "directory-path",
];

/// All types, as the crate takes them where none is named.
pub const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// The one of these that a value is of.
pub fn type_of_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Schemas by name.
pub fn schemas<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    object.get(key).and_then(Value::as_object)
}
