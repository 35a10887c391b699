//! Which path is whose.

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post};
use axum::Router;

use crate::app::Shared;
use crate::dialect::Dialect;
use crate::failure::{Failure, Kind};
use crate::{body, cohere, cors, openai, page, status, tei, watch};

pub fn router(app: Shared) -> Router {
    let rerank = Router::new()
        .route("/v1/rerank", post(cohere::rerank))
        .route("/v2/rerank", post(cohere::rerank));
    let tei = Router::new()
        .route("/rerank", post(tei::rerank))
        .route("/embed", post(tei::embed))
        .route("/predict", post(tei::predict))
        .route("/info", get(tei::info));
    let openai = Router::new()
        .route("/v1/completions", post(openai::completions::create))
        .route("/v1/chat/completions", post(openai::chat::create))
        .route("/v1/embeddings", post(openai::embeddings::create))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*name}", get(openai::models::one))
        .route("/health", get(status::health))
        .route("/metrics", get(status::metrics))
        .fallback(async |State(app): State<Shared>, request: Request| {
            let message = format!("there is no path {}", request.uri().path());
            refuse(&app, request, Kind::NotFound, message).await
        });
    let openai = match app.config.page {
        true => openai.merge(page::router()),
        false => openai,
    };
    spoken(rerank, Dialect::Rerank)
        .merge(spoken(tei, Dialect::Tei))
        .merge(spoken(openai, Dialect::OpenAi))
        .layer(DefaultBodyLimit::disable()) // body.rs has the limit
        .layer(from_fn_with_state(app.clone(), cors::allow))
        .layer(from_fn_with_state(app.clone(), watch::watch))
        .with_state(app)
}

/// Failures of these paths are written in this dialect.
fn spoken(router: Router<Shared>, dialect: Dialect) -> Router<Shared> {
    router
        .method_not_allowed_fallback(async |State(app): State<Shared>, request: Request| {
            let message = format!("{} is not what this path takes", request.method());
            refuse(&app, request, Kind::Method, message).await
        })
        .layer(map_response(move |response: Response| {
            dialect.render(response)
        }))
}

/// When the body was sent, too.
async fn refuse(app: &Shared, request: Request, kind: Kind, message: String) -> Failure {
    let (head, body) = request.into_parts();
    body::pass_over(&head.headers, body, app.config.body).await;
    Failure::new(kind, message)
}
