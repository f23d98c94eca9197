//! Recovery and checkpoints: for engines that keep a log.

use std::ops::Bound;

use super::codec::{Reader, damaged};
use super::rows::*;
use super::table::{FrozenTable, Mutation, RowVisitor};
use super::wake::Obstacles;
use super::{Machine, OpenLease};
use crate::error::Result;
use crate::job::JobState;
use crate::time::Timestamp;

/// What a checkpoint writes to the base; may be read on another thread.
pub struct Frozen(Vec<Box<dyn FrozenTable>>);

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frozen({} tables)", self.0.len())
    }
}

impl Frozen {
    /// Visits every row in the order of table and key; a removed one has no value.
    pub fn rows(&self, visit: RowVisitor<'_>) -> Result<()> {
        self.0.iter().try_for_each(|table| table.rows(visit))
    }
}

/// What recovery found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// The engine time that it was recovered at, not before the last that was answered: the floor
    /// of the clock.
    pub floor: Timestamp,
    /// Whether the last run closed in good order.
    pub closed: bool,
    /// Jobs whose worker ended with the last process: crashes.
    pub crashed: usize,
}

/// Does the same to every table, in the order of their numbers.
macro_rules! each_table {
    ($rows:expr, $table:ident => $do:expr) => {{
        let rows = $rows;
        {
            let $table = &mut rows.counters;
            $do
        }
        {
            let $table = &mut rows.namespaces;
            $do
        }
        {
            let $table = &mut rows.queues;
            $do
        }
        {
            let $table = &mut rows.specs;
            $do
        }
        {
            let $table = &mut rows.status;
            $do
        }
        if let Some($table) = rows.due.rows() {
            $do
        }
        {
            let $table = &mut rows.places;
            $do
        }
        {
            let $table = &mut rows.lines;
            $do
        }
        {
            let $table = &mut rows.groups;
            $do
        }
        {
            let $table = &mut rows.members;
            $do
        }
        {
            let $table = &mut rows.held;
            $do
        }
        {
            let $table = &mut rows.unique;
            $do
        }
        {
            let $table = &mut rows.periods;
            $do
        }
        {
            let $table = &mut rows.expiry;
            $do
        }
        {
            let $table = &mut rows.leases;
            $do
        }
        {
            let $table = &mut rows.deadlines;
            $do
        }
        {
            let $table = &mut rows.tombstones;
            $do
        }
        {
            let $table = &mut rows.kept;
            $do
        }
        {
            let $table = &mut rows.prune;
            $do
        }
        {
            let $table = &mut rows.records;
            $do
        }
        {
            let $table = &mut rows.ends;
            $do
        }
        {
            let $table = &mut rows.schedules;
            $do
        }
        {
            let $table = &mut rows.gates;
            $do
        }
        {
            let $table = &mut rows.flows;
            $do
        }
        {
            let $table = &mut rows.links;
            $do
        }
        {
            let $table = &mut rows.steps;
            $do
        }
        {
            let $table = &mut rows.edges;
            $do
        }
        {
            let $table = &mut rows.todo;
            $do
        }
        {
            let $table = &mut rows.shares;
            $do
        }
        {
            let $table = &mut rows.queue_shares;
            $do
        }
        {
            let $table = &mut rows.share_places;
            $do
        }
        {
            let $table = &mut rows.turns;
            $do
        }
        {
            let $table = &mut rows.parked;
            $do
        }
        {
            let $table = &mut rows.large_shares;
            $do
        }
        {
            let $table = &mut rows.named;
            $do
        }
        {
            let $table = &mut rows.kept_back;
            $do
        }
        {
            let $table = &mut rows.kept_by;
            $do
        }
        {
            let $table = &mut rows.limit_lines;
            $do
        }
        {
            let $table = &mut rows.limit_opens;
            $do
        }
        {
            let $table = &mut rows.named_jobs;
            $do
        }
        {
            let $table = &mut rows.idle_limits;
            $do
        }
        {
            let $table = &mut rows.early_clears;
            $do
        }
        {
            let $table = &mut rows.early_ends;
            $do
        }
        {
            let $table = &mut rows.waiting;
            $do
        }
        {
            let $table = &mut rows.waiting_counts;
            $do
        }
        {
            let $table = &mut rows.share_bounds;
            $do
        }
    }};
}

