//! Why a request is refused, as JSON that names the thing and the remedy.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::worker::BoxError;
use serde_json::json;

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            code,
            message,
        }
    }

    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Nothing is begun without the queue: its clean-up is stored before the first byte.
    pub(crate) fn queue_is_away(why: &str) -> Self {
        eprintln!("a request failed: the queue is away: {why}");
        let message = "the queue is away; nothing was stored, send it again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "queue_is_away", message)
    }

    pub(crate) fn no_such_file() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is no file of that id",
        )
    }

    pub(crate) fn expired() -> Self {
        let message = "the record of this file has ended; send the file again";
        Self::new(StatusCode::GONE, "expired", message)
    }

    pub(crate) fn no_such_address() -> Self {
        let message = "there is nothing at this address; the page is /, uploads go to /upload";
        Self::new(StatusCode::NOT_FOUND, "no_such_address", message)
    }

    pub(crate) fn wrong_method() -> Self {
        let message = "this address takes another method: POST /upload, GET /files/ID";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message)
    }
}

/// What goes wrong here is for the log: the client gets no paths and no statements.
impl From<BoxError> for Refusal {
    fn from(error: BoxError) -> Self {
        eprintln!("a request failed: {error}");
        let message = "something went wrong here; nothing was stored, try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        BoxError::from(error).into()
    }
}

impl From<punctual::Error> for Refusal {
    fn from(error: punctual::Error) -> Self {
        BoxError::from(error).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": {"code": self.code, "message": self.message}}));
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        // What is left of the body is not read.
        response.headers_mut().insert(
            header::CONNECTION,
            header::HeaderValue::from_static("close"),
        );
        response
    }
}
