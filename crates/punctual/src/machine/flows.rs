//! Jobs that wait for others: what an enqueue links, and what the end of a job means for them.

use super::Machine;
use super::flow_rows::*;
use super::flow_work::Work;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::EnqueueVerdict;
use crate::error::Result;
use crate::flow::{After, FlowStep, On, OnFailure, Role, SEND_TIMEOUT, StepOf, sent_hash};
use crate::injected::{Bug, is_injected};
use crate::job::{CancelReason, JobId, JobState, NewJob};
use crate::time::Timestamp;

/// What a new job waits for, taken from it before it is stored.
pub(super) struct NewLinks {
    flow: Option<Box<FlowStep>>,
    after: Vec<After>,
    sent: RandomBits,
    due: Timestamp,
}

impl NewLinks {
    /// Of a job that waits for others or belongs to a flow.
    pub(super) fn of(job: &mut NewJob, due: Timestamp) -> Option<Self> {
        if job.flow.is_none() && job.after.is_empty() {
            return None;
        }
        let sent = RandomBits(sent_hash(job));
        let (flow, after) = (job.flow.take(), std::mem::take(&mut job.after));
        Some(Self {
            flow,
            after,
            sent,
            due,
        })
    }

    /// What the job's own row says of it.
    pub(super) fn step_of(&self) -> StepOf {
        let flow = self.flow.as_ref();
        StepOf {
            flow: flow.map_or(String::new(), |place| place.flow.clone()),
            step: flow.map_or(String::new(), |place| place.step.clone()),
        }
    }
}

/// What is known of a job that others wait for.
enum Known {
    Unknown,
    Unsettled,
    Ended(End),
}

impl Machine {
    /// Why a job cannot be linked as it asks, if so.
    pub(super) fn link_refusal(
        &self,
        namespace: u32,
        job: &NewJob,
    ) -> Result<Option<EnqueueVerdict>> {
        if let Some(place) = &job.flow {
            let name = place.flow.clone();
            let row = self.rows.flows.get(&RecordKey { namespace, name })?;
            let closed = match row {
                None => place.grows,
                Some(row) => {
                    let is_new = place.grows && place.role == Role::Step;
                    // The rest was cancelled, and a step that came now would be of it.
                    let is_rest = row.on_failure == OnFailure::CancelRest
                        && row.has_failed()
                        && !job.after.iter().any(|one| one.on == On::Failed);
                    let is_closed = row.settled.is_some() || row.cancelled;
                    is_closed || (row.sealed.is_some() && (!is_new || is_rest))
                }
            };
            if closed {
                return Ok(Some(EnqueueVerdict::FlowClosed));
            }
        }
        for one in &job.after {
            let key = JobKey {
                namespace,
                id: one.job,
            };
            if matches!(self.parent(&key)?, Known::Unknown) {
                return Ok(Some(EnqueueVerdict::ParentUnknown(one.job)));
            }
        }
        Ok(None)
    }

    fn parent(&self, key: &JobKey) -> Result<Known> {
        let ended = |end: Option<End>| end.map_or(Known::Unsettled, Known::Ended);
        if let Some(link) = self.rows.links.get(key)? {
            return Ok(ended(link.ended));
        }
        if let Some(job) = self.load(key)? {
            let state = job.status.place;
            return Ok(ended(state.is_settled().then(|| end_of(&job, state))));
        }
        let tombstone = self.rows.tombstones.get(key)?;
        Ok(tombstone.map_or(Known::Unknown, |tombstone| {
            Known::Ended(End::new(tombstone.state, false))
        }))
    }

    /// Keeps what a new job waits for; whether that holds it.
    pub(super) fn add_links(&mut self, key: &JobKey, links: NewLinks) -> Result<bool> {
        let NewLinks {
            flow,
            after,
            sent,
            due,
        } = links;
        let mut link = LinkRow {
            flow: String::new(),
            step: String::new(),
            role: Role::Step,
            number: 0,
            unmet: 0,
            broken: 0,
            outside: 0,
            on_failed: false,
            sent,
            due,
            ended: None,
            result: None,
            parents: Vec::new(),
        };
        let mut runs = true;
        let mut policy = None;
        let mut fired = false;
        if let Some(place) = flow {
            let row = self.add_to_flow(key, &place, &mut link)?;
            runs = row.runs();
            policy = Some(row.on_failure);
            fired = place.past.is_some_and(|past| past.fired);
        }
        self.add_edges(key, &mut link, &after, runs, policy)?;
        let is_broken = link.broken > 0;
        let waits = match link.role {
            Role::Step => !runs,
            _ => !fired,
        };
        let holds = link.unmet > 0 || waits;
        self.rows.links.put(&mut self.journal, key.clone(), link);
        if is_broken && runs {
            self.derived.flows.push(Work::Skip(key.clone()));
        }
        let half = is_injected(Bug::HalfPlanRuns) && !runs && after.is_empty();
        Ok(holds && !half)
    }

