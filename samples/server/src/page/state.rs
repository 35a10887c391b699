//! What the page shows, as JSON; the page asks for it once a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::CONTENT_TYPE;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{extract, Extension};
use serde::Serialize;
use serde_json::{json, Value};

use super::safe::safe;
use super::tree::{Labels, Tree};
use crate::app::{blocking, App, Shared};
use crate::failure::{Failure, Result};
use crate::status;

/// Trees of more nodes are not drawn: the engine would stand still while it writes them down.
const NODES: u64 = 100_000;
/// How old the tree may be that is shown.
const FRESH: Duration = Duration::from_millis(900);
/// A tree that took long to make is shown for so many times as long.
const SHARE: u32 = 20;

/// What pages of all browsers share.
#[derive(Debug)]
pub struct State {
    start: Instant,
    /// Locked while a tree is made, so that many pages cost as much as one.
    drawn: Mutex<Drawn>,
}

#[derive(Debug, Default)]
struct Drawn {
    labels: Labels,
    tree: Option<Tree>,
    good_until: Option<Instant>,
}

impl Default for State {
    fn default() -> State {
        State {
            start: Instant::now(),
            drawn: Mutex::default(),
        }
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    numbers: Value,
    tree: Option<&'a Tree>,
}

pub async fn get(
    extract::State(app): extract::State<Shared>,
    Extension(state): Extension<Arc<State>>,
    headers: HeaderMap,
) -> Result<Response> {
    app.tenants.key(&headers)?;
    let here = app.clone();
    let text = blocking(&here.gate, move || {
        let numbers = numbers(&app, &state)?;
        let mut drawn = state.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.refresh(&app)?;
        let tree = drawn.tree.as_ref();
        serde_json::to_string(&Shown { numbers, tree }).map_err(Failure::internal)
    })
    .await?;
    let kind = [(CONTENT_TYPE, "application/json")];
    Ok((kind, safe("no-store"), text).into_response())
}

impl Drawn {
    fn refresh(&mut self, app: &App) -> Result<()> {
        let begin = Instant::now();
        if self.good_until.is_some_and(|end| begin < end) {
            return Ok(());
        }
        self.tree = None;
        if app.engine.stats()?.tree_nodes <= NODES {
            let json = app.engine.cache().tree_json()?;
            self.tree = Some(Tree::read(&json, &mut self.labels)?);
        }
        self.good_until = Some(Instant::now() + FRESH.max(begin.elapsed() * SHARE));
        Ok(())
    }
}

fn numbers(app: &App, state: &State) -> Result<Value> {
    let stats = app.engine.stats()?;
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let answers = app.metrics.answers();
    // The page's own questions would be most of what it shows.
    let answers = answers
        .iter()
        .filter(|answer| !answer.path.starts_with("/page/") && answer.path != "/");
    Ok(json!({
        "model": app.config.name,
        "architecture": app.model.architecture,
        "dtype": app.dtype,
        "writes": app.model.logits,
        "status": status::of(app).1,
        "uptime": state.start.elapsed().as_secs_f64(),
        "in_flight": app.gate.in_flight(),
        "max_requests": app.config.max_requests,
        "waiting": stats.requests_waiting,
        "running": stats.requests_running,
        "finished": stats.requests_finished,
        "failed": stats.requests_failed,
        "connections": load(&app.metrics.connections),
        "disconnects": load(&app.metrics.disconnects),
        "stalled": load(&app.metrics.stalled),
        "tenants": app.tenants.len(),
        "given": stats.tokens_given,
        "found": stats.tokens_cached + stats.tokens_shared,
        "computed": stats.tokens_computed,
        "generated": stats.tokens_generated,
        "evicted": stats.evicted_tokens,
        "nodes": stats.tree_nodes,
        "kv_bytes": stats.kv_bytes,
        "kv_budget_bytes": stats.kv_budget_bytes,
        "weight_bytes": stats.weight_bytes,
        "answers": answers.map(|answer| json!({
            "path": answer.path,
            "code": answer.code,
            "count": answer.count,
            "seconds": answer.time.as_secs_f64(),
        })).collect::<Value>(),
    }))
}
