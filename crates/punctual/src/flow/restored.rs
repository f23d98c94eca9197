//! What an import brings of a flow besides its jobs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{FlowStep, OnFailure, Role};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobState, Limits, check_name};

/// What an import knows of the place of a job in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepPast {
    /// The [hash](super::sent_hash) of what was sent first: the same plan again is a duplicate.
    pub sent: u64,
    /// Whether it is a callback that was released, which happens once.
    #[serde(default)]
    pub fired: bool,
}

impl StepPast {
    /// What was sent first of a step, or of a callback that was not released.
    pub fn new(sent: u64) -> Self {
        Self { sent, fired: false }
    }

    /// Whether it is a callback that was released.
    #[must_use]
    pub fn fired(mut self, fired: bool) -> Self {
        self.fired = fired;
        self
    }
}

/// What an import brings of a flow besides its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestoredFlow {
    /// Steps and callbacks that have ended and whose jobs are not kept, at most a batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedStep>,
    /// The end of the plan, once every job of it is there: its steps go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<RestoredSeal>,
    /// Whether it was cancelled: what has not settled is cancelled.
    #[serde(default)]
    pub cancelled: bool,
}

/// A step, or a callback, that has ended and whose job is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EndedStep {
    /// Its name, for a callback that of its role.
    pub step: String,
    /// What it is in the flow.
    #[serde(default)]
    pub role: Role,
    /// How it ended.
    pub state: JobState,
    /// Whether it was passed over.
    #[serde(default)]
    pub skipped: bool,
    /// Its result.
    #[serde(default)]
    pub result: Option<Bytes>,
    /// What else is known of it.
    pub past: StepPast,
}

/// How a flow was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestoredSeal {
    /// All its steps, without callbacks; another number is refused.
    pub steps: u64,
    /// Those of the plan, without the ones by which it grew.
    pub planned: u64,
    /// What a failed step does to the others.
    pub on_failure: OnFailure,
}

impl RestoredSeal {
    /// A plan with so many steps, none of which it grew by, and the default for a failed one.
    pub fn new(steps: u64) -> Self {
        Self {
            steps,
            planned: steps,
            on_failure: OnFailure::default(),
        }
    }

    /// The steps of the plan, without those by which the flow grew.
    #[must_use]
    pub fn planned(mut self, planned: u64) -> Self {
        self.planned = planned;
        self
    }

    /// What a failed step does to the others.
    #[must_use]
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }
}

impl EndedStep {
    /// A step that ended so, and was not passed over.
    pub fn new(step: impl Into<String>, state: JobState, past: StepPast) -> Self {
        Self {
            step: step.into(),
            role: Role::Step,
            state,
            skipped: false,
            result: None,
            past,
        }
    }

    /// What it is in the flow.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Whether it was passed over.
    #[must_use]
    pub fn skipped(mut self, skipped: bool) -> Self {
        self.skipped = skipped;
        self
    }

    /// Its result.
    #[must_use]
    pub fn result(mut self, result: impl Into<Option<Bytes>>) -> Self {
        self.result = result.into();
        self
    }

    /// Its place in a flow.
    pub fn place(&self, flow: &str) -> FlowStep {
        let place = FlowStep::new(flow, self.step.clone());
        place.role(self.role).past(self.past)
    }

    /// The id that its job had.
    pub fn id(&self, flow: &str) -> JobId {
        super::step_id(flow, &self.step, self.role)
    }
}

impl RestoredFlow {
    /// Steps that have ended, whose jobs are not kept, at most a batch.
    #[must_use]
    pub fn ended(mut self, ended: Vec<EndedStep>) -> Self {
        self.ended = ended;
        self
    }

    /// The end of the plan.
    #[must_use]
    pub fn seal(mut self, seal: impl Into<Option<RestoredSeal>>) -> Self {
        self.seal = seal.into();
        self
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn cancelled(mut self, cancelled: bool) -> Self {
        self.cancelled = cancelled;
        self
    }

    /// Checks names, states and sizes; engines call it.
    ///
    /// # Errors
    /// `invalid_input`, `invalid_name` or `payload_too_large`, with the step.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        for one in &self.ended {
            check_name("step", &one.step)?;
            let wrong = |kind, message: &str| {
                Err(Error::new(kind, message.to_owned()).with("step", &one.step))
            };
            if !one.state.is_settled() {
                let message = "step of an import has not settled; import its job instead";
                return wrong(ErrorKind::InvalidInput, message);
            }
            if one.role != Role::Step && one.step != one.role.name() {
                let message = "callback has the name of its role, and no other";
                return wrong(ErrorKind::InvalidInput, message);
            }
            let bytes = one.result.as_ref().map_or(0, Bytes::len);
            if bytes > limits.result_bytes {
                let message = "result of a step is over the limit; leave it out";
                return wrong(ErrorKind::PayloadTooLarge, message);
            }
        }
        Ok(())
    }
}
