//! The law as one deterministic machine over sorted tables; for authors of engines.
//!
//! A [`Machine`] has no clock, no thread and no file. Each verb takes engine time, does one atomic
//! step over its tables and answers. The memory engine calls it under a lock; the embedded engine
//! writes the step's mutations ([`Machine::take_step`]) to its log before it answers.

mod claim;
mod codec;
mod control;
mod cursor;
mod delete;
mod due;
mod early;
mod edit;
mod ends;
mod enqueue;
mod expected;
mod explain;
mod fields;
mod flow_acts;
mod flow_again;
mod flow_end;
mod flow_reads;
mod flow_restore;
mod flow_rows;
mod flow_work;
mod flows;
mod gates;
mod guard;
mod idle;
mod inspect;
mod jobs;
mod lanes;
mod lease;
mod memos;
mod minute_counters;
mod named;
mod named_full;
mod named_lines;
mod named_list;
mod named_reads;
mod named_rows;
mod rare;
mod rate;
mod record_row;
mod recover;
mod rows;
mod run;
mod schedule_rows;
mod schedules;
mod settle;
mod settled;
mod share_bounds;
mod share_reads;
mod share_rows;
mod share_settings;
mod shares;
mod signals;
mod stats;
mod sweep;
mod table;
mod tombstones;
mod unique;
mod wake;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::{Checks, Namespace};
use crate::error::Result;
use crate::job::{JobId, JobState, Limits};
use crate::time::Timestamp;

use due::DueIndex;
use early::EarlyClears;
use ends::Ends;
use flow_rows::*;
use flow_work::FlowWork;
use gates::Gate;
use idle::Round;
use minute_counters::History;
use named::Named;
use named_rows::*;
use record_row::RecordRow;
pub use recover::{Frozen, Recovered};
use rows::*;
use share_bounds::ShareBounds;
use share_rows::*;
use shares::Shares;
pub use signals::{SettledWatch, Signals, Wakeups};
pub use table::{Base, RowVisitor, ScanVisitor};
use table::{Journal, Table};
use tombstones::Tombstones;
use wake::Obstacles;

/// The state of one engine, and the verbs that change it.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    now: Timestamp,
    clock_jumps: u64,
    journal: Journal,
    rows: Tables,
    /// What the tables imply, kept at hand.
    derived: Derived,
    counters: Counters,
    signals: Signals,
    history: History,
    ends: Ends,
    round: Round,
}

/// Every stored row.
#[derive(Debug)]
struct Tables {
    counters: Table<NameKey, Counters>,
    namespaces: Table<NameKey, u32>,
    queues: Table<QueueName, QueueRow>,
    specs: Table<JobKey, Arc<Spec>>,
    status: Table<JobKey, Arc<Status>>,
    due: DueIndex,
    places: Table<PlaceKey, Place>,
    lines: Table<LineKey, LineEntry>,
    groups: Table<QueueText, GroupRow>,
    members: Table<MemberKey, JobId>,
    held: Table<SeqKey, JobId>,
    unique: Table<QueueText, Holder>,
    periods: Table<PeriodKey, ()>,
    expiry: Table<ExpiryKey, ()>,
    leases: Table<FenceKey, Arc<LeaseRow>>,
    deadlines: Table<FenceKey, DeadlineRow>,
    tombstones: Table<JobKey, Tombstone>,
    kept: Table<KeptKey, Kept>,
    prune: Table<PruneKey, JobId>,
    records: Table<RecordKey, RecordRow>,
    ends: Table<EndKey, EndRow>,
    schedules: Table<RecordKey, ScheduleRow>,
    gates: Table<QueueText, GateRow>,
    shares: Table<QueueText, ShareRow>,
    queue_shares: Table<QueueText, SharesRow>,
    share_places: Table<SharePlaceKey, Place>,
    turns: Table<TurnKey, ()>,
    parked: Table<ParkKey, ()>,
    large_shares: Table<LargeShareKey, ()>,
    named: Table<RecordKey, NamedRow>,
    kept_back: Table<KeptBackKey, KeptBack>,
    kept_by: Table<PlaceKey, KeptBy>,
    limit_lines: Table<QueueText, LimitLine>,
    limit_opens: Table<OpensKey, ()>,
    named_jobs: Table<QueueText, NamedJobs>,
    idle_limits: Table<IdleLimitKey, ()>,
    flows: Table<RecordKey, FlowRow>,
    links: Table<JobKey, LinkRow>,
    steps: Table<StepKey, JobId>,
    edges: Table<EdgeKey, EdgeRow>,
    todo: Table<TodoKey, TodoRow>,
    early_clears: Table<EarlyKey, EarlyRow>,
    early_ends: Table<EarlyEndKey, ()>,
    waiting: Table<WaitingKey, ()>,
    waiting_counts: Table<WaitingCountKey, WaitingCountRow>,
    share_bounds: Table<QueueText, ShareBoundRow>,
}

