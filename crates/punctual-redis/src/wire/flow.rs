//! Flows: links as sent, and the maps of `control` about them.

use bytes::Bytes;
use punctual::engine::{Control, Controlled, FlowAct};
use punctual::flow::{
    After, Callback, Edge, FlowCounts, FlowState, FlowStatus, LeftOut, On, OnFailure, Outside,
    Recount, RestoredFlow, Role, StepStatus, sent_hash,
};
use punctual::time::Timestamp;
use punctual::{JobId, NewJob, Result};

use super::mp::{MapWriter, Mp};
use super::numbers::{
    CONTROL_DEPENDANTS, CONTROL_FLOW, CONTROL_FLOWS, FLOW_CANCEL, FLOW_EDGES, FLOW_READ,
    FLOW_RECOUNT, FLOW_RESTORE, FLOW_RETRY, FLOW_SEAL, FLOW_STEPS, FLOW_STEPS_OF, FLOW_WAIT_MORE,
};
use super::record::{number_32, state_of, texts};
use super::{Writer, damaged, inspect};

/// A link says that there is one, and whether its flow may be sealed already.
const LINKED: u8 = 1;
const GROWS: u8 = 2;
/// A callback that was released before an import.
const FIRED: u8 = 4;

/// Whether a job waits for others, or is a step.
pub(crate) fn is_linked(job: &NewJob) -> bool {
    job.flow.is_some() || !job.after.is_empty()
}

/// What a job's opts say of its flow: the names of flow and step, or nothing.
pub(super) fn place(job: &NewJob) -> Option<Mp> {
    let place = job.flow.as_ref().map(|place| {
        let names = [&place.flow, &place.step];
        names.into_iter().map(Mp::from).collect()
    });
    is_linked(job).then(|| Mp::List(place.unwrap_or_default()))
}

/// `0`, or `flags | role | sent 8 | n u16 | (id 16 | how it must end)*`
pub(super) fn write_link(out: &mut Writer, job: &NewJob) {
    if !is_linked(job) {
        out.u8(0);
        return;
    }
    let flow = job.flow.as_ref();
    let grows = flow.is_some_and(|place| place.grows);
    let past = flow.and_then(|place| place.past);
    let fired = past.is_some_and(|past| past.fired);
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    out.u8(LINKED | flag(grows, GROWS) | flag(fired, FIRED));
    out.u8(flow.map_or(Role::Step, |place| place.role) as u8);
    out.u64(sent_hash(job)).u16(job.after.len());
    out.bytes(&edges(&job.after));
}

fn edges(after: &[After]) -> Vec<u8> {
    let mut out = Writer::default();
    for one in after {
        out.id(one.job).u8(one.on as u8);
    }
    out.0
}

/// A part of the list of flows.
pub(crate) fn list(after: &str, limit: usize) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_FLOWS)
        .put("af", after)
        .put("li", limit);
    map
}

pub(crate) fn listed(reply: &Mp) -> Result<Vec<FlowStatus>> {
    reply.get("l").list()?.iter().map(status).collect()
}

/// A control of flows; `None` if it is another.
pub(crate) fn request(control: &Control) -> Option<MapWriter> {
    let mut map = MapWriter::default();
    match control {
        Control::Flows { after, limit } => map = list(after, *limit),
        Control::Flow { name, act } => {
            map.put("c", CONTROL_FLOW).put("na", name);
            put_act(&mut map, name, act);
        }
        Control::Dependants { of, after, limit } => {
            let ids = of.iter().map(|id| Mp::from(id.as_bytes().as_slice()));
            map.put("c", CONTROL_DEPENDANTS)
                .put("t", ids.collect::<Vec<_>>());
            put_page(&mut map, *after, *limit);
        }
        _ => return None,
    }
    Some(map)
}

/// A page of edges: how many, and where the last one ended.
fn put_page(map: &mut MapWriter, after: Option<(u32, JobId)>, limit: usize) {
    map.put("li", limit);
    if let Some((number, within)) = after {
        map.put("nu", number);
        map.put_some("cu", cursor(within).as_ref());
    }
}

