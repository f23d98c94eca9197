//! The contract: answers to an enqueue.

use serde::{Deserialize, Serialize};

use crate::engine::Durability;
use crate::job::JobId;
use crate::time::Timestamp;

/// The answer to an enqueue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// One per job, in the order sent.
    pub receipts: Vec<Receipt>,
    /// What was reached before this answer.
    pub durability: Durability,
    /// Engine time.
    pub now: Timestamp,
}

impl Enqueued {
    /// The answer of an engine: one receipt per job, in the order sent.
    pub fn new(receipts: Vec<Receipt>, durability: Durability, now: Timestamp) -> Self {
        Self {
            receipts,
            durability,
            now,
        }
    }
}

/// What became of one job that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The id that was sent.
    pub id: JobId,
    /// What became of it.
    pub verdict: EnqueueVerdict,
    /// The instant it is due: as asked, for a `duplicate` as first answered, for a `refreshed` that
    /// of the job that serves for it.
    pub due: Timestamp,
    /// Whether the instant asked for had passed already; it is due now, nothing else differs.
    pub late: bool,
}

impl Receipt {
    /// What became of the job, due then and not late.
    pub fn new(id: JobId, verdict: EnqueueVerdict, due: Timestamp) -> Self {
        Self {
            id,
            verdict,
            due,
            late: false,
        }
    }

    /// Whether the instant asked for had passed already.
    #[must_use]
    pub fn late(mut self, late: bool) -> Self {
        self.late = late;
        self
    }
}

/// What became of one well-formed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EnqueueVerdict {
    /// It is stored.
    Created,
    /// It was stored before, under the same id with the same content.
    Duplicate,
    /// Not stored: that job holds its unique key and serves for it.
    Merged(
        /// The holder (or its follower).
        JobId,
    ),
    /// It is stored; that waiting holder of its unique key became `cancelled: replaced`.
    Replaced(
        /// The former holder.
        JobId,
    ),
    /// Not stored: that waiting job holds its unique key and took its content and due.
    Refreshed(
        /// The holder (or its follower).
        JobId,
    ),
    /// Not stored: its id belongs to a job with other content.
    IdConflict,
    /// Not stored: that active job holds its unique key and cannot be replaced.
    UniqueActive(
        /// The holder.
        JobId,
    ),
    /// Not stored: its queue has `max_pending` pending jobs.
    Full,
    /// Not stored: it waits for this job, which is neither known nor sent before.
    ParentUnknown(
        /// The job.
        JobId,
    ),
    /// Not stored: its flow takes no more steps. It has settled or was cancelled, or it is sealed
    /// and the step does not say that the flow grows.
    FlowClosed,
    /// Not stored: as many jobs with a limit of it are active as may be, and it refuses more.
    LimitFull(
        /// Which of its limits, counted from 0.
        u8,
    ),
    /// Not stored: as many jobs of its share wait in its queue as may (`max_pending` of a share).
    ShareFull(
        /// How many may.
        u64,
    ),
}

impl EnqueueVerdict {
    /// The name on the wire, in the shell and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Duplicate => "duplicate",
            Self::Merged(_) => "merged",
            Self::Replaced(_) => "replaced",
            Self::Refreshed(_) => "refreshed",
            Self::IdConflict => "id_conflict",
            Self::UniqueActive(_) => "unique_active",
            Self::Full => "full",
            Self::ParentUnknown(_) => "parent_unknown",
            Self::FlowClosed => "flow_closed",
            Self::LimitFull(_) => "limit_full",
            Self::ShareFull(_) => "share_full",
        }
    }

    /// Whether the job, or one that serves for it, is stored.
    pub const fn is_accepted(self) -> bool {
        matches!(
            self,
            Self::Created
                | Self::Duplicate
                | Self::Merged(_)
                | Self::Replaced(_)
                | Self::Refreshed(_)
        )
    }
}
