//! Scripts of other sites, which browsers let ask only where the service says that they may (`--cors`).
//!
//! ```text
//!   OPTIONS, origin, what is meant ──> 204 and what is allowed, without a key: browsers send none here
//!   the request, origin ──> its answer, be it a refusal, and that the script may read it
//! ```

use axum::extract::{Request, State};
use axum::http::header::{
    HeaderMap, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::Shared;

/// Seconds for which a browser need not ask again.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
/// Headers of answers that scripts may read besides those that they always may.
const READABLE: HeaderValue = HeaderValue::from_static("x-request-id, x-should-retry, retry-after");

pub async fn allow(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let origins = &app.config.cors;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let allowed = allowed(origins, request.headers());
    let asks = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&allowed, asks) {
        // Whatever headers it means: clients of OpenAI send many of their own, which change nothing.
        (Some(_), true) => may_ask(request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS)),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    // Caches must not show one site what was said to another.
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
    }
    response
}

/// The origin of a request, if it is one of these.
fn allowed(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_it = |one: &String| one == "*" || one.as_bytes() == origin.as_bytes();
    origins.iter().any(is_it).then(|| origin.clone())
}

fn may_ask(headers: Option<&HeaderValue>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let own = response.headers_mut();
    own.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    own.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if let Some(headers) = headers {
        own.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
    }
    response
}
