//! The contract: claim, extend, leases and tokens.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::LimitedQueue;
use crate::job::{CLAIM_BYTES_MAX, JobId, JobRecord};
use crate::time::Timestamp;

/// A worker's name: random per process start; host names are only labels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WorkerId(pub u128);

impl WorkerId {
    /// A fresh random one.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", uuid::Uuid::from_u128(self.0))
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a worker says of itself with every claim; engines show those of the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerRecord {
    /// Its id.
    pub id: WorkerId,
    /// Its host, a label.
    pub host: String,
    /// The version of the program, a label.
    pub version: String,
    /// The queues it claims from; a claimer that names none is not listed as a worker.
    pub queues: Vec<String>,
    /// The kinds it has handlers for; empty if it takes any.
    pub kinds: Vec<String>,
    /// Jobs it can run at the same time; 0 if it does not say: then a claim's `limit` counts.
    pub slots: u32,
    /// Jobs it has and has not ended, if it says so; what it has leased counts all the same. A
    /// limited queue gives it no more than its other slots.
    pub busy: u32,
}

impl WorkerRecord {
    /// A worker of that id, of which nothing else is known.
    pub fn new(id: WorkerId) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// The slots that engines count: a worker that does not report any has as many as it claims
    /// for.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual::engine::WorkerRecord;
    ///
    /// let silent = WorkerRecord::default();
    /// assert_eq!(silent.slots_for(10), 10);
    /// let mut worker = WorkerRecord::default();
    /// worker.slots = 4;
    /// assert_eq!(worker.slots_for(10), 4);
    /// ```
    pub fn slots_for(&self, limit: usize) -> u32 {
        match self.slots {
            0 => u32::try_from(limit).unwrap_or(u32::MAX),
            slots => slots,
        }
    }
}

/// The name of a lease: what claim answers and extend and settle must show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Token {
    /// A number that only grows, over restarts too: later leases have larger fences.
    pub fence: u64,
    /// The 64 random bits that the claimer sent.
    pub nonce: u64,
}

impl Token {
    /// The name of the lease with this fence, that answered the claim with this nonce.
    pub fn new(fence: u64, nonce: u64) -> Self {
        Self { fence, nonce }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.fence, self.nonce)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How one claim over several queues chooses among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ClaimOrder {
    /// An earlier queue of the list is emptied before the engine reads a later one.
    #[default]
    Strict,
    /// The queues take turns within the claim, one job each, starting with the first.
    Turns,
}

/// What a worker runs beside the jobs of a claim. Each engine keeps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClaimMode {
    /// Other jobs, or it may: the claim passes over suspects.
    #[default]
    Shared,
    /// Nothing: the claim answers one suspect as its only job, if one is there, else other jobs.
    Alone,
}

impl ClaimMode {
    /// Whether the worker runs nothing else.
    pub fn is_alone(self) -> bool {
        self == Self::Alone
    }
}

/// Where the worker of a claim runs. What each engine makes of it:
///
/// | engine | [`WithEngine`](Self::WithEngine) | [`Elsewhere`](Self::Elsewhere) |
/// | --- | --- | --- |
/// | memory | nothing: its leases end with the process anyway | the same |
/// | in a directory | its leases are crashes when the directory is opened again | they last on |
/// | on a server | it claims again at `wake_at`; others may rely on that | none relies on it |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WorkerPlace {
    /// In the process of this engine value. It ends with it, and comes again by itself.
    #[default]
    WithEngine,
    /// In another process, which outlives the engine's and may not come again.
    Elsewhere,
}

/// Which worker claims at the instant `wake_at` of an answer.
///
/// An engine whose waiting workers are woken by its own process says [`Claimer`](Self::Claimer)
/// always. One that many processes share may pick one worker of all that wait for an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WakeBy {
    /// The worker that got the answer.
    #[default]
    Claimer,
    /// Another worker, which got that instant before. This one may sleep on in a `wait`, which ends
    /// if the other does not come. Answers only a claim from [`WorkerPlace::WithEngine`].
    Another,
}

/// A request for due jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Claim {
    /// The worker that claims.
    pub worker: WorkerRecord,
    /// The queues to claim from, 1 to 64, in this order.
    pub queues: Vec<String>,
    /// How to choose among them.
    pub order: ClaimOrder,
    /// Jobs wanted, 1 to 1,000.
    pub limit: usize,
    /// Bytes of payload wanted; the first job is answered whatever its size. At
    /// most 4 MiB, more counts as that.
    pub max_bytes: usize,
    /// How long the lease is to last, 1 ms to 1 day; 10 s by default.
    pub lease_duration: Duration,
    /// 64 random bits, part of the token. The same nonce again, from the same worker, while that
    /// lease lasts answers that lease again: a lost reply strands nothing.
    pub nonce: u64,
    /// What the worker runs beside these jobs.
    pub mode: ClaimMode,
    /// Where the worker runs.
    pub place: WorkerPlace,
}

impl Claim {
    /// A claim of up to `limit` jobs of one queue, with a random nonce and every default.
    pub fn new(worker: WorkerId, queue: impl Into<String>, limit: usize) -> Self {
        let queues = vec![queue.into()];
        Self {
            worker: WorkerRecord {
                id: worker,
                queues: queues.clone(),
                ..WorkerRecord::default()
            },
            queues,
            order: ClaimOrder::Strict,
            limit,
            max_bytes: CLAIM_BYTES_MAX,
            lease_duration: Duration::from_secs(10),
            nonce: uuid::Uuid::new_v4().as_u128() as u64,
            mode: ClaimMode::Shared,
            place: WorkerPlace::WithEngine,
        }
    }

