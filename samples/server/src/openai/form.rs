//! What a text must look like, as OpenAI's `response_format` and vLLM's fields ask for it.
//!
//! ```text
//!   response_format {"type": "json_object"}                         json_schema {"type": "object"}
//!   response_format {"type": "json_object", "schema": {...}}        json_schema, as llama.cpp and others have it
//!   response_format {"type": "json_schema", "json_schema": {...}}   json_schema, its member schema
//!   guided_json, structured_outputs.json                            json_schema, an object or its text
//!   guided_regex, guided_grammar, ...                               regex, grammar
//!   guided_choice, ...                                              a grammar of these texts
//! ```

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};

/// Texts of `guided_choice`, and their bytes together.
const CHOICES: usize = 1000;
const CHOICE_BYTES: usize = 16 << 10;

/// Of the body of a request. Schemas stay as they are written: the members of an object come in their order.
#[derive(Debug, Default, Deserialize)]
pub struct Form {
    response_format: Option<Box<RawValue>>,
    guided_json: Option<Box<RawValue>>,
    guided_regex: Option<String>,
    guided_grammar: Option<String>,
    guided_choice: Option<Vec<String>>,
    structured_outputs: Option<Structured>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Structured {
    json: Option<Box<RawValue>>,
    regex: Option<String>,
    grammar: Option<String>,
    choice: Option<Vec<String>>,
    json_object: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<Schema>,
    /// Beside json_object.
    schema: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Schema {
    schema: Option<Box<RawValue>>,
}

/// What a field asks for: an option of the library that keeps a text to it, with its value.
#[derive(Debug, PartialEq)]
pub struct Rule {
    pub field: &'static str,
    /// Of a field that has several.
    member: Option<&'static str>,
    pub option: &'static str,
    pub text: String,
    /// Of a grammar: the places in the request that its first lines are made of.
    places: Vec<String>,
}

impl Rule {
    fn new(field: &'static str, option: &'static str, text: impl Into<String>) -> Rule {
        Rule {
            field,
            member: None,
            option,
            text: text.into(),
            places: Vec::new(),
        }
    }

    /// A grammar that is made of what stands in several places, a line for each and some more.
    pub fn of_lines(field: &'static str, grammar: String, places: Vec<String>) -> Rule {
        Rule {
            places,
            ..Rule::new(field, "grammar", grammar)
        }
    }

    fn of(self, member: &'static str) -> Rule {
        Rule {
            member: Some(member),
            ..self
        }
    }

    pub fn is_response_format(&self) -> bool {
        self.field == "response_format"
    }

    /// Why it cannot be kept to, as well as another one.
    fn against(&self, other: &Rule) -> Failure {
        let message = match (self.member, other.member) {
            (Some(one), Some(two)) => {
                format!("has members {two} and {one}, which ask for different forms of the text")
            }
            _ => format!("asks for one form of the text, {} for another", other.field),
        };
        Failure::field(self.field, message)
    }

    /// What the library says of the option is wrong with the field.
    pub fn name(&self, failure: Failure) -> Failure {
        let told = format!("option {}", self.option);
        let line = failure.message.strip_prefix(&format!("{told}: line "));
        if let Some((place, message)) = line.and_then(|line| self.place(line)) {
            return Failure {
                field: Some(place.to_string().into()),
                message: message.to_string(),
                ..failure
            };
        }
        match failure.message.starts_with(&told) || failure.message.starts_with("the constraint's ")
        {
            true => Failure {
                field: Some(self.field.into()),
                ..failure
            },
            false => failure,
        }
    }

    /// The place that a line is made of, and what is said of it: "3: what" or "3, column 8: what".
    fn place<'a>(&self, line: &'a str) -> Option<(&str, &'a str)> {
        let (place, message) = line.split_once(": ")?;
        let number = place.split_once(',').map_or(place, |(number, _)| number);
        let number: usize = number.parse().ok()?;
        let place = self.places.get(number.checked_sub(1)?)?;
        Some((place, message))
    }
}

const OBJECT: &str = r#"{"type": "object"}"#;

impl Form {
    /// `calls`: the form of an answer that has to be a call.
    pub fn rule(&self, calls: Option<Rule>) -> Result<Option<Rule>> {
        let mut rules = Vec::from_iter(calls);
        if let Some(format) = &self.response_format {
            rules.extend(of_format(format)?);
        }
        rules.extend(of_schema("guided_json", &self.guided_json)?);
        rules.extend(of_text("guided_regex", "regex", &self.guided_regex));
        rules.extend(of_text("guided_grammar", "grammar", &self.guided_grammar));
        rules.extend(of_choices("guided_choice", &self.guided_choice)?);
        if let Some(asked) = &self.structured_outputs {
            let field = "structured_outputs";
            let object = Rule::new(field, "json_schema", OBJECT);
            for (member, rule) in [
                ("json", of_schema(field, &asked.json)?),
                ("regex", of_text(field, "regex", &asked.regex)),
                ("grammar", of_text(field, "grammar", &asked.grammar)),
                ("choice", of_choices(field, &asked.choice)?),
                (
                    "json_object",
                    asked.json_object.unwrap_or(false).then_some(object),
                ),
            ] {
                rules.extend(rule.map(|rule| rule.of(member)));
            }
        }
        let mut rules = rules.into_iter();
        match (rules.next(), rules.next()) {
            (Some(first), Some(second)) => Err(second.against(&first)),
            (rule, _) => Ok(rule),
        }
    }
}

fn of_format(format: &RawValue) -> Result<Option<Rule>> {
    let field = "response_format";
    let format: Format = serde_json::from_str(format.get())
        .map_err(|why| Failure::field(field, format!("is not understood: {why}")))?;
    let schema = match format.kind.as_str() {
        "text" => return Ok(None),
        "json_object" => match format.schema {
            Some(schema) => schema.get().to_string(),
            None => OBJECT.to_string(),
        },
        "json_schema" => match format.json_schema.and_then(|one| one.schema) {
            Some(schema) => schema.get().to_string(),
            None => return Err(Failure::field(field, "has no json_schema.schema")),
        },
        kind => {
            let message = format!("has type {kind:?}; served are text, json_object, json_schema");
            return Err(Failure::field(field, message));
        }
    };
    Ok(Some(Rule::new(field, "json_schema", schema)))
}

/// As JSON, or as a text that holds JSON.
fn of_schema(field: &'static str, schema: &Option<Box<RawValue>>) -> Result<Option<Rule>> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    let text = match serde_json::from_str::<String>(schema.get()) {
        Ok(text) => text,
        Err(_) => schema.get().to_string(),
    };
    if text.trim().is_empty() {
        return Err(Failure::field(
            field,
            "is an empty text, which is no schema",
        ));
    }
    Ok(Some(Rule::new(field, "json_schema", text)))
}

