//! The contract: wait.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{CLAIM_QUEUES_MAX, JobId, JobState, WAIT_JOBS_MAX, check_name};
use crate::time::Timestamp;

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WaitFor {
    /// Something to claim in one of these queues, sooner than the claimer last learned.
    Work(
        /// The queues.
        Vec<String>,
    ),
    /// All of these jobs settled (or forgotten).
    Settled(
        /// Their ids.
        Vec<JobId>,
    ),
    /// Changes after a cursor; `None` starts with the next one.
    Changes(
        /// The `cursor` of the last answer.
        Option<u64>,
    ),
}

impl WaitFor {
    /// Checks names and numbers, the same for every engine: 1 to 64 queues, at most 1,000 jobs.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Work(queues) if queues.is_empty() || queues.len() > CLAIM_QUEUES_MAX => {
                Err(Error::new(
                    ErrorKind::InvalidInput,
                    "wait names no queue or too many; name 1 to 64",
                ))
            }
            Self::Work(queues) => queues
                .iter()
                .try_for_each(|queue| check_name("queue", queue)),
            Self::Settled(jobs) if jobs.len() > WAIT_JOBS_MAX => Err(Error::new(
                ErrorKind::BatchTooLarge,
                "wait names too many jobs; name at most 1,000",
            )
            .with("jobs", jobs.len())),
            Self::Settled(_) | Self::Changes(_) => Ok(()),
        }
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Waited {
    /// The instant came first.
    TimedOut,
    /// A claim may answer something.
    Work,
    /// All of the jobs are settled or unknown: get them.
    Settled,
    /// Changes, oldest first.
    Changes {
        /// What happened, at most 1,000.
        changes: Vec<Change>,
        /// What to ask with next.
        cursor: u64,
        /// Whether changes before these were forgotten: read what you show anew.
        gap: bool,
    },
}

/// One change of one job, for dashboards; best effort, recorded only while a caller watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its state after the change.
    pub state: JobState,
    /// When it happened.
    pub at: Timestamp,
}

impl Change {
    /// The job came into that state then.
    pub fn new(id: JobId, queue: impl Into<String>, state: JobState, at: Timestamp) -> Self {
        Self {
            id,
            queue: queue.into(),
            state,
            at,
        }
    }
}
