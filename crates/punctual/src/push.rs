//! What a job carries of its delivery by HTTP: headers that no engine reads, and the queues in
//! which such jobs lie.
//!
//! The crate `punctual-push` delivers them; `punctual serve` has one such worker.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::engine::Settlement;
use crate::job::{JobId, JobRecord, NewJob, Outcome};

/// The header that names the URL to which a job is posted.
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

/// Has a job posted to a URL when it is due: names the target in its headers and puts it in the
/// pushed queue of the same name, `mail` into `http:mail`, none into [`DEFAULT_QUEUE`]. Its kind
/// stays.
///
/// ```
/// use punctual::{NewJob, push};
///
/// let mut job = NewJob::new("mail", r#"{"to":"ann"}"#);
/// push::aim(&mut job, "https://example.com/hook");
/// assert_eq!((&*job.queue, &*job.kind), ("http:mail", "mail"));
/// assert_eq!(push::target(&job.headers), Some("https://example.com/hook"));
/// ```
pub fn aim(job: &mut NewJob, url: &str) {
    set(job, TARGET, url);
    if job.queue.is_empty() {
        job.queue = DEFAULT_QUEUE.to_owned();
    } else if !is_queue(&job.queue) {
        job.queue.insert_str(0, QUEUE_PREFIX);
    }
    if job.kind.is_empty() {
        job.kind = "http".to_owned();
    }
}

/// Sets a header; a former value is replaced.
pub fn set(job: &mut NewJob, name: &str, value: &str) {
    job.headers
        .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    job.headers.push((name.to_owned(), value.to_owned()));
}

/// The job that posts how another one ended, for an effect of the settle that ends it; `None` if
/// it asked for no callback, or is not ended by this settlement.
///
/// Its id is made of the job's and the attempt's, so that a settle sent twice brings about one.
pub fn callback(job: &JobRecord, settlement: &Settlement) -> Option<NewJob> {
    let url = header(&job.headers, CALLBACK)?;
    let (state, failures) = ending(job, &settlement.outcome)?;
    let told = Told {
        id: job.id,
        queue: &job.queue,
        kind: &job.kind,
        state,
        attempt: settlement.attempt,
        failures,
        error: settlement.error.as_deref(),
        result: settlement.result.as_deref().and_then(json_of),
    };
    let mut callback = NewJob {
        id: JobId::derived(CALLBACK, &format!("{}/{}", job.id, settlement.attempt))
            .in_shard(job.id.shard()),
        kind: "callback".to_owned(),
        ..NewJob::new(CALLBACK_QUEUE, serde_json::to_vec(&told).ok()?)
    };
    set(&mut callback, TARGET, url);
    for name in ["traceparent", "tracestate"] {
        if let Some(value) = header(&job.headers, name) {
            set(&mut callback, name, value);
        }
    }
    Some(callback)
}

/// What a callback's payload says.
#[derive(Serialize)]
struct Told<'a> {
    id: JobId,
    queue: &'a str,
    kind: &'a str,
    state: &'static str,
    attempt: u32,
    failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

/// The state in which an outcome leaves the job for good, and its failures by then.
fn ending(job: &JobRecord, outcome: &Outcome) -> Option<(&'static str, u32)> {
    let failed = job.failures.saturating_add(1);
    match outcome {
        Outcome::Completed => Some(("completed", job.failures)),
        Outcome::Dead => Some(("dead", failed)),
        Outcome::Cancelled => Some(("cancelled", job.failures)),
        Outcome::Retry { .. } if job.cancel_requested => Some(("cancelled", failed)),
        Outcome::Retry { .. } if failed >= job.max_attempts => Some(("dead", failed)),
        _ if job.cancel_requested => Some(("cancelled", job.failures)),
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
