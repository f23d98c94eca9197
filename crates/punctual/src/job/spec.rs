//! A job as it is sent.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::bounds::*;
use super::limits::{
    Limits, MAX_WAIT_MAX, REMEMBER_MAX, TIMEOUT_MAX, check_header, check_key, check_limit_name_of,
    check_name,
};
use super::log::check_log;
use super::{JobId, JobRecord};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{After, FlowStep};
use crate::retry::RetryPolicy;
use crate::time::{Timestamp, exact_span};

/// When a job may first run. The engine alone adds a delay to its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// That span after the engine took it.
    After(Duration),
    /// At that instant; one in the past is due now, and the receipt says `late`.
    At(Timestamp),
}

/// What happens to an enqueue whose unique key is held by an unsettled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum UniquePolicy {
    /// The holder stays; the receipt says `merged` with the holder's id.
    #[default]
    Keep,
    /// A waiting holder becomes `cancelled: replaced`; an active one answers `unique_active`.
    Replace,
    /// A waiting holder stays (`merged`); behind an active one, one follower is held and started
    /// when the holder settles (a second follower is merged into the first).
    After,
    /// Debounce: a waiting holder keeps its id and takes the content of the new job, and its due,
    /// but at most `max_wait` after the holder was enqueued (`refreshed`). A holder that has been
    /// claimed before keeps its due. Behind an active holder one follower waits, which later jobs
    /// refresh.
    Refresh {
        /// The longest time from the first enqueue to the due: over 0 to 365 days, and no shorter
        /// than the delay.
        max_wait: Duration,
    },
}

/// How long a unique key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Hold {
    /// Until the job settles.
    #[default]
    UntilSettled,
    /// Until the job's first claim.
    UntilStarted,
    /// For that span after enqueue, whether the job has settled by then or not.
    For(Duration),
}

/// A key that at most one unsettled job of the queue holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unique {
    /// The key: 1 to 256 bytes of printable text, compared byte by byte, per queue.
    pub key: String,
    /// What happens when it is held.
    pub policy: UniquePolicy,
    /// How long it is held.
    pub hold: Hold,
}

/// What a job of a group that is to be retried (or snoozed) does to the jobs behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnRetry {
    /// It holds its group back until it has run again.
    #[default]
    Hold,
    /// It lets the others pass.
    Pass,
}

/// A serial group: at most one of its jobs is active, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Group {
    /// The key: 1 to 256 bytes of printable text, compared byte by byte, per queue.
    pub key: String,
    /// What a retry does to the rest.
    pub on_retry: OnRetry,
}

/// A job as sent; what may be sent is checked by [`NewJob::check`], the same for every engine.
///
/// ```
/// use punctual::{Due, NewJob, time::minutes};
///
/// let job = NewJob::new("orders", r#"{"order":7}"#).due(Due::After(minutes(30)));
/// job.check(&Default::default())?;
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewJob {
    /// Its id, made before the first send.
    pub id: JobId,
    /// The line of jobs that it joins.
    pub queue: String,
    /// The name of its handler; the queue's name by default.
    pub kind: String,
    /// Opaque bytes, never parsed by an engine.
    pub payload: Bytes,
    /// What the payload is, `application/json` by default.
    pub content_type: String,
    /// Names and values handed to the handler, trace context among them, in this order.
    pub headers: Vec<(String, String)>,
    /// When it may first run.
    pub due: Due,
    /// From this instant on it is `cancelled: expired` unless it is active.
    pub expires_at: Option<Timestamp>,
    /// 0 (first) to 9 (last), 5 by default; strict between lines.
    pub priority: u8,
    /// Its unique key, if it has one.
    pub unique: Option<Unique>,
    /// Its serial group, if it has one.
    pub group: Option<Group>,
    /// The key (a tenant, a customer) whose jobs take turns with those of other keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Names of limits that hold for it, over all queues, at most 3: it starts when all are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Units of the rates of these limits that its start takes, 1 to 1,000; 1 by default.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u32,
    /// Failures after which it is dead, at least 1; 20 by default.
    pub max_attempts: u32,
    /// Crashes after which it is dead (poison), at least 1; `None` for three. Only a crash of a
    /// lease that had this job alone ends it, so it runs alone after two crashes, or after
    /// `max_crashes` less one: with 1 it runs alone from its first attempt on, and its first crash
    /// ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// When a failed attempt is due again.
    pub retry: RetryPolicy,
    /// How long one attempt may run; `None` for as long as its lease is extended. The worker
    /// enforces it: engines store it and extend a lease for as long as a worker asks.
    pub timeout: Option<Duration>,
    /// How long a completed job is kept, zero (the body is dropped at once) by default.
    pub retention: Duration,
    /// How long after it settled a resend of its id is recognised, over 0 to 7 days; `None` for the
    /// engine's settled window. What is remembered for longer than that may take half of
    /// [`Limits::tombstone_bytes`]: beyond it an enqueue with it is refused (`engine_full`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Duration>,
    /// Names that must be cleared before it runs; not empty makes it held.
    pub wait_for: Vec<String>,
    /// Jobs that must settle before it runs; not empty makes it held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// The step of a flow that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Box<FlowStep>>,
    /// What an import knows of its past; `None` for a new job.
    pub history: Option<Box<JobRecord>>,
}

