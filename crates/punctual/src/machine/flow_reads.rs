//! What flows answer: how they stand, their steps, which jobs wait for which, and a recount.

use std::ops::Bound;

use super::Machine;
use super::flow_rows::*;
use super::flow_work::NIL;
use super::flows::{class, flow_key, job_key};
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{Controlled, Namespace, Reason};
use crate::error::Result;
use crate::flow::{
    Callback, Edge, FlowCounts, FlowState, FlowStatus, Outside, Recount, Role, StepStatus,
};
use crate::job::{CancelReason, JobId, JobState};

/// Steps that one recount reads.
const RECOUNTED: usize = 1_000;
/// Edges that a recount reads, if it sees all steps.
const RECOUNTED_EDGES: usize = 20_000;
/// Jobs that an explanation names.
const NAMED: usize = 8;

impl Machine {
    /// Flows by name, from one on.
    pub(super) fn flows(
        &self,
        namespace: &Namespace,
        after: String,
        limit: usize,
    ) -> Result<Controlled> {
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(Controlled::Flows(Vec::new()));
        };
        let name = after;
        let start = RecordKey { namespace, name };
        let end = RecordKey {
            namespace: namespace + 1,
            name: String::new(),
        };
        let (from, to) = (Bound::Excluded(&start), Bound::Excluded(&end));
        let found = self.rows.flows.scan(from, to, false, limit)?;
        let found = found.into_iter().map(|(key, row)| status_of(&key, &row));
        Ok(Controlled::Flows(found.collect()))
    }

    pub(super) fn flow_status(&self, key: &RecordKey) -> Result<Option<FlowStatus>> {
        let row = self.rows.flows.get(key)?;
        Ok(row.map(|row| status_of(key, &row)))
    }

    pub(super) fn read_steps(
        &self,
        key: &RecordKey,
        from: u32,
        limit: usize,
    ) -> Result<Controlled> {
        let found = self.steps_from(key, from, limit)?;
        let next = (found.len() == limit).then(|| from + limit as u32);
        let mut steps = Vec::with_capacity(found.len());
        for (_, id) in found {
            steps.extend(self.step_status(&job_key(key, id))?);
        }
        let next = found_next(next, steps.last());
        Ok(Controlled::Steps { steps, next })
    }

    pub(super) fn read_named(&self, key: &RecordKey, names: &[String]) -> Result<Controlled> {
        let mut steps = Vec::with_capacity(names.len());
        for name in names {
            let id = JobId::step(&key.name, name);
            steps.extend(self.step_status(&job_key(key, id))?);
        }
        Ok(Controlled::Steps { steps, next: None })
    }

    fn step_status(&self, key: &JobKey) -> Result<Option<StepStatus>> {
        let Some(link) = self.rows.links.get(key)? else {
            return Ok(None);
        };
        let (state, _) = self.state_of(key, &link)?;
        let outside = self.outside(key, &link)?;
        Ok(Some(StepStatus {
            name: link.step,
            id: key.id,
            state,
            skipped: link.ended.is_some_and(|end| end.skipped),
            waits: link.unmet,
            outside,
            result: link.result,
            number: link.number,
            sent: link.sent.0,
        }))
    }

    /// The state of a linked job by its own record, and whether it was passed over; of one that is
    /// not kept, as its link says.
    fn state_of(&self, key: &JobKey, link: &LinkRow) -> Result<(JobState, bool)> {
        if let Some(job) = self.load(key)? {
            let skipped = job.status.cancelled == Some(CancelReason::Upstream);
            return Ok((job.status.state(self.now), skipped));
        }
        Ok(match (link.ended, self.rows.tombstones.get(key)?) {
            (Some(end), None) => (end.state, end.skipped),
            (end, Some(tombstone)) => (tombstone.state, end.is_some_and(|end| end.skipped)),
            (None, None) => (JobState::Held, false),
        })
    }

    pub(super) fn read_edges(
        &self,
        key: &RecordKey,
        after: Option<(u32, JobId)>,
        limit: usize,
    ) -> Result<Controlled> {
        let first = after.map_or(0, |(number, _)| number);
        let found = self.steps_from(key, first, limit)?;
        let is_last = found.len() < limit;
        self.edges_among(key.namespace, found, after, limit, is_last)
    }

    /// Which jobs wait for these, of flows or of none.
    pub(super) fn dependants(
        &self,
        namespace: &Namespace,
        of: &[JobId],
        after: Option<(u32, JobId)>,
        limit: usize,
    ) -> Result<Controlled> {
        let (edges, next) = (Vec::new(), None);
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(Controlled::Edges { edges, next });
        };
        let first = after.map_or(0, |(number, _)| number);
        let numbered = (0_u32..).zip(of.iter().copied());
        let found = numbered.skip(first as usize).collect();
        self.edges_among(namespace, found, after, limit, true)
    }

    /// Which jobs wait for jobs that have numbers; whether no others come behind these.
    fn edges_among(
        &self,
        namespace: u32,
        found: Vec<(u32, JobId)>,
        after: Option<(u32, JobId)>,
        limit: usize,
        is_last: bool,
    ) -> Result<Controlled> {
        let (first, mut to) = match after {
            Some((number, to)) => (number, Some(to)),
            None => (0, None),
        };
        let mut edges = Vec::new();
        let last = found.last().map(|(number, _)| *number);
        for (number, id) in found {
            let after = to.take().filter(|_| number == first);
            let left = limit - edges.len();
            let some = self.edges_of(&JobKey { namespace, id }, after, left)?;
            let is_full = some.len() == left;
            edges.extend(some.into_iter().map(|(edge, row)| Edge {
                from: edge.from,
                to: edge.to,
                on: row.on,
                met: row.is == EdgeIs::Met,
            }));
            if is_full {
                let next = edges.last().map(|edge| (number, edge.to));
                return Ok(Controlled::Edges { edges, next });
            }
        }
        let next = last.filter(|_| !is_last).map(|last| (last + 1, NIL));
        Ok(Controlled::Edges { edges, next })
    }

    /// Counts steps by their jobs.
    pub(super) fn recount(&self, key: &RecordKey, from: u32) -> Result<Controlled> {
        let found = self.steps_from(key, from, RECOUNTED)?;
        let next = (found.len() == RECOUNTED).then(|| from + RECOUNTED as u32);
        let mut counts = FlowCounts::default();
        let mut differ = Vec::new();
        for (_, id) in &found {
            let id = job_key(key, *id);
            let Some(link) = self.rows.links.get(&id)? else {
                continue;
            };
            let (state, skipped) = self.state_of(&id, &link)?;
            counts.steps += 1;
            let ended = state.is_settled().then_some(End::new(state, skipped));
            match ended {
                Some(end) => *class(&mut counts, end) += 1,
                None => counts.open += 1,
            }
            let known = link.ended.map(|end| End::new(end.state, end.skipped));
            if ended != known {
                differ.push(link.step);
            }
        }
        if from == 0 && next.is_none() {
            differ.extend(self.wrong_waits(key, &found)?);
        }
        differ.truncate(10);
        let Some(flow) = self.flow_status(key)? else {
            return Err(super::flow_acts::missing(key));
        };
        Ok(Controlled::Recounted(Box::new(Recount {
            counts,
            differ,
            next,
            flow,
        })))
    }

    /// Steps whose number of unmet jobs differs from what the edges say, if those are few.
    fn wrong_waits(&self, key: &RecordKey, steps: &[(u32, JobId)]) -> Result<Vec<String>> {
        let mut unmet = std::collections::HashMap::new();
        let mut left = RECOUNTED_EDGES;
        for (_, id) in steps {
            let edges = self.edges_of(&job_key(key, *id), None, left)?;
            left -= edges.len();
            if left == 0 {
                return Ok(Vec::new());
            }
            for (edge, row) in edges {
                *unmet.entry(edge.to).or_insert(0) += u32::from(row.is != EdgeIs::Met);
            }
        }
        let mut wrong = Vec::new();
        for (_, id) in steps {
            let link = self.rows.links.get(&job_key(key, *id))?;
            // Edges from elsewhere are not among those seen here.
            let known = unmet.get(id).copied().unwrap_or(0);
            let is_wrong = |link: &LinkRow| link.unmet != known + link.outside;
            wrong.extend(link.filter(is_wrong).map(|link| link.step));
        }
        Ok(wrong)
    }

    /// Why a held job waits for others.
    pub(super) fn why_linked(&self, job: &Loaded) -> Result<Vec<Reason>> {
        let Some(link) = self.link_of(job)? else {
            return Ok(Vec::new());
        };
        let mut reasons = Vec::new();
        if link.unmet > 0 {
            let some = self.some_parents(&job.key, &link)?;
            let waits = link.unmet;
            reasons.push(Reason::WaitsForJobs { waits, some });
        }
        if link.flow.is_empty() {
            return Ok(reasons);
        }
        let row = self.rows.flows.get(&flow_key(job.key.namespace, &link))?;
        let (flow, Some(row)) = (link.flow, row) else {
            return Ok(reasons);
        };
        if row.sealed.is_none() {
            reasons.push(Reason::FlowOpen { flow });
        } else if link.role != Role::Step {
            let open = row.counts.open;
            reasons.push(Reason::WaitsForFlow { flow, open });
        }
        Ok(reasons)
    }

    /// Jobs that one waits for, those outside of its flow first.
    fn some_parents(&self, job: &JobKey, link: &LinkRow) -> Result<Vec<(JobId, JobState)>> {
        let mut some = Vec::new();
        for one in self.outside(job, link)? {
            let state = one.state.filter(|state| !one.met && !state.is_settled());
            some.extend(state.map(|state| (one.job, state)));
        }
        if link.flow.is_empty() {
            return Ok(some);
        }
        let flow = flow_key(job.namespace, link);
        for (_, from) in self.steps_from(&flow, 0, RECOUNTED)? {
            if some.len() >= NAMED {
                break;
            }
            if self.edge_is(job, from)?.is_some_and(|is| is != EdgeIs::Met) {
                let state = self.state_now(&job_key(&flow, from))?;
                some.push((from, state.unwrap_or(JobState::Held)));
            }
        }
        Ok(some)
    }

    /// What has become of the edge by which a job waits for another one.
    pub(super) fn edge_is(&self, to: &JobKey, from: JobId) -> Result<Option<EdgeIs>> {
        let edge = EdgeKey {
            namespace: to.namespace,
            from,
            to: to.id,
        };
        Ok(self.rows.edges.get(&edge)?.map(|row| row.is))
    }

    /// Jobs outside of its flow that a job waits for, each with how it stands.
    fn outside(&self, job: &JobKey, link: &LinkRow) -> Result<Vec<Outside>> {
        let mut outside = Vec::with_capacity(link.parents.len());
        for Parent { after, is } in link.parents.iter().copied() {
            let (namespace, id) = (job.namespace, after.job);
            outside.push(Outside {
                job: id,
                on: after.on,
                met: is == EdgeIs::Met,
                state: self.state_now(&JobKey { namespace, id })?,
            });
        }
        Ok(outside)
    }

    /// The state of any job, as long as it is known.
    fn state_now(&self, key: &JobKey) -> Result<Option<JobState>> {
        if let Some(link) = self.rows.links.get(key)? {
            return Ok(Some(self.state_of(key, &link)?.0));
        }
        if let Some(job) = self.load(key)? {
            return Ok(Some(job.status.state(self.now)));
        }
        let tombstone = self.rows.tombstones.get(key)?;
        Ok(tombstone.map(|tombstone| tombstone.state))
    }
}

/// Steps may have no row while their flow is being forgotten: the numbers decide where to go on.
fn found_next(next: Option<u32>, last: Option<&StepStatus>) -> Option<u32> {
    let last = last.map(|last| last.number + 1);
    next.map(|next| last.map_or(next, |last| last.max(next)))
}

fn status_of(key: &RecordKey, row: &FlowRow) -> FlowStatus {
    let callback = |one: &CallbackRow| Callback {
        role: one.role,
        id: one.id,
        fired: one.fired,
    };
    let mut status = FlowStatus::new(&key.name, row.created);
    status.counts = row.counts;
    status.on_failure = row.on_failure;
    status.cancelled = row.cancelled;
    status.sealed_at = row.sealed;
    status.settled_at = row.settled;
    status.until = row.until;
    status.callbacks = row.callbacks.iter().map(callback).collect();
    status.changes = row.changes;
    status.planned = row.planned;
    status.state = FlowState::of(&status);
    status
}
