//! The one form of errors: `{"error":{"code","message","hint","request_id"}}`.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::time::Timestamp;
use punctual::{Error, ErrorKind};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::RequestContext;
use crate::decode::{DecodeError, Why, as_sent};
use crate::log_throttle::LogThrottle;

/// Nothing is wrong then.
const SHUTTING_DOWN: &str = "shutting_down";

/// Why a request was not done.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    body: ProblemBody,
    /// Seconds after which the same may be asked again.
    retry_after: Option<u8>,
    /// Whether the engine's own words are for operators only.
    is_outward: bool,
}

/// An error as it is written.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// Stable, for programs.
    #[schema(value_type = String)]
    code: Cow<'static, str>,
    /// For people.
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// What the engine said; only for a token of scope `operator`.
    // Until it is answered it is there for the log and for `as_sent`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_words")]
    #[schema(value_type = Option<String>)]
    cause: Option<Arc<Error>>,
    /// The item at fault, counted from 0.
    // 32 bits keep an error small; a call has far fewer items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<usize>)]
    index: Option<u32>,
    /// Engine time, of what the engine refused to change.
    // In a box, as most errors have none.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schema(value_type = Option<String>)]
    now: Option<Box<Timestamp>>,
    /// The request, as in `X-Request-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    request_id: Option<Box<str>>,
}

/// What stands around an error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorAnswer {
    pub(crate) error: ProblemBody,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            body: ProblemBody {
                code: code.into(),
                message: message.into(),
                hint: None,
                cause: None,
                index: None,
                now: None,
                request_id: None,
            },
            retry_after: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
            is_outward: false,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_input", message)
    }

    /// What a reader of a line says, `what is wrong; what to do`.
    pub(crate) fn of_line(why: &str) -> Self {
        match why.rsplit_once("; ") {
            Some((what, remedy)) => Self::invalid(what).hint(remedy),
            None => Self::invalid(why),
        }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is no such job")
            .hint("settled jobs are deleted after their retention")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            SHUTTING_DOWN,
            "the gateway is shutting down; send the same again in a moment",
        )
    }

    /// The same in other words.
    #[must_use]
    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.body.message = message.into();
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.body.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn index(mut self, index: usize) -> Self {
        self.body.index = u32::try_from(index).ok();
        self
    }

    /// Under that engine time.
    #[must_use]
    pub(crate) fn at(mut self, now: Timestamp) -> Self {
        self.body.now = Some(Box::new(now));
        self
    }

    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u8) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn shown_hint(&self) -> Option<&str> {
        self.body.hint.as_deref()
    }

    pub(crate) fn code(&self) -> &str {
        &self.body.code
    }

    /// Whether there is more to it than the answer says.
    pub(crate) fn is_outward(&self) -> bool {
        self.is_outward
    }

    /// Shows spans and instants as the sender wrote them in this JSON.
    pub(crate) fn with_values_of(mut self, json: &[u8]) -> Self {
        if let Some(error) = self.body.cause.as_ref().filter(|_| !self.is_outward) {
            self.body.message = as_sent(self.body.message, error, json);
        }
        self
    }

    /// What the engine said, if the caller may know.
    pub(crate) fn cause_for(&self, context: &RequestContext) -> Option<String> {
        let shows = self.is_outward && context.is_operators();
        let cause = self.body.cause.as_ref().filter(|_| shows);
        cause.map(|cause| cause.to_string())
    }

    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    /// Logs what is no fault of the caller, under the id that the answer has; while the engine is
    /// away or full only the first, and how many more.
    pub(crate) fn log(&self, context: &RequestContext, log_throttle: &LogThrottle) {
        let is_end = self.body.code == SHUTTING_DOWN;
        if !self.status.is_server_error() || is_end {
            return;
        }
        let RequestContext {
            id, method, path, ..
        } = context;
        let status = self.status.as_u16();
        let cause = self.body.cause.as_ref().filter(|_| self.is_outward);
        let whole = cause.map(|cause| cause.to_string());
        let error = whole.as_deref().unwrap_or(&self.body.message);
        let cause = cause.map(|cause| cause.message());
        let cause = cause.unwrap_or(&self.body.message);
        let (request_id, path, code) = (&**id, &**path, self.code());
        let passes = matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE
        );
        if !passes || log_throttle.is_first(code, cause) {
            tracing::error!(request_id, %method, path, status, code, error, "a request failed");
        } else {
            tracing::debug!(request_id, %method, path, status, code, error, "another request failed");
        }
    }

    /// The JSON of it, under the id of the request.
    pub(crate) fn answer(mut self, context: Option<&RequestContext>) -> ErrorAnswer {
        self.body.request_id = context.map(|context| (*context.id).into());
        if !self.is_outward || !context.is_some_and(RequestContext::is_operators) {
            self.body.cause = None;
        }
        ErrorAnswer { error: self.body }
    }
}

