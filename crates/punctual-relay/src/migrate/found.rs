//! A job as another library wrote it, and what it becomes.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::job::{DeadReason, PastAttempt, PastOutcome, check_name};
use punctual::time::{Timestamp, days};
use punctual::{Due, JobId, JobRecord, JobState, NewJob, Result, RetryPolicy};

use super::there::is_own;
use crate::redis::Connection;

/// How a library writes its jobs.
#[async_trait]
pub(super) trait Format: fmt::Debug + Send + Sync {
    /// The version that wrote the queue, if it is known; an error if it is another than those that
    /// were read.
    async fn check(&self, connection: &mut Connection) -> Result<Option<String>>;

    /// The keys of the queue: those to take from, and those to leave and count.
    fn places(&self, workers_stopped: bool) -> Vec<Place>;

    /// The key of the hash of a job, where jobs have one; `None` where the item is the whole job.
    fn hash_key(&self, _: &str) -> Option<String> {
        None
    }

    /// The name of a job: what no other has.
    fn name(&self, item: &[u8]) -> String {
        String::from_utf8_lossy(item).into_owned()
    }

    /// Reads a job.
    fn read(&self, found: &Found) -> Read;

    /// Keys beside a job that keep it where it is if they exist, and why.
    fn related(&self, _: &str) -> Vec<(String, &'static str)> {
        Vec::new()
    }

    /// The queues that are there, as far as the library lists them.
    async fn queues(&self, connection: &mut Connection) -> Result<Vec<String>>;

    /// Whether the library starts no job of the queue.
    async fn is_paused(&self, _: &mut Connection) -> Result<bool> {
        Ok(false)
    }

    /// A key that wakes workers of the library after jobs were put back.
    fn wakes(&self) -> Option<String> {
        None
    }
}

/// A key with jobs of one state.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) shape: Shape,
    /// The library's word for it.
    pub(super) state: &'static str,
    /// Why its jobs are left where they are, if they are.
    pub(super) stays: Option<&'static str>,
    /// Whether no other queue has jobs there.
    pub(super) is_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A list whose last item is the next.
    Tail,
    /// A list whose first item is the next.
    Head,
    /// A sorted set.
    Sorted,
    /// A hash of kombu with what workers hold; each field is in a sorted set too.
    Held,
}

impl Shape {
    /// The type of its key, as Redis names it.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Tail | Self::Head => "list",
            Self::Sorted => "zset",
            Self::Held => "hash",
        }
    }
}

impl Place {
    pub(super) fn new(key: impl Into<String>, shape: Shape, state: &'static str) -> Self {
        Self {
            key: key.into(),
            shape,
            state,
            stays: None,
            is_own: is_own(shape, state),
        }
    }

    #[must_use]
    pub(super) fn stays(mut self, why: &'static str) -> Self {
        self.stays = Some(why);
        self
    }
}

/// A job in its place.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) state: &'static str,
    pub(super) item: Bytes,
    pub(super) score: Option<f64>,
    /// Empty where jobs have no hash.
    pub(super) fields: HashMap<String, Bytes>,
    /// What is wrong with the key of its hash, if something else is there; or a key beside it that
    /// keeps it there.
    pub(super) is_odd: Option<String>,
    /// When it was taken: the creation of a job whose library writes none.
    pub(super) taken_at: Option<Timestamp>,
}

impl Found {
    /// A field of its hash, as text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let bytes = self.fields.get(name)?;
        std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

#[derive(Debug)]
pub(super) enum Read {
    Job(Box<Foreign>),
    /// It stays where it is, for that reason.
    Stays(String),
    /// It is of another queue.
    OfAnother,
}

/// A job of another library, in the words of this one.
#[derive(Debug, Clone, Default)]
pub(super) struct Foreign {
    pub(super) kind: String,
    pub(super) payload: Bytes,
    pub(super) content_type: Option<&'static str>,
    /// `None` for at once.
    pub(super) due: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) priority: Option<u8>,
    /// 1 is no retry; `None` for the default.
    pub(super) max_attempts: Option<u32>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) timeout: Option<Duration>,
    pub(super) enqueued_at: Option<Timestamp>,
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    pub(super) failed_at: Option<Timestamp>,
    pub(super) is_dead: bool,
    pub(super) headers: Vec<(String, String)>,
}

