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
    /// vLLM's: variables of the template, as enable_thinking.
    chat_template_kwargs: Option<Box<RawValue>>,
    #[serde(flatten)]
    asked: Asked,
}

pub async fn create(State(app): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let (call, body): (Call, ChatAsked) = Call::begin(&app, &headers, body).await?;
    if body.messages.is_empty() {
        return Err(Failure::field("messages", "is empty"));
    }
    // Put together as text: templates print tools with their keys in this order.
    let messages: Vec<&str> = body.messages.iter().map(|message| message.get()).collect();
    let mut item = format!("{{\"messages\":[{}]", messages.join(","));
    for (name, value) in [
        ("tools", body.tools),
        ("variables", body.chat_template_kwargs),
    ] {
        if let Some(value) = value {
            item += &format!(",\"{name}\":{}", value.get());
        }
    }
    item.push('}');
    write(call, Api::Chat, body.asked, vec![item]).await
}
