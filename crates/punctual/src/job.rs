//! The job: what is sent, what the engine keeps, its states, and how an attempt can end.
//!
//! The lifecycle is one table, [`TRANSITIONS`]; the engines' tests and `docs/job-lifecycle.md` read
//! it.

pub(crate) mod bounds;
mod build;
mod id;
mod limits;
mod log;
mod memo;
mod past;
mod record;
mod spec;
mod state;

pub use bounds::{
    ATTEMPT_ERROR_BYTES, ATTEMPTS_KEPT, CLAIM_QUEUES_MAX, COST_MAX, KEY_BYTES_MAX, LOG_BYTES_KEPT,
    LOG_LINES_KEPT, MEMO_BYTES_MAX, MEMOS_BYTES_MAX, MEMOS_MAX, NAME_BYTES_MAX, NAMED_LIMITS_MAX,
    PRIORITY_MAX, RECORD_BYTES_MAX, RETRY_SPANS_MAX, WAIT_JOBS_MAX,
};
pub use id::JobId;
pub use limits::{
    CLAIM_BYTES_MAX, Limits, MAX_WAIT_MAX, REMEMBER_MAX, TIMEOUT_MAX, TOMBSTONE_BYTES,
    check_header, check_key, check_name,
};
pub(crate) use limits::{check_limit_name, check_lock_name, check_schedule_name, shown};
pub(crate) use log::append_log;
pub use log::{LogLine, check_log};
pub(crate) use memo::append_memo;
pub use memo::{Memo, MemoSource, check_memos, too_many_memos};
pub(crate) use past::push_attempt;
pub use past::{PastAttempt, PastOutcome};
pub(crate) use record::suspect_after;
pub use record::{CancelReason, DeadReason, JobRecord, Stop};
pub use spec::{
    Due, Group, Hold, NewJob, OnRetry, PARENT_HEADER, Unique, UniquePolicy, content_headers,
};
pub(crate) use spec::{check_held_names, is_one, one};
pub(crate) use spec::{check_payload, check_priority};
pub use state::{Event, JobState, TRANSITIONS, Transition};

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A typed payload: a serde type with the name of its handler and the queue that it goes to.
///
/// ```
/// use punctual::Job;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct CancelUnpaid { order: u64 }
/// impl Job for CancelUnpaid {
///     const KIND: &str = "orders.cancel_unpaid";
///     const QUEUE: &str = "orders";
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The stable name that picks the handler; never rename it while jobs are pending.
    const KIND: &str;
    /// The queue it is sent to by default.
    const QUEUE: &str = "default";
}

/// How an attempt ended, as the worker settles it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// Done; the job is settled.
    Completed,
    /// Failed; due again after the span, or after the span that the job's policy computes.
    /// Counts as a failure: at `max_attempts` the job is dead instead.
    Retry {
        /// The span to wait; the policy's if `None`.
        after: Option<Duration>,
    },
    /// Not now: due again after the span; counts as no failure.
    Snooze {
        /// The span to wait.
        after: Duration,
    },
    /// Given up on purpose; settled as cancelled.
    Cancelled,
    /// Failed for good; kept for a person as a dead letter.
    Dead,
    /// Handed back unrun: ready at the front of its line; counts as nothing.
    Released,
    /// Waits for signals, held, and frees its slot; counts as nothing. It comes back once each of
    /// the names was signalled, or when the limit has passed: then the names that are left are kept
    /// as [`MemoSource::TimedOut`].
    Hold {
        /// The names: 1 to 64.
        names: Vec<String>,
        /// The longest wait: over 0 to 365 days.
        limit: Duration,
    },
}

/// What a settle causes besides its outcome, in the same step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Effect {
    /// A new job. `max_pending` does not refuse it: an outcome must not be lost to a full queue.
    Enqueue(Box<NewJob>),
    /// Clears one name that a held job waits for; the last one makes it run.
    ///
    /// A clear whose job is not known is kept for an hour of engine time. When the job is enqueued
    /// within it and waits for that name, the name counts as cleared, once. At most 10,000 such
    /// clears are kept in a namespace; of more the oldest go.
    Clear {
        /// The held job.
        job: JobId,
        /// The name to clear; one that a known job does not wait for is ignored.
        name: String,
    },
    /// Cancels the job that holds a unique key, as an edit does: an active one is asked to stop.
    /// A key that no job holds is ignored.
    Cancel {
        /// The queue.
        queue: String,
        /// The unique key.
        key: String,
    },
    /// Signals a job, as an edit does: the payload is kept with it and ends its wait for that name.
    /// A job that is unknown, has settled or has no room for it is left as it is.
    Signal {
        /// The job, in any state before its end.
        job: JobId,
        /// The name of the signal.
        name: String,
        /// What the job finds with it, at most 8 KiB.
        payload: Bytes,
    },
}
