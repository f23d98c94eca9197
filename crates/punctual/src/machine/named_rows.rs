//! The rows of named limits: what is counted of each, and where jobs wait that one keeps back.

use super::fields::{key, row};
use super::rows::{Place, PlaceKey, RateRow};
use crate::engine::Rate;
use crate::job::JobId;
use crate::time::Timestamp;

row!(
    /// A named limit: gone when no job of it is active or waits, and nothing is to be remembered.
    NamedRow {
        /// Its jobs that have a lease.
        active: u64,
        /// Places that it keeps back, in all queues.
        waiting: u64,
        blocked_until: Option<Timestamp>,
        /// Since when it lets its jobs start.
        open_since: Timestamp,
        /// The rate by which starts were counted last.
        counted_by: Option<Rate>,
        rate: RateRow,
        /// Queues in which places wait, as many as a freed slot wakes.
        queues: Vec<u32>,
        /// When it is examined again, if none of its jobs is active or waits.
        idle: Option<Timestamp>,
    }
    then {
        /// Jobs that may be asked to stop, by when they started: only of a limit that does so.
        running: Vec<JobId>
    }
);

impl NamedRow {
    pub(crate) fn empty() -> Self {
        Self {
            active: 0,
            waiting: 0,
            blocked_until: None,
            open_since: Timestamp::ZERO,
            counted_by: None,
            rate: RateRow::new(),
            queues: Vec::new(),
            idle: None,
            running: Vec::new(),
        }
    }
}

key!(
    /// A place that a named limit keeps back: the line of a limit in a queue goes by lane, then as
    /// a lane does.
    KeptBackKey {
        queue: u32,
        limit: String,
        lane: u8,
        behind: u8,
        at: Timestamp,
        seq: u64,
    }
);

impl KeptBackKey {
    pub(crate) fn of(key: &PlaceKey, limit: &str) -> Self {
        Self {
            queue: key.queue,
            limit: limit.to_owned(),
            lane: key.lane,
            behind: key.behind,
            at: key.at,
            seq: key.seq,
        }
    }

    /// At or before every place of a lane that a limit keeps back.
    pub(crate) fn start_of(queue: u32, limit: &str, lane: u8) -> Self {
        Self::of(&PlaceKey::start_of(queue, lane), limit)
    }

    /// The place in its lane.
    pub(crate) fn place(&self) -> PlaceKey {
        PlaceKey {
            queue: self.queue,
            lane: self.lane,
            behind: self.behind,
            at: self.at,
            seq: self.seq,
        }
    }
}

row!(
    /// What stands at a place that is kept back.
    KeptBack {
        /// The job whose limits are asked: the first one of the group, if it is one.
        job: JobId,
        group: Option<String>,
        share: Option<String>,
        /// Units that the job takes.
        cost: u64,
    }
);

impl KeptBack {
    /// The place of a job, in a share or in none.
    pub(crate) fn new(place: &Place, share: Option<&str>, job: JobId, cost: u32) -> Self {
        let group = match place {
            Place::Job(_) => None,
            Place::Group(group) => Some(group.clone()),
        };
        Self {
            job,
            group,
            share: share.map(str::to_owned),
            cost: u64::from(cost),
        }
    }

    pub(crate) fn place(&self) -> Place {
        let group = self.group.clone().map(Place::Group);
        group.unwrap_or(Place::Job(self.job))
    }

    /// The job that stands there by itself.
    pub(crate) fn alone(&self) -> Option<JobId> {
        self.group.is_none().then_some(self.job)
    }
}

row!(
    /// Which limit keeps a place back.
    KeptBy { limit: String }
);

row!(
    /// The line of a limit in a queue: only while places stand in it.
    LimitLine {
        places: u64,
        /// When its first place may go, as far as time decides.
        until: Timestamp,
    }
);

key!(
    /// A line of a queue, by the instant at which its limit opens.
    OpensKey { queue: u32, until: Timestamp, limit: String }
);

impl OpensKey {
    /// At or before every line of a queue.
    pub(crate) fn start_of(queue: u32) -> Self {
        Self {
            queue,
            until: Timestamp::ZERO,
            limit: String::new(),
        }
    }
}

key!(
    /// A limit of which nothing is active or waits, by until when something is to be remembered.
    IdleLimitKey { until: Timestamp, namespace: u32, limit: String }
);

row!(
    /// The jobs of a queue that have named limits: only while there are any.
    NamedJobs {
        /// In line, or with a lease.
        jobs: u64,
        /// Places that limits keep back.
        kept_back: u64,
    }
);
