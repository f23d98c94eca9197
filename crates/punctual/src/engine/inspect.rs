//! The contract: get, list, explain and stats.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::{Rate, WhenFull};
use crate::job::{CancelReason, DeadReason, JobId, JobRecord, JobState};
use crate::time::Timestamp;

/// A job named by id, or by the unique key that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// By id.
    Id(
        /// The id.
        JobId,
    ),
    /// The present holder of a unique key of a queue.
    Unique {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
}

impl From<JobId> for Target {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

/// What a get answers for one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Got {
    /// The job, and its explanation if one was asked for.
    Job(
        /// Every field.
        Box<JobRecord>,
        /// Why it stands where it stands.
        Option<Explanation>,
    ),
    /// Only the tombstone of a settled job is left.
    Tombstone {
        /// Its id.
        id: JobId,
        /// How it settled.
        state: JobState,
        /// Its small result.
        result: Option<Bytes>,
        /// When it settled.
        finished_at: Timestamp,
    },
}

impl Got {
    /// The job, if more than its tombstone is left.
    pub fn job(&self) -> Option<&JobRecord> {
        match self {
            Self::Job(job, _) => Some(job),
            Self::Tombstone { .. } => None,
        }
    }

    /// The state, of the job or its tombstone.
    pub fn state(&self) -> JobState {
        match self {
            Self::Job(job, _) => job.state,
            Self::Tombstone { state, .. } => *state,
        }
    }
}

/// Why a job has not run, or what became of it: every reason that holds, the weightiest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Never empty.
    pub reasons: Vec<Reason>,
}

impl Explanation {
    /// Why a job does not run now.
    pub fn new(reasons: Vec<Reason>) -> Self {
        Self { reasons }
    }
}

/// One reason why a job has not run, with the means to check it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// It is due later.
    NotDue {
        /// The instant.
        due: Timestamp,
    },
    /// It failed, was snoozed or released, and waits for its next attempt.
    WaitsForRetry {
        /// The instant.
        due: Timestamp,
        /// Failures so far.
        failures: u32,
    },
    /// It waits for these names to be cleared.
    WaitsForNames {
        /// Those left.
        names: Vec<String>,
    },
    /// It waits for other jobs to settle.
    WaitsForJobs {
        /// How many.
        waits: u32,
        /// Some of them with their states, those outside of its flow first.
        some: Vec<(JobId, JobState)>,
    },
    /// Its flow is not sealed: it was not sent to its end.
    FlowOpen {
        /// The flow.
        flow: String,
    },
    /// It runs when its flow has settled.
    WaitsForFlow {
        /// The flow.
        flow: String,
        /// Steps that are left.
        open: u64,
    },
    /// It follows the active holder of its unique key.
    WaitsForHolder {
        /// The holder.
        holder: JobId,
    },
    /// Its queue is paused: resume it.
    QueuePaused,
    /// A job of its group is active.
    GroupActive {
        /// That job.
        by: JobId,
    },
    /// A job of its group waits for its retry and holds the group back.
    GroupHeld {
        /// That job.
        by: JobId,
        /// The instant it may run.
        until: Timestamp,
    },
    /// It is suspect and waits for a worker that runs nothing else.
    Suspect {
        /// Its crashes.
        crashes: u32,
    },
    /// No worker claimed from its queue in the last minute.
    NoWorker,
    /// Workers claimed from its queue in the last minute, none of them with a handler for its kind.
    NoWorkerForKind {
        /// The kind.
        kind: String,
    },
    /// As many jobs of its queue are active as may be: it goes on when one of them ends.
    ConcurrencyReached {
        /// How many may be active.
        limit: u64,
        /// How many are.
        active: u64,
    },
    /// As many jobs of its queue have started as may in a span of time.
    RateReached {
        /// How many may.
        rate: Rate,
        /// When the next one may start.
        until: Timestamp,
    },
    /// Its share is blocked for a while.
    ShareBlocked {
        /// The share.
        share: String,
        /// Until when.
        until: Timestamp,
    },
    /// Its share is paused, until it is resumed.
    SharePaused {
        /// The share.
        share: String,
    },
    /// As many jobs of its share are active as may be: it goes on when one of them ends.
    ShareConcurrencyReached {
        /// The share.
        share: String,
        /// How many may be active.
        limit: u64,
        /// How many are.
        active: u64,
    },
    /// As many jobs of its share have started as may in a span of time.
    ShareRateReached {
        /// The share.
        share: String,
        /// How many may.
        rate: Rate,
        /// When the next one may start.
        until: Timestamp,
    },
    /// A named limit of it is blocked for a while.
    LimitBlocked {
        /// The name of the limit.
        name: String,
        /// Until when.
        until: Timestamp,
    },
    /// As many jobs with a named limit of it are active as may be: it goes on when one of them
    /// ends.
    LimitConcurrencyReached {
        /// The name of the limit.
        name: String,
        /// How many may be active.
        limit: u64,
        /// How many are.
        active: u64,
        /// What becomes of new jobs meanwhile.
        when_full: WhenFull,
    },
    /// As many units of a named limit of it have started as may in a span of time, or too many for
    /// what it costs.
    LimitRateReached {
        /// The name of the limit.
        name: String,
        /// How many may.
        rate: Rate,
        /// When it may start, if no other job does before.
        until: Timestamp,
    },
    /// Other shares have their turn before the next one of its share.
    ShareTurn {
        /// The share.
        share: String,
        /// Shares before it, counted up to 1,000.
        ahead: usize,
    },
    /// It waits its turn behind others.
    InLine {
        /// Jobs before it, counted up to 1,000; of a job with a share, those of its share.
        ahead: usize,
    },
    /// It runs.
    Active {
        /// The worker.
        worker: crate::engine::WorkerId,
        /// When it was claimed.
        since: Timestamp,
        /// When its lease ends.
        until: Timestamp,
    },
    /// It is done.
    Completed,
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: CancelReason,
    },
    /// It is dead.
    Dead {
        /// Why.
        reason: DeadReason,
        /// The error of its last failure, if it failed.
        #[serde(default)]
        error: Option<String>,
    },
    /// Nothing will release it: it waits for a name that is the id of a job, and that job has ended
    /// without clearing it. Only the effect of a settlement and a caller clear names; a job that is
    /// cancelled, purged, expired, replaced, or dead of poison or overflow clears none. Clear the
    /// name, run the job now, or cancel it.
    NeverReleased {
        /// The job that has ended.
        by: JobId,
        /// How it ended.
        state: JobState,
    },
}

