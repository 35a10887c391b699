//! The form of an answer that has to be a call: a grammar with a line for each function, so that what is wrong with a
//! line is wrong with the parameters of its function.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{from_str, json};

use super::asked::Function;
use super::format::Format;
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::openai::form::Rule;

/// Calls of these functions, one or several.
pub fn of(format: &Format, functions: &[&Function], several: bool) -> Rule {
    let parts = format.parts();
    let mut grammar = String::new();
    let mut places = Vec::new();
    for (number, function) in functions.iter().enumerate() {
        let head = quoted(&format!("{}{}", parts.open, format.head(&function.name)));
        let close = quoted(&format!("}}{}", parts.close));
        let schema = arguments(function.parameters.as_deref());
        grammar += &format!("call{number}: {head} %json {schema} {close}\n");
        places.push(format!("{}.parameters", function.place));
    }
    let calls: Vec<String> = (0..functions.len()).map(|n| format!("call{n}")).collect();
    grammar += &format!("call: {}\n", calls.join(" | "));
    let (first, last) = (quoted(parts.first), quoted(parts.last));
    let more = match several {
        true => format!(" ({} call)*", quoted(parts.between)),
        false => String::new(),
    };
    grammar += &format!("start: {first} call{more} {last}\n");
    Rule::of_lines("tool_choice", grammar, places)
}

/// A text of JSON is one of the grammar, too; none is needed of an empty one.
fn quoted(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => json!(text).to_string(),
    }
}

/// What makes a schema one of something else than an object, in words of a schema that say which members there are.
const OTHERS: [&str; 7] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
];

/// A schema of objects. A function takes no other arguments than those it names, unless it says so: a model that could
/// go on with names of its own would seldom come to an end.
fn arguments(parameters: Option<&RawValue>) -> String {
    let fields = parameters.and_then(|value| from_str::<Fields<&RawValue>>(value.get()).ok());
    let Some(Fields(fields)) = fields else {
        return r#"{"type": "object", "properties": {}, "additionalProperties": false}"#
            .to_string();
    };
    let has = |name: &str| fields.iter().any(|(field, _)| field == name);
    let value = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.get())
    };
    let names = value("properties").map(from_str::<Fields<IgnoredAny>>);
    let required = value("required").and_then(|value| from_str::<Vec<String>>(value).ok());
    let is_closed = match names {
        Some(Ok(Fields(names))) => {
            let is_named = |name: &String| names.iter().any(|(known, _)| known == name);
            !OTHERS.iter().any(|word| has(word)) && required.iter().flatten().all(is_named)
        }
        Some(Err(_)) => false,
        None => fields.is_empty(),
    };
    let mut text = r#"{"type":"object""#.to_string();
    if is_closed {
        text += r#","additionalProperties":false"#;
    }
    for (name, value) in fields.iter().filter(|(name, _)| name != "type") {
        // In one line: there are no ends of lines within texts of JSON.
        let value = value.get().replace(['\n', '\r'], " ");
        text += &format!(",{}:{value}", json!(name));
    }
    text + "}"
}

/// Arguments are an object.
pub fn check_object(place: &str, parameters: &RawValue) -> Result<()> {
    let Ok(Fields(fields)) = from_str::<Fields<&RawValue>>(parameters.get()) else {
        return Err(Failure::field(place.to_string(), "is not an object"));
    };
    let kind = fields.iter().find(|(name, _)| name == "type");
    let Some((_, kind)) = kind else {
        return Ok(());
    };
    let kinds = match from_str::<Option<String>>(kind.get()) {
        Ok(kind) => Ok(Vec::from_iter(kind)),
        Err(_) => from_str::<Vec<String>>(kind.get()),
    };
    match kinds {
        Ok(kinds) if kinds.is_empty() || kinds.iter().any(|kind| kind == "object") => Ok(()),
        _ => {
            let kind: String = kind.get().chars().take(60).collect();
            let message = format!("is {kind}; arguments are of type \"object\"");
            Err(Failure::field(format!("{place}.type"), message))
        }
    }
}
