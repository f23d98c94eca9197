//! What a job carries of its delivery by HTTP or to RabbitMQ: headers that no engine reads, and the
//! queues in which such jobs lie.
//!
//! The crate `punctual-push` posts them, and `punctual serve` has one such worker. `punctual relay
//! amqp-emit` publishes those with a target on RabbitMQ.

mod amqp;

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::engine::Settlement;
use crate::job::{CancelReason, DeadReason, JobId, JobRecord, JobState, NewJob, Outcome};
use crate::time::hours;

pub use self::amqp::{AMQP_DEFAULT_QUEUE, AMQP_PREFIX, AmqpTarget, is_amqp_queue};

/// The header that names the URL to which a job is posted, or its target on RabbitMQ.
pub const TARGET: &str = "punctual-target";
/// The header that names the URL to which the outcome of a job is posted.
pub const CALLBACK: &str = "punctual-callback";
/// What the names of queues of pushed jobs start with.
pub const QUEUE_PREFIX: &str = "http:";
/// The queue of pushed jobs for which none was named.
pub const DEFAULT_QUEUE: &str = "http:default";
/// The queue of the outcomes that are posted.
pub const CALLBACK_QUEUE: &str = "http:callbacks";
/// The queue of the alerts that are posted.
pub const ALERT_QUEUE: &str = "http:alerts";

/// The value of a header, whatever the case of its name; of several the first.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut named = headers.iter();
    named
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// Where a job with these headers is to be posted, if anywhere.
pub fn target(headers: &[(String, String)]) -> Option<&str> {
    header(headers, TARGET)
}

/// Whether jobs of that queue are pushed.
pub fn is_queue(name: &str) -> bool {
    name.starts_with(QUEUE_PREFIX)
}

/// Has a job posted to a URL when it is due: names the target in its headers and enqueues it the
/// pushed queue of the same name, `mail` into `http:mail`, none into [`DEFAULT_QUEUE`]. Its kind
/// stays. With a target `amqp:EXCHANGE/KEY` the job is published to RabbitMQ, and its queue is
/// `amqp:mail` or [`AMQP_DEFAULT_QUEUE`].
///
/// ```
/// use punctual::{NewJob, push};
///
/// let mut job = NewJob::new("mail", r#"{"to":"ann"}"#);
/// push::aim(&mut job, "https://example.com/hook");
/// assert_eq!((&*job.queue, &*job.kind), ("http:mail", "mail"));
/// assert_eq!(push::target(&job.headers), Some("https://example.com/hook"));
///
/// let mut job = NewJob::new("mail", r#"{"to":"ann"}"#);
/// push::aim(&mut job, "amqp:orders/paid");
/// assert_eq!(&*job.queue, "amqp:mail");
/// ```
pub fn aim(job: &mut NewJob, target: &str) {
    set(job, TARGET, target);
    let (prefix, usual, kind) = match AmqpTarget::is(target) {
        true => (AMQP_PREFIX, AMQP_DEFAULT_QUEUE, "amqp"),
        false => (QUEUE_PREFIX, DEFAULT_QUEUE, "http"),
    };
    if job.queue.is_empty() {
        job.queue = usual.to_owned();
    } else if !job.queue.starts_with(prefix) {
        job.queue.insert_str(0, prefix);
    }
    if job.kind.is_empty() {
        job.kind = kind.to_owned();
    }
}

/// Sets a header; a former value is replaced.
pub fn set(job: &mut NewJob, name: &str, value: &str) {
    job.headers
        .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    job.headers.push((name.to_owned(), value.to_owned()));
}

/// How long a callback is known after it was posted, so that the search for jobs without a callback
/// does not post it again.
const CALLBACK_KEPT: Duration = hours(1);

