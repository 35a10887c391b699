//! `/v1/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::api::Api;
use super::calls::Calls;
use super::writing::write;
use crate::app::{Call, Shared};
use crate::failure::Result;

#[derive(Debug, Deserialize)]
struct CompletionAsked {
    prompt: Prompt,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a prompt is a text or a list of texts; token ids are not served"
)]
enum Prompt {
    One(String),
    Many(Vec<String>),
}

pub async fn create(State(app): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let asked: CompletionAsked = fields.read()?;
    fields.refuse(&["suffix", "tools"])?;
    fields.refuse_off(&["add_special_tokens"])?;
    let prompts = match asked.prompt {
        Prompt::One(prompt) => vec![prompt],
        Prompt::Many(prompts) => prompts,
    };
    app.check_count("prompt", prompts.len())?;
    let calls = Calls::none(&fields)?;
    write(call, Api::Completions, &fields, prompts, calls).await
}
