use punctual::engine::{EnqueueVerdict, Receipt};
use punctual::time::Timestamp;
use punctual::{Due, JobId, NewJob, Result};

use super::spec::write_job;
use super::{Instance, Reader, Writer, damaged};

/// `flags | count | (len | job)*`
pub(crate) fn request(instance: Instance, jobs: &[&NewJob]) -> Vec<u8> {
    let mut out = Writer::default();
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).any(|pair| pair[0] == pair[1]);
    out.bytes(&instance).u8(u8::from(twice)).u16(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let at = out.0.len();
        out.u32(0);
        write_job(&mut out, index, job);
        let length = (out.0.len() - at - 4) as u32;
        out.0[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    out.0
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
    Receipt {
        id: job.id,
        verdict: EnqueueVerdict::Created,
        due,
        late,
    }
}

fn receipt(reader: &mut Reader<'_>, id: JobId) -> Result<Receipt> {
    let verdict = reader.u8()?;
    let due = reader.instant()?;
    let late = reader.u8()? != 0;
    let verdict = verdict_of(verdict, reader.id()?)?;
    Ok(Receipt {
        id,
        verdict,
        due,
        late,
    })
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
        _ => return Err(damaged()),
    })
}
