//! `/v1/models`.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::Json;
use serde_json::{json, Value};

use super::check_model;
use crate::app::{App, Shared};
use crate::failure::Result;

pub async fn list(State(app): State<Shared>, headers: HeaderMap) -> Result<Json<Value>> {
    app.tenants.key(&headers)?;
    Ok(Json(json!({"object": "list", "data": [model(&app)]})))
}

pub async fn one(
    State(app): State<Shared>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Json<Value>> {
    app.tenants.key(&headers)?;
    check_model(&app, Some(&name))?;
    Ok(Json(model(&app)))
}

fn model(app: &App) -> Value {
    json!({
        "id": app.config.name,
        "object": "model",
        "created": 0,
        "owned_by": "libprefix",
        "max_model_len": app.model.max_positions,
    })
}
