//! `/v1/models`.

use axum::extract::{Path, State};
use axum::Json;
use serde_json::{json, Value};

use super::check_model;
use crate::app::{App, Shared};
use crate::failure::Result;

pub async fn list(State(app): State<Shared>) -> Json<Value> {
    Json(json!({"object": "list", "data": [model(&app)]}))
}

pub async fn one(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Value>> {
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