fn put_act(map: &mut MapWriter, flow: &str, act: &FlowAct) {
    match act {
        FlowAct::Read => map.put("fa", FLOW_READ),
        FlowAct::Seal {
            steps,
            on_failure,
            callbacks,
        } => {
            map.put("fa", FLOW_SEAL).put("sp", *steps);
            let bits =
                |roles: &Vec<Role>| roles.iter().fold(0_u8, |all, one| all | 1 << *one as u8);
            map.put_some("cb", callbacks.as_ref().map(bits));
            map.put("pf", *on_failure as u8)
        }
        FlowAct::Wait { step, after } => {
            map.put("fa", FLOW_WAIT_MORE)
                .put("to", step.as_bytes().as_slice());
            map.put("ed", edges(after).as_slice())
        }
        FlowAct::Cancel => map.put("fa", FLOW_CANCEL),
        FlowAct::Retry { from, next, filter } => {
            map.put("fa", FLOW_RETRY);
            let id = from.as_ref().map(|step| JobId::step(flow, step));
            map.put_some("id", id.as_ref().map(|id| id.as_bytes().as_slice()));
            map.put_some("sn", from.as_ref());
            map.put_some("f", filter.as_deref().and_then(inspect::filter));
            map.put_some("nu", *next)
        }
        FlowAct::Steps { from, limit } => {
            map.put("fa", FLOW_STEPS).put("nu", *from);
            map.put("li", *limit)
        }
        FlowAct::Named { steps } => {
            let ids = steps.iter().map(|step| JobId::step(flow, step));
            let ids = ids.map(|id| Mp::from(id.as_bytes().as_slice()));
            map.put("fa", FLOW_STEPS_OF)
                .put("t", ids.collect::<Vec<_>>())
        }
        FlowAct::Edges { after, limit } => {
            map.put("fa", FLOW_EDGES);
            put_page(map, *after, *limit);
            map
        }
        FlowAct::Recount { from } => map.put("fa", FLOW_RECOUNT).put("nu", *from),
        FlowAct::Restore(restored) => put_restored(map, flow, restored),
        // The contract and this crate are of one version.
        _ => map,
    };
}

/// What an import brings: a result stands behind a byte, an empty text is none.
fn put_restored<'a>(
    map: &'a mut MapWriter,
    flow: &str,
    restored: &RestoredFlow,
) -> &'a mut MapWriter {
    let ended = restored.ended.iter().map(|one| {
        let result = one.result.as_ref().map_or(Vec::new(), |result| {
            let mut bytes = vec![1];
            bytes.extend_from_slice(result);
            bytes
        });
        Mp::List(vec![
            Mp::from(one.id(flow).as_bytes().as_slice()),
            Mp::from(&one.step),
            Mp::from(one.role as u8),
            Mp::from(one.state as u8),
            Mp::from(u8::from(one.skipped)),
            Mp::from(result.as_slice()),
            Mp::from(one.past.sent.to_be_bytes().as_slice()),
            Mp::from(u8::from(one.past.fired)),
        ])
    });
    map.put("fa", FLOW_RESTORE);
    if !restored.ended.is_empty() {
        map.put("es", ended.collect::<Vec<_>>());
    }
    if let Some(seal) = restored.seal {
        map.put("sp", seal.steps).put("pl", seal.planned);
        map.put("pf", seal.on_failure as u8);
    }
    map.put("ca", u8::from(restored.cancelled))
}

/// Where the edges of one step go on, in the place of the id of the last one: digits.
fn cursor(within: JobId) -> Option<String> {
    let digits = std::str::from_utf8(within.as_bytes()).ok()?;
    let number: u64 = digits.parse().ok()?;
    Some(number.to_string())
}

fn within(reply: &Mp) -> Result<JobId> {
    let number = reply.get("cu").some(Mp::text)?;
    let Some(number) = number.and_then(|digits| digits.parse::<u64>().ok()) else {
        return Ok(JobId::from_bytes([0; 16]));
    };
    let digits = format!("{number:016}");
    let bytes = digits.as_bytes().try_into().map_err(|_| damaged())?;
    Ok(JobId::from_bytes(bytes))
}

pub(crate) fn reply(control: &Control, reply: &Mp) -> Result<Controlled> {
    let next = reply.get("nx").some(number_32)?;
    let act = match control {
        Control::Flow { act, .. } => act,
        Control::Dependants { .. } => return edges_of(reply, next),
        _ => return Ok(Controlled::Flows(listed(reply)?)),
    };
    Ok(match act {
        FlowAct::Retry { .. } => Controlled::Retried {
            retried: reply.get("rt").number()?,
            left_out: left_out(reply)?,
            next,
        },
        FlowAct::Steps { .. } | FlowAct::Named { .. } => {
            let steps = reply.get("sl").list()?.iter().map(step);
            let steps = steps.collect::<Result<_>>()?;
            Controlled::Steps { steps, next }
        }
        FlowAct::Edges { .. } => edges_of(reply, next)?,
        FlowAct::Recount { .. } => {
            let mut recount = Recount::new(status(reply.get("f"))?);
            recount.counts = counts(reply.get("c"))?;
            recount.differ = texts(reply.get("di"))?;
            recount.next = next;
            Controlled::Recounted(Box::new(recount))
        }
        _ => {
            let found = reply.get("f").some(status)?;
            Controlled::Flow(found.map(Box::new))
        }
    })
}