    /// Lets a job wait for others, as far as they have not ended as asked.
    pub(super) fn add_edges(
        &mut self,
        key: &JobKey,
        link: &mut LinkRow,
        after: &[After],
        runs: bool,
        policy: Option<OnFailure>,
    ) -> Result<()> {
        for one in after {
            let from = JobKey {
                namespace: key.namespace,
                id: one.job,
            };
            let is_sibling = !link.flow.is_empty()
                && (self.rows.links.get(&from)?).is_some_and(|other| other.flow == link.flow);
            let is = match self.parent(&from)? {
                Known::Ended(end) if !is_sibling || runs => {
                    match is_met(one.on, end, policy.filter(|_| is_sibling)) {
                        true => EdgeIs::Met,
                        false => EdgeIs::Broken,
                    }
                }
                // What ended before the seal counts once it comes.
                Known::Ended(_) | Known::Unknown | Known::Unsettled => EdgeIs::Waiting,
            };
            if !is_sibling && link.parents.len() < PARENTS {
                link.parents.push(Parent { after: *one, is });
            }
            link.unmet += u32::from(is != EdgeIs::Met);
            link.outside += u32::from(is != EdgeIs::Met && !is_sibling);
            link.broken += u32::from(is == EdgeIs::Broken);
            link.on_failed |= one.on == On::Failed;
            let edge = EdgeKey {
                namespace: key.namespace,
                from: one.job,
                to: key.id,
            };
            // An edge from a job of no flow is of use until it has ended.
            if is == EdgeIs::Waiting || self.rows.links.get(&from)?.is_some() {
                // One that has ended may run again: this job then waits again.
                self.watch(&from)?;
                let row = EdgeRow { on: one.on, is };
                self.rows.edges.put(&mut self.journal, edge, row);
            }
        }
        Ok(())
    }

    /// Marks a job as one that others wait for: its end is not plain.
    fn watch(&mut self, key: &JobKey) -> Result<()> {
        let Some(mut job) = self.load(key)? else {
            return Ok(());
        };
        if !job.status.watched {
            job.status_mut().watched = true;
            self.save(&job);
        }
        Ok(())
    }

    pub(super) fn add_to_flow(
        &mut self,
        key: &JobKey,
        place: &FlowStep,
        link: &mut LinkRow,
    ) -> Result<FlowRow> {
        let name = place.flow.clone();
        let flow = RecordKey {
            namespace: key.namespace,
            name,
        };
        let mut row = match self.rows.flows.get(&flow)? {
            Some(row) => row,
            None => {
                let row = FlowRow::new(self.now, SEND_TIMEOUT);
                self.derived.flows.note_deadline(&flow, None, row.until);
                row
            }
        };
        link.flow.clone_from(&place.flow);
        link.step.clone_from(&place.step);
        link.role = place.role;
        if place.role == Role::Step {
            link.number = row.counts.steps as u32;
            row.counts.steps += 1;
            row.counts.open += 1;
            row.changes += 1;
            let step = StepKey {
                namespace: key.namespace,
                flow: place.flow.clone(),
                number: link.number,
            };
            self.rows.steps.put(&mut self.journal, step, key.id);
        } else {
            row.callbacks.push(CallbackRow {
                role: place.role,
                id: key.id,
                fired: place.past.is_some_and(|past| past.fired),
            });
        }
        self.put_flow(&flow, &row);
        Ok(row)
    }

    pub(super) fn put_flow(&mut self, key: &RecordKey, row: &FlowRow) {
        let (key, row) = (key.clone(), row.clone());
        self.rows.flows.put(&mut self.journal, key, row);
    }

    pub(super) fn put_link(&mut self, key: &JobKey, link: LinkRow) {
        self.rows.links.put(&mut self.journal, key.clone(), link);
    }

    /// A linked or watched job has settled: its flow counts it, and the jobs that wait for it are
    /// updated before this step ends.
    pub(super) fn link_settled(&mut self, job: &Loaded, state: JobState) -> Result<()> {
        let end = end_of(job, state);
        let mut is_watched = job.status.watched;
        if let Some(mut link) = self.link_of(job)? {
            if link.flow.is_empty() {
                self.rows.links.remove(&mut self.journal, &job.key);
            } else {
                link.ended = Some(end);
                link.result = job.status.result.clone();
                let by_worker =
                    (job.status.settled).is_some_and(|(attempt, _)| attempt == job.status.attempt);
                if by_worker || !is_injected(Bug::CountByClient) {
                    is_watched |= self.count_end(job.key.namespace, &link, end)?;
                }
                self.put_link(&job.key, link);
            }
        }
        if is_injected(Bug::WatchOnlyOnCompleted) && state != JobState::Completed {
            return Ok(());
        }
        if is_watched {
            self.derived.flows.push(Work::Fire(job.key.clone(), end));
        }
        Ok(())
    }

    /// The row of a linked job; none once its flow is forgotten.
    pub(super) fn link_of(&self, job: &Loaded) -> Result<Option<LinkRow>> {
        match job.spec.rare.is_linked() {
            true => self.rows.links.get(&job.key),
            false => Ok(None),
        }
    }

