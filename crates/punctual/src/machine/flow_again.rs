//! Steps that run again: what depends on them waits again, or is found to be gone.

use super::Machine;
use super::flow_rows::*;
use super::flows::{class, flow_key, job_key};
use super::jobs::Loaded;
use super::rows::*;
use crate::error::Result;
use crate::flow::{On, Role};
use crate::injected::{Bug, is_injected};
use crate::job::{CancelReason, JobState};

impl Machine {
    /// A step that had settled runs or waits again: its flow goes on, and what depends on it waits
    /// again.
    pub(super) fn runs_again(&mut self, job: &Loaded, all: bool) -> Result<()> {
        let Some(mut link) = self.link_of(job)? else {
            return Ok(());
        };
        let key = flow_key(job.key.namespace, &link);
        let (Some(end), Some(mut row)) = (link.ended.take(), self.rows.flows.get(&key)?) else {
            return Ok(());
        };
        if self.is_forgotten(&key)? {
            return Ok(());
        }
        link.result = None;
        let is_step = link.role == Role::Step;
        self.put_link(&job.key, link);
        if is_step {
            let count = class(&mut row.counts, end);
            *count = count.saturating_sub(1);
            row.counts.open += 1;
            row.changes += 1;
            row.cancelled = false;
            row.settled = None;
            let until = row.until.take();
            self.derived.flows.note_deadline(&key, until, None);
            let callbacks = row.callbacks.clone();
            self.put_flow(&key, &row);
            for callback in callbacks.iter().filter(|one| !one.fired) {
                self.hold_again(&job_key(&key, callback.id), false)?;
            }
        }
        if job.status.watched {
            // Dependants that have not learned of the end must not learn of it now.
            self.drop_fire(&key, job.key.id);
            let todo = TodoRow {
                all,
                ..TodoRow::begin()
            };
            self.add_task(&key, task::REOPEN, job.key.id, todo);
        }
        Ok(())
    }

    /// Lets a settled job wait again, as far as it is kept and its unique key is free; whether it
    /// does.
    pub(super) fn hold_again(&mut self, key: &JobKey, all: bool) -> Result<bool> {
        let Some(job) = self.load(key)?.filter(|job| job.status.place.is_settled()) else {
            return Ok(false);
        };
        if self.other_holder(&job)?.is_some() {
            return Ok(false);
        }
        self.runs_again(&job, all)?;
        self.redrive_as(job, JobState::Held)?;
        Ok(true)
    }

    /// Lets those that depend on a step wait again.
    pub(super) fn reopen_some(
        &mut self,
        flow: &RecordKey,
        key: &JobKey,
        todo: &mut TodoRow,
        budget: &mut usize,
    ) -> Result<bool> {
        let found = self.edges_of(key, todo.after, *budget)?;
        let is_done = found.len() < *budget;
        *budget -= found.len().min(*budget);
        for (edge, row) in found {
            todo.after = Some(edge.to);
            self.reopen_edge(flow, edge, row, todo)?;
        }
        Ok(is_done)
    }

    fn reopen_edge(
        &mut self,
        flow: &RecordKey,
        edge: EdgeKey,
        mut row: EdgeRow,
        todo: &TodoRow,
    ) -> Result<()> {
        let child = job_key(flow, edge.to);
        let Some(mut link) = self.rows.links.get(&child)? else {
            return Ok(());
        };
        let job = self.load(&child)?;
        let place = job.as_ref().map(|job| job.status.place);
        let was_skipped = link.ended.is_some_and(|end| end.skipped);
        // Behind a step that is gone, what is kept stays passed over.
        if todo.end.is_some() && (place.is_some() || !was_skipped) {
            return Ok(());
        }
        let is_again = link.ended.is_some() && (todo.all || was_skipped);
        let is_free = place.is_some_and(|place| place.is_pending() && place != JobState::Held);
        let waits = link.ended.is_some() || is_free || place == Some(JobState::Held);
        match row.is {
            EdgeIs::Broken if waits => link.broken = link.broken.saturating_sub(1),
            // It does not run, or may run again: it waits for the new end.
            EdgeIs::Met if waits => {
                link.unmet += 1;
                link.outside += u32::from(link.flow != flow.name);
            }
            _ => return Ok(()),
        }
        row.is = EdgeIs::Waiting;
        let waits_for_completion = row.on == On::Completed;
        self.rows.edges.put(&mut self.journal, edge, row);
        let is_again = is_again && link.broken == 0;
        self.put_link(&child, link);
        if is_again {
            let runs = job.is_some() && self.hold_again(&child, todo.all)?;
            if !runs && waits_for_completion {
                self.lose_step(flow, &child)?;
            }
            return Ok(());
        }
        match job {
            Some(job) if is_free => self.make_held(job),
            _ => Ok(()),
        }
    }

    /// A step was to run again and cannot: its job is not kept, or another job has its unique key.
    /// If it was passed over it counts as cancelled from now on, as do the steps behind it whose
    /// jobs are gone too, so that the flow does not end as done without them.
    pub(super) fn lose_step(&mut self, flow: &RecordKey, key: &JobKey) -> Result<()> {
        let Some(mut link) = self.rows.links.get(key)? else {
            return Ok(());
        };
        let Some(end) = link.ended.filter(|_| link.flow == flow.name) else {
            return Ok(());
        };
        let lost = End {
            skipped: false,
            ..end
        };
        if end.skipped
            && !is_injected(Bug::GoneStepPassedOver)
            && let Some(mut row) = self.rows.flows.get(flow)?
        {
            for (end, is_more) in [(end, false), (lost, true)] {
                let count = class(&mut row.counts, end);
                *count = match is_more {
                    true => *count + 1,
                    false => count.saturating_sub(1),
                };
            }
            row.changes += 1;
            self.put_flow(flow, &row);
            link.ended = Some(lost);
            self.put_link(key, link);
        }
        match self.load(key)? {
            Some(mut job) if end.skipped => {
                job.status_mut().cancelled = Some(CancelReason::Replaced);
                self.save(&job);
            }
            Some(_) => {}
            None => {
                let todo = TodoRow {
                    end: Some(lost),
                    ..TodoRow::begin()
                };
                self.add_task(flow, task::REOPEN, key.id, todo);
            }
        }
        Ok(())
    }
}