/// The header of a follow-up that has the id of the job whose attempt caused it.
pub const PARENT_HEADER: &str = "punctual-parent";

/// The headers that must be the same when an id is sent again: all but those that name the cause
/// and not the work, in any case: the trace context, `traceparent` and `tracestate`, and
/// [`PARENT_HEADER`].
pub fn content_headers(headers: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
    let asks = ["traceparent", "tracestate", PARENT_HEADER];
    let is_of_who_asks = move |name: &str| asks.iter().any(|asks| name.eq_ignore_ascii_case(asks));
    headers
        .iter()
        .filter(move |(name, _)| !is_of_who_asks(name))
}

impl NewJob {
    /// Whether an engine reads no more of it than its due and its priority: it has no key, no
    /// group, no span of its own, and waits for nothing.
    #[doc(hidden)]
    pub fn is_plain(&self) -> bool {
        let has_key = self.unique.is_some() || self.group.is_some() || self.share.is_some();
        let is_limited = !self.limits.is_empty();
        let has_end = self.expires_at.is_some() || self.max_crashes.is_some();
        let is_kept = !self.retention.is_zero() || self.remember.is_some();
        let waits = !self.wait_for.is_empty() || !self.after.is_empty() || self.flow.is_some();
        !(has_key || is_limited || has_end || is_kept || waits || self.history.is_some())
    }

    /// A job for a queue, due at once, with a fresh id and every default.
    pub fn new(queue: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self::with_id(JobId::new(), queue, payload)
    }

    /// The same with an id that is known already.
    pub fn with_id(id: JobId, queue: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        let queue = queue.into();
        Self {
            id,
            kind: queue.clone(),
            queue,
            payload: payload.into(),
            content_type: CONTENT_TYPE_DEFAULT.into(),
            headers: Vec::new(),
            due: Due::Now,
            expires_at: None,
            priority: PRIORITY_DEFAULT,
            unique: None,
            group: None,
            share: None,
            limits: Vec::new(),
            cost: 1,
            max_attempts: MAX_ATTEMPTS_DEFAULT,
            max_crashes: None,
            retry: RetryPolicy::default(),
            timeout: None,
            retention: Duration::ZERO,
            remember: None,
            wait_for: Vec::new(),
            after: Vec::new(),
            flow: None,
            history: None,
        }
    }

