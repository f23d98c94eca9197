//! The end of a flow: its callbacks, its deadlines, and that it is forgotten.

use std::ops::Bound;
use std::time::Duration;

use super::Machine;
use super::flow_rows::*;
use super::flow_work::NIL;
use super::flows::job_key;
use super::rows::*;
use crate::error::Result;
use crate::flow::Role;
use crate::job::CancelReason;
use crate::time::minutes;

/// Deadlines of flows that one step handles.
const DEADLINES_PER_STEP: usize = 16;
/// How long the engine keeps a flow before it checks an unended callback again.
const CALLBACK_POLL: Duration = minutes(1);

impl Machine {
    /// The last step of a flow has settled: its callbacks run, each once.
    pub(super) fn end_flow(&mut self, key: &RecordKey) -> Result<()> {
        let Some(mut row) = self.rows.flows.get(key)? else {
            return Ok(());
        };
        let is_over = row.sealed.is_some() || row.cancelled;
        if row.counts.open > 0 || row.settled.is_some() || !is_over {
            return Ok(());
        }
        // What depends on a step that has run again is still to wait for it: it opens the flow. And
        // a step that could not run may turn out not to be needed.
        if self.has_task(key, task::REOPEN)?
            || row.again.lost > 0 && self.has_task(key, task::FIRE)?
        {
            return Ok(());
        }
        let failed = row.cancelled || row.counts.dead + row.counts.cancelled > 0;
        let retention = match row.counts.dead {
            0 => self.limits.cancelled_retention,
            _ => self.limits.dead_retention,
        };
        row.settled = Some(self.now);
        let until = Some(self.now + retention);
        let before = std::mem::replace(&mut row.until, until);
        self.derived.flows.note_deadline(key, before, until);
        let mut fired = Vec::new();
        let mut passed = Vec::new();
        for callback in &mut row.callbacks {
            let runs = match callback.role {
                Role::OnDone => !failed,
                Role::OnFailed => failed,
                _ => true,
            };
            if callback.fired {
                continue;
            }
            // One that was cancelled or deleted before does not run.
            let job = self.load(&job_key(key, callback.id))?;
            let waits = job.is_some_and(|job| job.status.place.is_pending());
            callback.fired = runs && row.sealed.is_some() && waits;
            match callback.fired {
                true => fired.push(callback.id),
                false => passed.push(callback.id),
            }
        }
        self.put_flow(key, &row);
        for id in fired {
            self.release(&job_key(key, id))?;
        }
        for id in passed {
            self.skip(&job_key(key, id))?;
        }
        Ok(())
    }

    /// Forgets a flow that has settled: its steps, which jobs waited for which, and what is kept of
    /// its jobs.
    pub(super) fn forget_some(
        &mut self,
        flow: &RecordKey,
        todo: &mut TodoRow,
        budget: &mut usize,
    ) -> Result<bool> {
        while *budget > 0 {
            *budget -= 1;
            let Some((number, id)) = self.steps_from(flow, todo.number, 1)?.pop() else {
                let row = self.rows.flows.get(flow)?;
                for callback in row.into_iter().flat_map(|row| row.callbacks) {
                    let key = job_key(flow, callback.id);
                    if !self.forget_edges(&key, budget)? {
                        return Ok(false);
                    }
                    self.forget_step(&key)?;
                }
                self.rows.flows.remove(&mut self.journal, flow);
                return Ok(true);
            };
            let key = job_key(flow, id);
            if !self.forget_edges(&key, budget)? {
                return Ok(false);
            }
            self.forget_step(&key)?;
            let step = StepKey {
                namespace: flow.namespace,
                flow: flow.name.clone(),
                number,
            };
            self.rows.steps.remove(&mut self.journal, &step);
            todo.number = number + 1;
        }
        Ok(false)
    }

    /// Whether none are left.
    fn forget_edges(&mut self, key: &JobKey, budget: &mut usize) -> Result<bool> {
        let found = self.edges_of(key, None, *budget + 1)?;
        let is_done = found.len() <= *budget;
        *budget -= found.len().min(*budget);
        for (edge, _) in found {
            self.rows.edges.remove(&mut self.journal, &edge);
        }
        Ok(is_done)
    }

    fn forget_step(&mut self, key: &JobKey) -> Result<()> {
        self.rows.links.remove(&mut self.journal, key);
        match self.load(key)? {
            Some(job) if job.status.place.is_settled() => self.delete(&job)?,
            _ => {}
        }
        if let Some(tombstone) = self.rows.tombstones.get(key)? {
            self.remove_tombstone(key, &tombstone);
        }
        Ok(())
    }

    /// Cancels flows that were not sealed in time, and forgets those that have settled long ago.
    pub(super) fn flow_deadlines(&mut self) -> Result<()> {
        for _ in 0..DEADLINES_PER_STEP {
            let first = self.derived.flows.deadlines.first();
            let Some((at, key)) = first.filter(|(at, _)| *at <= self.now).cloned() else {
                return Ok(());
            };
            self.derived.flows.deadlines.remove(&(at, key.clone()));
            let Some(mut row) = self.rows.flows.get(&key)? else {
                continue;
            };
            row.until = None;
            if row.settled.is_some() {
                // Others may wait for a callback, which needs the flow until it has ended.
                if self.callback_goes_on(&key, &row)? {
                    row.until = Some(self.now + CALLBACK_POLL);
                    self.derived.flows.note_deadline(&key, None, row.until);
                    self.put_flow(&key, &row);
                    continue;
                }
                self.put_flow(&key, &row);
                self.add_task(&key, task::FORGET, NIL, TodoRow::begin());
                continue;
            }
            row.cancelled = true;
            self.put_flow(&key, &row);
            self.begin_cancel(&key, CancelReason::Expired, false)?;
        }
        Ok(())
    }

    /// Whether a callback that was released has not ended.
    fn callback_goes_on(&self, key: &RecordKey, row: &FlowRow) -> Result<bool> {
        for callback in row.callbacks.iter().filter(|callback| callback.fired) {
            let link = self.rows.links.get(&job_key(key, callback.id))?;
            if link.is_some_and(|link| link.ended.is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// After recovery: flows with tasks, and their deadlines.
    pub(super) fn recover_flows(&mut self) -> Result<()> {
        let all = (self.rows.flows).scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, row) in all {
            self.derived.flows.note_deadline(&key, None, row.until);
        }
        let all = (self.rows.todo).scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, _) in all {
            let (namespace, name) = (key.namespace, key.flow);
            let flow = RecordKey { namespace, name };
            self.derived.flows.with_tasks.insert(flow);
        }
        Ok(())
    }
}
