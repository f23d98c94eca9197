//! The contract of every engine: twelve verbs, batch first, capability as data.
//!
//! An engine is a store that keeps the law (see `docs/job-lifecycle.md`); the suite in
//! [`conformance`](crate::conformance) is the law's executable form. Conveniences live above, in
//! [`Queue`](crate::Queue) and [`Worker`](crate::Worker).
//!
//! Every call names its namespace, carries at most [`Limits::batch_items`](crate::Limits) items,
//! and is one atomic step per shard. A call that carries a malformed item is refused whole, with
//! the item's `index` in the error; each well-formed item gets a verdict of its own. Engine time,
//! never the caller's, decides what is due and what has expired.

mod call_size;
mod checks;
mod claim;
mod control;
mod edit;
mod ends;
mod enqueue;
mod guard;
mod info;
mod inspect;
mod limited;
mod named;
mod settings;
mod settle;
mod share;
mod stats;
mod wait;

use std::fmt;

pub use call_size::{CALL_BYTES, CallSize};
pub use checks::{Checks, SETTINGS_PREFIX};
pub use claim::{
    Claim, ClaimMode, ClaimOrder, Claimed, Extend, ExtendVerdict, Extended, Lease, Token, WakeBy,
    WorkerId, WorkerPlace, WorkerRecord,
};
pub use control::{Control, Controlled, FlowAct, RecordValue, ScheduleAct, VersionedRecord};
pub(crate) use edit::check_signal;
pub use edit::{Action, Edit, EditVerdict, Edited, Select};
pub use ends::{ENDS_KEPT, JobEnd};
pub use enqueue::{EnqueueVerdict, Enqueued, Receipt};
pub use guard::Guard;
pub use info::{
    Capability, Durability, Health, Info, LoopHealth, NamespaceProblem, StatedDurability,
    resend_problem,
};
pub use inspect::{
    Cursor, Explanation, Filter, Got, List, ListBy, Listing, Reason, Target, job_named,
};
pub use limited::{
    CONCURRENCY_MAX, ClosedLimit, LimitStats, LimitedQueue, RATE_SPAN_MAX, RATE_SPAN_MIN,
    RATE_STARTS_MAX, Rate,
};
pub use named::{
    BLOCKED_LIMITS_MAX, CANCELLING_MAX, LIMIT_PREFIX, LIMIT_RECORDS_MAX, LimitSettings, NamedLimit,
    WhenFull, limit_family,
};
pub use settings::{OnFull, QueueSettings};
pub use settle::{LeaseReport, SAMPLE_US_MAX, Settle, SettleVerdict, Settled, Settlement};
pub use share::{
    BLOCK_MAX, BLOCKED_SHARES_MAX, BlockedShare, ClosedShare, SHARE_PENDING_MAX, ShareSettings,
    ShareStats, TOP_SHARES_MAX, WEIGHT_MAX, WEIGHTS_MAX,
};
pub use stats::{
    Counts, DueBucket, MinuteStats, QueueStats, STATS_PAGE_MAX, Stats, StatsRequest, WorkerSeen,
    free_workers,
};
pub use wait::{Change, WaitFor, Waited};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{NewJob, check_name};
use crate::time::Timestamp;

/// A tenant's own set of queues; sees nothing of any other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// The namespace of that name; names follow [`check_name`].
    ///
    /// ```
    /// use punctual::engine::Namespace;
    ///
    /// assert!(Namespace::new("shop").is_ok());
    /// assert!(Namespace::new("{shop}").is_err());
    /// ```
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name("namespace", &name)?;
        Ok(Self(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    /// The namespace `default`.
    fn default() -> Self {
        Self("default".into())
    }
}

impl TryFrom<String> for Namespace {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::new(name)
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> Self {
        namespace.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A store that keeps the law. Use it as `Arc<dyn Engine>`.
///
/// Dropping a future gives up the answer, not the call: it takes effect or not, whole; send the
/// same ids again to learn which.
#[async_trait]
pub trait Engine: Send + Sync + fmt::Debug + 'static {
    /// Enqueues jobs. Answers after the durability that the reply names, one receipt per job in
    /// order.
    ///
    /// The same id again answers `duplicate` with the same receipt, `id_conflict` if queue, kind,
    /// payload, content type or headers differ. A job with `history` is imported as it was.
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued>;

    /// Takes due jobs under a lease: one token and one deadline per lease.
    ///
    /// First moves what is due (a bounded number). Never waits: the answer's `wake_at` says when
    /// another claim could answer more, and [`wait`](Engine::wait) when something changes before
    /// that.
    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed>;

    /// Prolongs leases, carries progress, and answers which jobs are lost or asked to stop.
    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended>;

    /// Settles attempts: whole leases or parts of them, with their effects.
    ///
    /// A job's outcome and its effects stand or fall together. A settlement under an old token
    /// answers `lease_lost` and changes nothing; the same settlement again answers `repeated`.
    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled>;

    /// Waits for work, for jobs to settle, or for changes, at most until an instant of engine time.
    ///
    /// The answer is a hint: a claim or a get returns the truth. If a wakeup is lost because the
    /// waiter that received it has gone, another one finds the work within a second. So no worker
    /// needs to poll.
    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited>;

    /// Answers jobs by id or unique key, in order, each with the reason why it has not run if
    /// asked. With reasons it may be several steps, each of some of the jobs.
    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>>;

    /// Lists jobs by queue and state, unique or group key, a bounded number per call.
    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing>;

    /// Cancels, reschedules, runs now, reprioritises, redrives or deletes jobs.
    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited>;

    /// Counts by queue and state, the due histogram, the history, and the workers seen.
    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats>;

    /// Pauses, resumes or purges a queue; reads and writes named versioned records.
    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled>;

    /// Moves what is due, expires, rescues and prunes a bounded number, in every namespace; answers
    /// how many and when to come again. Engines do this by themselves too; calling it is safe.
    async fn maintain(&self) -> Result<Maintained>;

    /// What the engine is: name, version, capabilities, durability, limits, health.
    async fn info(&self) -> Result<Info>;
}

/// What a [`maintain`](Engine::maintain) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Maintained {
    /// Jobs moved from scheduled to ready.
    pub moved: usize,
    /// Jobs that expired.
    pub expired: usize,
    /// Jobs of expired leases that were returned, cancelled or dead-lettered.
    pub rescued: usize,
    /// Settled jobs and tombstones removed past retention.
    pub pruned: usize,
    /// When to come again: now if a limit cut the work short, `None` if nothing is pending.
    pub next: Option<Timestamp>,
}
