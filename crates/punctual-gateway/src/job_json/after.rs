//! What a job waits for, as JSON.

use punctual::JobId;
use punctual::flow::{After, On};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LineError;
use crate::json::words::Id;

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
pub(super) struct AfterJob {
    #[schema(value_type = Id)]
    job: String,
    #[serde(default)]
    on: OnLine,
}

impl AfterJob {
    pub(super) fn into_after(self) -> Result<After, LineError> {
        let job: Result<JobId, _> = self.job.parse();
        let job = job.map_err(|_| "waits for a job whose id is not a UUID".to_owned())?;
        let on = self.on.into();
        Ok(After { job, on })
    }
}
