//! What is left to do for flows: a bounded part in each step, the rest by the sweep.
//!
//! The end of a job puts work on a queue, which is done before the step ends. What one step may not
//! do any more is kept as tasks of the flow, in an order in which each finds what it needs.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use super::Machine;
use super::flow_rows::*;
use super::flows::{flow_key, is_met, job_key};
use super::rows::*;
use crate::error::Result;
use crate::flow::OnFailure;
use crate::job::{CancelReason, JobId, JobState};
use crate::time::Timestamp;

/// Jobs of flows that one step handles, of each: its own and those of its sweep.
const PER_STEP: usize = 125;
/// Jobs of one flow that are handled before the next flow has its turn.
const PER_TURN: usize = 25;
/// Steps of a flow whose queues are notified of tasks that are left.
const WOKEN: usize = 8;

/// Something that the end of a job causes.
#[derive(Debug)]
pub(super) enum Work {
    /// A job's dependants learn how it ended.
    Fire(JobKey, End),
    /// A job is passed over.
    Skip(JobKey),
    /// The last step of a flow has settled.
    End(RecordKey),
}

/// What the tables imply of flows, kept at hand.
#[derive(Debug, Default)]
pub(super) struct FlowWork {
    queue: VecDeque<Work>,
    /// Flows whose last step has settled: they end once nothing else is left on the queue.
    ends: VecDeque<RecordKey>,
    /// Flows with tasks that may be done now.
    pub(super) with_tasks: BTreeSet<RecordKey>,
    last_turn: Option<RecordKey>,
    /// Jobs that this step may still handle.
    left: usize,
    /// Those that had none when this step began.
    new_tasks: Vec<RecordKey>,
    /// When flows are cancelled because they are not sealed, or forgotten.
    pub(super) deadlines: BTreeSet<(Timestamp, RecordKey)>,
}

impl FlowWork {
    pub(super) fn push(&mut self, work: Work) {
        match work {
            Work::End(key) => self.ends.push_back(key),
            work => self.queue.push_back(work),
        }
    }

    /// What is next. A flow ends behind what its last step has caused: that may say that a step
    /// which a retry could not run is not needed.
    fn pop(&mut self) -> Option<Work> {
        let work = self.queue.pop_front();
        work.or_else(|| self.ends.pop_front().map(Work::End))
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.ends.is_empty()
    }

    pub(super) fn note_deadline(
        &mut self,
        key: &RecordKey,
        old: Option<Timestamp>,
        new: Option<Timestamp>,
    ) {
        if let Some(old) = old {
            self.deadlines.remove(&(old, key.clone()));
        }
        if let Some(new) = new {
            self.deadlines.insert((new, key.clone()));
        }
    }

    /// The flow whose tasks are next: a large one holds up no other.
    fn turn(&mut self) -> Option<RecordKey> {
        let after = self.last_turn.take();
        let mut later = match &after {
            Some(last) => (self.with_tasks).range((Bound::Excluded(last), Bound::Unbounded)),
            None => self.with_tasks.range::<RecordKey, _>(..),
        };
        let next = later.next().or_else(|| self.with_tasks.first()).cloned();
        self.last_turn.clone_from(&next);
        next
    }

