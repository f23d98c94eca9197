//! A job as one line of JSON: what `enqueue --from` reads, `jobs show` writes, and `export` and
//! `import` pass on without a loss.
//!
//! Spans are text such as `30m`, instants RFC 3339, payloads any JSON kept byte for byte, or
//! base64 where bytes are no JSON of one line.

mod after;
mod fields;
mod imported_history;
mod rules;
mod step_line;
mod stored_job;

use std::time::Duration;

use bytes::Bytes;
use punctual::time::Timestamp;
use punctual::{Due, JobId, NewJob, push};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::decode::{self, DecodeError, shown};
use crate::words::{Id, Name};
pub(crate) use after::{AfterJob, OnLine};
pub use fields::base64_of;
use fields::{Headers, Instant, Span, bytes_of_base64};
pub(crate) use fields::{Instant as InstantText, Span as SpanText};
use imported_history::{LoggedLine, MemoLine, PastLine, RunLine};
pub use rules::hold_of;
pub(crate) use rules::text_or_object;
use rules::{GroupLine, RetryLine, UniqueLine};
use step_line::StepOfLine;
pub(crate) use step_line::{hash, hash_of, role_of, role_text};
pub use stored_job::is_hostile;
pub(crate) use stored_job::json_or_base64;

/// A job as JSON; missing fields take their defaults.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JobJson {
    /// Its id, a UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub id: Option<String>,
    /// Its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub queue: Option<String>,
    /// The name of its handler; that of its queue if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub kind: Option<String>,
    /// Its payload, if that is JSON, byte for byte. An empty one is `""` in `payload_base64`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "raw"
    )]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<Box<RawValue>>,
    /// Its payload in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What the payload is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(default = "application/json")]
    pub content_type: Option<String>,
    /// The URL to which it is posted when it is due, or `amqp:EXCHANGE/KEY` on RabbitMQ; its queue
    /// then begins with `http:` or `amqp:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The URL to which its outcome is posted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9, default = 5)]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<UniqueLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupLine>,
    /// The key (a tenant, a customer) whose jobs take turns with those of other keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    share: Option<String>,
    /// Names of limits that hold for it over all queues: it starts when all are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 3)]
    limits: Option<Vec<String>>,
    /// Units of the rates of these limits that its start takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1000, default = 1)]
    cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4294967295i64, default = 20)]
    max_attempts: Option<u32>,
    /// Crashes after which it is dead, 3 by default; with 1 it runs alone from its first attempt
    /// on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4294967295i64, default = 3)]
    max_crashes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(default = json!({"policy": "exponential", "base": "1s", "factor": 2.0, "cap": "1h", "jitter": true}))]
    retry: Option<RetryLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(default = "0s")]
    retention: Option<Span>,
    /// How long after it settled a resend of its id is recognised, up to 7 days; 2m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    remember: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_for: Option<Vec<String>>,
    /// Jobs that must settle before it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Vec<AfterJob>>,

    // What the engine keeps: an export has it, a job to send has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// The schedule that it is a run of.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<RunLine>,
    /// The step of a flow that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<StepOfLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crashes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enqueued_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "raw"
    )]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "raw"
    )]
    #[schema(value_type = serde_json::Value, required = false)]
    progress: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Instant>,
    /// The attempts that ended in anything but its completion, the oldest first, ten at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<PastLine>>,
    /// The last lines that its attempts logged, the oldest first: 100 lines and 16 KiB at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Vec<LoggedLine>>,
    /// What its steps kept, the signals it got and the waits that timed out, the oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    memos: Option<Vec<MemoLine>>,
}

/// Why a line is no job, in words for the person who wrote it.
pub type LineError = String;

