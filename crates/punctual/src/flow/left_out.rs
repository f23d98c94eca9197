//! What a retry of a flow answers: the steps that run again, and those that cannot.

use serde::{Deserialize, Serialize};

use crate::job::JobId;

/// Steps that an answer names, of each kind.
const NAMED: usize = 10;

/// Steps that a retry was to run again and could not: they stay counted as they ended, and a step
/// that was passed over counts as cancelled, so that the flow ends as failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// How many have jobs that are not kept any more.
    pub gone: u64,
    /// The names of some of them, ten at most; a step of another flow as `pack (flow order-6)`.
    pub gone_steps: Vec<String>,
    /// How many have a unique key that another job holds.
    pub unique_held: u64,
    /// The names of some of them as above, ten at most, each with the holder of its key.
    pub unique_held_steps: Vec<(String, JobId)>,
}

impl LeftOut {
    /// Whether every step could run again.
    pub fn is_empty(&self) -> bool {
        self.gone + self.unique_held == 0
    }

    /// Adds a step whose job is not kept any more.
    pub fn add_gone(&mut self, step: impl Into<String>) {
        self.gone += 1;
        if self.gone_steps.len() < NAMED {
            self.gone_steps.push(step.into());
        }
    }

    /// Adds a step whose unique key another job holds.
    pub fn add_held(&mut self, step: impl Into<String>, holder: JobId) {
        self.unique_held += 1;
        if self.unique_held_steps.len() < NAMED {
            self.unique_held_steps.push((step.into(), holder));
        }
    }

    /// Adds what a later part of the same retry left out.
    pub fn add(&mut self, other: Self) {
        self.gone += other.gone;
        self.unique_held += other.unique_held;
        self.gone_steps.extend(other.gone_steps);
        self.unique_held_steps.extend(other.unique_held_steps);
        self.gone_steps.truncate(NAMED);
        self.unique_held_steps.truncate(NAMED);
    }
}

/// What a retry of a flow did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Retried {
    /// How many steps run again, without those that wait for them.
    pub retried: u64,
    /// Those that were to run again and could not.
    pub left_out: LeftOut,
}