fn of_text(field: &'static str, option: &'static str, text: &Option<String>) -> Option<Rule> {
    let text = text.as_ref().filter(|text| !text.is_empty())?;
    Some(Rule::new(field, option, text))
}

fn of_choices(field: &'static str, choices: &Option<Vec<String>>) -> Result<Option<Rule>> {
    let Some(choices) = choices else {
        return Ok(None);
    };
    let bytes: usize = choices.iter().map(String::len).sum();
    if choices.is_empty() || choices.len() > CHOICES || bytes > CHOICE_BYTES {
        let message = format!(
            "has {} choices of {bytes} bytes together; from 1 to {CHOICES} of {CHOICE_BYTES} bytes are taken",
            choices.len()
        );
        return Err(Failure::field(field, message));
    }
    if choices.iter().any(String::is_empty) {
        return Err(Failure::field(field, "has an empty choice"));
    }
    // A text of JSON is one of the grammar, too.
    let texts = choices.iter().map(|text| {
        serde_json::json!(text)
            .to_string()
            .replace('\x7f', "\\u007f")
    });
    let grammar = format!("start: {}", texts.collect::<Vec<_>>().join(" | "));
    Ok(Some(Rule::new(field, "grammar", grammar)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    fn rule(body: &str) -> Result<Option<Rule>> {
        let fields: Fields = serde_json::from_str(body).unwrap();
        fields.read::<Form>()?.rule(None)
    }

    #[test]
    fn each_field_is_an_option() {
        for (body, key, text) in [
            (
                r#"{"response_format": {"type": "json_object"}}"#,
                "json_schema",
                OBJECT,
            ),
            (
                r#"{"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"b": 1, "a": 2}}}}"#,
                "json_schema",
                r#"{"b": 1, "a": 2}"#,
            ),
            (
                r#"{"response_format": {"type": "json_object", "schema": {"b": 1, "a": 2}}}"#,
                "json_schema",
                r#"{"b": 1, "a": 2}"#,
            ),
            (
                r#"{"guided_json": {"z": 1, "a": 2}}"#,
                "json_schema",
                r#"{"z": 1, "a": 2}"#,
            ),
            (
                r#"{"guided_json": "{\"z\": 1}"}"#,
                "json_schema",
                r#"{"z": 1}"#,
            ),
            (r#"{"guided_regex": "a+"}"#, "regex", "a+"),
            (
                r#"{"guided_grammar": "start: \"a\""}"#,
                "grammar",
                r#"start: "a""#,
            ),
            (
                r#"{"guided_choice": ["a", "b\"c\u007f"]}"#,
                "grammar",
                r#"start: "a" | "b\"c\u007f""#,
            ),
            (
                r#"{"structured_outputs": {"json": {"a": 1}}}"#,
                "json_schema",
                r#"{"a": 1}"#,
            ),
            (
                r#"{"structured_outputs": {"json_object": true}}"#,
                "json_schema",
                OBJECT,
            ),
            (
                r#"{"structured_outputs": {"choice": ["x"]}}"#,
                "grammar",
                r#"start: "x""#,
            ),
        ] {
            let rule = rule(body).unwrap().unwrap();
            assert_eq!((rule.option, &*rule.text), (key, text), "{body}");
            assert!(body.starts_with(&format!("{{\"{}", rule.field)));
        }
        for body in [
            "{}",
            r#"{"response_format": {"type": "text"}}"#,
            r#"{"response_format": null, "guided_json": null}"#,
            r#"{"guided_regex": "", "structured_outputs": {"json_object": false}}"#,
        ] {
            assert_eq!(rule(body).unwrap(), None, "{body}");
        }
    }

    #[test]
    fn what_is_wrong_names_its_field() {
        let many = format!(r#"{{"guided_choice": {:?}}}"#, vec!["a"; CHOICES + 1]);
        let long = format!(
            r#"{{"guided_choice": ["{}"]}}"#,
            "a".repeat(CHOICE_BYTES + 1)
        );
        for (body, field, why) in [
            (
                r#"{"response_format": {"type": "xml"}}"#,
                "response_format",
                "xml",
            ),
            (
                r#"{"response_format": {"type": "json_schema"}}"#,
                "response_format",
                "schema",
            ),
            (
                r#"{"response_format": "json"}"#,
                "response_format",
                "an object",
            ),
            (r#"{"guided_json": ""}"#, "guided_json", "empty"),
            (r#"{"guided_choice": []}"#, "guided_choice", "0 choices"),
            (
                r#"{"guided_choice": [""]}"#,
                "guided_choice",
                "empty choice",
            ),
            (many.as_str(), "guided_choice", "1001 choices"),
            (long.as_str(), "guided_choice", "16385 bytes"),
            (
                r#"{"structured_outputs": {"xml": 1}}"#,
                "structured_outputs",
                "xml",
            ),
            (
                r#"{"response_format": {"type": "json_object"}, "guided_regex": "a"}"#,
                "guided_regex",
                "response_format for another",
            ),
            (
                r#"{"structured_outputs": {"regex": "a", "json": {}}}"#,
                "structured_outputs",
                "has members json and regex",
            ),
            (
                r#"{"structured_outputs": {"regex": "a"}, "guided_regex": "a"}"#,
                "structured_outputs",
                "asks for one form of the text, guided_regex for another",
            ),
        ] {
            let failure = rule(body).unwrap_err();
            assert_eq!(failure.field.as_deref(), Some(field), "{body}: {failure:?}");
            assert!(failure.message.contains(why), "{body}: {failure:?}");
        }
    }
}
