//! The last jobs of a queue that ended, as stats answers them.

use serde::{Deserialize, Serialize};

use crate::job::{JobId, JobState};
use crate::time::Timestamp;

/// Ends that each queue keeps.
pub const ENDS_KEPT: usize = 100;

/// A job that ended: it completed, was cancelled or died. The job itself may be gone.
///
/// A retry, a snooze and a release end an attempt, not the job. A delete, a prune and an import
/// of an ended job are no ends either.
///
/// ```
/// use punctual::engine::{
///     Claim, Engine, Namespace, LeaseReport, Settle, Settlement, StatsRequest, WorkerId,
/// };
/// use punctual::{MemoryEngine, NewJob, Outcome, JobState};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let (engine, namespace) = (MemoryEngine::default(), Namespace::default());
/// engine.enqueue(&namespace, vec![NewJob::new("mail", "{}")]).await?;
/// let claim = Claim::new(WorkerId::random(), "mail", 1);
/// let lease = engine.claim(&namespace, claim).await?.leases.remove(0);
/// let ended = Settlement::new(lease.jobs[0].id, 1, Outcome::Completed);
/// let leases = vec![LeaseReport::new(lease.token, vec![ended])];
/// engine.settle(&namespace, Settle::new(leases)).await?;
///
/// let request = StatsRequest::default().ends(true);
/// let queues = engine.stats(&namespace, request).await?.queues;
/// let last = &queues[0].ends[0];
/// assert_eq!((last.id, last.state), (lease.jobs[0].id, JobState::Completed));
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobEnd {
    /// The job.
    pub id: JobId,
    /// The name of its handler.
    pub kind: String,
    /// How it ended: completed, cancelled or dead.
    pub state: JobState,
    /// When it ended.
    pub at: Timestamp,
}

impl JobEnd {
    /// How a job of that kind ended.
    pub fn new(id: JobId, kind: impl Into<String>, state: JobState, at: Timestamp) -> Self {
        Self {
            id,
            kind: kind.into(),
            state,
            at,
        }
    }
}
