//! `/v1/embeddings`.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::Json;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::app::{Call, Shared};
use crate::failure::Result;
use crate::openai::usage;
use crate::ranking::Cut;
use crate::vectors::{embed, Input};

#[derive(Debug, Deserialize)]
struct Asked {
    model: Option<String>,
    input: Input,
    dimensions: Option<usize>,
    #[serde(default)]
    encoding_format: Encoding,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    /// The bytes of 32-bit numbers, the lowest first.
    Base64,
}

pub async fn create(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let asked: Asked = fields.read()?;
    app.check_model(asked.model.as_deref())?;
    fields.refuse(&["truncate_prompt_tokens"])?; // vLLM's, as what follows
    fields.refuse_off(&["add_special_tokens", "normalize"])?;
    let vectors = embed(
        &call,
        crate::vectors::Asked {
            field: "input",
            input: asked.input,
            dimensions: asked.dimensions,
            normalize: None,
            cut: Cut::Off,
            prompt: None,
        },
    )
    .await?;
    let encode = |vector: &[f32]| match asked.encoding_format {
        Encoding::Float => json!(vector),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            json!(STANDARD.encode(bytes))
        }
    };
    let data: Vec<Value> = vectors
        .values
        .iter()
        .enumerate()
        .map(|(i, vector)| json!({"object": "embedding", "index": i, "embedding": encode(vector)}))
        .collect();
    Ok(Json(json!({
        "object": "list",
        "data": data,
        "model": app.config.name,
        "usage": usage::of_prompts(&vectors.totals),
    })))
}