// Numbers of the machine, which no caller chooses, need no keyed hash: each verb reads its
// queue several times a job.
#[derive(Debug, Default)]
struct Derived {
    namespaces: HashMap<String, u32>,
    namespace_names: FxHashMap<u32, String>,
    queue_ids: BTreeMap<(u32, String), u32>,
    queues: FxHashMap<u32, Queue>,
    /// Queues whose row changed in this step.
    dirty: BTreeSet<u32>,
    /// The earliest due of each queue that has one.
    due_heads: BTreeSet<(Timestamp, u32)>,
    /// A call that takes out many jobs refreshes the heads once, when it is done.
    due_heads_wait: bool,
    lease_ends: BTreeSet<(Timestamp, u64)>,
    leases: FxHashMap<u64, OpenLease>,
    /// What was sent of the active jobs: a settle needs it again, and the base is further away.
    active: HashMap<JobKey, Arc<Spec>>,
    /// Open leases by namespace, worker and nonce.
    claims: HashMap<(u32, u128, u64), u64>,
    tombstones: Tombstones,
    /// Bytes of kept jobs by namespace.
    kept_bytes: FxHashMap<u32, u64>,
    /// Where scans of a lane, and of orders by time, may start: everything before is gone.
    lane_lows: FxHashMap<(u32, u8), PlaceKey>,
    expiry_low: Option<ExpiryKey>,
    prune_low: Option<PruneKey>,
    period_low: Option<PeriodKey>,
    obstacles: Obstacles,
    /// How many queues have a gate: while it is none, nothing else is asked about limits.
    gates: usize,
    /// How many queues have shares: while it is none, nothing else is asked about shares.
    shared: usize,
    /// Schedules that need more instants from a calendar.
    low_schedules: BTreeSet<RecordKey>,
    /// Those of which a run is expected to complete.
    expected: expected::Expected,
    /// How many there are, by namespace.
    schedule_counts: FxHashMap<u32, usize>,
    /// Instants that calendars may still name in this step.
    instants_left: usize,
    flows: FlowWork,
    named: Named,
    early_clears: EarlyClears,
    share_bounds: ShareBounds,
}

/// A queue, in memory.
#[derive(Debug)]
struct Queue {
    namespace: u32,
    name: Arc<str>,
    row: QueueRow,
    due_head: Option<Timestamp>,
    /// When leases of its jobs end.
    lease_ends: BTreeSet<(Timestamp, u64)>,
    /// The leases of its jobs, by fence.
    leases: BTreeSet<u64>,
    settings: crate::engine::QueueSettings,
    /// Its limits; none if it never had any.
    gate: Option<Box<Gate>>,
    /// Its shares; none if it has none now.
    shares: Option<Box<Shares>>,
    /// Its jobs with named limits that are ready or active; none if it has none.
    named: Option<Box<NamedJobs>>,
}

/// A lease, in memory.
#[derive(Debug)]
struct OpenLease {
    namespace: u32,
    /// The queues that its jobs came from.
    queues: Vec<u32>,
    remaining: u32,
    worker: u128,
    nonce: u64,
    lease_duration: Duration,
    deadline: Timestamp,
    extended_after_pause: bool,
}

impl Machine {
    /// A machine without anything below: every row in memory, waiting jobs on a timing wheel.
    pub fn in_memory(limits: Limits) -> Self {
        Self::build(limits, None)
    }