impl Machine {
    /// Applies a step that the log kept.
    pub fn replay(&mut self, step: &[u8]) -> Result<()> {
        let mut reader = Reader(step);
        while !reader.0.is_empty() {
            self.apply(&Mutation::read(&mut reader)?)?;
        }
        Ok(())
    }

    fn apply(&mut self, mutation: &Mutation<'_>) -> Result<()> {
        let rows = &mut self.rows;
        match mutation.table {
            1 => rows.counters.replay(mutation),
            2 => rows.namespaces.replay(mutation),
            3 => rows.queues.replay(mutation),
            4 => rows.specs.replay(mutation),
            5 => rows.status.replay(mutation),
            6 => rows
                .due
                .rows()
                .map_or_else(|| Err(damaged("step")), |table| table.replay(mutation)),
            7 => rows.places.replay(mutation),
            8 => rows.lines.replay(mutation),
            9 => rows.groups.replay(mutation),
            10 => rows.members.replay(mutation),
            11 => rows.held.replay(mutation),
            12 => rows.unique.replay(mutation),
            13 => rows.periods.replay(mutation),
            14 => rows.expiry.replay(mutation),
            15 => rows.leases.replay(mutation),
            16 => rows.deadlines.replay(mutation),
            17 => rows.tombstones.replay(mutation),
            18 => rows.kept.replay(mutation),
            19 => rows.prune.replay(mutation),
            20 => rows.records.replay(mutation),
            21 => rows.ends.replay(mutation),
            22 => rows.schedules.replay(mutation),
            23 => rows.gates.replay(mutation),
            24 => rows.flows.replay(mutation),
            25 => rows.links.replay(mutation),
            26 => rows.steps.replay(mutation),
            27 => rows.edges.replay(mutation),
            28 => rows.todo.replay(mutation),
            29 => rows.shares.replay(mutation),
            30 => rows.queue_shares.replay(mutation),
            31 => rows.share_places.replay(mutation),
            32 => rows.turns.replay(mutation),
            33 => rows.parked.replay(mutation),
            34 => rows.large_shares.replay(mutation),
            35 => rows.named.replay(mutation),
            36 => rows.kept_back.replay(mutation),
            37 => rows.kept_by.replay(mutation),
            38 => rows.limit_lines.replay(mutation),
            39 => rows.limit_opens.replay(mutation),
            40 => rows.named_jobs.replay(mutation),
            41 => rows.idle_limits.replay(mutation),
            42 => rows.early_clears.replay(mutation),
            43 => rows.early_ends.replay(mutation),
            44 => rows.waiting.replay(mutation),
            45 => rows.waiting_counts.replay(mutation),
            46 => rows.share_bounds.replay(mutation),
            _ => Err(damaged("step")),
        }
    }

    /// Rebuilds what the tables imply, after the last step of the log was replayed. Leases of
    /// workers that ended with the last process are crashes, unless it closed in good order.
    pub fn recover(&mut self, now: Timestamp) -> Result<Recovered> {
        if let Some(counters) = self.rows.counters.get(&NameKey {
            name: String::new(),
        })? {
            self.counters = counters;
        }
        self.now = self.counters.now.max(now);
        let closed = self.counters.closed;
        self.recover_names()?;
        self.obey_settings()?;
        self.recover_gates()?;
        self.recover_shares()?;
        self.recover_share_bounds()?;
        self.recover_limits()?;
        self.recover_schedules()?;
        self.recover_flows()?;
        self.recover_early_clears()?;
        self.recover_tombstones()?;
        self.derived.obstacles = Obstacles::unseen();
        let dead = self.recover_leases()?;
        let mut crashed = 0;
        if !closed {
            for fence in dead {
                crashed += self.rescue_lease(fence)?;
            }
        }
        Ok(Recovered {
            floor: self.now,
            closed,
            crashed,
        })
    }