    /// Counts a step that has ended; whether its flow is yet to be sealed, so that the seal updates
    /// the jobs that wait for it.
    pub(super) fn count_end(&mut self, namespace: u32, link: &LinkRow, end: End) -> Result<bool> {
        let key = flow_key(namespace, link);
        let Some(mut row) = self.rows.flows.get(&key)? else {
            return Ok(false);
        };
        if link.role == Role::Step {
            row.counts.open = row.counts.open.saturating_sub(1);
            *class(&mut row.counts, end) += 1;
            row.changes += 1;
            let failed = !end.skipped && end.state != JobState::Completed;
            if failed && row.on_failure == OnFailure::CancelRest && row.runs() {
                self.begin_cancel(&key, CancelReason::Upstream, true)?;
            }
            if row.counts.open == 0 {
                self.derived.flows.push(Work::End(key.clone()));
            }
            self.put_flow(&key, &row);
        }
        Ok(row.sealed.is_none())
    }

    /// Whether a job is kept from running by others, by its flow, or because it is a callback.
    pub(super) fn is_held_back(&self, job: &Loaded) -> Result<bool> {
        let Some(link) = self.link_of(job)? else {
            return Ok(false);
        };
        if link.unmet > 0 {
            return Ok(true);
        }
        if link.flow.is_empty() {
            return Ok(false);
        }
        let row = self.rows.flows.get(&flow_key(job.key.namespace, &link))?;
        Ok(row.is_some_and(|row| match link.role {
            Role::Step => !row.runs(),
            _ => !(row.callbacks.iter()).any(|one| one.id == job.key.id && one.fired),
        }))
    }

    /// Lets a job run that waits for nothing more.
    pub(super) fn release(&mut self, key: &JobKey) -> Result<()> {
        let Some(mut job) = self.load(key)? else {
            return Ok(());
        };
        if job.status.place != JobState::Held || self.is_held_back(&job)? {
            return Ok(());
        }
        if self.expire_if_late(job.clone())? {
            return Ok(());
        }
        if !job.status.wait_for.is_empty() || job.status.follows.is_some() {
            return Ok(());
        }
        self.displace(&job)?;
        let now = self.now;
        let status = job.status_mut();
        status.place = JobState::Scheduled;
        // It could not run before: it is late only from now on.
        status.due = status.due.max(now);
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// Lets a job wait again that was free to run, and does not.
    pub(super) fn make_held(&mut self, mut job: Loaded) -> Result<()> {
        self.displace(&job)?;
        let status = job.status_mut();
        status.place = JobState::Held;
        status.front = false;
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// Passes over a job that waits for one which ended otherwise.
    pub(super) fn skip(&mut self, key: &JobKey) -> Result<()> {
        match self.load(key)? {
            Some(job) if job.status.place.is_pending() => {
                self.cancel_waiting(job, CancelReason::Upstream)
            }
            _ => Ok(()),
        }
    }

    /// Whether a settled job may run again, and then whether it has to wait; `None` if it waits for
    /// a job that ended otherwise, or its flow was never sealed.
    pub(super) fn may_run_again(&self, job: &Loaded) -> Result<Option<bool>> {
        let Some(link) = self.link_of(job)? else {
            return Ok(Some(false));
        };
        if link.flow.is_empty() {
            return Ok(Some(false));
        }
        let key = flow_key(job.key.namespace, &link);
        let row = self.rows.flows.get(&key)?;
        if self.is_forgotten(&key)? {
            return Ok(Some(false));
        }
        // What is left of a cancel would cancel it again.
        if self.has_task(&key, task::CANCEL)? {
            return Ok(None);
        }
        let may = row.is_none_or(|row| match link.role {
            Role::Step => row.sealed.is_some() && link.broken == 0,
            _ => (row.callbacks.iter()).any(|one| one.id == job.key.id && one.fired),
        });
        Ok(may.then_some(link.unmet > 0))
    }
}

/// How a job ended.
fn end_of(job: &Loaded, state: JobState) -> End {
    let skipped = job.status.cancelled == Some(CancelReason::Upstream);
    End::new(state, skipped && state == JobState::Cancelled)
}

/// Whether a job ended as another one asks; the policy is that of their flow.
pub(super) fn is_met(on: On, end: End, policy: Option<OnFailure>) -> bool {
    let goes_on = policy == Some(OnFailure::Continue) && on == On::Completed;
    goes_on || on.is_met_by(end.state)
}

/// The count that an end belongs to.
pub(super) fn class(counts: &mut crate::flow::FlowCounts, end: End) -> &mut u64 {
    match end.state {
        JobState::Completed => &mut counts.completed,
        JobState::Cancelled if end.skipped => &mut counts.skipped,
        JobState::Cancelled => &mut counts.cancelled,
        _ => &mut counts.dead,
    }
}

pub(super) fn flow_key(namespace: u32, link: &LinkRow) -> RecordKey {
    let name = link.flow.clone();
    RecordKey { namespace, name }
}

/// The key of a step's or a callback's job.
pub(super) fn job_key(flow: &RecordKey, id: JobId) -> JobKey {
    JobKey {
        namespace: flow.namespace,
        id,
    }
}