    /// Checks every field against the naming rules and limits; engines call it for each job.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        self.check_id()?;
        check_name("queue", &self.queue)?;
        check_name("kind", &self.kind)?;
        check_payload(&self.payload, limits)?;
        self.check_headers(limits)?;
        if let Due::After(span) = self.due {
            check_span("delay", span)?;
        }
        check_priority(self.priority)?;
        if let Some(unique) = &self.unique {
            check_key("unique.key", &unique.key)?;
            if let Hold::For(span) = unique.hold {
                check_span("unique.hold", span)?;
            }
            if let UniquePolicy::Refresh { max_wait } = unique.policy {
                self.check_max_wait(max_wait)?;
            }
        }
        if let Some(group) = &self.group {
            check_key("group.key", &group.key)?;
        }
        if let Some(share) = &self.share {
            check_key("share", share)?;
        }
        self.check_limits()?;
        if self.max_attempts == 0 {
            return Err(refused("max_attempts", TEXT_MAX_ATTEMPTS, 0));
        }
        if self.max_crashes == Some(0) {
            return Err(refused("max_crashes", TEXT_MAX_CRASHES, 0));
        }
        self.retry.check()?;
        let allowed = |timeout: &Duration| !timeout.is_zero() && *timeout <= TIMEOUT_MAX;
        if let Some(timeout) = self.timeout.filter(|timeout| !allowed(timeout)) {
            return Err(refused("timeout", TEXT_TIMEOUT, exact_span(timeout)));
        }
        check_span("retention", self.retention)?;
        let allowed = |span: &Duration| !span.is_zero() && *span <= REMEMBER_MAX;
        if let Some(span) = self.remember.filter(|span| !allowed(span)) {
            return Err(refused("remember", TEXT_REMEMBER, exact_span(span)));
        }
        check_held_names(&self.wait_for, limits)?;
        self.check_links()?;
        self.history
            .as_ref()
            .map_or(Ok(()), |past| check_past(past, limits))
    }

    /// An import brings runs of schedules as they were, and steps have the ids that go with them;
    /// no other job may have one.
    fn check_id(&self) -> Result<()> {
        let is_run = self
            .history
            .as_ref()
            .is_some_and(|past| past.schedule.is_some());
        if is_run || self.flow.is_some() || !self.id.is_reserved() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ReservedId, TEXT_RESERVED_ID).with("id", self.id))
    }

    fn check_limits(&self) -> Result<()> {
        if self.limits.len() > NAMED_LIMITS_MAX {
            let error = Error::new(ErrorKind::InvalidInput, TEXT_LIMITS_COUNT);
            return Err(error.with("limits", self.limits.len()));
        }
        for (at, limit) in self.limits.iter().enumerate() {
            check_limit_name_of(LIMIT_PLACES[at], limit)?;
            if self.limits[..at].contains(limit) {
                let error = Error::new(ErrorKind::InvalidInput, TEXT_LIMIT_TWICE);
                return Err(error.with(LIMIT_PLACES[at], limit));
            }
        }
        if !(1..=COST_MAX).contains(&self.cost) {
            return Err(refused("cost", TEXT_COST, self.cost));
        }
        if self.cost > 1 && self.limits.is_empty() {
            let error = Error::new(ErrorKind::InvalidInput, TEXT_COST_WITHOUT_LIMIT);
            return Err(error.with("cost", self.cost));
        }
        Ok(())
    }

    fn check_max_wait(&self, max_wait: Duration) -> Result<()> {
        if max_wait.is_zero() || max_wait > MAX_WAIT_MAX {
            return Err(refused(
                "unique.max_wait",
                TEXT_MAX_WAIT,
                exact_span(max_wait),
            ));
        }
        match self.due {
            Due::After(delay) if delay > max_wait => {
                Err(Error::new(ErrorKind::InvalidInput, TEXT_MAX_WAIT_DELAY)
                    .with("unique.max_wait", exact_span(max_wait))
                    .with("delay", exact_span(delay)))
            }
            _ => Ok(()),
        }
    }

    fn check_headers(&self, limits: &Limits) -> Result<()> {
        check_header("content-type", &self.content_type)?;
        if self.content_type.is_empty() || self.content_type.len() > 128 {
            return Err(refused("bytes", TEXT_CONTENT_TYPE, self.content_type.len()));
        }
        let mut bytes = 0;
        for (name, value) in &self.headers {
            check_header(name, value)?;
            bytes += name.len() + value.len();
        }
        if bytes > limits.header_bytes {
            return Err(Error::new(ErrorKind::PayloadTooLarge, TEXT_HEADERS)
                .with("bytes", bytes)
                .with("limit", limits.header_bytes));
        }
        Ok(())
    }
}

