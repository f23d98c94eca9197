//! The reference model: the law in the plainest words, a list that is searched from end to end.
//!
//! Written from `docs/job-lifecycle.md` and the contract alone; it shares no code with any engine.
//! Where the law leaves a choice (which line of a priority, which fence), the model follows what
//! the engine chose, once it has checked that it was free to.

mod claim;
mod clock;
mod control;
mod edit;
mod enqueue;
mod entry;
mod explain;
mod holdings;
mod inspect;
mod limits;
mod settle;
mod stats;
pub(crate) mod topics;
mod unique;
mod wake;

use std::collections::BTreeMap;

pub(crate) use claim::Choice;
pub(crate) use entry::{Entry, Left, Turn};
pub(crate) use holdings::Holding;
pub(crate) use limits::WINDOW;

use crate::engine::{JobEnd, Namespace, QueueSettings, Token, VersionedRecord, WorkerRecord};
use crate::job::{JobId, JobState, Limits};
use crate::time::Timestamp;
use crate::topic::Subscription;

/// What an engine holds, and the last instant at which it answered a call.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    limits: Limits,
    answered_at: Timestamp,
    spaces: BTreeMap<Namespace, Space>,
}

impl Model {
    /// An empty engine that has just been opened.
    pub(crate) fn new(limits: Limits, now: Timestamp) -> Self {
        Self {
            limits,
            answered_at: now,
            spaces: BTreeMap::new(),
        }
    }

    /// The last instant at which the engine answered.
    pub(crate) fn answered_at(&self) -> Timestamp {
        self.answered_at
    }

    /// The namespace as it stands, without a call.
    pub(crate) fn space(&self, namespace: &Namespace) -> Option<&Space> {
        self.spaces.get(namespace)
    }

    /// Every call starts here: time passes, and the sweep comes first.
    pub(crate) fn at(&mut self, namespace: &Namespace, now: Timestamp) -> &mut Space {
        let silence = now.since(self.answered_at);
        if now > self.answered_at {
            self.answered_at = now;
            for space in self.spaces.values_mut() {
                space.spare_leases(now, silence);
                space.sweep(now);
            }
        }
        let holdings = self.spaces.values().flat_map(|space| &space.holdings);
        let lease_ends: Vec<Timestamp> = holdings.map(|holding| holding.deadline).collect();
        let limits = self.limits;
        let space = (self.spaces.entry(namespace.clone())).or_insert_with(|| Space::new(limits));
        space.lease_ends = lease_ends;
        space
    }

    /// The engine was closed and opened again: leases last, workers seen are forgotten.
    pub(crate) fn reopen(&mut self) {
        for space in self.spaces.values_mut() {
            space.workers.clear();
        }
    }

    /// The engine ended as by a kill: leases of workers in its process are crashes at once.
    pub(crate) fn crash(&mut self, now: Timestamp) {
        self.reopen();
        self.answered_at = now;
        for space in self.spaces.values_mut() {
            space.end_leases_of_the_process(now);
        }
    }
}

#[cfg(test)]
impl Model {
    pub(crate) fn names(&self) -> Vec<Namespace> {
        self.spaces.keys().cloned().collect()
    }

    pub(crate) fn spaces_mut(&mut self) -> impl Iterator<Item = &mut Space> {
        self.spaces.values_mut()
    }
}

#[cfg(test)]
impl Space {
    /// Jobs, leases and the last fence, for a test to break.
    pub(crate) fn inner(&mut self) -> (&mut Vec<Entry>, &mut Vec<Holding>, &mut u64) {
        (&mut self.jobs, &mut self.holdings, &mut self.fence)
    }
}

/// One namespace.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    limits: Limits,
    seq: u64,
    jobs: Vec<Entry>,
    holdings: Vec<Holding>,
    /// The ends of all leases of the engine at the last call.
    lease_ends: Vec<Timestamp>,
    paused: Vec<String>,
    records: BTreeMap<String, VersionedRecord>,
    version: u64,
    workers: Vec<(WorkerRecord, Timestamp)>,
    fence: u64,
    /// Every job that ended, in order, under its queue.
    ends: Vec<(String, JobEnd)>,
    /// Jobs that the engine was seen to dead-letter for want of room: where the law leaves open
    /// which one goes, it is the first of these that may.
    pub(crate) overflown: Vec<JobId>,
    /// Every start of a queue since it has a rate, and before.
    starts: Vec<(String, Timestamp)>,
    /// Queues that have, or had, limits.
    limited: Vec<String>,
    /// Names that were cleared before their jobs came, and until when that counts.
    early_clears: Vec<(JobId, String, Timestamp)>,
    subscriptions: Vec<Subscription>,
}

impl Space {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            seq: 0,
            jobs: Vec::new(),
            holdings: Vec::new(),
            lease_ends: Vec::new(),
            paused: Vec::new(),
            records: BTreeMap::new(),
            version: 0,
            workers: Vec::new(),
            fence: 0,
            ends: Vec::new(),
            overflown: Vec::new(),
            starts: Vec::new(),
            limited: Vec::new(),
            early_clears: Vec::new(),
            subscriptions: Vec::new(),
        }
    }

    /// The jobs and tombstones that `get` knows.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Entry> {
        self.jobs.iter().filter(|job| job.left != Left::Nothing)
    }

    /// The leases that last.
    pub(crate) fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    fn find(&self, id: JobId) -> Option<usize> {
        (self.jobs.iter()).position(|job| job.left != Left::Nothing && job.record.id == id)
    }

    fn find_whole(&self, id: JobId) -> Option<usize> {
        self.find(id).filter(|i| self.jobs[*i].left == Left::Whole)
    }

    fn holding(&self, token: Token) -> Option<usize> {
        self.holdings
            .iter()
            .position(|holding| holding.token == token)
    }

    fn is_paused(&self, queue: &str) -> bool {
        self.paused.iter().any(|paused| paused == queue)
    }

    fn settings(&self, queue: &str) -> QueueSettings {
        match self.records.get(&format!("queue/{queue}")) {
            Some(VersionedRecord {
                value: crate::engine::RecordValue::Queue(settings),
                ..
            }) => settings.clone(),
            _ => QueueSettings::default(),
        }
    }

    fn count(&self, queue: &str, now: Timestamp, state: JobState) -> usize {
        let here = |job: &&Entry| job.left == Left::Whole && job.record.queue == queue;
        (self.jobs.iter().filter(here))
            .filter(|job| job.state(now) == state)
            .count()
    }
}
