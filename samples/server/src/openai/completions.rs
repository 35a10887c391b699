//! `/v1/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::writing::{write, Api, Asked};
use crate::app::{Call, Shared};
use crate::failure::{Failure, Result};

#[derive(Debug, Deserialize)]
struct CompletionAsked {
    prompt: Prompt,
    #[serde(default)]
    echo: bool,
    suffix: Option<String>,
    #[serde(flatten)]
    asked: Asked,
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
    let (call, body): (Call, CompletionAsked) = Call::begin(&app, &headers, body).await?;
    if body.echo {
        return Err(Failure::field("echo", "is not served"));
    }
    if body.suffix.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(Failure::field("suffix", "is not served"));
    }
    let prompts = match body.prompt {
        Prompt::One(prompt) => vec![prompt],
        Prompt::Many(prompts) => prompts,
    };
    app.check_count("prompt", prompts.len())?;
    write(call, Api::Completions, body.asked, prompts).await
}
