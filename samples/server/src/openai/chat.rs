//! `/v1/chat/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

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
    let messages: Vec<&str> = body.messages.iter().map(|message| message.get()).collect();
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