/// The job that posts how another one ended, for an effect of the settle that ends it; `None` if
/// it asked for no callback, or is not ended by this settlement.
///
/// Its id is made of the job's, the attempt's and the state's, so that a settle sent twice brings
/// about one.
pub fn callback(job: &JobRecord, settlement: &Settlement) -> Option<NewJob> {
    let url = header(&job.headers, CALLBACK)?;
    let (end, failures) = ending(job, &settlement.outcome)?;
    let reported = Reported {
        attempt: settlement.attempt,
        failures,
        error: settlement.error.as_deref(),
        result: settlement.result.as_deref().and_then(json_of),
        ..Reported::of(job, end)
    };
    reported.post(job, url)
}

/// The same of a job as it is kept, for one that no settlement ended: the one callback has the id
/// of the other. `None` if it asked for none, or is not settled.
pub fn callback_of(job: &JobRecord) -> Option<NewJob> {
    let url = header(&job.headers, CALLBACK)?;
    let end = match job.state {
        JobState::Completed => End::Completed,
        JobState::Cancelled => End::Cancelled(job.cancelled.unwrap_or(CancelReason::Requested)),
        JobState::Dead => End::Dead(job.dead.unwrap_or(DeadReason::Permanent)),
        _ => return None,
    };
    Reported::of(job, end).post(job, url)
}

/// How a job ended.
#[derive(Clone, Copy)]
enum End {
    Completed,
    Cancelled(CancelReason),
    Dead(DeadReason),
}

/// What a callback's payload says.
#[derive(Serialize)]
struct Reported<'a> {
    id: JobId,
    queue: &'a str,
    kind: &'a str,
    state: &'static str,
    attempt: u32,
    failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

impl<'a> Reported<'a> {
    fn of(job: &'a JobRecord, end: End) -> Self {
        let (state, cancelled, dead) = match end {
            End::Completed => (JobState::Completed, None, None),
            End::Cancelled(why) => (JobState::Cancelled, Some(why.name()), None),
            End::Dead(why) => (JobState::Dead, None, Some(why.name())),
        };
        Self {
            id: job.id,
            queue: &job.queue,
            kind: &job.kind,
            state: state.name(),
            attempt: job.attempt,
            failures: job.failures,
            cancelled,
            dead,
            error: job.last_error.as_deref(),
            result: job.result.as_deref().and_then(json_of),
        }
    }

    fn post(self, job: &JobRecord, url: &str) -> Option<NewJob> {
        let name = format!("{}/{}/{}", job.id, self.attempt, self.state);
        let mut callback = NewJob {
            id: JobId::derived(CALLBACK, &name).in_shard(job.id.shard()),
            kind: "callback".to_owned(),
            retention: CALLBACK_KEPT,
            ..NewJob::new(CALLBACK_QUEUE, serde_json::to_vec(&self).ok()?)
        };
        set(&mut callback, TARGET, url);
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = header(&job.headers, name) {
                set(&mut callback, name, value);
            }
        }
        Some(callback)
    }
}

/// How an outcome leaves the job for good, and its failures by then.
fn ending(job: &JobRecord, outcome: &Outcome) -> Option<(End, u32)> {
    let failed = job.failures.saturating_add(1);
    let stopped = End::Cancelled(CancelReason::Requested);
    match outcome {
        Outcome::Completed => Some((End::Completed, job.failures)),
        Outcome::Dead => Some((End::Dead(DeadReason::Permanent), failed)),
        Outcome::Cancelled => Some((stopped, job.failures)),
        Outcome::Retry { .. } if job.cancel_requested => Some((stopped, failed)),
        Outcome::Retry { .. } if failed >= job.max_attempts => {
            Some((End::Dead(DeadReason::Exhausted), failed))
        }
        _ if job.cancel_requested => Some((stopped, job.failures)),
        _ => None,
    }
}

/// A result as the JSON that it is, else as text.
fn json_of(bytes: &[u8]) -> Option<Box<RawValue>> {
    serde_json::from_slice(bytes)
        .or_else(|_| serde_json::value::to_raw_value(&String::from_utf8_lossy(bytes)))
        .ok()
}

#[cfg(test)]
mod tests;
