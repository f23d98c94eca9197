//! The contract: settle.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::{EnqueueVerdict, Guard, Token};
use crate::job::{Effect, JobId, JobState, Outcome, Stop};
use crate::time::Timestamp;

/// How attempts ended, a part per lease.
///
/// One call takes at most [`Limits::batch_items`](crate::Limits) leases, settlements, samples of
/// lateness and samples of run time, and at most `batch_bytes` of payloads in its effects. With
/// more of anything it is refused whole, `batch_too_large`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settle {
    /// The leases, in order.
    pub leases: Vec<LeaseReport>,
}

/// The longest lateness or run time that engines distinguish from longer ones: an hour, in
/// microseconds. A longer sample counts as that.
pub const SAMPLE_US_MAX: u64 = 3_600_000_000;

impl Settle {
    /// The reports of these leases, in order.
    pub fn new(leases: Vec<LeaseReport>) -> Self {
        Self { leases }
    }
}

/// How some or all jobs of one lease ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaseReport {
    /// The lease's token.
    pub token: Token,
    /// One per job that ended; the rest of the lease stays leased.
    pub settlements: Vec<Settlement>,
    /// Lateness of handler starts since the last report, in microseconds, for the history.
    pub lateness_us: Vec<u64>,
    /// Run times since the last report, in microseconds, for the history.
    pub run_time_us: Vec<u64>,
}

impl LeaseReport {
    /// A report of one lease without measurements.
    pub fn new(token: Token, settlements: Vec<Settlement>) -> Self {
        Self {
            token,
            settlements,
            lateness_us: Vec::new(),
            run_time_us: Vec::new(),
        }
    }

    /// With lateness of handler starts since the last report, in microseconds.
    #[must_use]
    pub fn lateness_us(mut self, lateness_us: Vec<u64>) -> Self {
        self.lateness_us = lateness_us;
        self
    }

    /// With run times since the last report, in microseconds.
    #[must_use]
    pub fn run_time_us(mut self, run_time_us: Vec<u64>) -> Self {
        self.run_time_us = run_time_us;
        self
    }
}

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// The job.
    pub id: JobId,
    /// The attempt, as claimed.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// A small result to keep with a completed job and in its tombstone.
    pub result: Option<Bytes>,
    /// The text of the error, kept as `last_error`; cut at the limit.
    pub error: Option<String>,
    /// What it causes in the same step.
    pub effects: Vec<Effect>,
    /// How the attempt was stopped, if its cancel was requested.
    pub stopped: Option<Stop>,
    /// Lines that it logged since the last heartbeat: at most as many as a job
    /// [keeps](crate::job::LOG_LINES_KEPT).
    #[serde(default)]
    pub log: Vec<String>,
    /// A record and the version it must have, if the effects depend on it: else nothing is changed,
    /// and the answer is `guard_conflict`.
    #[serde(default)]
    pub guard: Option<Guard>,
}

impl Settlement {
    /// An outcome without result, error or effects.
    pub fn new(id: JobId, attempt: u32, outcome: Outcome) -> Self {
        Self {
            id,
            attempt,
            outcome,
            result: None,
            error: None,
            effects: Vec::new(),
            stopped: None,
            log: Vec::new(),
            guard: None,
        }
    }
}

/// The answer to a settle: verdicts per lease and settlement, in the order sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settled {
    /// One list per lease.
    pub verdicts: Vec<Vec<SettleVerdict>>,
    /// Engine time.
    pub now: Timestamp,
}

impl Settled {
    /// The verdicts of each lease, at that instant of engine time.
    pub fn new(verdicts: Vec<Vec<SettleVerdict>>, now: Timestamp) -> Self {
        Self { verdicts, now }
    }
}

/// What became of one settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SettleVerdict {
    /// Accepted.
    Settled {
        /// The job's state after its effects.
        state: JobState,
        /// The instant it is due again, if it is scheduled or ready.
        due: Option<Timestamp>,
        /// One per effect, in order; `None` for a `Clear`, and for a job that is still on its way
        /// to another shard: it is kept and will arrive.
        effects: Vec<Option<EnqueueVerdict>>,
    },
    /// This attempt was settled under this token before; nothing was changed now.
    Repeated,
    /// The token is not the job's lease (any more); nothing was changed.
    LeaseLost,
    /// The record that guards it has another version; nothing was changed, and the lease holds.
    GuardConflict {
        /// The record's version now; 0 if there is none.
        version: u64,
    },
}
