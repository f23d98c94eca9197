//! What a job waits for, as JSON.

use punctual::JobId;
use punctual::flow::{After, On};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LineError;
use crate::words::Id;

/// How a job must end so that one that waits for it may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnLine {
    #[default]
    Completed,
    Failed,
    Settled,
}

impl From<OnLine> for On {
    fn from(on: OnLine) -> Self {
        match on {
            OnLine::Completed => Self::Completed,
            OnLine::Failed => Self::Failed,
            OnLine::Settled => Self::Settled,
        }
    }
}

/// A job that must settle first, and how.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterJob {
    #[schema(value_type = Id)]
    job: String,
    #[serde(default)]
    on: OnLine,
}

impl From<On> for OnLine {
    fn from(on: On) -> Self {
        match on {
            On::Completed => Self::Completed,
            On::Failed => Self::Failed,
            On::Settled => Self::Settled,
        }
    }
}

impl From<&After> for AfterJob {
    fn from(after: &After) -> Self {
        Self {
            job: after.job.to_string(),
            on: after.on.into(),
        }
    }
}

impl AfterJob {
    pub(crate) fn into_after(self) -> Result<After, LineError> {
        let job: Result<JobId, _> = self.job.parse();
        let job = job.map_err(|_| "waits for a job whose id is not a UUID".to_owned())?;
        let on = self.on.into();
        Ok(After::new(job, on))
    }
}
