//! `/rerank`, `/embed`, `/predict` and `/info`, as the clients of text-embeddings-inference ask.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::Json;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::app::{Call, Shared};
use crate::classes::{classify, Class};
use crate::failure::{Failure, Result};
use crate::ranking::{rank, Cut, Query};
use crate::vectors::{embed as vectors, Input};

/// The fields that all of them have.
#[derive(Debug, Deserialize)]
struct Common {
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

impl Common {
    fn cut(&self) -> Cut {
        match (self.truncate, self.truncation_direction) {
            (Some(true), Direction::Right) => Cut::Right,
            (Some(true), Direction::Left) => Cut::Left,
            _ => Cut::Off,
        }
    }
}

#[derive(Debug, Deserialize)]
struct RerankAsked {
    query: String,
    texts: Vec<String>,
    raw_scores: Option<bool>,
    return_text: Option<bool>,
}

pub async fn rerank(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let (asked, common): (RerankAsked, Common) = (fields.read()?, fields.read()?);
    let query = Query {
        query: asked.query,
        documents: asked.texts,
        field: "texts",
        top_n: None,
        raw: asked.raw_scores == Some(true),
        cut: common.cut(),
        document_tokens: None,
    };
    let ranking = rank(&call, query).await?;
    let places = ranking.places.iter().map(|place| {
        let mut result = json!({"index": place.index, "score": place.score});
        if asked.return_text == Some(true) {
            result["text"] = json!(ranking.documents.get(place.index));
        }
        result
    });
    Ok(Json(places.collect()))
}

#[derive(Debug, Deserialize)]
struct EmbedAsked {
    inputs: Input,
    normalize: Option<bool>,
    dimensions: Option<usize>,
    prompt_name: Option<String>,
}

pub async fn embed(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let (asked, common): (EmbedAsked, Common) = (fields.read()?, fields.read()?);
    let asked = crate::vectors::Asked {
        field: "inputs",
        input: asked.inputs,
        dimensions: asked.dimensions,
        normalize: asked.normalize,
        cut: common.cut(),
        prompt: asked.prompt_name,
    };
    let vectors = vectors(&call, asked).await?;
    Ok(Json(
        vectors.values.iter().map(|vector| json!(vector)).collect(),
    ))
}

#[derive(Debug, Deserialize)]
struct PredictAsked {
    inputs: Classified,
    raw_scores: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "inputs are a text, or a list of lists of one text each"
)]
enum Classified {
    Text(String),
    /// The API's way to write one pair of texts.
    Pair(Vec<String>),
    Many(Vec<Vec<String>>),
}

pub async fn predict(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let (asked, common): (PredictAsked, Common) = (fields.read()?, fields.read()?);
    let pair = || {
        Failure::field(
            "inputs",
            "pairs of texts are not classified; a batch is a list of lists of one text",
        )
    };
    let (texts, single) = match asked.inputs {
        Classified::Text(text) => (vec![text], true),
        Classified::Pair(texts) if texts.len() == 1 => (texts, true),
        Classified::Pair(texts) if texts.is_empty() => (texts, false),
        Classified::Pair(_) => return Err(pair()),
        Classified::Many(lists) => {
            let one = |list: Vec<String>| <[String; 1]>::try_from(list).map(|[text]| text);
            let texts: std::result::Result<Vec<_>, _> = lists.into_iter().map(one).collect();
            (texts.map_err(|_| pair())?, false)
        }
    };
    let raw = asked.raw_scores == Some(true);
    let classes = classify(&call, texts, raw, common.cut()).await?;
    let as_json = |classes: &Vec<Class>| -> Value {
        let pairs = classes.iter();
        pairs
            .map(|class| json!({"score": class.score, "label": class.label}))
            .collect()
    };
    Ok(Json(match (single, classes.first()) {
        (true, Some(first)) => as_json(first),
        _ => classes.iter().map(as_json).collect(),
    }))
}

pub async fn info(State(app): State<Shared>, headers: HeaderMap) -> Result<Json<Value>> {
    app.tenants.key(&headers)?;
    let config = &app.config;
    let labels = app.model.head_labels();
    let kind = match (labels.len(), app.model.logits) {
        (0, false) => json!({"embedding": {"pooling": app.model.pooling()}}),
        (count, _) => {
            let by_id: serde_json::Map<_, _> = labels
                .iter()
                .enumerate()
                .map(|(i, label)| (i.to_string(), json!(label)))
                .collect();
            let by_label: serde_json::Map<_, _> = labels
                .iter()
                .enumerate()
                .map(|(i, label)| (label.clone(), json!(i)))
                .collect();
            // What says how likely a text is ranks, and so does a head of one label.
            let kind = if count > 1 { "classifier" } else { "reranker" };
            json!({kind: {"id2label": by_id, "label2id": by_label}})
        }
    };
    Ok(Json(json!({
        "model_id": config.name,
        "model_sha": null,
        "model_dtype": app.dtype,
        "model_type": kind,
        "max_concurrent_requests": config.max_requests,
        "max_input_length": app.model.max_positions,
        "max_batch_tokens": app.model.max_positions,
        "max_batch_requests": null,
        "max_client_batch_size": config.max_items,
        "auto_truncate": false,
        "tokenization_workers": 1,
        "version": prefix::version().unwrap_or(""),
        "sha": null,
        "docker_label": null,
    })))
}