/// Steps that a retry could not run again: how many, and some of them.
fn left_out(reply: &Mp) -> Result<LeftOut> {
    let count = |key: &str| Ok::<_, punctual::Error>(reply.get(key).some(Mp::number)?.unwrap_or(0));
    let held = reply.get("hs").list()?.iter().map(|one| match one.list()? {
        [step, holder] => Ok((step.text()?, inspect::id(holder)?)),
        _ => Err(damaged()),
    });
    let mut left_out = LeftOut::default();
    (left_out.gone, left_out.unique_held) = (count("gn")?, count("hl")?);
    left_out.gone_steps = texts(reply.get("gs"))?;
    left_out.unique_held_steps = held.collect::<Result<_>>()?;
    Ok(left_out)
}

fn edges_of(reply: &Mp, next: Option<u32>) -> Result<Controlled> {
    let edges = reply.get("el").list()?.iter().map(edge);
    let edges = edges.collect::<Result<_>>()?;
    let next = match next {
        Some(number) => Some((number, within(reply)?)),
        None => None,
    };
    Ok(Controlled::Edges { edges, next })
}

/// The last flow of a page, if there may be more behind it.
pub(crate) fn more(reply: &Mp) -> Result<Option<String>> {
    reply.get("mo").some(Mp::text)
}

fn status(value: &Mp) -> Result<FlowStatus> {
    let at = |key: &str| {
        let us = value.get(key).number()?;
        Ok::<_, punctual::Error>((us > 0).then(|| Timestamp::from_micros(us)))
    };
    let name = value.get("na").text()?;
    let created = at("cr")?.unwrap_or(Timestamp::ZERO);
    let mut status = FlowStatus::new(name, created);
    status.counts = counts(value.get("c"))?;
    status.on_failure = one_of(value.get("pf"), &OnFailure::ALL)?;
    status.cancelled = value.get("ca").is_set();
    (status.sealed_at, status.settled_at) = (at("se")?, at("st")?);
    status.until = at("un")?;
    status.changes = value.get("ch").number()?;
    status.planned = value.get("pl").number()?;
    let callbacks = value.get("cb").list()?.iter().map(|one| match one.list()? {
        [role, fired, id] => {
            let callback = Callback::new(one_of(role, &Role::ALL)?, inspect::id(id)?);
            Ok(callback.fired(fired.is_set()))
        }
        _ => Err(damaged()),
    });
    status.callbacks = callbacks.collect::<Result<_>>()?;
    status.state = FlowState::of(&status);
    Ok(status)
}

fn counts(value: &Mp) -> Result<FlowCounts> {
    let numbers: Vec<u64> = (value.list()?.iter().map(Mp::number)).collect::<Result<_>>()?;
    let [steps, open, completed, skipped, cancelled, dead] = numbers[..] else {
        return Err(damaged());
    };
    let mut counts = FlowCounts::default();
    (counts.steps, counts.open, counts.completed) = (steps, open, completed);
    (counts.skipped, counts.cancelled, counts.dead) = (skipped, cancelled, dead);
    Ok(counts)
}

fn step(value: &Mp) -> Result<StepStatus> {
    let [
        name,
        id,
        state,
        skipped,
        waits,
        number,
        sent,
        parents,
        result @ ..,
    ] = value.list()?
    else {
        return Err(damaged());
    };
    let state = state_of(state.number()? as usize)?;
    let mut step = StepStatus::new(name.text()?, inspect::id(id)?, state, number_32(number)?);
    step.skipped = skipped.is_set();
    step.waits = number_32(waits)?;
    step.outside = parents.list()?.iter().map(outside).collect::<Result<_>>()?;
    step.sent = (sent.bytes()?.try_into())
        .map(u64::from_be_bytes)
        .map_err(|_| damaged())?;
    let result = result.first().map(Mp::bytes).transpose()?;
    step.result = result.map(Bytes::copy_from_slice);
    Ok(step)
}

fn outside(value: &Mp) -> Result<Outside> {
    let [job, on, met, state @ ..] = value.list()? else {
        return Err(damaged());
    };
    let state = state
        .first()
        .map(|state| state_of(state.number()? as usize));
    let outside = Outside::new(inspect::id(job)?, one_of(on, &On::ALL)?);
    Ok(outside.met(met.is_set()).state(state.transpose()?))
}

fn edge(value: &Mp) -> Result<Edge> {
    let [from, to, on, met] = value.list()? else {
        return Err(damaged());
    };
    let (from, to) = (inspect::id(from)?, inspect::id(to)?);
    Ok(Edge::new(from, to, one_of(on, &On::ALL)?).met(met.is_set()))
}

fn one_of<T: Copy>(number: &Mp, all: &[T]) -> Result<T> {
    let index = number.number()? as usize;
    all.get(index).copied().ok_or_else(damaged)
}
