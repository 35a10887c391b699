//! Failures as the clients of each API read them: status codes and bodies.

use axum::http::header::{HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json;
use serde_json::{json, Value};

use crate::failure::{Failure, Kind};

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Whose clients ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI: `{"error": {"message", "type", "param", "code"}}`.
    OpenAi,
    /// text-embeddings-inference: `{"error", "error_type"}`.
    Tei,
    /// Cohere reads `message`, Jina reads `detail`.
    Rerank,
}

impl Dialect {
    /// Writes the body of an answer that is a [`Failure`]; other answers pass.
    pub async fn render(self, mut response: Response) -> Response {
        match response.extensions_mut().remove::<Failure>() {
            Some(failure) => self.response(failure),
            None => response,
        }
    }

    /// The failure goes along, for those who tell of it.
    pub fn response(self, failure: Failure) -> Response {
        let status = self.status(failure.kind);
        let mut response = (status, Json(self.body(&failure))).into_response();
        let headers = response.headers_mut();
        if matches!(failure.kind, Kind::Overloaded | Kind::Stopping) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if failure.kind == Kind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if failure.kind == Kind::Deadline {
            // OpenAI's clients ask twice more otherwise, each time for as long.
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response.extensions_mut().insert(failure);
        response
    }

    pub fn status(self, kind: Kind) -> StatusCode {
        match (kind, self) {
            (Kind::Invalid | Kind::Body | Kind::Absent, Dialect::Tei) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            (Kind::Invalid | Kind::Body | Kind::Absent, _) => StatusCode::BAD_REQUEST,
            (Kind::Unauthorized, _) => StatusCode::UNAUTHORIZED,
            (Kind::NotFound, _) => StatusCode::NOT_FOUND,
            (Kind::Method, _) => StatusCode::METHOD_NOT_ALLOWED,
            (Kind::BodyTimeout, _) => StatusCode::REQUEST_TIMEOUT,
            (Kind::TooLarge, _) | (Kind::TooLong, Dialect::Tei) => StatusCode::PAYLOAD_TOO_LARGE,
            (Kind::TooLong, _) => StatusCode::BAD_REQUEST,
            (Kind::NotServed, Dialect::Tei) => StatusCode::FAILED_DEPENDENCY,
            (Kind::NotServed, _) => StatusCode::BAD_REQUEST,
            (Kind::Overloaded, _) => StatusCode::TOO_MANY_REQUESTS,
            (Kind::Stopping, _) => StatusCode::SERVICE_UNAVAILABLE,
            (Kind::Deadline, _) => StatusCode::GATEWAY_TIMEOUT,
            (Kind::Internal, _) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn body(self, failure: &Failure) -> Value {
        let message = match &failure.field {
            Some(field) => format!("{field}: {}", failure.message),
            None => failure.message.clone(),
        };
        match self {
            Dialect::OpenAi => json!({"error": {
                "message": message,
                "type": openai_type(failure.kind),
                "param": failure.field,
                "code": openai_code(failure),
            }}),
            Dialect::Tei => json!({"error": message, "error_type": tei_type(failure.kind)}),
            Dialect::Rerank => json!({"message": message, "detail": message}),
        }
    }
}

fn openai_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Unauthorized => "authentication_error",
        Kind::NotFound => "not_found_error",
        Kind::Overloaded => "rate_limit_error",
        Kind::Stopping => "service_unavailable_error",
        Kind::Deadline | Kind::BodyTimeout => "timeout_error",
        Kind::Internal => "server_error",
        _ => "invalid_request_error",
    }
}

fn openai_code(failure: &Failure) -> Option<&'static str> {
    match failure.kind {
        Kind::Unauthorized => Some("invalid_api_key"),
        Kind::NotFound if failure.field.as_deref() == Some("model") => Some("model_not_found"),
        Kind::NotFound => Some("not_found"),
        Kind::TooLong => Some("context_length_exceeded"),
        Kind::TooLarge => Some("request_too_large"),
        Kind::NotServed | Kind::Absent => Some("unsupported"),
        Kind::Overloaded => Some("overloaded"),
        Kind::Stopping => Some("stopping"),
        Kind::Deadline => Some("deadline_exceeded"),
        _ => None,
    }
}

fn tei_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Overloaded => "Overloaded",
        Kind::Stopping => "Unhealthy",
        Kind::NotServed | Kind::Deadline | Kind::Internal => "Backend",
        _ => "Validation",
    }
}
