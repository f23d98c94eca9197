//! The contract: what statistics answer.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{JobEnd, LimitStats, ShareStats, WorkerRecord};
use crate::job::JobState;
use crate::schedule::Overdue;
use crate::time::Timestamp;

/// What statistics to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatsRequest {
    /// The queues; every queue of the namespace if empty.
    pub queues: Vec<String>,
    /// Whether to answer the history by minutes.
    pub history: bool,
    /// Whether to answer the due histogram.
    pub due: bool,
    /// Whether to answer the last jobs that ended.
    #[serde(default)]
    pub ends: bool,
    /// How many shares of each queue to answer, at most [`TOP_SHARES_MAX`](super::TOP_SHARES_MAX).
    #[serde(default)]
    pub shares: usize,
    /// Queues of one page, by name, at most [`STATS_PAGE_MAX`]; all in one answer if 0.
    #[serde(default)]
    pub limit: usize,
    /// With a `limit`: the page begins after this name; it is the `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
}

/// Queues that one page of statistics has at most.
pub const STATS_PAGE_MAX: usize = 1_000;

impl StatsRequest {
    /// Only these queues; every queue of the namespace if empty.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = queues;
        self
    }

    /// Whether to answer the history by minutes.
    #[must_use]
    pub fn history(mut self, history: bool) -> Self {
        self.history = history;
        self
    }

    /// Whether to answer the due histogram.
    #[must_use]
    pub fn due(mut self, due: bool) -> Self {
        self.due = due;
        self
    }

    /// Whether to answer the last jobs that ended.
    #[must_use]
    pub fn ends(mut self, ends: bool) -> Self {
        self.ends = ends;
        self
    }

    /// How many shares of each queue to answer.
    #[must_use]
    pub fn shares(mut self, shares: usize) -> Self {
        self.shares = shares;
        self
    }

    /// Queues of one page; all in one answer if 0.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The page begins after this name.
    #[must_use]
    pub fn after(mut self, after: Option<String>) -> Self {
        self.after = after;
        self
    }
}

/// The answer to a stats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// One per queue, by name.
    pub queues: Vec<QueueStats>,
    /// Workers that claimed in the last minute.
    pub workers: Vec<WorkerSeen>,
    /// Whether scheduled and ready are exact: `false` while a pile of due jobs is being moved.
    pub exact: bool,
    /// Schedules whose success is overdue, the longest ones first; at most 100. Of pages, the first
    /// one has them.
    #[serde(default)]
    pub overdue: Vec<Overdue>,
    /// With a `limit`: the last queue of this page, if there are more queues after it.
    #[serde(default)]
    pub next: Option<String>,
    /// Engine time.
    pub now: Timestamp,
}

impl Stats {
    /// Exact counts of no queue, at that instant of engine time.
    pub fn new(now: Timestamp) -> Self {
        Self {
            queues: Vec::new(),
            workers: Vec::new(),
            exact: true,
            overdue: Vec::new(),
            next: None,
            now,
        }
    }
}

/// A worker that claimed in the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerSeen {
    /// What it said of itself.
    pub worker: WorkerRecord,
    /// When it last claimed.
    pub seen_at: Timestamp,
    /// Jobs it holds leases of.
    pub leased: usize,
}

impl WorkerSeen {
    /// A worker that called then and has so many jobs leased.
    pub fn new(worker: WorkerRecord, seen_at: Timestamp, leased: usize) -> Self {
        Self {
            worker,
            seen_at,
            leased,
        }
    }

    /// Jobs it runs: what it reported with its last claim, or what it has leased if that is more.
    pub fn busy(&self) -> usize {
        self.leased.max(self.worker.busy as usize)
    }

    /// Slots that run no job; never below 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual::engine::{WorkerRecord, WorkerSeen};
    /// use punctual::time::Timestamp;
    ///
    /// // It reports nothing of what it runs.
    /// let mut worker = WorkerRecord::default();
    /// worker.slots = 4;
    /// let mut seen = WorkerSeen::new(worker, Timestamp::ZERO, 3);
    /// assert_eq!(seen.free(), 1);
    /// seen.leased = 9;
    /// assert_eq!(seen.free(), 0);
    /// ```
    pub fn free(&self) -> usize {
        (self.worker.slots as usize).saturating_sub(self.busy())
    }
}

