//! `/v1/models`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::Json;
use serde_json::{json, Value};

use crate::app::{App, Shared};
use crate::failure::{Failure, Kind, Result};

pub async fn list(State(app): State<Shared>, headers: HeaderMap) -> Result<Json<Value>> {
    app.tenants.key(&headers)?;
    Ok(Json(json!({"object": "list", "data": [model(&app)]})))
}

pub async fn one(
    State(app): State<Shared>,
    headers: HeaderMap,
    name: std::result::Result<Path<String>, PathRejection>,
) -> Result<Json<Value>> {
    app.tenants.key(&headers)?;
    let not_text = |_| Failure::new(Kind::NotFound, "the name of the model is not text in UTF-8");
    let Path(name) = name.map_err(not_text)?;
    app.check_model(Some(&name))?;
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
