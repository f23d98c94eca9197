//! What an export has of jobs that wait for others, and of flows; and what an import makes of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use punctual::engine::{Got, Target};
use punctual::flow::{
    After, Edge, EndedStep, FlowStatus, RestoredFlow, RestoredSeal, Role, StepPast, StepStatus,
};
use punctual::queue::Flows;
use punctual::{JobId, JobRecord, JobState, Queue};
use punctual_gateway::{FlowPart, JobJson, RecordJson};

use crate::args::Session;
use crate::failure::{Exit, Failure, Result};

/// Jobs that are read at once, and steps without a job on one line.
const PAGE: usize = 1_000;
const ENDED_PER_LINE: usize = 100;
/// What one line says of the jobs that a step waits for; further lines say the rest.
const AFTER_PER_LINE: usize = 1_000;

/// What is known of jobs that are not written in the order of their ids.
#[derive(Default)]
pub(super) struct Links {
    /// Jobs of no flow that are held: they may wait for others.
    held: Vec<JobId>,
    /// Others that have not settled: jobs may wait for them.
    open: Vec<JobId>,
}

/// A job that is written behind those that it waits for.
struct Node {
    /// Its flow and what it is there; `None` of a job of no flow.
    place: Option<Place>,
    after: Vec<After>,
    /// Those among the nodes that it waits for and that are not written yet.
    unwritten: usize,
}

struct Place {
    flow: usize,
    role: Role,
    fired: bool,
    step: StepStatus,
}

impl Links {
    /// Whether a job is written by [`write`](Self::write), not where it was found.
    pub(super) fn takes(&mut self, job: &JobRecord) -> bool {
        let is_step = job.flow.is_some();
        match job.state {
            _ if is_step => {}
            JobState::Held => self.held.push(job.id),
            state if !state.is_settled() => self.open.push(job.id),
            _ => {}
        }
        is_step || job.state == JobState::Held
    }

    /// Writes them with what they wait for, then flows; how many jobs and other lines.
    pub(super) async fn write(self, session: &Session, mut to: impl Write) -> Result<(u64, u64)> {
        let flows = flows(session);
        let all = match flows.list().await {
            Err(error) if error.kind() == punctual::ErrorKind::Unsupported => Vec::new(),
            found => found?,
        };
        let mut nodes = self.nodes(&flows, &all).await?;
        let edges = match all.is_empty() && self.held.is_empty() {
            true => Vec::new(),
            false => {
                let mut of = self.open;
                of.extend(nodes.keys());
                match flows.dependants(&of).await {
                    Err(error) if error.kind() == punctual::ErrorKind::Unsupported => Vec::new(),
                    found => found?,
                }
            }
        };
        let order = in_order(&mut nodes, edges);
        let (mut jobs, mut lines) = (0, 0);
        let mut ended: BTreeMap<usize, Vec<EndedStep>> = BTreeMap::new();
        let mut waits = Vec::new();
        for page in order.chunks(PAGE) {
            for (id, job) in page.iter().zip(read(session, page).await?) {
                let node = &nodes[id];
                match (job, &node.place) {
                    (Some(job), place) => {
                        let first = node.after.len().min(AFTER_PER_LINE);
                        let (first, rest) = match place {
                            Some(_) => node.after.split_at(first),
                            None => (&node.after[..], &[][..]),
                        };
                        let place = place.as_ref();
                        let known = place.map(|place| (place.role, place.past()));
                        line(&mut to, &JobJson::linked(&job, first, known))?;
                        jobs += 1;
                        let flow = place.map(|place| place.flow);
                        waits.extend(rest.chunks(AFTER_PER_LINE).map(|part| {
                            let (step, after) = (*id, part.to_vec());
                            (flow, FlowPart::Waits { step, after })
                        }));
                    }
                    (None, Some(place)) => {
                        let all_of_flow = ended.entry(place.flow).or_default();
                        all_of_flow.push(place.ended(&all[place.flow].name, &flows).await?);
                        // Its end is brought before the jobs that it waited for.
                        let is_step =
                            |one: &&After| nodes.get(&one.job).is_some_and(|of| of.place.is_some());
                        let after: Vec<After> =
                            node.after.iter().filter(is_step).copied().collect();
                        let parts = after.chunks(AFTER_PER_LINE);
                        waits.extend(parts.map(|part| {
                            let (step, after) = (*id, part.to_vec());
                            (Some(place.flow), FlowPart::Waits { step, after })
                        }));
                    }
                    (None, None) => {}
                }
            }
        }
        let mut part = |flow: usize, part: FlowPart| {
            lines += 1;
            line(&mut to, &RecordJson::of_flow(&all[flow].name, &part))
        };
        for (flow, steps) in ended {
            for some in steps.chunks(ENDED_PER_LINE) {
                let restored = RestoredFlow::default().ended(some.to_vec());
                part(flow, FlowPart::Restored(restored))?;
            }
        }
        for (flow, more) in waits {
            part(flow.unwrap_or(0), more)?;
        }
        for (flow, status) in all.iter().enumerate() {
            part(flow, FlowPart::Restored(end_of(status)))?;
        }
        Ok((jobs, lines))
    }

