//! A page that shows the service in a browser: what is in the cache, how much of what is asked is found there, what was
//! answered, and a field to ask something.
//!
//! All of it comes from here, and its policy lets a browser load nothing from anywhere else. The page itself is public;
//! what it shows (`/page/state`) needs a key where requests need one.

mod state;
mod tree;

use axum::http::header::{
    HeaderName, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;

use crate::app::Shared;

pub use state::State as PageState;

const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn router() -> Router<Shared> {
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
        .route("/page/state", get(state::get))
}

fn file(kind: &str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(CONTENT_TYPE, kind)], safe("no-cache"), text).into_response()
}

/// What keeps a browser from doing more with the page than it is for.
fn safe(cache: &'static str) -> [(HeaderName, &'static str); 4] {
    [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, cache),
    ]
}