/// The job that a name in `wait_for` stands for: its id in the form with hyphens.
///
/// ```
/// let id = punctual::JobId::new();
/// assert_eq!(punctual::engine::job_named(&id.to_string()), Some(id));
/// assert_eq!(punctual::engine::job_named("paid"), None);
/// ```
pub fn job_named(name: &str) -> Option<JobId> {
    (name.len() == 36).then(|| name.parse().ok()).flatten()
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct List {
    /// Which index to read.
    pub by: ListBy,
    /// What else must hold; what is not in `by` is a scan.
    pub filter: Filter,
    /// Where the last answer ended.
    pub cursor: Option<Cursor>,
    /// Jobs to examine, 1 to 1,000.
    pub limit: usize,
    /// Whether to answer payloads too.
    pub payloads: bool,
}

impl List {
    /// Lists all of an index, 1,000 jobs a call, without payloads.
    ///
    /// ```
    /// use punctual::JobState;
    /// use punctual::engine::{Filter, List, ListBy};
    ///
    /// let (queue, state) = ("mail".into(), JobState::Dead);
    /// let list = List::new(ListBy::State { queue, state });
    /// let list = list.filter(Filter::default().text("timeout".to_owned())).limit(50);
    /// assert!(!list.payloads);
    /// ```
    pub fn new(by: ListBy) -> Self {
        Self {
            by,
            filter: Filter::default(),
            cursor: None,
            limit: 1_000,
            payloads: false,
        }
    }

    /// Only jobs that the filter lets through.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// From where the last answer ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<Option<Cursor>>) -> Self {
        self.cursor = cursor.into();
        self
    }

    /// At most this many jobs are examined, 1 to 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// With payloads, or without.
    #[must_use]
    pub fn payloads(mut self, payloads: bool) -> Self {
        self.payloads = payloads;
        self
    }
}

