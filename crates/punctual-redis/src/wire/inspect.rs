//! The maps of get and list.

use punctual::engine::{
    Cursor, Explanation, Filter, Got, List, ListBy, Listing, Reason, Target, WorkerId,
};
use punctual::job::{CancelReason, DeadReason};
use punctual::{JobId, JobRecord, JobState, Result};

use super::control::{rate, when_full};
use super::mp::{MapWriter, Mp, instant, read_instant};
use super::record::{number_32, read_job_view, read_view, state_of};
use super::{damaged, micros};

pub(crate) fn targets(targets: &[&Target]) -> Vec<Mp> {
    let target = |target: &&Target| {
        Mp::List(match target {
            Target::Id(id) => vec![id.as_bytes().as_slice().into()],
            Target::Unique { queue, key } => vec![queue.into(), key.into()],
        })
    };
    targets.iter().map(target).collect()
}

pub(crate) fn get_request(of: &[&Target], explain: bool) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("t", targets(of));
    if explain {
        map.put("x", 1_u8);
    }
    map
}

pub(crate) fn get_reply(reply: &Mp, asked: usize, explain: bool) -> Result<Vec<Option<Got>>> {
    let views = reply.get("j").list()?;
    let reasons = reply.get("x").list()?;
    if views.len() != asked || explain && reasons.len() != asked {
        return Err(damaged());
    }
    let mut got = Vec::with_capacity(asked);
    for (index, view) in views.iter().enumerate() {
        let job = match read_view(view.bytes()?)? {
            Some(Got::Job(job, None)) if explain => {
                let reasons = reasons[index].list()?.iter();
                let reasons: Result<_> = reasons.map(|it| reason(it, &job)).collect();
                Some(Got::Job(job, Some(Explanation::new(reasons?))))
            }
            job => job,
        };
        got.push(job);
    }
    Ok(got)
}

fn reason(value: &Mp, job: &JobRecord) -> Result<Reason> {
    let parts = value.list()?;
    let (code, fields) = parts.split_first().ok_or_else(damaged)?;
    let at = |index: usize| fields.get(index).ok_or_else(damaged);
    Ok(match code.number()? {
        0 => Reason::NotDue {
            due: read_instant(at(0)?)?,
        },
        1 => Reason::WaitsForRetry {
            due: read_instant(at(0)?)?,
            failures: number_32(at(1)?)?,
        },
        2 => Reason::WaitsForNames {
            names: fields.iter().map(Mp::text).collect::<Result<_>>()?,
        },
        3 => Reason::WaitsForHolder {
            holder: id(at(0)?)?,
        },
        4 => Reason::QueuePaused,
        5 => Reason::GroupActive { by: id(at(0)?)? },
        6 => Reason::GroupHeld {
            by: id(at(0)?)?,
            until: read_instant(at(1)?)?,
        },
        7 => Reason::Suspect {
            crashes: number_32(at(0)?)?,
        },
        8 => Reason::NoWorker,
        9 => Reason::NoWorkerForKind {
            kind: job.kind.clone(),
        },
        10 => Reason::InLine {
            ahead: at(0)?.number()? as usize,
        },
        11 => Reason::Active {
            worker: WorkerId(job.worker.ok_or_else(damaged)?),
            since: job.started_at.ok_or_else(damaged)?,
            until: job.lease_until.ok_or_else(damaged)?,
        },
        12 => Reason::Completed,
        13 => Reason::Cancelled {
            reason: job.cancelled.unwrap_or(CancelReason::Requested),
        },
        14 => Reason::Dead {
            reason: job.dead.unwrap_or(DeadReason::Permanent),
            error: job.last_error.clone(),
        },
        16 => Reason::ConcurrencyReached {
            limit: at(0)?.number()?,
            active: at(1)?.number()?,
        },
        17 => Reason::RateReached {
            rate: rate(at(0)?)?,
            until: read_instant(at(1)?)?,
        },
        18 => Reason::WaitsForJobs {
            waits: number_32(at(0)?)?,
            some: fields[1..].chunks(2).map(parent).collect::<Result<_>>()?,
        },
        19 => Reason::FlowOpen {
            flow: at(0)?.text()?,
        },
        20 => Reason::WaitsForFlow {
            flow: at(0)?.text()?,
            open: at(1)?.number()?,
        },
        21 => Reason::ShareBlocked {
            share: at(0)?.text()?,
            until: read_instant(at(1)?)?,
        },
        22 => Reason::ShareConcurrencyReached {
            share: at(0)?.text()?,
            limit: at(1)?.number()?,
            active: at(2)?.number()?,
        },
        23 => Reason::ShareRateReached {
            share: at(0)?.text()?,
            rate: rate(at(1)?)?,
            until: read_instant(at(2)?)?,
        },
        24 => Reason::ShareTurn {
            share: at(0)?.text()?,
            ahead: at(1)?.number()? as usize,
        },
        28 => Reason::SharePaused {
            share: at(0)?.text()?,
        },
        code @ 25..=27 => of_limit(code, fields)?,
        15 => Reason::NeverReleased {
            by: id(at(0)?)?,
            state: state_of(at(1)?.number()? as usize)?,
        },
        _ => return Err(damaged()),
    })
}

