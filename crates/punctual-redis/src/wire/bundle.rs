//! Jobs of one call that are stored together as they came.

use punctual::{Due, NewJob, Result};

use super::numbers::{BUNDLE_BYTES_MAX, BUNDLE_JOBS_MAX, TAG_PLAIN};
use super::spec::{are_alike, content_hash, write_front};
use super::{Reader, Writer, damaged};

/// A bundle as it is sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// `ids | hashes`
    pub(crate) head: Vec<u8>,
    /// `idx | count | largest | offsets | what all records share | payloads`
    pub(crate) payloads: Vec<u8>,
}

/// Binds a call's jobs, if they are alike, due at once, and small enough that each bundle has
/// `least` of them.
pub(crate) fn of_jobs(jobs: &[&NewJob], least: usize) -> Option<Vec<Sent>> {
    let first = *jobs.first()?;
    if first.due != Due::Now || !jobs.iter().all(|job| are_alike(first, job)) {
        return None;
    }
    let mut shared = Writer::default();
    write_front(&mut shared, first);
    let bytes: usize = jobs.iter().map(|job| job.payload.len() + 2).sum();
    let room = BUNDLE_BYTES_MAX.checked_sub(shared.0.len() + 8)?;
    // As many as are needed, and as even as can be.
    let count = jobs
        .len()
        .div_ceil(BUNDLE_JOBS_MAX)
        .max(bytes.div_ceil(room));
    let size = jobs.len().div_ceil(count.max(1));
    let count = jobs.len().div_ceil(size);
    if jobs.len() / count < least {
        return None;
    }
    let mut from = 0;
    (0..count)
        .map(|nth| {
            let till = jobs.len() * (nth + 1) / count;
            let bundle = bind(from, &jobs[from..till], &shared.0);
            from = till;
            bundle
        })
        .collect()
}

/// A bundle of jobs, the first of which is the call's `index`-th; none if it would be too large.
fn bind(index: usize, jobs: &[&NewJob], shared: &[u8]) -> Option<Sent> {
    let lengths = || jobs.iter().map(|job| job.payload.len());
    let mut offset = 8 + 2 * jobs.len() + shared.len();
    if offset + lengths().sum::<usize>() > BUNDLE_BYTES_MAX {
        return None;
    }
    let (mut head, mut payloads) = (Writer::default(), Writer::default());
    for job in jobs {
        head.id(job.id);
    }
    for job in jobs {
        head.u64(content_hash(job));
    }
    payloads.u16(index).u16(jobs.len());
    payloads.u16(lengths().max().unwrap_or(0)).u16(offset);
    for length in lengths() {
        offset += length;
        payloads.u16(offset);
    }
    payloads.bytes(shared);
    for job in jobs {
        payloads.bytes(&job.payload);
    }
    Some(Sent {
        head: head.0,
        payloads: payloads.0,
    })
}

/// Jobs in a row of a bundle.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: [u8; 11],
    /// From 1.
    from: usize,
    pub(crate) count: usize,
}

/// `count | (number | from | count | count of the bundle)*`
pub(crate) fn runs(reader: &mut Reader<'_>) -> Result<Vec<Run>> {
    let count = reader.u16()?;
    let run = |_| {
        let number = reader.array()?;
        let (from, count) = (reader.u16()?, reader.u16()?);
        reader.u16()?;
        Ok(Run {
            number,
            from,
            count,
        })
    };
    (0..count).map(run).collect()
}

impl Run {
    /// Adds the record of each of its jobs, as it would be stored but for the hash.
    pub(crate) fn read(&self, payloads: &[u8], records: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        let mut reader = Reader(payloads);
        let index = reader.u16()?;
        let count = reader.u16()?;
        reader.u16()?;
        let offsets: Result<Vec<usize>> = (0..=count).map(|_| reader.u16()).collect();
        let offsets = offsets?;
        let part = |from: usize, till: usize| payloads.get(from..till).ok_or_else(damaged);
        let shared = part(8 + 2 * count, offsets[0])?;
        for place in self.from..self.from + self.count {
            let ends = place.checked_sub(1).and_then(|at| offsets.get(at..=at + 1));
            let payload = match ends {
                Some(&[from, till]) => part(from, till)?,
                _ => return Err(damaged()),
            };
            let mut record = Writer(Vec::with_capacity(29 + shared.len() + payload.len()));
            record.u8(TAG_PLAIN).bytes(&self.number[..10]);
            record.bytes(&self.number[..8]).u64(0);
            record.u16(index + place - 1).bytes(shared).bytes(payload);
            records.push(Some(record.0));
        }
        Ok(())
    }
}
