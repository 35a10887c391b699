//! What goes wrong, in one form for the whole service; `dialect.rs` writes it as each API's clients expect it.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use prefix::Status;

/// Why a request is not answered as it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that makes no sense.
    Invalid,
    /// A body that is not the JSON that was asked for.
    Body,
    /// No key, or one that is not known.
    Unauthorized,
    /// No such path or model.
    NotFound,
    /// The path is there, the method is not.
    Method,
    /// The body did not come in time.
    BodyTimeout,
    /// More bytes, texts or documents than the service takes.
    TooLarge,
    /// More tokens than the model takes.
    TooLong,
    /// What the request names or needs is not there, as a prompt of the recipe or a template for chats.
    Absent,
    /// The model or the service cannot do this.
    NotServed,
    /// Too much work is there already; the same request may succeed later.
    Overloaded,
    /// The service is stopping.
    Stopping,
    /// The time for the request is over.
    Deadline,
    /// A fault of the service.
    Internal,
}

/// A refusal or a failure, with a sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
    /// The field of the request that is at fault, where there is one.
    pub field: Option<Cow<'static, str>>,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            field: None,
        }
    }

    /// A field whose value makes no sense.
    pub fn field(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Failure {
        Failure {
            field: Some(field.into()),
            ..Failure::new(Kind::Invalid, message)
        }
    }

    pub fn stopping() -> Failure {
        Failure::new(Kind::Stopping, "the service is stopping")
    }

    /// Something that cannot be, told without its details.
    pub fn internal(what: impl std::fmt::Display) -> Failure {
        Failure::new(Kind::Internal, format!("a fault of the service: {what}"))
    }
}

impl From<prefix::Error> for Failure {
    fn from(error: prefix::Error) -> Failure {
        let kind = match error.status() {
            Status::InvalidArgument
            | Status::InvalidUtf8
            | Status::UnknownOption
            | Status::OutOfRange => Kind::Invalid,
            Status::PromptTooLong => Kind::TooLong,
            Status::CacheFull => Kind::TooLarge,
            Status::NotFound => Kind::Absent,
            Status::UnsupportedModel | Status::UnsupportedDevice => Kind::NotServed,
            Status::QueueFull | Status::OutOfMemory | Status::OutOfDeviceMemory => Kind::Overloaded,
            Status::Deadline | Status::Timeout => Kind::Deadline,
            // Only the end of the service cancels what somebody still waits for.
            Status::Cancelled => Kind::Stopping,
            _ => Kind::Internal,
        };
        Failure::new(kind, error.to_string())
    }
}

/// An answer without a body; the layer of the API writes one.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
