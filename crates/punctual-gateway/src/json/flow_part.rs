//! What an export has of a flow besides its jobs, one line each: steps that have ended, more jobs
//! that a step waits for, and the seal.

use punctual::JobId;
use punctual::flow::{After, EndedStep, OnFailure, RestoredFlow, RestoredSeal, StepPast};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::flow::OnFailureLine;
use crate::job_json::{
    AfterJob, LineError, either, hash, hash_of, is_hostile, json_or_base64, raw, role_of, role_text,
};

/// What a line of an export says of a flow.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FlowPart {
    /// Steps whose jobs are gone, and at the end the seal.
    Restored(
        /// As an engine takes it.
        RestoredFlow,
    ),
    /// More jobs that a step waits for.
    Waits {
        /// The step's job.
        step: JobId,
        /// What it waits for.
        after: Vec<After>,
    },
}

/// The same as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowPartLine {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<EndedLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits: Option<WaitsLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<SealLine>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndedLine {
    step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    state: String,
    sent: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fired: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "raw"
    )]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsLine {
    job: String,
    after: Vec<AfterJob>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealLine {
    steps: u64,
    planned: u64,
    on_failure: OnFailureLine,
}

impl From<OnFailure> for OnFailureLine {
    fn from(policy: OnFailure) -> Self {
        match policy {
            OnFailure::CancelDependants => Self::CancelDependants,
            OnFailure::CancelRest => Self::CancelRest,
            OnFailure::Continue => Self::Continue,
        }
    }
}

impl From<&EndedStep> for EndedLine {
    fn from(one: &EndedStep) -> Self {
        let fit = |text: &str| !text.chars().any(is_hostile);
        let (result, result_base64) = json_or_base64(one.result.as_deref(), fit);
        Self {
            step: one.step.clone(),
            role: role_text(one.role),
            state: one.state.name().to_owned(),
            sent: hash(one.past.sent),
            fired: one.past.fired,
            skipped: one.skipped,
            result,
            result_base64,
        }
    }
}

impl EndedLine {
    fn into_step(self) -> Result<EndedStep, LineError> {
        let state = self.state.parse();
        let role = role_of(self.role.as_deref())?;
        let state = state.map_err(|error: punctual::Error| error.to_string())?;
        let result = either(&self.result, &self.result_base64, "result")?;
        let past = StepPast::new(hash_of(&self.sent)?).fired(self.fired);
        let ended = EndedStep::new(self.step, state, past).role(role);
        Ok(ended.skipped(self.skipped).result(result))
    }
}

impl From<&FlowPart> for FlowPartLine {
    fn from(part: &FlowPart) -> Self {
        match part {
            FlowPart::Waits { step, after } => Self {
                waits: Some(WaitsLine {
                    job: step.to_string(),
                    after: after.iter().map(Into::into).collect(),
                }),
                ..Self::default()
            },
            FlowPart::Restored(restored) => Self {
                ended: restored.ended.iter().map(Into::into).collect(),
                waits: None,
                seal: restored.seal.map(|seal| SealLine {
                    steps: seal.steps,
                    planned: seal.planned,
                    on_failure: seal.on_failure.into(),
                }),
                cancelled: restored.cancelled,
            },
        }
    }
}

impl FlowPartLine {
    pub(super) fn into_part(self) -> Result<FlowPart, LineError> {
        if let Some(waits) = self.waits {
            let step = waits.job.parse();
            let after = waits.after.into_iter().map(AfterJob::into_after);
            return Ok(FlowPart::Waits {
                step: step.map_err(|_| "a step waits whose job has an id that is not a UUID")?,
                after: after.collect::<Result<_, _>>()?,
            });
        }
        let ended = self.ended.into_iter().map(EndedLine::into_step);
        let seal = self.seal.map(|seal| {
            let restored = RestoredSeal::new(seal.steps).planned(seal.planned);
            restored.on_failure(seal.on_failure.into())
        });
        let restored = RestoredFlow::default()
            .ended(ended.collect::<Result<_, _>>()?)
            .seal(seal)
            .cancelled(self.cancelled);
        let checked = restored.check(&punctual::Limits::default());
        checked.map_err(|error| error.to_string())?;
        Ok(FlowPart::Restored(restored))
    }
}