impl JobJson {
    /// Reads one line.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        if !text.trim_start().starts_with('{') {
            return Err("is not a JSON object".into());
        }
        // The line number is the file's, not always 1; the column is worth keeping.
        decode::read(text.as_bytes()).map_err(DecodeError::into_line)
    }

    /// Whether the line is a job that has a past: it belongs to `import`.
    pub fn has_history(&self) -> bool {
        self.state.is_some()
    }

    /// The job to send; what the line leaves out is as in `defaults`, which has its own id.
    pub fn into_new_job(self, defaults: &NewJob) -> Result<NewJob, LineError> {
        if self.has_history() {
            return Err(
                "has a state, so it comes from an export; send it with `punctual import`".into(),
            );
        }
        let mut job = defaults.clone();
        if let Some(queue) = &self.queue {
            if job.kind == job.queue {
                job.kind.clone_from(queue);
            }
            job.queue.clone_from(queue);
        }
        if let Some(id) = &self.id {
            job.id = id_of("id", id)?;
        }
        if let Some(payload) = self.payload_bytes()? {
            job.payload = payload;
        }
        match (self.delay, self.at) {
            (Some(_), Some(_)) => return Err("has both delay and at; one is enough".into()),
            (Some(Span(delay)), None) => job.due = Due::After(delay),
            (None, Some(Instant(at))) => job.due = Due::At(at),
            (None, None) => {}
        }
        set(&mut job.kind, self.kind);
        set(&mut job.content_type, self.content_type);
        set(&mut job.headers, self.headers.map(Headers::into_pairs));
        set_some(&mut job.expires_at, self.expires_at.map(|at| at.0));
        set(&mut job.priority, self.priority);
        let unique = self.unique.map(UniqueLine::into_unique).transpose()?;
        set_some(&mut job.unique, unique);
        set_some(&mut job.group, self.group.map(GroupLine::into_group));
        set_some(&mut job.share, self.share);
        set(&mut job.limits, self.limits);
        set(&mut job.cost, self.cost);
        set(&mut job.max_attempts, self.max_attempts);
        set_some(&mut job.max_crashes, self.max_crashes);
        set(&mut job.retry, self.retry.map(RetryLine::into_policy));
        set_some(&mut job.timeout, self.timeout.map(|span| span.0));
        set(&mut job.retention, self.retention.map(|span| span.0));
        set_some(&mut job.remember, self.remember.map(|span| span.0));
        set(&mut job.wait_for, self.wait_for);
        if self.flow.is_some() {
            return Err("has a flow; send the steps of a flow by POST /v1/flows".into());
        }
        for after in self.after.unwrap_or_default() {
            job.after.push(after.into_after()?);
        }
        if let Some(url) = &self.target {
            push::aim(&mut job, url);
        }
        if let Some(url) = &self.callback {
            push::set(&mut job, push::CALLBACK, url);
        }
        Ok(job)
    }

    /// Without what only its sender and its readers may see.
    pub(crate) fn without_payload(&mut self) {
        (self.payload, self.payload_base64, self.headers) = (None, None, None);
        self.memos = None;
    }

    fn payload_bytes(&self) -> Result<Option<Bytes>, LineError> {
        either(&self.payload, &self.payload_base64, "payload")
    }
}

/// The id of a job; `what` is before it in the error.
pub(crate) fn id_of(what: &str, text: &str) -> Result<JobId, LineError> {
    text.parse().map_err(|error: punctual::Error| {
        let remedy = error.message().split_once("; ");
        let remedy = remedy.map_or("write a UUID", |(_, remedy)| remedy);
        format!("{what} \"{}\" is not a UUID; {remedy}", shown(text))
    })
}

/// The bytes of a field that is JSON or base64, as the line has it.
pub(crate) fn either(
    json: &Option<Box<RawValue>>,
    base64: &Option<String>,
    name: &str,
) -> Result<Option<Bytes>, LineError> {
    match (json, base64) {
        (Some(_), Some(_)) => Err(format!("has both {name} and {name}_base64; one is enough")),
        (Some(json), None) => Ok(Some(Bytes::copy_from_slice(json.get().as_bytes()))),
        (None, Some(text)) => bytes_of_base64(text)
            .map(Some)
            .ok_or_else(|| format!("{name}_base64 is not base64; encode it, with its padding")),
        (None, None) => Ok(None),
    }
}

/// A field that is there: its `null` is four bytes like any others.
pub(crate) fn raw<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn set_some<T>(field: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *field = value;
    }
}

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

#[cfg(test)]
mod tests;
