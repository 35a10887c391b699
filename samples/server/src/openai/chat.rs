//! `/v1/chat/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{from_str, Value};

use super::api::Api;
use super::calls::Calls;
use super::writing::write;
use crate::app::{Call, Shared};
use crate::failure::{Failure, Result};
use crate::fields::Fields;

#[derive(Debug, Deserialize)]
struct ChatAsked {
    /// As they came: the model's template reads them.
    messages: Vec<Box<RawValue>>,
    tools: Option<Box<RawValue>>,
    /// vLLM's, as what follows: variables of the template, as enable_thinking.
    chat_template_kwargs: Option<Box<RawValue>>,
    documents: Option<Box<RawValue>>,
    add_generation_prompt: Option<Box<RawValue>>,
    continue_final_message: Option<Box<RawValue>>,
}

/// What the library has no way to do.
const NOT_SERVED: [&str; 2] = ["chat_template", "add_special_tokens"];

pub async fn create(State(app): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let body: ChatAsked = fields.read()?;
    if body.messages.is_empty() {
        return Err(Failure::field("messages", "is empty"));
    }
    fields.refuse(&NOT_SERVED)?;
    let variables = body.chat_template_kwargs.as_ref();
    if variables.is_some_and(|value| from_str::<Fields<IgnoredAny>>(value.get()).is_err()) {
        return Err(Failure::field("chat_template_kwargs", "is not an object"));
    }
    let calls = Calls::of(&fields, call.app.calls)?;
    // Put together as text: templates print tools with their keys in this order.
    let messages: Vec<String> = body
        .messages
        .iter()
        .map(|message| for_template(message))
        .collect::<Result<_>>()?;
    let mut item = format!("{{\"messages\":[{}]", messages.join(","));
    for (name, value) in [
        ("tools", body.tools),
        ("variables", body.chat_template_kwargs),
        ("documents", body.documents),
        ("add_generation_prompt", body.add_generation_prompt),
        ("continue_final_message", body.continue_final_message),
    ] {
        if let Some(value) = value {
            item += &format!(",\"{name}\":{}", value.get());
        }
    }
    item.push('}');
    write(call, Api::Chat, &fields, vec![item], calls).await
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// A message as templates read it: the texts of a list of parts in one, no content of an assistant as an empty one, and
/// what tools are called with as an object, which OpenAI's clients send as a text. What is no such message is left to
/// the template, and so are its other fields.
fn for_template(message: &RawValue) -> Result<String> {
    let Ok(Fields(fields)) = from_str::<Fields<&RawValue>>(message.get()) else {
        return Ok(message.get().to_string());
    };
    let is_assistant = fields
        .iter()
        .any(|(name, value)| name == "role" && value.get() == "\"assistant\"");
    let mut changed = Vec::new();
    for (name, value) in &fields {
        let value = match name.as_str() {
            "content" if is_assistant && value.get() == "null" => "\"\"".to_string(),
            "content" => one_text(value)?,
            "tool_calls" if is_assistant => calls(value),
            _ => value.get().to_string(),
        };
        changed.push((name.as_str(), value));
    }
    if is_assistant && !changed.iter().any(|(name, _)| *name == "content") {
        changed.push(("content", "\"\"".to_string()));
    }
    Ok(object(changed))
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Most templates read no parts.
fn one_text(content: &RawValue) -> Result<String> {
    let Ok(parts) = from_str::<Vec<Part>>(content.get()) else {
        return Ok(content.get().to_string());
    };
    let mut texts = Vec::new();
    for part in parts {
        match (part.kind.as_str(), part.text) {
            ("text" | "input_text" | "output_text", Some(text)) => texts.push(text),
            (kind @ ("text" | "input_text" | "output_text"), None) => {
                let what = format!("have a part of type \"{kind}\" without a text");
                return Err(Failure::field("messages", what));
            }
            (kind, _) => {
                let what = format!("have a part of type \"{kind}\"; only text is served");
                return Err(Failure::field("messages", what));
            }
        }
    }
    Ok(Value::from(texts.join("\n")).to_string())
}

fn calls(calls: &RawValue) -> String {
    let Ok(list) = from_str::<Vec<&RawValue>>(calls.get()) else {
        return calls.get().to_string();
    };
    let list: Vec<String> = list
        .into_iter()
        .map(|call| {
            changed(call, "function", |function| {
                changed(function, "arguments", arguments)
            })
        })
        .collect();
    format!("[{}]", list.join(","))
}

/// An object with another value of one field.
fn changed(value: &RawValue, field: &str, change: impl Fn(&RawValue) -> String) -> String {
    let Ok(Fields(fields)) = from_str::<Fields<&RawValue>>(value.get()) else {
        return value.get().to_string();
    };
    object(fields.iter().map(|(name, value)| match name == field {
        true => (name.as_str(), change(value)),
        false => (name.as_str(), value.get().to_string()),
    }))
}

/// The object that a text spells, as it is spelled: templates print its keys in their order. No text stands for one
/// without keys.
fn arguments(value: &RawValue) -> String {
    match from_str::<Option<String>>(value.get()) {
        Ok(text) => match text.unwrap_or_default() {
            empty if empty.trim().is_empty() => "{}".to_string(),
            text if from_str::<Fields<IgnoredAny>>(&text).is_ok() => text,
            _ => value.get().to_string(),
        },
        Err(_) => value.get().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> String {
        let message = RawValue::from_string(message.to_string()).unwrap();
        for_template(&message).unwrap()
    }

    #[test]
    fn what_a_tool_is_called_with_is_an_object() {
        let message = |arguments: &str, content: &str| {
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"1","function":{{"name":"f","arguments":{arguments}}}}}]{content}}}"#
            )
        };
        let empty = r#","content":"""#;
        for (given, expected) in [
            (r#""{\"b\": 1, \"a\": [2]}""#, r#"{"b": 1, "a": [2]}"#),
            (r#"{"b":1}"#, r#"{"b":1}"#),
            (r#""""#, "{}"),
            ("null", "{}"),
            // No object: whatever a template makes of it.
            (r#""{\"b\":""#, r#""{\"b\":""#),
            (r#""[1]""#, r#""[1]""#),
        ] {
            assert_eq!(read(&message(given, "")), message(expected, empty));
            let null = message(given, r#","content":null"#);
            assert_eq!(read(&null), message(expected, empty));
        }
        let user = r#"{"role":"user","tool_calls":[{"function":{"arguments":"{}"}}]}"#;
        assert_eq!(read(user), user);
    }
}