    /// The earliest instant at which something is to be done.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.with_tasks.is_empty() || self.has_work() {
            return Some(now);
        }
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Machine {
    /// Ends the step: dependants of jobs that ended in it learn of that.
    pub fn finish(&mut self) -> Result<()> {
        let flows = &self.derived.flows;
        if !flows.has_work() && flows.with_tasks.is_empty() {
            return Ok(());
        }
        let mut budget = self.derived.flows.left;
        while let Some(work) = self.derived.flows.pop() {
            match work {
                Work::Fire(key, end) => self.fire(key, end, &mut budget)?,
                Work::Skip(key) if budget > 0 => {
                    budget -= 1;
                    self.skip(&key)?;
                }
                Work::Skip(key) => {
                    let flow = self.flow_of(&key)?;
                    self.add_task(&flow, task::SKIP, key.id, TodoRow::begin());
                }
                Work::End(key) => self.end_flow(&key)?,
            }
        }
        while budget > 0 {
            let Some(flow) = self.derived.flows.turn() else {
                break;
            };
            let mut share = budget.min(PER_TURN);
            budget -= share;
            self.run_tasks(&flow, &mut share)?;
            budget += share;
            // What the tasks have caused; it may not go beyond the budget either.
            while let Some(work) = self.derived.flows.pop() {
                self.keep_work(work)?;
            }
        }
        self.derived.flows.left = budget;
        self.wake_for_tasks()
    }

    /// Does tasks that are left, and what the sweep has caused; the step itself may do as much
    /// again.
    pub(super) fn sweep_flows(&mut self) -> Result<()> {
        self.flow_deadlines()?;
        self.derived.flows.left = PER_STEP;
        self.finish()?;
        self.derived.flows.left = PER_STEP;
        Ok(())
    }

    /// Keeps work as a task, which the next step begins.
    fn keep_work(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Fire(key, end) => {
                let flow = self.flow_of(&key)?;
                self.keep_fire(&flow, &key, end, None);
            }
            Work::Skip(key) => {
                let flow = self.flow_of(&key)?;
                self.add_task(&flow, task::SKIP, key.id, TodoRow::begin());
            }
            Work::End(key) => self.end_flow(&key)?,
        }
        Ok(())
    }

    /// The flow of a job; one without a name if it has none.
    fn flow_of(&self, key: &JobKey) -> Result<RecordKey> {
        let link = self.rows.links.get(key)?;
        Ok(link.map_or(
            RecordKey {
                namespace: key.namespace,
                name: String::new(),
            },
            |link| flow_key(key.namespace, &link),
        ))
    }

    fn keep_fire(&mut self, flow: &RecordKey, key: &JobKey, end: End, after: Option<JobId>) {
        let todo = TodoRow {
            after,
            end: Some(end),
            ..TodoRow::begin()
        };
        self.add_task(flow, task::FIRE, key.id, todo);
    }

    pub(super) fn add_task(&mut self, flow: &RecordKey, task: u8, id: JobId, todo: TodoRow) {
        let key = TodoKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            task,
            id,
        };
        self.rows.todo.put(&mut self.journal, key, todo);
        if self.derived.flows.with_tasks.insert(flow.clone()) {
            self.derived.flows.new_tasks.push(flow.clone());
        }
    }

    /// Whether claims from these queues do what is left to do for flows of their namespace.
    pub(super) fn has_flow_tasks(&self, queues: &[u32]) -> bool {
        let first = queues.first().and_then(|id| self.derived.queues.get(id));
        let Some(namespace) = first.map(|queue| queue.namespace) else {
            return false;
        };
        let start = |namespace| RecordKey {
            namespace,
            name: String::new(),
        };
        let of = start(namespace)..start(namespace + 1);
        self.derived.flows.with_tasks.range(of).next().is_some()
    }

    /// Wakes workers for tasks that this step could not do: by the queues of the jobs that wait for
    /// a job, and of the first and the last steps, as far as they are still there.
    fn wake_for_tasks(&mut self) -> Result<()> {
        for flow in std::mem::take(&mut self.derived.flows.new_tasks) {
            if !self.derived.flows.with_tasks.contains(&flow) {
                continue;
            }
            let row = self.rows.flows.get(&flow)?;
            let steps = row.map_or(0, |row| row.counts.steps as u32);
            let mut ids = self.steps_from(&flow, 0, WOKEN)?;
            ids.extend(self.steps_from(&flow, steps.saturating_sub(WOKEN as u32), WOKEN)?);
            let mut ids: Vec<JobId> = ids.into_iter().map(|(_, id)| id).collect();
            if let Some((key, todo)) = self.first_task(&flow)? {
                let reported = self.edges_of(&job_key(&flow, key.id), todo.after, WOKEN)?;
                ids.extend(reported.into_iter().map(|(edge, _)| edge.to));
            }
            for id in ids {
                if let Some(job) = self.load(&job_key(&flow, id))? {
                    self.signals.notify(job.spec.queue);
                }
            }
        }
        Ok(())
    }

    /// Cancels the steps of a flow, or those that wait for no failure.
    pub(super) fn begin_cancel(
        &mut self,
        flow: &RecordKey,
        reason: CancelReason,
        spares: bool,
    ) -> Result<()> {
        let todo = TodoRow {
            reason: Some(reason),
            all: !spares,
            ..TodoRow::begin()
        };
        self.add_task(flow, task::CANCEL, NIL, todo);
        Ok(())
    }

    /// Whether a flow is being forgotten.
    pub(super) fn is_forgotten(&self, flow: &RecordKey) -> Result<bool> {
        let key = TodoKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            task: task::FORGET,
            id: NIL,
        };
        Ok(self.rows.todo.get(&key)?.is_some())
    }

    /// Notifies a job's dependants, unless tasks of its flow come first.
    fn fire(&mut self, key: JobKey, end: End, budget: &mut usize) -> Result<()> {
        let flow = self.flow_of(&key)?;
        let waits = self.derived.flows.with_tasks.contains(&flow) || self.is_open(&flow)?;
        if waits || *budget == 0 {
            self.keep_fire(&flow, &key, end, None);
            return Ok(());
        }
        if let Some(after) = self.fire_edges(&flow, &key, end, None, budget)? {
            self.keep_fire(&flow, &key, end, Some(after));
        }
        Ok(())
    }

    /// Whether a flow is yet to be sealed, so that nothing of it may go on.
    fn is_open(&self, flow: &RecordKey) -> Result<bool> {
        if flow.name.is_empty() {
            return Ok(false);
        }
        let row = self.rows.flows.get(flow)?;
        Ok(row.is_some_and(|row| row.sealed.is_none() && !row.cancelled))
    }

    /// Handles those that wait for a job, after one of them; the last one, if there are more.
    fn fire_edges(
        &mut self,
        flow: &RecordKey,
        key: &JobKey,
        end: End,
        after: Option<JobId>,
        budget: &mut usize,
    ) -> Result<Option<JobId>> {
        let found = self.edges_of(key, after, *budget)?;
        let policy = match flow.name.is_empty() {
            true => None,
            false => self.rows.flows.get(flow)?.map(|row| row.on_failure),
        };
        let is_full = found.len() == *budget;
        *budget -= found.len();
        let last = found.last().map(|(edge, _)| edge.to);
        for (edge, row) in found {
            self.fire_edge(flow, edge, row, end, policy)?;
        }
        Ok(last.filter(|_| is_full))
    }

    pub(super) fn edges_of(
        &self,
        key: &JobKey,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<(EdgeKey, EdgeRow)>> {
        let edge = |to| EdgeKey {
            namespace: key.namespace,
            from: key.id,
            to,
        };
        let (start, end) = (edge(after.unwrap_or(NIL)), edge(LAST));
        let from = match after {
            Some(_) => Bound::Excluded(&start),
            None => Bound::Included(&start),
        };
        let found = self
            .rows
            .edges
            .scan(from, Bound::Included(&end), false, limit);
        found.map(|found| found.into_iter().collect())
    }

    fn fire_edge(
        &mut self,
        flow: &RecordKey,
        edge: EdgeKey,
        mut row: EdgeRow,
        end: End,
        policy: Option<OnFailure>,
    ) -> Result<()> {
        let child = JobKey {
            namespace: edge.namespace,
            id: edge.to,
        };
        let link = self.rows.links.get(&child)?;
        // The engine needs no edge of a job without a flow again.
        if flow.name.is_empty() || link.is_none() {
            self.rows.edges.remove(&mut self.journal, &edge);
        }
        let Some(mut link) = link.filter(|_| row.is == EdgeIs::Waiting) else {
            return Ok(());
        };
        let is_sibling = link.flow == flow.name;
        let met = is_met(row.on, end, policy.filter(|_| is_sibling));
        row.is = match met {
            true => EdgeIs::Met,
            false => EdgeIs::Broken,
        };
        match met {
            true => {
                link.unmet = link.unmet.saturating_sub(1);
                let outside = u32::from(!is_sibling);
                link.outside = link.outside.saturating_sub(outside);
            }
            false => link.broken += 1,
        }
        note_parent(&mut link, edge.from, row.is);
        if !met {
            self.pass_over_lost(&child, &mut link)?;
        }
        if !flow.name.is_empty() {
            self.rows.edges.put(&mut self.journal, edge, row);
        }
        let (is_free, ended) = (link.unmet == 0, link.ended.is_some());
        let of = flow_key(child.namespace, &link);
        self.put_link(&child, link);
        if ended || self.is_open(&of)? {
            return Ok(());
        }
        match (met, is_free) {
            (false, _) => self.skip(&child),
            (true, true) => self.release(&child),
            (true, false) => Ok(()),
        }
    }

    /// Does tasks of a flow, in their order.
    fn run_tasks(&mut self, flow: &RecordKey, budget: &mut usize) -> Result<()> {
        let is_open = self.is_open(flow)?;
        while *budget > 0 {
            let next = match is_open {
                true => None,
                false => self.first_task(flow)?,
            };
            let Some((key, mut todo)) = next else {
                self.derived.flows.with_tasks.remove(flow);
                return Ok(());
            };
            let id = job_key(flow, key.id);
            let done = match key.task {
                task::REOPEN if key.id == NIL => self.count_lost(flow, &mut todo, budget)?,
                task::REOPEN => self.reopen_some(flow, &id, &mut todo, budget)?,
                task::CANCEL => self.cancel_some(flow, &mut todo, budget)?,
                task::START => self.start_some(flow, &mut todo, budget)?,
                task::FIRE => self.fire_some(flow, &id, &mut todo, budget)?,
                task::SKIP => {
                    *budget -= 1;
                    self.skip(&id)?;
                    true
                }
                _ => self.forget_some(flow, &mut todo, budget)?,
            };
            match done {
                true => self.rows.todo.remove(&mut self.journal, &key),
                false => self.rows.todo.put(&mut self.journal, key.clone(), todo),
            }
            if done && matches!(key.task, task::REOPEN | task::FIRE) {
                self.end_flow(flow)?;
            }
        }
        Ok(())
    }

    /// Whether a flow has a task of that kind.
    pub(super) fn has_task(&self, flow: &RecordKey, task: u8) -> Result<bool> {
        let key = |id| TodoKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            task,
            id,
        };
        let (start, end) = (key(NIL), key(LAST));
        let (from, to) = (Bound::Included(&start), Bound::Included(&end));
        Ok(self.rows.todo.first(from, to)?.is_some())
    }

    /// Drops the task to update the jobs that wait for a job: it runs again.
    pub(super) fn drop_fire(&mut self, flow: &RecordKey, id: JobId) {
        let key = TodoKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            task: task::FIRE,
            id,
        };
        self.rows.todo.remove(&mut self.journal, &key);
    }

    fn first_task(&self, flow: &RecordKey) -> Result<Option<(TodoKey, TodoRow)>> {
        let key = |task, id| TodoKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            task,
            id,
        };
        let (start, end) = (key(0, NIL), key(u8::MAX, LAST));
        let (from, to) = (Bound::Included(&start), Bound::Included(&end));
        self.rows.todo.first(from, to)
    }

    fn fire_some(
        &mut self,
        flow: &RecordKey,
        key: &JobKey,
        todo: &mut TodoRow,
        budget: &mut usize,
    ) -> Result<bool> {
        let Some(end) = todo.end else { return Ok(true) };
        *budget -= 1;
        let last = self.fire_edges(flow, key, end, todo.after, budget)?;
        // Without a budget it read nothing.
        let is_done = last.is_none() && *budget > 0;
        todo.after = last.or(todo.after);
        Ok(is_done)
    }

    /// The next steps of a flow, from a number on.
    pub(super) fn steps_from(
        &self,
        flow: &RecordKey,
        number: u32,
        limit: usize,
    ) -> Result<Vec<(u32, JobId)>> {
        let key = |number| StepKey {
            namespace: flow.namespace,
            flow: flow.name.clone(),
            number,
        };
        let (start, end) = (key(number), key(u32::MAX));
        let (from, to) = (Bound::Included(&start), Bound::Included(&end));
        let found = self.rows.steps.scan(from, to, false, limit)?;
        Ok(found
            .into_iter()
            .map(|(key, id)| (key.number, id))
            .collect())
    }

    fn cancel_some(
        &mut self,
        flow: &RecordKey,
        todo: &mut TodoRow,
        budget: &mut usize,
    ) -> Result<bool> {
        let reason = todo.reason.unwrap_or(CancelReason::Requested);
        let found = self.steps_from(flow, todo.number, *budget)?;
        let is_done = found.len() < *budget;
        *budget -= found.len().min(*budget);
        for (number, id) in found {
            todo.number = number + 1;
            let key = job_key(flow, id);
            let link = self.rows.links.get(&key)?;
            if link.is_some_and(|link| link.ended.is_some() || (link.on_failed && !todo.all)) {
                continue;
            }
            match self.load(&key)? {
                Some(job) if job.status.place.is_pending() => self.cancel_waiting(job, reason)?,
                Some(job) if job.status.place == JobState::Active => self.request_cancel(job),
                _ => {}
            }
        }
        if is_done && todo.all {
            self.end_flow(flow)?;
        }
        Ok(is_done)
    }

    fn start_some(
        &mut self,
        flow: &RecordKey,
        todo: &mut TodoRow,
        budget: &mut usize,
    ) -> Result<bool> {
        let found = self.steps_from(flow, todo.number, *budget)?;
        let is_done = found.len() < *budget;
        *budget -= found.len().min(*budget);
        for (number, id) in found {
            todo.number = number + 1;
            let key = job_key(flow, id);
            match self.rows.links.get(&key)? {
                Some(link) if link.ended.is_some() => {}
                Some(link) if link.broken > 0 => self.skip(&key)?,
                Some(link) if link.unmet == 0 => self.release(&key)?,
                _ => {}
            }
        }
        Ok(is_done)
    }
}

/// Keeps what has become of the edge from a job outside of the flow, if the link names that job.
pub(super) fn note_parent(link: &mut LinkRow, from: JobId, is: EdgeIs) {
    for parent in &mut link.parents {
        if parent.after.job == from {
            parent.is = is;
        }
    }
}

pub(super) const NIL: JobId = JobId::from_bytes([0; 16]);
const LAST: JobId = JobId::from_bytes([0xff; 16]);
