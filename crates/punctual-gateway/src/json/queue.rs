//! Queues and workers in numbers.

use punctual::JobState;
use punctual::engine::{JobEnd, OnFull, QueueStats, Stats, WorkerSeen};
use punctual::lock::LockWaiter;
use punctual::schedule::Overdue;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::LimitsLine;
use super::minutes::{DueLine, MinuteLine};
use super::total::{Recent, Total};
use crate::job_json::InstantText;

/// What an enqueue into a full queue does.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFullLine {
    #[default]
    Refuse,
    DeadLetterOldest,
}

impl From<OnFull> for OnFullLine {
    fn from(on_full: OnFull) -> Self {
        match on_full {
            OnFull::Refuse => Self::Refuse,
            OnFull::DeadLetterOldest => Self::DeadLetterOldest,
        }
    }
}

impl From<OnFullLine> for OnFull {
    fn from(line: OnFullLine) -> Self {
        match line {
            OnFullLine::Refuse => Self::Refuse,
            OnFullLine::DeadLetterOldest => Self::DeadLetterOldest,
        }
    }
}

/// One queue: its counts, and more if it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueLine {
    queue: String,
    paused: bool,
    held: u64,
    scheduled: u64,
    ready: u64,
    active: u64,
    completed: u64,
    cancelled: u64,
    dead: u64,
    /// How long the oldest due job that could be claimed waits; missing at a closed limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_due_ms: Option<u64>,
    /// Its limits and how they stand, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    due: Vec<DueLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<MinuteLine>,
    /// With `ends`: the last jobs that ended, the newest first; missing if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ends: Vec<EndLine>,
    /// With `total`; missing if nothing happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    recent: Option<Recent>,
}

/// A job that ended. The job itself may be gone.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = JobEnd)]
struct EndLine {
    id: String,
    kind: String,
    /// `completed`, `cancelled` or `dead`.
    state: String,
    at: String,
}

impl From<&JobEnd> for EndLine {
    fn from(end: &JobEnd) -> Self {
        Self {
            id: end.id.to_string(),
            kind: end.kind.clone(),
            state: end.state.to_string(),
            at: end.at.to_string(),
        }
    }
}

impl From<&QueueStats> for QueueLine {
    fn from(stats: &QueueStats) -> Self {
        let of = |state| stats.counts.of(state);
        Self {
            queue: stats.queue.clone(),
            paused: stats.paused,
            held: of(JobState::Held),
            scheduled: of(JobState::Scheduled),
            ready: of(JobState::Ready),
            active: of(JobState::Active),
            completed: of(JobState::Completed),
            cancelled: of(JobState::Cancelled),
            dead: of(JobState::Dead),
            oldest_due_ms: stats.oldest_due.map(|span| span.as_millis() as u64),
            limits: stats.limits.as_ref().map(Into::into),
            due: stats.due.iter().map(Into::into).collect(),
            history: stats.history.iter().map(Into::into).collect(),
            ends: stats.ends.iter().map(Into::into).collect(),
            recent: None,
        }
    }
}

/// Queues by name.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct QueueList {
    pub(crate) queues: Vec<QueueLine>,
    /// With `limit`: the `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Whether scheduled and ready are exact.
    exact: bool,
    now: String,
}

impl From<&Stats> for QueueList {
    fn from(stats: &Stats) -> Self {
        Self {
            queues: stats.queues.iter().map(Into::into).collect(),
            next: stats.next.clone(),
            exact: stats.exact,
            now: stats.now.to_string(),
        }
    }
}

/// Queues and workers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    workers: Vec<WorkerSeenLine>,
    /// Schedules whose success is overdue, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overdue: Vec<OverdueLine>,
    /// All these queues as one, with `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Total>,
    /// The last, for `now` ends every answer.
    #[serde(flatten)]
    queues: QueueList,
}

impl StatsAnswer {
    pub(crate) fn announce_recent(&mut self, queue: usize, recent: Option<Recent>) {
        if let Some(line) = self.queues.queues.get_mut(queue) {
            line.recent = recent;
        }
    }

    pub(crate) fn announce_total(&mut self, total: Total) {
        self.total = Some(total);
    }
}

impl From<&Stats> for StatsAnswer {
    fn from(stats: &Stats) -> Self {
        let workers = stats.workers.iter().filter(|seen| !LockWaiter::is(seen));
        Self {
            queues: stats.into(),
            workers: workers.map(Into::into).collect(),
            overdue: stats.overdue.iter().map(Into::into).collect(),
            total: None,
        }
    }
}

/// A schedule without a run that completed for longer than expected.
#[derive(Debug, Serialize, ToSchema)]
struct OverdueLine {
    schedule: String,
    /// When one should have completed at the latest.
    since: InstantText,
}

impl From<&Overdue> for OverdueLine {
    fn from(overdue: &Overdue) -> Self {
        Self {
            schedule: overdue.schedule.clone(),
            since: overdue.since.into(),
        }
    }
}

/// A worker that claimed in the last minute.
#[derive(Debug, Serialize, ToSchema)]
struct WorkerSeenLine {
    id: String,
    host: String,
    version: String,
    queues: Vec<String>,
    kinds: Vec<String>,
    slots: u32,
    /// Jobs it runs: what it reported, or what it has leased if that is more.
    busy: usize,
    /// Slots that run no job; never below 0.
    free: usize,
    seen_at: String,
    /// Jobs it holds leases of.
    leased: usize,
}

impl From<&WorkerSeen> for WorkerSeenLine {
    fn from(seen: &WorkerSeen) -> Self {
        let worker = &seen.worker;
        Self {
            id: worker.id.to_string(),
            host: worker.host.clone(),
            version: worker.version.clone(),
            queues: worker.queues.clone(),
            kinds: worker.kinds.clone(),
            slots: worker.slots,
            busy: seen.busy(),
            free: seen.free(),
            seen_at: seen.seen_at.to_string(),
            leased: seen.leased,
        }
    }
}
