//! The packed form of an enqueue.

use punctual::engine::{EnqueueVerdict, Receipt};
use punctual::time::Timestamp;
use punctual::{Due, JobId, NewJob, Result};

use super::bundle::{self, Sent};
use super::numbers::{ENQUEUE_BUNDLES, ENQUEUE_LINKED, ENQUEUE_TWICE, ENQUEUE_UNIFORM};
use super::spec::{due_of, write_spec};
use super::{CALL_US, Instance, Packed, Reader, Writer, damaged, flow};

/// `flags | count | (len | id | due | spec)*`; what all jobs share stands once in front of them,
/// and `bundle_min` of them and more that are alike stand in bundles behind.
pub(crate) fn request(instance: Instance, jobs: &[&NewJob], bundle_min: usize) -> Packed {
    if jobs.len() >= bundle_min
        && !has_twice(jobs)
        && let Some(bundles) = bundle::of_jobs(jobs, bundle_min)
    {
        return in_bundles(instance, jobs, bundles);
    }
    let mut out = Writer::default();
    let uniform = are_uniform(jobs);
    let is_linked = jobs.iter().any(|job| flow::is_linked(job));
    let flags = [
        (has_twice(jobs), ENQUEUE_TWICE),
        (uniform.is_some(), ENQUEUE_UNIFORM),
        (is_linked, ENQUEUE_LINKED),
    ];
    let flags = flags
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, bit)| bit)
        .sum();
    out.bytes(&instance).u8(flags).u16(jobs.len());
    if let Some(first) = uniform {
        let (kind, due) = due_of(first.due);
        out.u8(kind).u64(due).u8(first.priority).name(&first.queue);
    }
    for (index, job) in jobs.iter().enumerate() {
        let at = out.0.len();
        out.u32(0).id(job.id);
        if uniform.is_none() {
            let (kind, due) = due_of(job.due);
            out.u8(kind).u64(due);
        }
        write_spec(&mut out, index, job);
        let length = (out.0.len() - at - 4) as u32;
        out.0[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    if !is_linked {
        return out.0.into();
    }
    let mut links = Writer::default();
    for job in jobs {
        flow::write_link(&mut links, job);
    }
    Packed(vec![out.0, links.0])
}

fn in_bundles(instance: Instance, jobs: &[&NewJob], bundles: Vec<Sent>) -> Packed {
    let mut out = Writer::default();
    let (kind, due) = due_of(jobs[0].due);
    out.bytes(&instance)
        .u8(ENQUEUE_UNIFORM | ENQUEUE_BUNDLES)
        .u16(jobs.len());
    out.u8(kind).u64(due).u8(jobs[0].priority);
    out.name(&jobs[0].queue).u8(bundles.len() as u8);
    let mut arguments = vec![out.0];
    for bundle in bundles {
        arguments.extend([bundle.head, bundle.payloads]);
    }
    Packed(arguments)
}

/// About how long the call keeps the server, in microseconds.
pub(crate) fn cost_us(jobs: &[&NewJob]) -> usize {
    let cost = |job: &&NewJob| {
        let has_line = job.group.is_some() || job.share.is_some();
        let store = match (job.is_plain(), job.due, has_line) {
            (true, Due::Now, _) => 2,
            (true, _, _) => 5,
            (false, _, false) => 6,
            (false, _, true) => 12,
        };
        let links = match flow::is_linked(job) {
            true => 10 + 5 * job.after.len(),
            false => 0,
        };
        store + links + job.payload.len() / 128
    };
    jobs.iter().map(cost).sum::<usize>() + CALL_US
}

fn has_twice(jobs: &[&NewJob]) -> bool {
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids.windows(2).any(|pair| pair[0] == pair[1])
}

/// The first of jobs that differ in nothing that the functions look at.
fn are_uniform<'a>(jobs: &[&'a NewJob]) -> Option<&'a NewJob> {
    let first = *jobs.first()?;
    let same = |job: &&NewJob| {
        job.is_plain()
            && job.due == first.due
            && job.priority == first.priority
            && job.queue == first.queue
    };
    jobs.iter().all(same).then_some(first)
}

/// What became of the jobs that were sent, in order.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) now: Timestamp,
    pub(crate) instance: Instance,
    pub(crate) receipts: Vec<Receipt>,
}

pub(crate) fn reply(bytes: &[u8], jobs: &[&NewJob]) -> Result<Reply> {
    let mut reader = Reader(bytes);
    let now = reader.instant()?;
    let instance = reader.instance()?;
    let receipts = match reader.u8()? {
        0 => Ok(jobs.iter().map(|job| created(job, now)).collect()),
        1 => jobs
            .iter()
            .map(|job| receipt(&mut reader, job.id))
            .collect(),
        _ => Err(damaged()),
    };
    Ok(Reply {
        now,
        instance,
        receipts: receipts?,
    })
}

fn created(job: &NewJob, now: Timestamp) -> Receipt {
    let (due, late) = match job.due {
        Due::Now => (now, false),
        Due::After(span) => (now + span, false),
        Due::At(at) => (at.max(now), at < now),
    };
    Receipt::new(job.id, EnqueueVerdict::Created, due).late(late)
}

fn receipt(reader: &mut Reader<'_>, id: JobId) -> Result<Receipt> {
    let verdict = reader.u8()?;
    let due = reader.instant()?;
    let late = reader.u8()? != 0;
    let verdict = verdict_of(verdict, reader.id()?)?;
    Ok(Receipt::new(id, verdict, due).late(late))
}

pub(super) fn verdict_of(number: u8, other: JobId) -> Result<EnqueueVerdict> {
    Ok(match number {
        0 => EnqueueVerdict::Created,
        1 => EnqueueVerdict::Duplicate,
        2 => EnqueueVerdict::Merged(other),
        3 => EnqueueVerdict::Replaced(other),
        4 => EnqueueVerdict::IdConflict,
        5 => EnqueueVerdict::UniqueActive(other),
        6 => EnqueueVerdict::Full,
        9 => EnqueueVerdict::Refreshed(other),
        7 => EnqueueVerdict::ParentUnknown(other),
        8 => EnqueueVerdict::FlowClosed,
        10 => EnqueueVerdict::LimitFull(other.as_bytes()[0]),
        11 => EnqueueVerdict::ShareFull((u128::from_be_bytes(*other.as_bytes()) >> 64) as u64),
        _ => return Err(damaged()),
    })
}