fn as_text<S: Serializer>(
    now: &Option<Box<Timestamp>>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    now.as_ref().map(|now| now.to_string()).serialize(to)
}

fn in_words<S: Serializer>(
    cause: &Option<Arc<Error>>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    cause.as_ref().map(|cause| cause.to_string()).serialize(to)
}

impl From<DecodeError> for Problem {
    fn from(unread: DecodeError) -> Self {
        let DecodeError { why, message, .. } = unread;
        let problem = match why {
            Why::Syntax => {
                let place = format!("(line {}, column {})", unread.line, unread.column);
                let message = format!("the body is not JSON: {message} {place}");
                Self::new(StatusCode::BAD_REQUEST, "invalid_json", message).hint(
                    "send JSON in UTF-8, names and texts in double quotes, such as {\"queue\":\"mail\"}",
                )
            }
            Why::Delay => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_delay", message),
            Why::Field => Self::invalid(message),
        };
        match unread.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        if let Some((message, hint)) = outward(kind) {
            let mut problem = Self::new(status_of(kind), kind.code(), message).hint(hint);
            problem.body.cause = Some(Arc::new(error));
            problem.is_outward = true;
            return problem;
        }
        Self::of_error(status_of(kind), kind.code(), error)
    }
}

impl Problem {
    /// An error in its own words, under this code.
    pub(crate) fn of_error(status: StatusCode, code: &'static str, error: Error) -> Self {
        // Messages say "what is wrong; what to do": the second half is the hint.
        let (what, remedy) = match error.message().split_once("; ") {
            Some((what, remedy)) => (what, Some(remedy)),
            None => (error.message(), None),
        };
        let (mut index, mut values) = (None, Vec::new());
        for (name, value) in error.context() {
            match name {
                "index" => index = value.parse().ok(),
                _ => values.push(format!("{name}: {}", short(value))),
            }
        }
        let message = if values.is_empty() {
            what.to_owned()
        } else {
            format!("{what} ({})", values.join(", "))
        };
        let mut problem = Self::new(status, code, message);
        problem.body.hint = remedy.map(str::to_owned);
        problem.body.index = index;
        problem.body.cause = Some(Arc::new(error));
        problem
    }
}

/// The message and the hint of an error whose own words are for operators: they name servers, files
/// and disks.
fn outward(kind: ErrorKind) -> Option<(&'static str, &'static str)> {
    let message = match kind {
        ErrorKind::ShuttingDown => return None,
        ErrorKind::EngineUnavailable => "the engine does not answer correctly",
        ErrorKind::EngineStopped => "the engine has stopped and needs a restart",
        ErrorKind::DurabilityUnavailable => "the engine cannot provide the configured durability",
        ErrorKind::DataLocked => "another process has the engine's data open",
        ErrorKind::EngineFull => {
            return Some(("the engine is full, and nothing was changed", FULL));
        }
        _ => "the engine failed",
    };
    match status_of(kind) {
        StatusCode::SERVICE_UNAVAILABLE => Some((message, AWAY)),
        StatusCode::INTERNAL_SERVER_ERROR => Some((message, FAILED)),
        _ => None,
    }
}

const FULL: &str = "send it again once there is room, for example after workers empty the queues; the gateway's log says what is full or not writable";
const AWAY: &str = "retry in a moment with the same ids: whether the change was made is unknown; the gateway's log has the cause";
const FAILED: &str = "search the gateway's log for the request id";

/// A value of an error, which may have come in: escaped already, but as long as it was.
fn short(value: &str) -> String {
    match value.char_indices().nth(64) {
        Some((end, _)) => format!("{}..", &value[..end]),
        None => value.to_owned(),
    }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    use ErrorKind::*;
    match kind {
        InvalidInput | ReservedId | InvalidName | InvalidDelay | Unsupported => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        PayloadTooLarge | BatchTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        NotFound => StatusCode::NOT_FOUND,
        LeaseLost | Conflict | VersionConflict => StatusCode::CONFLICT,
        EngineFull => StatusCode::INSUFFICIENT_STORAGE,
        EngineUnavailable | EngineStopped | DurabilityUnavailable | DataLocked | ShuttingDown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    /// The guard around all routes writes the body: it knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, u16::from(seconds).into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests;
