//! A job as an engine keeps it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Group, JobId, JobState, LogLine, Memo, PastAttempt, Unique};
use crate::flow::StepOf;
use crate::retry::RetryPolicy;
use crate::schedule::Occurrence;
use crate::time::Timestamp;

/// A job as the engine keeps it: what was sent, and what has become of it.
///
/// Equality is on every field: the conformance suite compares engines with its model by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// The name of its handler.
    pub kind: String,
    /// Opaque bytes as sent; empty once a settled job's body is dropped.
    pub payload: Bytes,
    /// What the payload is.
    pub content_type: String,
    /// Names and values as sent.
    pub headers: Vec<(String, String)>,
    /// From this instant on it is expired unless active.
    pub expires_at: Option<Timestamp>,
    /// 0 (first) to 9 (last).
    pub priority: u8,
    /// Its unique key as sent.
    pub unique: Option<Unique>,
    /// Its serial group as sent.
    pub group: Option<Group>,
    /// Its share as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Its named limits as sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Units of their rates that its start takes.
    #[serde(default = "super::one", skip_serializing_if = "super::is_one")]
    pub cost: u32,
    /// Failures after which it is dead.
    pub max_attempts: u32,
    /// Crashes after which it is dead, if it has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// When a failed attempt is due again.
    pub retry: RetryPolicy,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// How long it is kept once completed.
    pub retention: Duration,
    /// How long after it settled a resend is recognised, if it was sent with a span of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Duration>,
    /// The names it still waits for, in the order sent.
    pub wait_for: Vec<String>,
    /// The schedule that it is a run of, with the instant that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Box<Occurrence>>,
    /// The step of a flow that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Box<StepOf>>,

    /// Where it stands, at the instant of the answer.
    pub state: JobState,
    /// The instant it may run; for an active or settled one, the instant it last could.
    pub due: Timestamp,
    /// Claims of it so far; only grows, part of the fence.
    pub attempt: u32,
    /// Outcomes that count against `max_attempts`.
    pub failures: u32,
    /// Leases of it that ran out.
    pub crashes: u32,
    /// When the engine took it.
    pub enqueued_at: Timestamp,
    /// When it was last claimed.
    pub started_at: Option<Timestamp>,
    /// When it settled.
    pub finished_at: Option<Timestamp>,
    /// The text of its last error.
    pub last_error: Option<String>,
    /// The small result of a completed one.
    pub result: Option<Bytes>,
    /// What its handler last said of its progress.
    pub progress: Option<Bytes>,
    /// Whether its cancel was requested while it was active.
    pub cancel_requested: bool,
    /// Why it is cancelled.
    pub cancelled: Option<CancelReason>,
    /// Why it is dead.
    pub dead: Option<DeadReason>,
    /// How a cancelled attempt was stopped.
    pub stopped: Option<Stop>,
    /// The worker that holds its lease, while active.
    pub worker: Option<u128>,
    /// The instant its lease ends, while active.
    pub lease_until: Option<Timestamp>,
    /// Its attempts that ended in anything but its completion, the oldest first, as many as are
    /// [kept](super::ATTEMPTS_KEPT).
    #[serde(default)]
    pub attempts: Vec<PastAttempt>,
    /// The last lines that its handlers logged, the oldest first.
    #[serde(default)]
    pub log: Vec<LogLine>,
    /// What its steps kept, the signals it got and the waits that timed out, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memos: Vec<Memo>,
}

impl JobRecord {
    /// Whether its next claim must be alone: it was active in two leases that ran out, or in one
    /// less than it may crash.
    pub fn is_suspect(&self) -> bool {
        self.crashes >= suspect_after(self.max_crashes) && !self.state.is_settled()
    }
}

/// Crashes after which a job with that limit runs alone.
pub(crate) fn suspect_after(max_crashes: Option<u32>) -> u32 {
    max_crashes.map_or(2, |max| max.saturating_sub(1).min(2))
}

/// Why a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum CancelReason {
    /// By an edit, or by its worker.
    Requested = 0,
    /// `expires_at` passed first.
    Expired = 1,
    /// Another job took its unique key.
    Replaced = 2,
    /// Its queue was purged.
    Purged = 3,
    /// Its schedule let it pass: a run was still on its way, or the schedule was paused.
    Skipped = 4,
    /// It came too late for its schedule, after an outage.
    Missed = 5,
    /// A job that it waited for did not end as asked.
    Upstream = 6,
}

impl CancelReason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::Requested,
        Self::Expired,
        Self::Replaced,
        Self::Purged,
        Self::Skipped,
        Self::Missed,
        Self::Upstream,
    ];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Expired => "expired",
            Self::Replaced => "replaced",
            Self::Purged => "purged",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Upstream => "upstream",
        }
    }
}

/// Why a job is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum DeadReason {
    /// It failed `max_attempts` times.
    Exhausted = 0,
    /// Its worker said that no retry can mend it.
    Permanent = 1,
    /// It ended its worker while it ran alone.
    Poison = 2,
    /// Its queue was full and set to dead-letter its oldest.
    Overflow = 3,
}

impl DeadReason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 4] = [
        Self::Exhausted,
        Self::Permanent,
        Self::Poison,
        Self::Overflow,
    ];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Permanent => "permanent",
            Self::Poison => "poison",
            Self::Overflow => "overflow",
        }
    }
}

/// How a cancelled job was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stop {
    /// It was not active.
    BeforeStart = 0,
    /// Its handler saw the request and ended.
    Token = 1,
    /// Its handler ignored the request and was aborted.
    Aborted = 2,
    /// Its process or command was killed, or its lease ran out.
    Killed = 3,
}

impl Stop {
    /// Every way, in the order of its number.
    pub const ALL: [Self; 4] = [Self::BeforeStart, Self::Token, Self::Aborted, Self::Killed];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeStart => "before_start",
            Self::Token => "token",
            Self::Aborted => "aborted",
            Self::Killed => "killed",
        }
    }
}

macro_rules! display_by_name {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}
display_by_name!(CancelReason, DeadReason, Stop);