    /// A machine over a sorted store; recover it before the first verb.
    pub fn over(limits: Limits, base: Arc<dyn Base>) -> Self {
        Self::build(limits, Some(base))
    }

    fn build(limits: Limits, base: Option<Arc<dyn Base>>) -> Self {
        let keeps = base.is_some();
        let rows = Tables {
            counters: Table::new(1, base.clone()),
            namespaces: Table::new(2, base.clone()),
            queues: Table::new(3, base.clone()),
            specs: Table::new(4, base.clone()),
            status: Table::new(5, base.clone()),
            due: DueIndex::new(6, base.clone()),
            places: Table::new(7, base.clone()),
            lines: Table::new(8, base.clone()),
            groups: Table::new(9, base.clone()),
            members: Table::new(10, base.clone()),
            held: Table::new(11, base.clone()),
            unique: Table::new(12, base.clone()),
            periods: Table::new(13, base.clone()),
            expiry: Table::new(14, base.clone()),
            leases: Table::new(15, base.clone()),
            deadlines: Table::new(16, base.clone()),
            tombstones: Table::new(17, base.clone()),
            kept: Table::new(18, base.clone()),
            prune: Table::new(19, base.clone()),
            records: Table::new(20, base.clone()),
            ends: Table::new(21, base.clone()),
            schedules: Table::new(22, base.clone()),
            gates: Table::new(23, base.clone()),
            flows: Table::new(24, base.clone()),
            links: Table::new(25, base.clone()),
            steps: Table::new(26, base.clone()),
            edges: Table::new(27, base.clone()),
            todo: Table::new(28, base.clone()),
            shares: Table::new(29, base.clone()),
            queue_shares: Table::new(30, base.clone()),
            share_places: Table::new(31, base.clone()),
            turns: Table::new(32, base.clone()),
            parked: Table::new(33, base.clone()),
            large_shares: Table::new(34, base.clone()),
            named: Table::new(35, base.clone()),
            kept_back: Table::new(36, base.clone()),
            kept_by: Table::new(37, base.clone()),
            limit_lines: Table::new(38, base.clone()),
            limit_opens: Table::new(39, base.clone()),
            named_jobs: Table::new(40, base.clone()),
            idle_limits: Table::new(41, base.clone()),
            early_clears: Table::new(42, base.clone()),
            early_ends: Table::new(43, base.clone()),
            waiting: Table::new(44, base.clone()),
            waiting_counts: Table::new(45, base.clone()),
            share_bounds: Table::new(46, base),
        };
        Self {
            limits,
            now: Timestamp::ZERO,
            clock_jumps: 0,
            journal: Journal::new(keeps),
            rows,
            derived: Derived::default(),
            counters: Counters {
                fence: 0,
                version: 0,
                names: 0,
                now: Timestamp::ZERO,
                closed: false,
            },
            signals: Signals::default(),
            history: History::default(),
            ends: Ends::default(),
            round: Round::default(),
        }
    }

    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How long the tombstone of a settled job stays, at most.
    pub fn settled_window(&self) -> Duration {
        self.limits.settled_window
    }

    /// How often the engine was silent for longer than half a lease.
    pub fn clock_jumps(&self) -> u64 {
        self.clock_jumps
    }

    /// What the last steps mean for waiters; taken by the engine after each call.
    pub fn take_signals(&mut self) -> Signals {
        self.signals.take()
    }