/// Checks a priority.
pub(crate) fn check_priority(priority: u8) -> Result<()> {
    if priority > PRIORITY_MAX {
        return Err(refused("priority", TEXT_PRIORITY, priority));
    }
    Ok(())
}

/// Checks the size of a payload.
pub(crate) fn check_payload(payload: &Bytes, limits: &Limits) -> Result<()> {
    if payload.len() > limits.payload_bytes {
        return Err(Error::new(ErrorKind::PayloadTooLarge, TEXT_PAYLOAD)
            .with("bytes", payload.len())
            .with("limit", limits.payload_bytes));
    }
    Ok(())
}

pub(crate) fn check_held_names(names: &[String], limits: &Limits) -> Result<()> {
    if names.len() > limits.wait_for_names {
        return Err(refused("names", TEXT_WAIT_FOR, names.len()));
    }
    names
        .iter()
        .try_for_each(|name| check_key("name in wait_for", name))
}

/// Counters of a past stay far from where they would overflow.
const PAST_COUNT_MAX: u32 = 1_000_000_000;

fn check_past(past: &JobRecord, limits: &Limits) -> Result<()> {
    check_held_names(&past.wait_for, limits)?;
    let notes = [
        ("result", past.result.as_ref().map(Bytes::len)),
        ("progress", past.progress.as_ref().map(Bytes::len)),
        ("last_error", past.last_error.as_ref().map(String::len)),
    ];
    for (what, bytes) in notes {
        if let Some(bytes) = bytes.filter(|bytes| *bytes > limits.result_bytes) {
            let message = format!("{what} {TEXT_PAST_BYTES}");
            return Err(Error::new(ErrorKind::PayloadTooLarge, message)
                .with("bytes", bytes)
                .with("limit", limits.result_bytes));
        }
    }
    check_log(past.log.iter().map(|line| line.text.as_str()))?;
    for is_step in [true, false] {
        let alike = |memo: &&super::Memo| (memo.source == super::MemoSource::Step) == is_step;
        let memos = past.memos.iter().filter(alike);
        super::check_memos(memos.map(|memo| (memo.name.as_str(), &memo.value)))?;
    }
    if past.attempts.len() > ATTEMPTS_KEPT {
        return Err(refused("attempts", TEXT_PAST_ATTEMPTS, past.attempts.len()));
    }
    let errors = past.attempts.iter().filter_map(|one| one.error.as_ref());
    if let Some(error) = errors
        .into_iter()
        .find(|error| error.len() > ATTEMPT_ERROR_BYTES)
    {
        return Err(Error::new(ErrorKind::PayloadTooLarge, TEXT_PAST_ERROR)
            .with("bytes", error.len())
            .with("limit", ATTEMPT_ERROR_BYTES));
    }
    let numbers = past.attempts.iter().map(|one| one.attempt);
    let counts = [past.attempt, past.failures, past.crashes];
    match counts
        .into_iter()
        .chain(numbers)
        .find(|count| *count > PAST_COUNT_MAX)
    {
        Some(count) => Err(refused("count", TEXT_PAST_COUNT, count)),
        None => Ok(()),
    }
}

/// Each name of a limit by its place.
const LIMIT_PLACES: [&str; NAMED_LIMITS_MAX] = ["limits[0]", "limits[1]", "limits[2]"];

fn check_span(what: &'static str, span: Duration) -> Result<()> {
    // The rest, up to the year 9999, is checked when the engine adds it to its time.
    if span.as_micros() > u128::from(Timestamp::MAX.as_micros()) {
        let message = format!("{what} {TEXT_BEYOND_TIME}");
        return Err(Error::new(ErrorKind::InvalidDelay, message).with(what, exact_span(span)));
    }
    Ok(())
}

/// What a job costs that says nothing.
pub(crate) const fn one() -> u32 {
    1
}

pub(crate) const fn is_one(cost: &u32) -> bool {
    *cost == 1
}

/// A field, by its path, whose value is refused.
fn refused(field: &'static str, text: &'static str, value: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, text).with(field, value)
}
