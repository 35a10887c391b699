//! `/v1/rerank` and `/v2/rerank`, as the clients of Cohere and Jina ask.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::Json;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::app::{Call, Shared};
use crate::failure::{Failure, Result};
use crate::ids;
use crate::openai::usage;
use crate::ranking::{rank, Cut, Query};

#[derive(Debug, Deserialize)]
struct Asked {
    model: Option<String>,
    query: String,
    documents: Vec<Document>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
    max_tokens_per_doc: Option<usize>,
    /// Jina's word for the same.
    max_doc_length: Option<usize>,
}

/// Fields of Cohere and vLLM that would change the answer.
const NOT_SERVED: [&str; 2] = ["rank_fields", "truncate_prompt_tokens"];

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a document is a text or an object with the text in \"text\""
)]
enum Document {
    Text(String),
    Object { text: String },
}

pub async fn rerank(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>> {
    let (call, fields) = Call::begin(&app, &headers, body).await?;
    let asked: Asked = fields.read()?;
    app.check_model(asked.model.as_deref())?;
    fields.refuse(&NOT_SERVED)?;
    if asked.top_n == Some(0) {
        return Err(Failure::field("top_n", "is 0, the least is 1"));
    }
    let document_tokens = asked.max_tokens_per_doc.or(asked.max_doc_length);
    if document_tokens == Some(0) {
        return Err(Failure::field("max_tokens_per_doc", "is 0, the least is 1"));
    }
    let documents = asked.documents.into_iter().map(|document| match document {
        Document::Text(text) | Document::Object { text } => text,
    });
    let query = Query {
        query: asked.query,
        documents: documents.collect(),
        field: "documents",
        top_n: asked.top_n,
        raw: false,
        cut: Cut::Right,
        document_tokens,
    };
    let ranking = rank(&call, query).await?;
    let results: Vec<Value> = ranking
        .places
        .iter()
        .map(|place| {
            let mut result = json!({"index": place.index, "relevance_score": place.score});
            if asked.return_documents == Some(true) {
                result["document"] = json!({"text": ranking.documents.get(place.index)});
            }
            result
        })
        .collect();
    Ok(Json(json!({
        "id": ids::next("rerank"),
        "model": app.config.name,
        "results": results,
        "usage": usage::of_prompts(&ranking.totals),
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    })))
}