    async fn nodes(&self, flows: &Flows, all: &[FlowStatus]) -> Result<HashMap<JobId, Node>> {
        let node = |place| Node {
            place,
            after: Vec::new(),
            unwritten: 0,
        };
        let held = self.held.iter().map(|id| (*id, node(None)));
        let mut nodes: HashMap<JobId, Node> = held.collect();
        for (flow, status) in all.iter().enumerate() {
            for step in flows.steps(&status.name).await? {
                let (role, fired) = (Role::Step, false);
                let id = step.id;
                let place = Place {
                    flow,
                    role,
                    fired,
                    step,
                };
                nodes.insert(id, node(Some(place)));
            }
            for callback in &status.callbacks {
                let name = format!("@{}", callback.role.name());
                for step in flows.named(&status.name, &[name]).await? {
                    let (role, fired) = (callback.role, callback.fired);
                    let id = step.id;
                    let place = Place {
                        flow,
                        role,
                        fired,
                        step,
                    };
                    nodes.insert(id, node(Some(place)));
                }
            }
        }
        Ok(nodes)
    }
}

impl Place {
    fn past(&self) -> StepPast {
        StepPast::new(self.step.sent).fired(self.fired)
    }

    /// A step without a job: it has settled, perhaps since it was read.
    async fn ended(&self, flow: &str, flows: &Flows) -> Result<EndedStep> {
        let mut step = self.step.clone();
        if !step.state.is_settled() {
            let name = match self.role {
                Role::Step => step.name.clone(),
                role => format!("@{}", role.name()),
            };
            step = flows.named(flow, &[name]).await?.pop().unwrap_or(step);
        }
        if !step.state.is_settled() {
            let message = format!("flow {flow} changes while it is read");
            return Err(Failure::new(Exit::Failed, "conflict", message)
                .hint("stop its workers, or export again"));
        }
        let past = StepPast::new(step.sent).fired(self.fired);
        let ended = EndedStep::new(step.name, step.state, past).role(self.role);
        Ok(ended.skipped(step.skipped).result(step.result))
    }
}

/// How a flow stands besides its jobs.
fn end_of(status: &FlowStatus) -> RestoredFlow {
    let seal = RestoredSeal::new(status.counts.steps)
        .planned(status.planned)
        .on_failure(status.on_failure);
    RestoredFlow::default()
        .seal(status.sealed_at.map(|_| seal))
        .cancelled(status.cancelled)
}

/// The nodes, each behind those that it waits for, otherwise by flow and number.
fn in_order(nodes: &mut HashMap<JobId, Node>, edges: Vec<Edge>) -> Vec<JobId> {
    let mut dependants: HashMap<JobId, Vec<JobId>> = HashMap::new();
    for edge in edges {
        let is_inner = nodes.contains_key(&edge.from);
        let Some(node) = nodes.get_mut(&edge.to) else {
            continue;
        };
        node.after.push(After::new(edge.from, edge.on));
        if is_inner {
            node.unwritten += 1;
            dependants.entry(edge.from).or_default().push(edge.to);
        }
    }
    let position = |nodes: &HashMap<JobId, Node>, id: JobId| {
        let place = nodes[&id].place.as_ref();
        let position = place.map(|place| (place.flow, place.role as u8, place.step.number));
        (position, id)
    };
    let free = nodes.iter().filter(|(_, node)| node.unwritten == 0);
    let mut free: BTreeSet<_> = free.map(|(id, _)| position(nodes, *id)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some((_, id)) = free.pop_first() {
        order.push(id);
        for next in dependants.remove(&id).unwrap_or_default() {
            let node = nodes.get_mut(&next);
            let is_free = node.is_some_and(|node| {
                node.unwritten -= 1;
                node.unwritten == 0
            });
            if is_free {
                free.insert(position(nodes, next));
            }
        }
    }
    order
}

/// The jobs of some ids, as far as they are kept.
async fn read(session: &Session, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>> {
    let targets = ids.iter().copied().map(Target::Id).collect();
    let found = session.engine.get(&session.namespace, targets, false);
    let job = |got: Got| match got {
        Got::Job(job, _) => Some(*job),
        _ => None,
    };
    Ok(found
        .await?
        .into_iter()
        .map(|got| got.and_then(job))
        .collect())
}

fn line(mut to: impl Write, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(&mut to, value).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    Ok(())
}

/// Brings parts of flows; counts how many were `created` or `unchanged`.
pub(super) async fn import(
    session: &Session,
    parts: Vec<(String, FlowPart)>,
    counts: &mut BTreeMap<&'static str, u64>,
) -> Result<()> {
    let flows = flows(session);
    for (name, part) in parts {
        let before = flows.get(&name).await?;
        match part {
            FlowPart::Restored(restored) => {
                let is_nothing = restored == RestoredFlow::default();
                if !is_nothing {
                    flows.restore(&name, restored).await?;
                }
            }
            FlowPart::Waits { step, after } => flows.wait_more(&name, step, after).await?,
            _ => {}
        }
        let is_same = before == flows.get(&name).await?;
        let verdict = if is_same { "unchanged" } else { "created" };
        *counts.entry(verdict).or_default() += 1;
    }
    Ok(())
}

fn flows(session: &Session) -> Flows {
    Queue::new(&session.engine)
        .namespace(session.namespace.clone())
        .flows()
}
