//! Past attempts of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Outcome;
use super::bounds::{ATTEMPT_ERROR_BYTES, ATTEMPTS_KEPT};
use crate::time::Timestamp;

/// An attempt that did not complete its job.
///
/// The record of the job itself has the attempt that runs and the one that completed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastAttempt {
    /// Its number, counted from 1.
    pub attempt: u32,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it was settled, or its lease ran out.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: PastOutcome,
    /// The worker that held its lease, if that is known.
    pub worker: Option<u128>,
    /// The text of its error, cut at [`ATTEMPT_ERROR_BYTES`].
    pub error: Option<String>,
}

impl PastAttempt {
    /// An attempt that ended so, of a worker that is not known, without an error.
    pub fn new(
        attempt: u32,
        started_at: Timestamp,
        ended_at: Timestamp,
        outcome: PastOutcome,
    ) -> Self {
        Self {
            attempt,
            started_at,
            ended_at,
            outcome,
            worker: None,
            error: None,
        }
    }

    /// The worker that ran it.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Option<u128>>) -> Self {
        self.worker = worker.into();
        self
    }

    /// What the attempt failed with.
    #[must_use]
    pub fn error(mut self, error: impl Into<Option<String>>) -> Self {
        self.error = error.into();
        self
    }
}

/// How a past attempt ended: what its worker settled, or that its lease ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum PastOutcome {
    /// It failed; the job is due again, or out of attempts.
    Retry = 1,
    /// It was snoozed: delayed without a failure.
    Snooze = 2,
    /// It was given up on purpose.
    Cancelled = 3,
    /// It failed for good.
    Dead = 4,
    /// It was handed back unrun.
    Released = 5,
    /// Its lease ran out.
    Crashed = 6,
    /// It waits for signals.
    Hold = 7,
}

impl PastOutcome {
    /// Every outcome, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::Retry,
        Self::Snooze,
        Self::Cancelled,
        Self::Dead,
        Self::Released,
        Self::Crashed,
        Self::Hold,
    ];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
            Self::Released => "released",
            Self::Crashed => "crashed",
            Self::Hold => "hold",
        }
    }

    /// What is remembered of an outcome; nothing of one that completes the job.
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Completed => None,
            Outcome::Retry { .. } => Some(Self::Retry),
            Outcome::Snooze { .. } => Some(Self::Snooze),
            Outcome::Cancelled => Some(Self::Cancelled),
            Outcome::Dead => Some(Self::Dead),
            Outcome::Released => Some(Self::Released),
            Outcome::Hold { .. } => Some(Self::Hold),
        }
    }

    /// Whether another one of it right after it says all that it said.
    fn is_replaced_by_the_next(self) -> bool {
        matches!(self, Self::Snooze | Self::Released | Self::Hold)
    }
}

impl fmt::Display for PastOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Keeps one more attempt within the bounds: of snoozes in a row, or releases, only the last.
pub(crate) fn push_attempt(attempts: &mut Vec<PastAttempt>, mut one: PastAttempt) {
    if let Some(error) = &mut one.error {
        let mut end = error.len().min(ATTEMPT_ERROR_BYTES);
        while !error.is_char_boundary(end) {
            end -= 1;
        }
        error.truncate(end);
    }
    let last = attempts.last().map(|last| last.outcome);
    if last == Some(one.outcome) && one.outcome.is_replaced_by_the_next() {
        attempts.pop();
    } else if attempts.len() >= ATTEMPTS_KEPT {
        attempts.remove(1);
    }
    attempts.push(one);
}
