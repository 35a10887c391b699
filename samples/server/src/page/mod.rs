//! A page that shows the service in a browser: what is in the cache, how much of what is asked is found there, what was
//! answered, and a field to ask something.
//!
//! All of it comes from here, and its policy lets a browser load nothing from anywhere else. The page itself is public;
//! what it shows (`/page/state`) needs a key where requests need one.

mod safe;
mod state;
mod tree;

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};

use crate::app::Shared;
use safe::safe;

pub fn router() -> Router<Shared> {
    let drawn = Extension(Arc::new(state::State::default()));
    Router::new()
        .route(
            "/",
            get(async || file("text/html", include_str!("page.html"))),
        )
        .route(
            "/page/page.css",
            get(async || file("text/css", include_str!("page.css"))),
        )
        .route(
            "/page/page.js",
            get(async || file("text/javascript", include_str!("page.js"))),
        )
        .route(
            "/page/tree.js",
            get(async || file("text/javascript", include_str!("tree.js"))),
        )
        .route(
            "/page/ask.js",
            get(async || file("text/javascript", include_str!("ask.js"))),
        )
        .route("/page/state", get(state::get).layer(drawn))
}

fn file(kind: &str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(CONTENT_TYPE, kind)], safe("no-cache"), text).into_response()
}