    /// Sets the worker that claims.
    #[must_use]
    pub fn worker(mut self, worker: WorkerRecord) -> Self {
        self.worker = worker;
        self
    }

    /// Names the queues.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = queues;
        self
    }

    /// Sets which queue comes first.
    #[must_use]
    pub fn order(mut self, order: ClaimOrder) -> Self {
        self.order = order;
        self
    }

    /// Bounds the bytes of payloads; a lease has one job at least.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Sets how long the lease lasts: 1 ms to 1 day.
    #[must_use]
    pub fn lease_duration(mut self, lease_duration: Duration) -> Self {
        self.lease_duration = lease_duration;
        self
    }

    /// Sets the nonce: the same claim with it answers the same lease.
    #[must_use]
    pub fn nonce(mut self, nonce: u64) -> Self {
        self.nonce = nonce;
        self
    }

    /// Says what the worker runs beside these jobs.
    #[must_use]
    pub fn mode(mut self, mode: ClaimMode) -> Self {
        self.mode = mode;
        self
    }

    /// Says where the worker runs.
    #[must_use]
    pub fn place(mut self, place: WorkerPlace) -> Self {
        self.place = place;
        self
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Claimed {
    /// The leases, each with its own token; none if nothing is ready.
    pub leases: Vec<Lease>,
    /// Engine time.
    pub now: Timestamp,
    /// The earliest instant at which a claim of the same queues could answer more by the passing of
    /// time alone; `now` if work was left; `None` if only another call can bring any.
    pub wake_at: Option<Timestamp>,
    /// Whether suspects wait in these queues for a claim in [`ClaimMode::Alone`].
    pub suspects_wait: bool,
    /// Which worker claims at `wake_at`.
    pub wake_by: WakeBy,
    /// The queues of this claim that have limits. While there are any, a worker claims for its free
    /// slots only: a job of a limited queue that waits in a worker would use up what another could
    /// use.
    #[serde(default)]
    pub limited: Vec<LimitedQueue>,
}

impl Claimed {
    /// These leases; nothing more is to come by the passing of time alone.
    pub fn new(leases: Vec<Lease>, now: Timestamp) -> Self {
        Self {
            leases,
            now,
            wake_at: None,
            suspects_wait: false,
            wake_by: WakeBy::default(),
            limited: Vec::new(),
        }
    }
}

/// The jobs one claim answers, under one lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lease {
    /// The name of the lease.
    pub token: Token,
    /// The instant the lease ends unless extended.
    pub deadline: Timestamp,
    /// The jobs, in the order in which to start them.
    pub jobs: Vec<JobRecord>,
}

impl Lease {
    /// A lease of these jobs, in the order in which to start them.
    pub fn new(token: Token, deadline: Timestamp, jobs: Vec<JobRecord>) -> Self {
        Self {
            token,
            deadline,
            jobs,
        }
    }
}

/// A request to extend one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Extend {
    /// The lease.
    pub token: Token,
    /// The lease lasts that long from now (never shorter than before), 1 ms to 1 day.
    pub lease_duration: Duration,
    /// What handlers said of their progress since the last time.
    pub progress: Vec<(JobId, Bytes)>,
    /// Lines that handlers logged since the last time, a job at most once. Each job's are at most
    /// as many as a job [keeps](crate::job::LOG_LINES_KEPT).
    #[serde(default)]
    pub log: Vec<(JobId, Vec<String>)>,
    /// What steps of jobs keep: job, name of the step, value. Kept once the extend is answered, and
    /// for good: a name that is kept stays as it is. An extend that would go over a
    /// [bound](crate::job::MEMOS_MAX) is refused whole.
    #[serde(default)]
    pub memos: Vec<(JobId, String, Bytes)>,
    /// The jobs the worker still works on; answers name those it lost. Empty asks about none.
    pub jobs: Vec<JobId>,
}

impl Extend {
    /// Prolongs a whole lease by that span from now on.
    pub fn new(token: Token, lease_duration: Duration) -> Self {
        Self {
            token,
            lease_duration,
            progress: Vec::new(),
            log: Vec::new(),
            memos: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// Sets notes of progress, by job.
    #[must_use]
    pub fn progress(mut self, progress: Vec<(JobId, Bytes)>) -> Self {
        self.progress = progress;
        self
    }

    /// Appends lines to the logs of jobs.
    #[must_use]
    pub fn log(mut self, log: Vec<(JobId, Vec<String>)>) -> Self {
        self.log = log;
        self
    }

    /// Keeps results of steps of jobs.
    #[must_use]
    pub fn memos(mut self, memos: Vec<(JobId, String, Bytes)>) -> Self {
        self.memos = memos;
        self
    }

    /// Asks which of these jobs the lease has lost.
    #[must_use]
    pub fn jobs(mut self, jobs: Vec<JobId>) -> Self {
        self.jobs = jobs;
        self
    }
}

/// The answer to an extend, one verdict per lease in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Extended {
    /// One per lease asked.
    pub verdicts: Vec<ExtendVerdict>,
    /// Engine time.
    pub now: Timestamp,
}

impl Extended {
    /// One verdict for each lease, at that instant of engine time.
    pub fn new(verdicts: Vec<ExtendVerdict>, now: Timestamp) -> Self {
        Self { verdicts, now }
    }
}

/// What became of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ExtendVerdict {
    /// It lasts until `deadline`.
    Extended {
        /// The instant it ends unless extended again.
        deadline: Timestamp,
        /// The asked jobs that are no longer of this lease.
        lost: Vec<JobId>,
        /// Jobs of the lease whose cancel was requested.
        cancel_requested: Vec<JobId>,
    },
    /// The token is no lease (any more): every job of it is lost.
    LeaseLost,
}
