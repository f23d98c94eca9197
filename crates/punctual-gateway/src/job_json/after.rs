//! What a job waits for, as JSON.

use punctual::flow::{After, On};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LineError, id_of};
use crate::words::Id;

/// How a job must end so that one that waits for it may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(default = "completed")]
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
        let job = id_of("waits for a job, and its id", &self.job)?;
        Ok(After::new(job, self.on.into()))
    }
}
