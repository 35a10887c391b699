//! `/v1/chat/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

use super::writing::{write, Api, Asked};
use crate::app::{Call, Shared};
use crate::failure::{Failure, Result};

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
    /// What the library has no way to do.
    chat_template: Option<Box<RawValue>>,
    echo: Option<bool>,
    add_special_tokens: Option<bool>,
    #[serde(flatten)]
    asked: Asked,
}

pub async fn create(State(app): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let (call, body): (Call, ChatAsked) = Call::begin(&app, &headers, body).await?;
    if body.messages.is_empty() {
        return Err(Failure::field("messages", "is empty"));
    }
    for (field, set) in [
        ("chat_template", body.chat_template.is_some()),
        ("echo", body.echo == Some(true)),
        ("add_special_tokens", body.add_special_tokens == Some(true)),
    ] {
        if set {
            return Err(Failure::field(field, "is not served"));
        }
    }
    // Put together as text: templates print tools with their keys in this order.
    let messages: Vec<Cow<str>> = body
        .messages
        .iter()
        .map(|message| one_text(message))
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
    write(call, Api::Chat, body.asked, vec![item]).await
}

/// An object's fields in their order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for Fields<'a> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl<'a> Visitor<'a> for Reader {
            type Value = Fields<'a>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a message is an object")
            }
            fn visit_map<A: MapAccess<'a>>(
                self,
                mut map: A,
            ) -> std::result::Result<Fields<'a>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Reader)
    }
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// A message whose content is a list of parts, with the texts of these in one: most templates read no parts. What is
/// no such message is left to the template, and so are its other fields.
fn one_text(message: &RawValue) -> Result<Cow<'_, str>> {
    let as_it_is = Ok(Cow::Borrowed(message.get()));
    let Ok(Fields(fields)) = serde_json::from_str(message.get()) else {
        return as_it_is;
    };
    let content = fields.iter().find(|(name, _)| name == "content");
    let Some(Ok(parts)) = content
        .filter(|(_, value)| value.get().starts_with('['))
        .map(|(_, value)| serde_json::from_str::<Vec<Part>>(value.get()))
    else {
        return as_it_is;
    };
    let mut texts = Vec::new();
    for part in parts {
        match (part.kind.as_str(), part.text) {
            ("text" | "input_text" | "output_text", Some(text)) => texts.push(text),
            (kind, _) => {
                let what = format!("have a part of type \"{kind}\"; only text is served");
                return Err(Failure::field("messages", what));
            }
        }
    }
    let text = serde_json::Value::from(texts.join("\n")).to_string();
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| {
            let value = if name == "content" {
                &text
            } else {
                value.get()
            };
            format!("{}:{value}", serde_json::Value::from(name.as_str()))
        })
        .collect();
    Ok(Cow::Owned(format!("{{{}}}", fields.join(","))))
}
