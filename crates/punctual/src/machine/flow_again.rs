//! Steps that run again: what depends on them waits again, or is found to be gone.

use super::Machine;
use super::flow_acts::of_other_flow;
use super::flow_rows::*;
use super::flow_work::{NIL, Work, note_parent};
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
            row.again.lost = row.again.lost.saturating_sub(end.lost.into());
            row.counts.open += 1;
            row.changes += 1;
            row.cancelled = false;
            row.settled = None;
            let until = row.until.take();
            self.derived.flows.note_deadline(&key, until, None);
            let callbacks = row.callbacks.clone();
            if std::mem::take(&mut row.again.count_lost) {
                self.add_task(&key, task::REOPEN, NIL, TodoRow::begin());
            }
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
        let was_skipped = link.ended.is_some_and(|end| end.skipped || end.lost);
        // Behind a step that is gone, what is kept stays passed over.
        if todo.end.is_some() && (place.is_some() || !was_skipped) {
            return Ok(());
        }
        let is_again = link.ended.is_some() && (todo.all || was_skipped);
        let is_free = place.is_some_and(|place| place.is_pending() && place != JobState::Held);
        let waits = link.ended.is_some() || is_free || place == Some(JobState::Held);
        let waited = link.broken == 0 && link.unmet > 0;
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
        // What waits for a failure is not expected to run.
        let is_expected = row.on != On::Failed;
        note_parent(&mut link, edge.from, row.is);
        self.rows.edges.put(&mut self.journal, edge, row);
        let is_again = is_again && link.broken == 0;
        self.put_link(&child, link.clone());
        if is_again {
            let runs = job.is_some() && self.hold_again(&child, todo.all)?;
            if !runs && is_expected {
                // It may be behind several steps that run again.
                if !waited {
                    self.note_lost(flow, &link, job.as_ref())?;
                }
                self.lose_step(&child)?;
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
    /// jobs are gone too, so that its flow does not end as done without them. A flow that is done
    /// stays so until one of its steps runs again.
    pub(super) fn lose_step(&mut self, key: &JobKey) -> Result<()> {
        let Some(mut link) = self.rows.links.get(key)? else {
            return Ok(());
        };
        let flow = flow_key(key.namespace, &link);
        let (Some(end), Some(mut row)) = (link.ended, self.rows.flows.get(&flow)?) else {
            return Ok(());
        };
        if self.is_forgotten(&flow)? {
            return Ok(());
        }
        if is_done(&row) {
            row.again.count_lost |= end.skipped;
            self.put_flow(&flow, &row);
            return Ok(());
        }
        let (skipped, lost) = (false, end.skipped || end.lost);
        let lost = End {
            skipped,
            lost,
            ..end
        };
        if end.skipped && !is_injected(Bug::GoneStepPassedOver) {
            recount(&mut row, end, lost);
            self.put_flow(&flow, &row);
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
                self.add_task(&flow, task::REOPEN, key.id, todo);
            }
        }
        Ok(())
    }

    /// A flow that was done goes on: its steps that were to run again meanwhile, and cannot, count.
    pub(super) fn count_lost(
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
            let link = self.rows.links.get(&key)?;
            // Nothing that it waits for ended otherwise any more.
            let was_to_run = |link: &LinkRow| link.broken == 0;
            let is_skipped = |link: &LinkRow| link.ended.is_some_and(|end| end.skipped);
            if !link.is_some_and(|link| is_skipped(&link) && was_to_run(&link)) {
                continue;
            }
            let can_run = match self.load(&key)? {
                Some(job) => self.other_holder(&job)?.is_none(),
                None => false,
            };
            if !can_run {
                self.lose_step(&key)?;
            }
        }
        Ok(is_done)
    }

    /// A job that a step waits for ended otherwise: one that could not run again is not needed, and
    /// nor are those behind it.
    pub(super) fn pass_over_lost(&mut self, key: &JobKey, link: &mut LinkRow) -> Result<()> {
        let flow = flow_key(key.namespace, link);
        let Some(end) = link.ended.filter(|end| end.lost) else {
            return Ok(());
        };
        let Some(mut row) = self.rows.flows.get(&flow)? else {
            return Ok(());
        };
        let back = End::new(end.state, true);
        recount(&mut row, end, back);
        self.put_flow(&flow, &row);
        link.ended = Some(back);
        match self.load(key)? {
            Some(mut job) if job.status.cancelled == Some(CancelReason::Replaced) => {
                job.status_mut().cancelled = Some(CancelReason::Upstream);
                self.save(&job);
            }
            Some(_) => {}
            None => self.derived.flows.push(Work::Fire(key.clone(), back)),
        }
        Ok(())
    }

    /// Notes a step that is to run again behind one of a flow, and cannot, for the retries of both
    /// flows that go on.
    fn note_lost(&mut self, flow: &RecordKey, link: &LinkRow, job: Option<&Loaded>) -> Result<()> {
        let holder = match job {
            Some(job) => self.other_holder(job)?,
            None => None,
        };
        let own = RecordKey {
            namespace: flow.namespace,
            name: link.flow.clone(),
        };
        let other = (own != *flow).then(|| flow.clone());
        for of in [Some(own), other].into_iter().flatten() {
            let Some(mut row) = self.rows.flows.get(&of)? else {
                continue;
            };
            let is_own = of.name == link.flow;
            // The retry comes to a step of its own flow behind those that it has read.
            let is_noted = |read| !is_own || link.number < read;
            if !row.again.read.is_some_and(is_noted) {
                continue;
            }
            let step = match is_own {
                true => link.step.clone(),
                false => of_other_flow(link.clone()),
            };
            match (job, holder) {
                (None, _) => row.again.left_out.add_gone(step),
                (Some(_), Some(holder)) => row.again.left_out.add_held(step, holder),
                (Some(_), None) => continue,
            }
            self.put_flow(&of, &row);
        }
        Ok(())
    }
}

/// Whether all steps of a flow completed or were passed over.
fn is_done(row: &FlowRow) -> bool {
    row.settled.is_some() && row.counts.dead + row.counts.cancelled == 0
}

/// Counts a step as ended in another way.
fn recount(row: &mut FlowRow, was: End, is: End) {
    let count = class(&mut row.counts, was);
    *count = count.saturating_sub(1);
    *class(&mut row.counts, is) += 1;
    row.again.lost = row.again.lost.saturating_sub(was.lost.into()) + u64::from(is.lost);
    row.changes += 1;
}
