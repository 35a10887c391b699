//! What a text stands for, where a model writes values without their types: a string, unless the schema of the argument
//! says otherwise.

use serde_json::value::RawValue;
use serde_json::{from_str, json, Map, Value};

use super::python;

/// The types that a schema lets a value have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Types {
    string: bool,
    number: bool,
    integer: bool,
    boolean: bool,
    null: bool,
    array: bool,
    object: bool,
}

impl Types {
    fn add_name(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "number" => self.number = true,
            "integer" => self.integer = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(_) => self.string = true,
            Value::Number(_) => self.number = true,
            Value::Bool(_) => self.boolean = true,
            Value::Null => self.null = true,
            Value::Array(_) => self.array = true,
            Value::Object(_) => self.object = true,
        }
    }

    fn add_schema(&mut self, schema: &Value) {
        match &schema["type"] {
            Value::String(name) => self.add_name(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .for_each(|name| self.add_name(name)),
            // What it names says it as well.
            _ => {
                for value in schema["enum"].as_array().into_iter().flatten() {
                    self.add_value(value);
                }
                if let Some(value) = schema.get("const") {
                    self.add_value(value);
                }
                self.array |= schema.get("items").is_some();
                self.object |= schema.get("properties").is_some();
            }
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            for schema in schema[word].as_array().into_iter().flatten() {
                self.add_schema(schema);
            }
        }
    }

    fn have(&self, value: &Value) -> bool {
        match value {
            Value::String(_) => self.string,
            Value::Number(number) => self.number || self.integer && !number.is_f64(),
            Value::Bool(_) => self.boolean,
            Value::Null => self.null,
            Value::Array(_) => self.array,
            Value::Object(_) => self.object,
        }
    }
}

/// The schemas of the arguments of a function.
pub fn properties(parameters: Option<&RawValue>) -> Map<String, Value> {
    let schema = parameters.and_then(|schema| from_str::<Value>(schema.get()).ok());
    match schema.map(|mut schema| schema["properties"].take()) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

/// As JSON: what the text says, in JSON or as Python writes it, where it is of a type that its schema has; else a string.
pub fn value(text: &str, schema: Option<&Value>) -> String {
    let mut types = Types::default();
    if let Some(schema) = schema {
        types.add_schema(schema);
    }
    if types == Types::default() {
        types.string = true;
    }
    let trimmed = text.trim();
    let is_string = trimmed.starts_with(['"', '\'']);
    let said = [Some(trimmed.to_string()), python::literal(trimmed)];
    let mut said = said.into_iter().flatten().filter(|_| !is_string);
    let is_meant = |said: &String| match from_str::<Value>(said) {
        Ok(value) => types.have(&value) || !types.string,
        Err(_) => false,
    };
    said.find(is_meant)
        .unwrap_or_else(|| json!(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_of_the_type_that_its_schema_has() {
        for (schema, text, expected) in [
            ("{\"type\": \"string\"}", "5", "\"5\""),
            (
                "{\"type\": \"string\"}",
                " a\n\"b\" ",
                "\" a\\n\\\"b\\\" \"",
            ),
            ("{\"type\": \"integer\"}", " 5 ", "5"),
            (
                "{\"type\": \"integer\"}",
                "123456789012345678",
                "123456789012345678",
            ),
            // What is of another type than it has to be is told as it was meant.
            ("{\"type\": \"integer\"}", "5.5", "5.5"),
            ("{\"type\": \"integer\"}", "five", "\"five\""),
            ("{\"type\": [\"integer\", \"string\"]}", "5.5", "\"5.5\""),
            ("{\"type\": \"number\"}", "-2.50e3", "-2.50e3"),
            ("{\"type\": \"number\"}", "NaN", "\"NaN\""),
            ("{\"type\": \"boolean\"}", "true", "true"),
            ("{\"type\": \"boolean\"}", "False", "false"),
            ("{\"type\": [\"string\", \"null\"]}", "null", "null"),
            ("{\"type\": [\"string\", \"null\"]}", "None", "null"),
            ("{\"type\": [\"string\", \"null\"]}", "nil", "\"nil\""),
            ("{\"type\": \"array\"}", "[1, \"a\"]", "[1, \"a\"]"),
            ("{\"type\": \"array\"}", "['a', True]", "[\"a\", true]"),
            (
                "{\"type\": \"object\"}",
                "{\"a\": {\"b\": null}}",
                "{\"a\": {\"b\": null}}",
            ),
            ("{\"type\": \"object\"}", "{broken", "\"{broken\""),
            (
                "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}",
                "None",
                "null",
            ),
            ("{\"enum\": [1, 2]}", "2", "2"),
            ("{\"enum\": [\"1\", \"2\"]}", "2", "\"2\""),
            ("{\"const\": true}", "true", "true"),
            ("{\"items\": {}}", "[]", "[]"),
            ("{}", "5", "\"5\""),
            ("true", "5", "\"5\""),
            ("{\"type\": \"integer\"}", "\"5\"", "\"\\\"5\\\"\""),
        ] {
            let schema: Value = from_str(schema).unwrap();
            assert_eq!(value(text, Some(&schema)), expected, "{schema} {text}");
        }
        assert_eq!(value("[1]", None), "\"[1]\"");
    }
}