    fn recover_names(&mut self) -> Result<()> {
        for (key, id) in
            self.rows
                .namespaces
                .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?
        {
            self.add_namespace(&key.name, id);
        }
        for (key, row) in
            self.rows
                .queues
                .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?
        {
            let id = row.id;
            let kept: u64 = row.kept_bytes.iter().sum();
            *self.derived.kept_bytes.entry(key.namespace).or_default() += kept;
            self.add_queue(key.namespace, &key.queue, row);
            let head = self.rows.due.next(id)?;
            if let Some(head) = head {
                self.derived.due_heads.insert((head, id));
            }
            if let Some(queue) = self.derived.queues.get_mut(&id) {
                queue.due_head = head;
            }
        }
        Ok(())
    }

    fn recover_tombstones(&mut self) -> Result<()> {
        let tombstones = &self.rows.tombstones;
        let all = tombstones.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        self.index_tombstones(all);
        Ok(())
    }

    /// Opens the leases again; answers those whose worker was in the last process.
    fn recover_leases(&mut self) -> Result<Vec<u64>> {
        let mut with_engine = Vec::new();
        for (key, lease) in
            self.rows
                .leases
                .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?
        {
            let fence = key.fence;
            let row = self
                .rows
                .deadlines
                .get(&key)?
                .ok_or_else(|| damaged("deadline"))?;
            let mut queues = Vec::new();
            for id in &lease.jobs {
                let job = self.leased(lease.namespace, *id, fence)?;
                queues.extend(job.map(|job| job.spec.queue));
            }
            let remaining = queues.len() as u32;
            queues.sort_unstable();
            queues.dedup();
            let open = OpenLease {
                namespace: lease.namespace,
                queues,
                remaining,
                worker: lease.worker,
                nonce: lease.nonce.0,
                lease_duration: row.lease_duration,
                deadline: row.deadline,
                extended_after_pause: row.extended_after_pause,
            };
            self.derived.open_lease(fence, open);
            if lease.with_engine {
                with_engine.push(fence);
            }
        }
        Ok(with_engine)
    }

    /// The step of an orderly close: leases stay as they are.
    pub fn close(&mut self, now: Timestamp) -> Result<Vec<u8>> {
        self.now = self.now.max(now);
        self.write_ends()?;
        self.save_changed_queues();
        Ok(self.end_step(true))
    }

    /// Bytes of rows in memory that the base does not have yet, about.
    pub fn recent_bytes(&mut self) -> usize {
        let mut bytes = 0;
        each_table!(&mut self.rows, table => bytes += table.recent_bytes());
        bytes
    }

    /// Rows in memory and what is implied by them, about, in bytes: the footprint of an engine
    /// without a base.
    pub fn memory_bytes(&mut self) -> usize {
        let due = self.rows.due.heap_bytes();
        self.recent_bytes() + due + self.derived.tombstones.heap_bytes()
    }

    /// Sets what is recent aside for a checkpoint; one at a time, ended by [`Machine::thaw`].
    pub fn freeze(&mut self) -> Frozen {
        let mut frozen = Vec::new();
        each_table!(&mut self.rows, table => frozen.push(table.freeze()));
        Frozen(frozen)
    }

    /// The base has everything that was set aside.
    pub fn thaw(&mut self) {
        each_table!(&mut self.rows, table => table.thaw());
    }

    /// Jobs by state over all queues: what recovery reports.
    pub fn totals(&self) -> [u64; 7] {
        let mut totals = [0; 7];
        for queue in self.derived.queues.values() {
            for state in JobState::ALL {
                totals[state as usize] += queue.row.counts[state as usize];
            }
        }
        totals
    }
}