/// How many workers with a free slot claimed from each queue in the last five seconds.
///
/// A queue is late if its due jobs wait although such a worker is there.
///
/// # Examples
///
/// ```
/// use punctual::engine::{WorkerRecord, WorkerSeen, free_workers};
/// use punctual::time::{Timestamp, seconds};
///
/// let mut worker = WorkerRecord::default();
/// (worker.queues, worker.slots) = (vec!["mail".to_owned()], 4);
/// let seen = [WorkerSeen::new(worker, Timestamp::ZERO, 3)];
/// let now = Timestamp::ZERO + seconds(5);
/// assert_eq!(free_workers(&seen, now).get("mail"), Some(&1));
/// assert!(free_workers(&seen, now + seconds(1)).is_empty());
/// ```
pub fn free_workers(workers: &[WorkerSeen], now: Timestamp) -> HashMap<String, usize> {
    let is_free = |seen: &&WorkerSeen| now - seen.seen_at <= SEEN_JUST_NOW && seen.free() > 0;
    let mut free: HashMap<String, usize> = HashMap::new();
    for seen in workers.iter().filter(is_free) {
        for queue in &seen.worker.queues {
            match free.get_mut(queue) {
                Some(count) => *count += 1,
                None => drop(free.insert(queue.clone(), 1)),
            }
        }
    }
    free
}

const SEEN_JUST_NOW: Duration = Duration::from_secs(5);

/// One queue in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub queue: String,
    /// Jobs by state.
    pub counts: Counts,
    /// Whether it is paused.
    pub paused: bool,
    /// How long the oldest job that is first in its line, and not kept back by its group, has been
    /// due, or since when its queue's limits let it start if that is later; `None` while they do
    /// not.
    pub oldest_due: Option<Duration>,
    /// Due jobs of the future in buckets, if asked for.
    pub due: Vec<DueBucket>,
    /// The last 24 hours by minutes, oldest first, quiet minutes left out, if asked for.
    pub history: Vec<MinuteStats>,
    /// The last [`ENDS_KEPT`](super::ENDS_KEPT) jobs that ended, the newest first, if asked for.
    #[serde(default)]
    pub ends: Vec<JobEnd>,
    /// Its limits and how they stand, if it has any.
    #[serde(default)]
    pub limits: Option<LimitStats>,
    /// The shares with the most ready jobs, then the most active ones, if asked for. Of shares with
    /// fewer than 16 jobs, the engine reads the first 1,000 by key.
    #[serde(default)]
    pub shares: Vec<ShareStats>,
}

impl QueueStats {
    /// A queue with these jobs by state, of which nothing else is known.
    pub fn new(queue: impl Into<String>, counts: Counts) -> Self {
        Self {
            queue: queue.into(),
            counts,
            paused: false,
            oldest_due: None,
            due: Vec::new(),
            history: Vec::new(),
            ends: Vec::new(),
            limits: None,
            shares: Vec::new(),
        }
    }
}

/// Jobs by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts(pub [u64; 7]);

impl Counts {
    /// How many are in that state.
    pub const fn of(&self, state: JobState) -> u64 {
        self.0[state as usize]
    }

    /// Held, scheduled and ready.
    pub const fn pending(&self) -> u64 {
        self.of(JobState::Held) + self.of(JobState::Scheduled) + self.of(JobState::Ready)
    }
}

/// How many jobs fall due within a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DueBucket {
    /// From this instant on.
    pub from: Timestamp,
    /// Before this instant.
    pub until: Timestamp,
    /// Jobs, counted up to a bound per answer.
    pub jobs: u64,
}

impl DueBucket {
    /// So many jobs that are due in that range.
    pub fn new(from: Timestamp, until: Timestamp, jobs: u64) -> Self {
        Self { from, until, jobs }
    }
}

/// One minute of one queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MinuteStats {
    /// Its first instant.
    pub minute: Timestamp,
    /// Jobs enqueued.
    pub enqueued: u64,
    /// Jobs claimed.
    pub claimed: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Jobs that became dead.
    pub dead: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Handler start minus due: median and 99th percentile, in microseconds.
    pub lateness_us: Option<(u64, u64)>,
    /// Run time: median and 99th percentile, in microseconds.
    pub run_time_us: Option<(u64, u64)>,
}

impl MinuteStats {
    /// A minute in which nothing happened.
    pub const fn new(minute: Timestamp) -> Self {
        Self {
            minute,
            enqueued: 0,
            claimed: 0,
            completed: 0,
            failed: 0,
            dead: 0,
            cancelled: 0,
            lateness_us: None,
            run_time_us: None,
        }
    }
}