    /// The mutations of the step just done, for the log; empty if it changed nothing.
    pub fn take_step(&mut self) -> Result<Vec<u8>> {
        self.finish()?;
        self.write_ends()?;
        self.save_changed_queues();
        if self.journal.rows.0.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.end_step(false))
    }

    /// The mutations of a step with the counters after it; whether it is that of an orderly close.
    fn end_step(&mut self, closed: bool) -> Vec<u8> {
        self.counters.now = self.now;
        self.counters.closed = closed;
        let (name, counters) = (String::new(), self.counters.clone());
        self.rows
            .counters
            .put(&mut self.journal, NameKey { name }, counters);
        std::mem::take(&mut self.journal.rows.0)
    }

    /// Bytes of the step so far, about; they grow with each change.
    pub fn step_bytes(&self) -> usize {
        self.journal.rows.0.len() + self.derived.dirty.len()
    }

    fn save_changed_queues(&mut self) {
        for id in std::mem::take(&mut self.derived.dirty) {
            self.save_gate(id);
            self.save_shares(id);
            self.save_named_jobs(id);
            if let Some(queue) = self.derived.queues.get(&id) {
                let key = QueueName {
                    namespace: queue.namespace,
                    queue: queue.name.to_string(),
                };
                self.rows
                    .queues
                    .put(&mut self.journal, key, queue.row.clone());
            }
        }
    }

    /// The next number of a queue, which only grows. Each queue counts its own, so that no number
    /// in a cursor depends on what another tenant does.
    fn next_seq(&mut self, queue: u32) -> Result<u64> {
        let row = &mut self.queue_mut(queue)?.row;
        row.seq += 1;
        Ok(row.seq)
    }

    /// The number of a namespace, if anything was ever put in it.
    fn namespace(&self, namespace: &Namespace) -> Option<u32> {
        self.derived.namespaces.get(namespace.as_str()).copied()
    }

    fn namespace_or_new(&mut self, namespace: &Namespace) -> u32 {
        if let Some(id) = self.namespace(namespace) {
            return id;
        }
        self.counters.names += 1;
        let id = self.counters.names;
        self.add_namespace(namespace.as_str(), id);
        self.rows.namespaces.insert(
            &mut self.journal,
            NameKey {
                name: namespace.as_str().to_owned(),
            },
            id,
        );
        id
    }

    fn add_namespace(&mut self, name: &str, id: u32) {
        self.derived.namespaces.insert(name.to_owned(), id);
        self.derived.namespace_names.insert(id, name.to_owned());
    }

    fn queue(&self, namespace: u32, name: &str) -> Option<u32> {
        // A tuple of borrowed parts cannot look up owned ones; queue names are short.
        self.derived
            .queue_ids
            .get(&(namespace, name.to_owned()))
            .copied()
    }

    fn queue_or_new(&mut self, namespace: u32, name: &str) -> u32 {
        if let Some(id) = self.queue(namespace, name) {
            return id;
        }
        self.counters.names += 1;
        let id = self.counters.names;
        let row = QueueRow {
            id,
            paused: false,
            counts: vec![0; 7],
            kept_bytes: vec![0; 7],
            lanes: vec![0; 20],
            seq: 0,
        };
        self.add_queue(namespace, name, row);
        self.derived.dirty.insert(id);
        id
    }

    fn add_queue(&mut self, namespace: u32, name: &str, row: QueueRow) {
        let id = row.id;
        let queue = Queue {
            namespace,
            name: name.into(),
            row,
            due_head: None,
            lease_ends: BTreeSet::new(),
            leases: BTreeSet::new(),
            settings: Default::default(),
            gate: None,
            shares: None,
            named: None,
        };
        self.derived
            .queue_ids
            .insert((namespace, name.to_owned()), id);
        self.derived.queues.insert(id, queue);
    }

    fn queue_state(&self, id: u32) -> Result<&Queue> {
        self.derived
            .queues
            .get(&id)
            .ok_or_else(|| codec::damaged("queue"))
    }

    fn queue_mut(&mut self, id: u32) -> Result<&mut Queue> {
        self.derived.dirty.insert(id);
        self.derived
            .queues
            .get_mut(&id)
            .ok_or_else(|| codec::damaged("queue"))
    }

    fn count(&mut self, queue: u32, state: JobState, up: bool) -> Result<()> {
        let count = &mut self.queue_mut(queue)?.row.counts[state as usize];
        debug_assert!(up || *count > 0, "{state} jobs are never fewer than none");
        *count = if up {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        Ok(())
    }

    /// The checks of a call: against the limits, at the time that the call will have.
    fn checks(&self, now: Timestamp) -> Checks<'_> {
        Checks::new(&self.limits, now.max(self.now))
    }

    /// Cuts a text that the engine keeps to the limit, at a character.
    fn bounded_text(&self, text: &str) -> String {
        let mut end = text.len().min(self.limits.result_bytes);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[..end].to_owned()
    }
}