/// The beginning of an error that is kept.
const ERROR_BYTES: usize = 1_000;
/// Bytes of a header that are kept.
pub(super) const HEADER_BYTES: usize = 256;

impl Foreign {
    /// The same job each time: nothing but what the library wrote is in it, so that a repeat is a
    /// duplicate.
    pub(super) fn into_job(self, id: JobId, into: &str, from: &str, name: &str) -> NewJob {
        let mut job = NewJob::with_id(id, into, self.payload);
        job.kind = name_of(&self.kind, into);
        if let Some(kind) = self.content_type {
            job.content_type = kind.into();
        }
        job.headers = vec![
            ("migrated-from".into(), printable(from)),
            ("migrated-name".into(), printable(name)),
        ];
        if job.kind != self.kind {
            let kind = printable(&self.kind);
            job.headers.push(("migrated-kind".into(), kind));
        }
        let more = self.headers.into_iter();
        job.headers
            .extend(more.map(|(name, value)| (name, printable(&value))));
        job.due = self.due.map_or(Due::Now, Due::At);
        job.expires_at = self.expires_at;
        job.priority = self.priority.unwrap_or(job.priority);
        job.max_attempts = self.max_attempts.unwrap_or(job.max_attempts);
        job.retry = self.retry.unwrap_or(job.retry);
        job.timeout = self.timeout;
        job.remember = Some(days(7));
        let enqueued = self.enqueued_at.unwrap_or(Timestamp::ZERO);
        let failed = self.failed_at.unwrap_or(enqueued);
        let mut past = JobRecord::new(job.clone(), self.due.unwrap_or(enqueued), enqueued);
        let error = self.last_error.map(|text| cut(&text, ERROR_BYTES));
        if self.is_dead || self.failures > 0 {
            past.failures = self.failures.max(1);
            past.attempt = past.failures;
            past.last_error = error.clone();
            past.started_at = Some(failed);
            let outcome = match self.is_dead {
                true => PastOutcome::Dead,
                false => PastOutcome::Retry,
            };
            past.attempts =
                vec![PastAttempt::new(past.attempt, failed, failed, outcome).error(error)];
        }
        if self.is_dead {
            past.state = JobState::Dead;
            past.dead = Some(DeadReason::Permanent);
            past.finished_at = Some(failed);
        }
        job.history(past)
    }
}

/// A kind has few characters: others become `_`.
fn name_of(kind: &str, into: &str) -> String {
    if check_name("kind", kind).is_ok() {
        return kind.to_owned();
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    let kind: String = kind
        .chars()
        .take(128)
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    match check_name("kind", &kind) {
        Ok(()) => kind,
        Err(_) => into.to_owned(),
    }
}

fn printable(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(&text, HEADER_BYTES)
}

fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes.min(text.len()));
    text[..end].to_owned()
}

/// Milliseconds since 1970, of years that an engine has.
pub(super) fn of_millis(ms: u64) -> Option<Timestamp> {
    (ms <= Timestamp::MAX.as_micros() / 1_000).then(|| Timestamp::from_millis(ms))
}

/// Seconds since 1970 with a fraction, or whole milliseconds, which newer versions write.
pub(super) fn of_number(number: f64) -> Option<Timestamp> {
    let seconds = if number > 1e11 { number / 1e3 } else { number };
    let micros = (seconds * 1e6).round();
    let allowed = 0.0..=Timestamp::MAX.as_micros() as f64;
    allowed
        .contains(&micros)
        .then(|| Timestamp::from_micros(micros as u64))
}

/// An instant as Python writes it; one without a zone is in UTC.
pub(super) fn of_text(text: &str) -> Option<Timestamp> {
    let text = text.replace(' ', "T");
    text.parse().or_else(|_| format!("{text}Z").parse()).ok()
}
