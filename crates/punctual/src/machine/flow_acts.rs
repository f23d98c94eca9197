//! What is done with flows on request: seal, wait, cancel, retry.

use super::Machine;
use super::flow_rows::*;
use super::flow_work::{NIL, Work};
use super::flows::{flow_key, job_key};
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{Controlled, Filter, FlowAct, Namespace};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{After, LeftOut, OnFailure, Role, check_no_callback};
use crate::job::bounds::{
    TEXT_NEVER_SEALED, TEXT_NO_FLOW, TEXT_NO_STEP, TEXT_NOT_SEALED, TEXT_STEP_GONE,
    TEXT_WAITS_CLOSED, TEXT_WAITS_LATER,
};
use crate::job::{CancelReason, JobId, JobState};

/// Steps that one retry reads, and of those the steps that it runs again.
const EXAMINED: usize = 1_000;
const RETRIED: u64 = 125;

impl Machine {
    /// Reads a flow, or does something with its steps.
    pub(super) fn act_on_flow(
        &mut self,
        namespace: &Namespace,
        name: String,
        act: FlowAct,
    ) -> Result<Controlled> {
        let namespace = self.namespace_or_new(namespace);
        let key = RecordKey { namespace, name };
        let (row, act) = match (self.rows.flows.get(&key)?, act) {
            (row, FlowAct::Restore(restored)) => {
                self.restore_flow(&key, row, restored)?;
                return self.acted(&key);
            }
            (None, FlowAct::Read) => return Ok(Controlled::Flow(None)),
            (None, _) => return Err(missing(&key)),
            (Some(row), other) => (row, other),
        };
        match act {
            FlowAct::Read => {}
            FlowAct::Seal {
                steps,
                on_failure,
                callbacks,
            } => {
                check_callbacks(&key, &row, callbacks.as_deref())?;
                self.seal(&key, row, steps, on_failure)?;
            }
            FlowAct::Wait { step, after } => self.wait_more(&key, &row, step, &after)?,
            FlowAct::Cancel => self.cancel_flow(&key, row)?,
            FlowAct::Retry { from, next, filter } => {
                check_retry(&key, &row)?;
                let filter = filter.as_deref();
                return self.retry(&key, from, next, filter);
            }
            FlowAct::Steps { from, limit } => return self.read_steps(&key, from, limit),
            FlowAct::Named { steps } => return self.read_named(&key, &steps),
            FlowAct::Edges { after, limit } => return self.read_edges(&key, after, limit),
            FlowAct::Recount { from } => return self.recount(&key, from),
            FlowAct::Restore(_) => {}
        }
        self.acted(&key)
    }

    /// How a flow stands after an act: what that causes is part of its answer.
    fn acted(&mut self, key: &RecordKey) -> Result<Controlled> {
        self.finish()?;
        let status = self.flow_status(key)?;
        Ok(Controlled::Flow(status.map(Box::new)))
    }

    fn seal(
        &mut self,
        key: &RecordKey,
        row: FlowRow,
        steps: u64,
        on_failure: OnFailure,
    ) -> Result<()> {
        if row.sealed.is_some() {
            if (row.planned, row.on_failure) == (steps, on_failure) {
                return Ok(());
            }
            let message = "flow was sealed as another plan; send this one under another name";
            return Err(conflict(key, message)
                .with("steps", row.planned)
                .with("sent", steps));
        }
        if row.cancelled {
            return Err(conflict(key, TEXT_NOT_SEALED));
        }
        if row.counts.steps != steps {
            let message = "flow has another number of steps than its plan; send those that are missing, \
                 or cancel it";
            return Err(conflict(key, message)
                .with("steps", row.counts.steps)
                .with("sent", steps));
        }
        self.start_flow(key, row, steps, on_failure)
    }