/// The index that a list goes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ListBy {
    /// Jobs of one queue in one state. Scheduled jobs come by due; ready ones line by line, those
    /// without a group or a share by priority (suspects after the others), then those with a share
    /// by priority and share, then group by group; settled ones by the instant they settled, the
    /// latest first.
    State {
        /// The queue.
        queue: String,
        /// The state.
        state: JobState,
    },
    /// The holder of a unique key, and its follower.
    Unique {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
    /// Unsettled jobs of a group.
    Group {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
    /// Jobs that hold a named limit or wait at it, queue by queue: active ones, then those that it
    /// keeps back, in line; of a serial group the first one. A ready job that it does not keep back
    /// is not among them: it is in its lane, and may start as far as this limit goes.
    Limit {
        /// The name of the limit, with its key.
        name: String,
    },
    /// Every job of the namespace, in an order of the engine's own: a scan. A job that comes or
    /// goes meanwhile may be left out or returned twice.
    All,
}

/// What must hold for a job to be listed or edited; an empty filter matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Filter {
    /// Its queue.
    pub queue: Option<String>,
    /// Its state.
    pub state: Option<JobState>,
    /// Its kind.
    pub kind: Option<String>,
    /// Text that its payload contains.
    pub text: Option<String>,
    /// Due at or after this instant.
    pub due_from: Option<Timestamp>,
    /// Due before this instant.
    pub due_before: Option<Timestamp>,
    /// Text that its last error contains; a job without an error does not match.
    #[serde(default)]
    pub error: Option<String>,
    /// Of at least this age, by engine time: a settled job counts from its end, any other from its
    /// enqueue.
    #[serde(default)]
    pub older_than: Option<Duration>,
}

impl Filter {
    /// Only jobs of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Option<String>>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Only jobs in this state.
    #[must_use]
    pub fn state(mut self, state: impl Into<Option<JobState>>) -> Self {
        self.state = state.into();
        self
    }

    /// Only jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Option<String>>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Only jobs whose payload contains this text.
    #[must_use]
    pub fn text(mut self, text: impl Into<Option<String>>) -> Self {
        self.text = text.into();
        self
    }

    /// Only jobs that are due then or later.
    #[must_use]
    pub fn due_from(mut self, due_from: impl Into<Option<Timestamp>>) -> Self {
        self.due_from = due_from.into();
        self
    }

    /// Only jobs that are due before.
    #[must_use]
    pub fn due_before(mut self, due_before: impl Into<Option<Timestamp>>) -> Self {
        self.due_before = due_before.into();
        self
    }

    /// Only jobs whose last error contains this text.
    #[must_use]
    pub fn error(mut self, error: impl Into<Option<String>>) -> Self {
        self.error = error.into();
        self
    }

    /// Only jobs that settled, or else came, at least that long ago.
    #[must_use]
    pub fn older_than(mut self, older_than: impl Into<Option<Duration>>) -> Self {
        self.older_than = older_than.into();
        self
    }

    /// Whether a job passes at that engine time.
    pub fn matches(&self, job: &JobRecord, now: Timestamp) -> bool {
        let since = job.finished_at.unwrap_or(job.enqueued_at);
        self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.state.is_none_or(|state| state == job.state)
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && self.due_from.is_none_or(|from| job.due >= from)
            && self.due_before.is_none_or(|before| job.due < before)
            && self.older_than.is_none_or(|span| now.since(since) >= span)
            && self
                .text
                .as_ref()
                .is_none_or(|text| contains(&job.payload, text.as_bytes()))
            && self.error.as_ref().is_none_or(|text| {
                let reported = job.last_error.as_ref();
                reported.is_some_and(|error| error.contains(text))
            })
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// Where a list or edit goes on; opaque, valid for the same request on the same engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor(pub Bytes);

/// The answer to a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Listing {
    /// The jobs found.
    pub jobs: Vec<JobRecord>,
    /// Jobs examined.
    pub examined: usize,
    /// Where to go on; `None` at the end.
    pub cursor: Option<Cursor>,
    /// Engine time.
    pub now: Timestamp,
}

impl Listing {
    /// A page that ends the list, at that instant of engine time.
    pub fn new(jobs: Vec<JobRecord>, now: Timestamp) -> Self {
        Self {
            jobs,
            examined: 0,
            cursor: None,
            now,
        }
    }
}