/// What a named limit says, whose name comes first.
fn of_limit(code: u64, fields: &[Mp]) -> Result<Reason> {
    let at = |index: usize| fields.get(index).ok_or_else(damaged);
    let name = at(0)?.text()?;
    Ok(match code {
        25 => Reason::LimitBlocked {
            name,
            until: read_instant(at(1)?)?,
        },
        26 => Reason::LimitConcurrencyReached {
            name,
            limit: at(1)?.number()?,
            active: at(2)?.number()?,
            when_full: when_full(at(3)?)?,
        },
        _ => Reason::LimitRateReached {
            name,
            rate: rate(at(1)?)?,
            until: read_instant(at(2)?)?,
        },
    })
}

pub(crate) fn id(value: &Mp) -> Result<JobId> {
    let bytes = value.bytes()?.try_into().map_err(|_| damaged())?;
    Ok(JobId::from_bytes(bytes))
}

pub(crate) fn list_request(list: &List, cursor: Option<&[u8]>, limit: usize) -> MapWriter {
    let mut map = MapWriter::default();
    match &list.by {
        ListBy::State { queue, state } => {
            map.put("by", 1_u8).put("q", queue).put("s", *state as u8);
        }
        ListBy::Unique { queue, key } => {
            map.put("by", 2_u8).put("q", queue).put("k", key);
        }
        ListBy::Group { queue, key } => {
            map.put("by", 3_u8).put("q", queue).put("k", key);
        }
        ListBy::Limit { name } => {
            map.put("by", 5_u8).put("k", name);
        }
        _ => {
            map.put("by", 4_u8);
        }
    }
    map.put_some("f", filter(&list.filter));
    map.put_some("cu", cursor);
    map.put("li", limit);
    if list.payloads {
        map.put("p", 1_u8);
    }
    map
}

/// A job that another one waits for: its id and state.
fn parent(pair: &[Mp]) -> Result<(JobId, JobState)> {
    match pair {
        [job, state] => Ok((id(job)?, state_of(state.number()? as usize)?)),
        _ => Err(damaged()),
    }
}

/// What must hold; nothing for an empty filter.
pub(crate) fn filter(filter: &Filter) -> Option<Mp> {
    let mut pairs = Vec::new();
    let mut put = |key: &str, value: Option<Mp>| {
        if let Some(value) = value {
            pairs.push((Mp::from(key), value));
        }
    };
    put("q", filter.queue.as_ref().map(Mp::from));
    put("s", filter.state.map(|state| (state as u8).into()));
    put("k", filter.kind.as_ref().map(Mp::from));
    put("te", filter.text.as_ref().map(Mp::from));
    put("df", filter.due_from.map(instant));
    put("db", filter.due_before.map(instant));
    put("er", filter.error.as_ref().map(Mp::from));
    put("ol", filter.older_than.map(|span| micros(span).into()));
    (!pairs.is_empty()).then_some(Mp::Map(pairs))
}

pub(crate) fn list_reply(reply: &Mp) -> Result<Listing> {
    let views = reply.get("j").list()?.iter();
    let jobs = views.map(|view| read_job_view(view.bytes()?));
    let now = read_instant(reply.get("n"))?;
    let mut listing = Listing::new(jobs.collect::<Result<_>>()?, now);
    listing.examined = reply.get("ex").number()? as usize;
    listing.cursor = cursor(reply)?;
    Ok(listing)
}

pub(crate) fn cursor(reply: &Mp) -> Result<Option<Cursor>> {
    let cursor = reply
        .get("cu")
        .some(|cursor| cursor.bytes().map(<[u8]>::to_vec))?;
    let cursor = cursor.filter(|cursor| !cursor.is_empty());
    Ok(cursor.map(|cursor| Cursor(cursor.into())))
}

/// The state with that number in a reply.
pub(crate) fn state(value: &Mp) -> Result<JobState> {
    super::record::state_of(value.number()? as usize)
}
