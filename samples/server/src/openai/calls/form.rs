//! The form of an answer with calls: a grammar with a line for each function, so that what is wrong with a line is wrong
//! with the parameters of its function.
//!
//! ```text
//!   forced       call more*                  the choice is "required", or a function
//!   or_answer    call more* | answer         it is "auto", and there is a response_format
//!   among_text   (text marker call)* text    it is "auto", and a function is strict
//! ```

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{from_str, json};

use super::functions::Function;
use crate::fields::Fields;
use crate::openai::form::Rule;
use crate::tools::format::{Format, Parts};

/// Calls of these functions, one or several, and nothing else.
pub fn forced(format: &Format, functions: &[&Function], several: bool) -> Rule {
    let parts = format.parts();
    let (mut grammar, places) = calls(format, &parts, functions, &parts.open, |_| true);
    grammar += &any(functions);
    grammar += &format!("start: {}\n", sequence(&parts, several));
    Rule::of_lines("tool_choice", grammar, places)
}

/// Calls, or the answer that `response_format` asks for.
pub fn or_answer(format: &Format, functions: &[&Function], several: bool, answer: &Rule) -> Rule {
    let parts = format.parts();
    let (mut grammar, mut places) =
        calls(format, &parts, functions, &parts.open, |one| one.is_strict);
    places.push(answer.field.to_string());
    grammar += &format!("answer: %json {}\n", in_line(&answer.text));
    grammar += &any(functions);
    grammar += &format!("start: {} | answer\n", sequence(&parts, several));
    Rule::of_lines(answer.field, grammar, places)
}

/// Calls behind their markers in a text that has no other form.
pub fn among_text(format: &Format, functions: &[&Function], several: bool) -> Rule {
    let parts = format.parts();
    let (mut grammar, places) = calls(format, &parts, functions, format.line, |one| one.is_strict);
    grammar += &any(functions);
    // Of the markers that there are one character alone is more than itself.
    let marker = format.marker.replace('|', "\\|");
    grammar += &format!("before[lazy]: /(.|\\n)*{marker}/\nTEXT: /(.|\\n)*/\n");
    grammar += match several {
        true => "start: (before call)* TEXT\n",
        false => "start: before call | TEXT\n",
    };
    Rule::of_lines("tools", grammar, places)
}

/// A line for each function, and their places. Arguments that need not be kept to
/// their schema are any object.
fn calls(
    format: &Format,
    parts: &Parts,
    functions: &[&Function],
    open: &str,
    is_kept: impl Fn(&Function) -> bool,
) -> (String, Vec<String>) {
    let (mut grammar, mut places) = (String::new(), Vec::new());
    let close = quoted(&format!("}}{}", parts.close));
    for (number, function) in functions.iter().enumerate() {
        let head = quoted(&format!("{open}{}", format.head(&function.name)));
        let schema = match is_kept(function) {
            true => arguments(function.parameters.as_deref()),
            false => r#"{"type": "object"}"#.to_string(),
        };
        grammar += &format!("call{number}: {head} %json {schema} {close}\n");
        places.push(format!("{}.parameters", function.place));
    }
    (grammar, places)
}

/// Any of the calls.
fn any(functions: &[&Function]) -> String {
    let calls: Vec<String> = (0..functions.len()).map(|n| format!("call{n}")).collect();
    format!("call: {}\n", calls.join(" | "))
}

fn sequence(parts: &Parts, several: bool) -> String {
    let more = match several {
        true => format!(" ({} call)*", quoted(parts.between)),
        false => String::new(),
    };
    format!(
        "{} call{more} {}",
        quoted(&parts.first),
        quoted(&parts.last)
    )
}

/// JSON without ends of lines, which are not within its texts.
fn in_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
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
        text += &format!(",{}:{}", json!(name), in_line(value.get()));
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, Kind};
    use crate::tools::format::FORMATS;

    fn schema(parameters: &str) -> String {
        arguments(Some(
            &RawValue::from_string(parameters.to_string()).unwrap(),
        ))
    }

    #[test]
    fn arguments_are_an_object_without_names_that_nobody_gave() {
        let closed = r#""type":"object","additionalProperties":false"#;
        for (given, expected) in [
            ("{}", format!("{{{closed}}}")),
            (
                r#"{"properties": {"b": {}, "a": {"type": "string"}}, "required": ["a"]}"#,
                format!(
                    r#"{{{closed},"properties":{{"b": {{}}, "a": {{"type": "string"}}}},"required":["a"]}}"#
                ),
            ),
            (
                "{\"type\": [\"object\", \"null\"],\n\"properties\":\r\n{}}",
                format!(r#"{{{closed},"properties":{{}}}}"#),
            ),
            // What says itself which names there are, and what would be left without one that it needs.
            (
                r#"{"properties": {}, "additionalProperties": {"type": "string"}}"#,
                r#"{"type":"object","properties":{},"additionalProperties":{"type": "string"}}"#
                    .into(),
            ),
            (
                r##"{"properties": {}, "$ref": "#/$defs/A"}"##,
                r##"{"type":"object","properties":{},"$ref":"#/$defs/A"}"##.into(),
            ),
            (
                r#"{"properties": {}, "required": ["a"]}"#,
                r#"{"type":"object","properties":{},"required":["a"]}"#.into(),
            ),
            (r#"{"type": "object"}"#, r#"{"type":"object"}"#.into()),
        ] {
            assert_eq!(schema(given), expected, "{given}");
        }
    }

    #[test]
    fn each_function_has_a_line() {
        let function = |name: &str, is_strict| Function {
            name: name.into(),
            parameters: RawValue::from_string(r#"{"properties": {}}"#.into()).ok(),
            is_strict,
            place: format!("tools[{name}].function"),
        };
        let functions = [function("5", true), function("7", false)];
        let functions: Vec<&Function> = functions.iter().collect();
        let named = |name| FORMATS.iter().find(|format| format.name == name).unwrap();
        let (hermes, json) = (named("hermes"), named("json"));
        for rule in [
            forced(hermes, &functions, true),
            among_text(hermes, &functions, true),
            forced(json, &functions, false),
        ] {
            for (line, function) in rule.text.lines().zip(&functions) {
                assert!(line.contains(&format!(r#"\"name\": \"{}\""#, function.name)));
            }
            for (line, field) in [
                (1, "tools[5].function.parameters"),
                (2, "tools[7].function.parameters"),
            ] {
                let told = Failure::new(
                    Kind::Invalid,
                    format!("option grammar: line {line}, column 3: why"),
                );
                let named = rule.name(told);
                assert_eq!(
                    (named.field.as_deref(), &*named.message),
                    (Some(field), "why")
                );
            }
            let other = Failure::new(Kind::Invalid, "option grammar: line 9: why");
            assert_eq!(rule.name(other).field.as_deref(), Some(rule.field));
        }
        let count = |rule: Rule, what: &str| rule.text.matches(what).count();
        assert_eq!(
            count(forced(json, &functions, true), "additionalProperties"),
            2
        );
        assert_eq!(
            count(among_text(hermes, &functions, true), "additionalProperties"),
            1
        );
    }
}