    /// The plan is whole: its steps start.
    pub(super) fn start_flow(
        &mut self,
        key: &RecordKey,
        mut row: FlowRow,
        planned: u64,
        on_failure: OnFailure,
    ) -> Result<()> {
        row.sealed = Some(self.now);
        row.on_failure = on_failure;
        row.planned = planned;
        self.derived
            .flows
            .note_deadline(key, row.until.take(), None);
        self.put_flow(key, &row);
        if on_failure == OnFailure::CancelRest && row.counts.dead + row.counts.cancelled > 0 {
            self.begin_cancel(key, CancelReason::Upstream, true)?;
        }
        self.add_task(key, task::START, NIL, TodoRow::begin());
        self.derived.flows.push(Work::End(key.clone()));
        Ok(())
    }

    /// Lets a step wait for more jobs.
    fn wait_more(
        &mut self,
        key: &RecordKey,
        row: &FlowRow,
        step: JobId,
        after: &[After],
    ) -> Result<()> {
        let child = job_key(key, step);
        let link = self.rows.links.get(&child)?;
        let Some(mut link) = link.filter(|link| link.flow == key.name) else {
            return Err(no_step(key, step));
        };
        check_no_callback(&key.name, after)?;
        // An import brings steps whose jobs are gone first: they never run, whatever they wait for.
        let is_gone = link.ended.is_some() && self.load(&child)?.is_none();
        let mut new = Vec::new();
        for one in after {
            let edge = EdgeKey {
                namespace: key.namespace,
                from: one.job,
                to: step,
            };
            if self.rows.edges.get(&edge)?.is_none() {
                new.push(*one);
            }
            let from = self.rows.links.get(&job_key(key, one.job))?;
            // An import restores a step that has ended as a link alone.
            if from.is_none() && !self.is_known(&job_key(key, one.job))? {
                let message = "a job to wait for is not known; send it first";
                return Err(Error::new(ErrorKind::NotFound, message).with("job", one.job));
            }
            let is_later =
                from.is_some_and(|from| from.flow == key.name && from.number >= link.number);
            if is_later && !is_gone {
                let later = Error::new(ErrorKind::InvalidInput, TEXT_WAITS_LATER);
                return Err(later.with("job", one.job));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        if row.sealed.is_some() || row.cancelled {
            return Err(conflict(key, TEXT_WAITS_CLOSED));
        }
        self.add_edges(&child, &mut link, &new, false, None)?;
        self.put_link(&child, link);
        Ok(())
    }

    pub(super) fn cancel_flow(&mut self, key: &RecordKey, mut row: FlowRow) -> Result<()> {
        if row.settled.is_some() || row.cancelled {
            return Ok(());
        }
        row.cancelled = true;
        self.derived
            .flows
            .note_deadline(key, row.until.take(), None);
        self.put_flow(key, &row);
        self.begin_cancel(key, CancelReason::Requested, false)
    }

    /// Runs steps again that are dead or cancelled, from a number on; or one step, and those behind
    /// it.
    fn retry(
        &mut self,
        key: &RecordKey,
        from: Option<String>,
        next: Option<u32>,
        filter: Option<&Filter>,
    ) -> Result<Controlled> {
        if self.has_task(key, task::CANCEL)? {
            let message = "flow is being cancelled; retry it in a moment";
            return Err(conflict(key, message));
        }
        let mut left_out = LeftOut::default();
        let (retried, mut next) = match (from, next) {
            (Some(step), None) => (self.retry_from(key, &step, &mut left_out)?, None),
            (Some(_), Some(_)) => (0, None),
            (None, next) => {
                if next.is_none() {
                    // What a filter asks of a step that is gone cannot be answered.
                    self.begin_again(key, filter.map_or(0, |_| u32::MAX))?;
                }
                self.retry_some(key, next.unwrap_or(0), filter, &mut left_out)?
            }
        };
        self.finish()?;
        // Only then it is known which of those behind these cannot run.
        if next.is_none() && self.has_task(key, task::REOPEN)? {
            next = Some(u32::MAX);
        }
        if next.is_none() {
            let noted = self.change_again(key, Again::end)?;
            left_out.add(noted.unwrap_or_default());
            self.note_callbacks(key, &mut left_out)?;
        }
        Ok(Controlled::Retried {
            retried,
            left_out,
            next,
        })
    }

    /// Runs steps again that failed, from a number on: how many, and where to go on.
    fn retry_some(
        &mut self,
        key: &RecordKey,
        first: u32,
        filter: Option<&Filter>,
        left_out: &mut LeftOut,
    ) -> Result<(u64, Option<u32>)> {
        let mut retried = 0;
        let found = self.steps_from(key, first, EXAMINED)?;
        let next = (found.len() == EXAMINED).then(|| first + EXAMINED as u32);
        for (number, id) in found {
            // Dependants of earlier steps wait again before the retry reads them.
            if retried == RETRIED || self.has_task(key, task::REOPEN)? {
                return Ok((retried, Some(number)));
            }
            if self.retry_failed(key, &job_key(key, id), filter, left_out)? {
                retried += 1;
                self.finish()?;
            }
        }
        Ok((retried, next))
    }

    /// A retry begins, which reads the steps from a number on itself.
    fn begin_again(&mut self, key: &RecordKey, read: u32) -> Result<()> {
        self.change_again(key, |again| {
            (again.read, again.left_out) = (Some(read), LeftOut::default());
        })
        .map(drop)
    }

    fn change_again<T>(
        &mut self,
        key: &RecordKey,
        change: impl FnOnce(&mut Again) -> T,
    ) -> Result<Option<T>> {
        let Some(mut row) = self.rows.flows.get(key)? else {
            return Ok(None);
        };
        let changed = change(&mut row.again);
        self.put_flow(key, &row);
        Ok(Some(changed))
    }

    /// Notes callbacks of a flow that goes on, if they cannot run in its end.
    fn note_callbacks(&mut self, key: &RecordKey, left_out: &mut LeftOut) -> Result<()> {
        let row = self.rows.flows.get(key)?;
        let goes_on = |row: &FlowRow| row.settled.is_none();
        let callbacks = row.filter(goes_on).map(|row| row.callbacks.clone());
        let waiting = callbacks.into_iter().flatten().filter(|one| !one.fired);
        for callback in waiting {
            let step = callback.role.name();
            match self.load(&job_key(key, callback.id))? {
                None => left_out.add_gone(step),
                Some(job) => {
                    if let Some(holder) = self.other_holder(&job)? {
                        left_out.add_held(step, holder);
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs one step again, however it ended: how many run.
    fn retry_from(&mut self, key: &RecordKey, step: &str, left_out: &mut LeftOut) -> Result<u64> {
        let id = job_key(key, step_of(key, step));
        let Some(link) = self.rows.links.get(&id)? else {
            return Err(no_step(key, step));
        };
        if link.ended.is_none() {
            let message = "step has not ended yet; let it end, or cancel it, before you retry it";
            return Err(conflict(key, message).with("step", step));
        }
        if link.broken > 0 {
            let message = "step does not run, as a job that it waits for did not end as it asks; \
                           retry from that one, or send the step as another flow";
            let error = conflict(key, message).with("step", step);
            return Err(match self.broken_parent(&id, &link)? {
                Some(name) => error.with("waits_for", name),
                None => error,
            });
        }
        let Some(job) = self.load(&id)? else {
            return Err(conflict(key, TEXT_STEP_GONE).with("step", step));
        };
        self.begin_again(key, u32::MAX)?;
        let runs = self.retry_one(job, link.step, true, left_out)?;
        Ok(runs.into())
    }

    /// One of the jobs that a step waits for and that ended otherwise: a step by its name, with its
    /// flow if that is another one, or the id of a job without a flow.
    fn broken_parent(&self, id: &JobKey, link: &LinkRow) -> Result<Option<String>> {
        let is_broken = |parent: &&Parent| parent.is == EdgeIs::Broken;
        if let Some(parent) = link.parents.iter().find(is_broken) {
            let job = parent.after.job;
            let outside = self.rows.links.get(&JobKey { id: job, ..*id })?;
            let step = outside.filter(|link| !link.flow.is_empty());
            return Ok(Some(step.map_or_else(|| job.to_string(), of_other_flow)));
        }
        let flow = flow_key(id.namespace, link);
        for (_, from) in self.steps_from(&flow, 0, EXAMINED)? {
            if self.edge_is(id, from)? == Some(EdgeIs::Broken) {
                let link = self.rows.links.get(&job_key(&flow, from))?;
                return Ok(link.map(|link| link.step));
            }
        }
        Ok(None)
    }

    /// Runs a step again if it failed and passes a filter; whether it does.
    fn retry_failed(
        &mut self,
        key: &RecordKey,
        id: &JobKey,
        filter: Option<&Filter>,
        left_out: &mut LeftOut,
    ) -> Result<bool> {
        let Some(link) = self.rows.links.get(id)? else {
            return Ok(false);
        };
        let Some(end) = link.ended else {
            return Ok(false);
        };
        // A step that nothing kept back was passed over because another one had failed.
        if end.state == JobState::Completed || (end.skipped && link.broken > 0) {
            return Ok(false);
        }
        let Some(job) = self.load(id)? else {
            // What a filter asks went with the job.
            if filter.is_some() {
                return Ok(false);
            }
            left_out.add_gone(link.step);
            self.lose_step(id)?;
            self.finish()?;
            return Ok(false);
        };
        if let Some(filter) = filter
            && !filter.matches(&self.record(&job)?, self.now)
        {
            return Ok(false);
        }
        match filter {
            // It waits for a step that runs again, which has noted it.
            Some(_) if end.lost && link.unmet > 0 => return Ok(false),
            Some(_) => {}
            None => drop(self.change_again(key, |again| again.read = Some(link.number + 1))?),
        }
        self.retry_one(job, link.step, false, left_out)
    }

    /// Runs a kept step again, unless its unique key is held or it waits for a failure; whether it
    /// does.
    fn retry_one(
        &mut self,
        job: Loaded,
        step: String,
        all: bool,
        left_out: &mut LeftOut,
    ) -> Result<bool> {
        let Some(waits) = self.may_run_again(&job)? else {
            return Ok(false);
        };
        if let Some(holder) = self.other_holder(&job)? {
            left_out.add_held(step, holder);
            return Ok(false);
        }
        let place = match waits {
            true => JobState::Held,
            false => JobState::Scheduled,
        };
        self.runs_again(&job, all)?;
        self.redrive_as(job, place)?;
        Ok(true)
    }
}

/// How a flow names a step of another one.
pub(super) fn of_other_flow(link: LinkRow) -> String {
    format!("{} (flow {})", link.step, link.flow)
}

/// The job of a step of a flow.
fn step_of(key: &RecordKey, step: &str) -> JobId {
    JobId::step(&key.name, step)
}

/// Refuses to retry a flow of which nothing has run.
fn check_retry(key: &RecordKey, row: &FlowRow) -> Result<()> {
    match row.sealed {
        Some(_) => Ok(()),
        None if row.cancelled => Err(conflict(key, TEXT_NOT_SEALED)),
        None => Err(conflict(key, TEXT_NEVER_SEALED)),
    }
}

/// Refuses a plan whose callbacks are not those that the flow has.
fn check_callbacks(key: &RecordKey, row: &FlowRow, sent: Option<&[Role]>) -> Result<()> {
    let Some(sent) = sent else { return Ok(()) };
    let has = |role: &Role| row.callbacks.iter().any(|one| one.role == *role);
    let differs = |role: &&Role| has(role) != sent.contains(role);
    match Role::ALL.iter().find(differs) {
        Some(role) => {
            let message = match has(role) {
                true => "flow has a callback that this plan lacks; send it under another name",
                false => "flow lacks a callback of its plan; send it before the seal",
            };
            Err(conflict(key, message).with("callback", role.name()))
        }
        None => Ok(()),
    }
}

pub(super) fn missing(key: &RecordKey) -> Error {
    Error::new(ErrorKind::NotFound, TEXT_NO_FLOW).with("flow", &key.name)
}

fn no_step(key: &RecordKey, step: impl std::fmt::Display) -> Error {
    let error = Error::new(ErrorKind::NotFound, TEXT_NO_STEP);
    error.with("flow", &key.name).with("step", step)
}

pub(super) fn conflict(key: &RecordKey, message: &str) -> Error {
    Error::new(ErrorKind::Conflict, message).with("flow", &key.name)
}
