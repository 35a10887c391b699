//! `/health` and `/metrics`.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json;
use prefix::EngineState;
use serde_json::json;

use crate::app::{App, Shared};
use crate::failure::Result;

/// 200 while requests are taken; 503 when the service stops or the engine has failed.
pub async fn health(State(app): State<Shared>) -> Response {
    let (code, status) = of(&app);
    (code, Json(json!({"status": status}))).into_response()
}

/// The state of the service in a word.
pub fn of(app: &App) -> (StatusCode, &'static str) {
    match app.engine.state() {
        _ if app.gate.is_refusing() => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        EngineState::Ready => (StatusCode::OK, "ok"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    }
}

pub async fn metrics(State(app): State<Shared>) -> Result<Response> {
    let engine = app.engine.metrics_text()?;
    let closed = app.places.closed.load(Ordering::Relaxed);
    let own = app
        .metrics
        .text(app.gate.in_flight(), app.tenants.len(), closed);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], engine + &own).into_response())
}
