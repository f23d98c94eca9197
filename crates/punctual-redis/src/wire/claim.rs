//! The packed form of a claim.

use std::collections::BTreeMap;

use punctual::engine::{
    Claim, ClaimMode, ClaimOrder, Claimed, Lease, LimitedQueue, Token, WakeBy, WorkerId,
    WorkerPlace, WorkerRecord,
};
use punctual::time::Timestamp;
use punctual::{JobId, JobRecord, JobState, Result};

use super::bundle::{self, Run};
use super::mp::{MapWriter, Mp};
use super::numbers::{
    CLAIM_ALONE, CLAIM_BUNDLES, CLAIM_READS, CLAIM_READS_EXT, CLAIM_RETURNS, CLAIM_TURNS,
    CLAIM_WOKEN, CLAIMED_ANOTHER, CLAIMED_BUNDLES, CLAIMED_LIMITED, CLAIMED_NAMED, CLAIMED_SHARES,
    CLAIMED_SUSPECTS, CLAIMED_UNSEEN, REC_CORE, TAG_PLAIN, TAG_WAITING,
};
use super::record::{Holder, number_32, read_record, texts};
use super::{CALL_US, Instance, Reader, Writer, damaged, micros};

/// What stands in a record for its ext if nothing is in it.
const EMPTY_EXT: [u8; 5] = [0, 0, 0, 1, 0x80];

/// What a claimer reads by itself, a round trip later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nothing: its answer is to have the records.
    Nothing,
    /// Records of large leases, and payloads of bundles.
    Unseen,
}

pub(crate) fn request(instance: Instance, claim: &Claim, woken: bool, reads: Reads) -> Vec<u8> {
    let mut flags = 0;
    for (set, bit) in [
        (
            reads == Reads::Unseen,
            CLAIM_READS | CLAIM_BUNDLES | CLAIM_READS_EXT,
        ),
        (claim.mode == ClaimMode::Alone, CLAIM_ALONE),
        (claim.order == ClaimOrder::Turns, CLAIM_TURNS),
        (woken, CLAIM_WOKEN),
        (claim.place == WorkerPlace::WithEngine, CLAIM_RETURNS),
    ] {
        flags |= if set { bit } else { 0 };
    }
    let mut out = Writer::default();
    out.bytes(&instance);
    out.u64(claim.nonce);
    out.bytes(&claim.worker.id.0.to_be_bytes());
    out.u64(micros(claim.lease_duration));
    out.u16(claim.limit);
    out.u32(claim.max_bytes);
    out.u8(flags).u8(claim.queues.len() as u8);
    for queue in &claim.queues {
        out.name(queue);
    }
    out.bytes(&worker_record(&claim.worker, claim.limit));
    out.0
}

/// About how long the call keeps the server, in microseconds.
pub(crate) fn cost_us(claim: &Claim) -> usize {
    CALL_US + claim.limit / 2
}

/// Empty if it names no queues: then it is not listed.
fn worker_record(worker: &WorkerRecord, limit: usize) -> Vec<u8> {
    if worker.queues.is_empty() {
        return MapWriter::default().packed();
    }
    let names = |names: &[String]| names.iter().map(Mp::from).collect::<Vec<_>>();
    let mut map = MapWriter::default();
    map.put("h", &worker.host);
    map.put("v", &worker.version);
    map.put("q", names(&worker.queues));
    map.put("k", names(&worker.kinds));
    map.put("s", worker.slots_for(limit));
    map.put("b", worker.busy);
    map.packed()
}

/// What a worker said of itself.
pub(super) fn read_worker(id: WorkerId, bytes: &[u8]) -> Result<WorkerRecord> {
    let map = Mp::read(bytes)?;
    let mut worker = WorkerRecord::new(id);
    // What a worker leaves out is as if it had said nothing of it.
    worker.host = map.get("h").some(Mp::text)?.unwrap_or_default();
    worker.version = map.get("v").some(Mp::text)?.unwrap_or_default();
    worker.queues = texts(map.get("q"))?;
    worker.kinds = texts(map.get("k"))?;
    worker.slots = map.get("s").some(number_32)?.unwrap_or_default();
    worker.busy = map.get("b").some(number_32)?.unwrap_or_default();
    Ok(worker)
}

/// What was claimed. The jobs of an unseen lease are to be read before it is whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) claimed: Claimed,
    pub(crate) cached: Vec<(Token, CachedLease)>,
    pub(crate) unseen: Option<Unseen>,
}

/// What is worth knowing of a lease until it is settled.
#[derive(Debug, Default)]
pub(crate) struct CachedLease {
    /// Of each job; none of a lease of bundles, where the server needs none.
    pub(crate) cores: Vec<Core>,
    pub(crate) kinds: Kinds,
    /// Of a lease of several jobs that are as they were sent, some of them with an ext.
    pub(crate) holds: Option<Holds>,
}

/// What the ends of jobs touch besides their records.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Whether a job may expire.
    pub(crate) expires: bool,
    pub(crate) keys: BTreeMap<JobId, String>,
}

/// The kinds of a lease's jobs.
#[derive(Debug, Default)]
pub(crate) enum Kinds {
    /// All are named after their queue.
    #[default]
    OfQueue,
    One(String),
    Each(BTreeMap<JobId, String>),
}

impl Kinds {
    fn of(jobs: &[JobRecord]) -> Self {
        let Some(first) = jobs.first() else {
            return Self::OfQueue;
        };
        if jobs.iter().all(|job| job.kind == job.queue) {
            Self::OfQueue
        } else if jobs.iter().all(|job| job.kind == first.kind) {
            Self::One(first.kind.clone())
        } else {
            let each = jobs.iter().map(|job| (job.id, job.kind.clone()));
            Self::Each(each.collect())
        }
    }

    /// About how many jobs' notes take as much memory.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Each(each) => 3 * each.len(),
            _ => 0,
        }
    }
}

impl Holds {
    fn of(jobs: &[JobRecord]) -> Self {
        let key = |job: &JobRecord| Some((job.id, job.unique.as_ref()?.key.clone()));
        Self {
            expires: jobs.iter().any(|job| job.expires_at.is_some()),
            keys: jobs.iter().filter_map(key).collect(),
        }
    }

    /// About how many jobs' notes take as much memory.
    pub(crate) fn weight(&self) -> usize {
        3 * self.keys.len()
    }
}

/// A lease whose records its claimer reads.
#[derive(Debug)]
pub(crate) struct Unseen {
    pub(crate) token: Token,
    holder: Holder,
    pub(crate) ids: Vec<JobId>,
    /// Where they are in bundles, if they are: then all of them, in order.
    pub(crate) runs: Vec<Run>,
}

pub(crate) fn reply(bytes: &[u8], worker: WorkerId) -> Result<Reply> {
    let mut reader = Reader(bytes);
    let now = reader.instant()?;
    let wake_at = reader.some_instant()?;
    let flags = reader.u8()?;
    let count = reader.u8()?;
    let mut claimed = Claimed::new(Vec::new(), now);
    claimed.wake_at = wake_at;
    claimed.suspects_wait = flags & CLAIMED_SUSPECTS != 0;
    if flags & CLAIMED_ANOTHER != 0 {
        claimed.wake_by = WakeBy::Another;
    }
    let mut reply = Reply {
        claimed,
        cached: Vec::new(),
        unseen: None,
    };
    for _ in 0..count {
        let mut head = head(&mut reader, worker)?;
        if flags & CLAIMED_BUNDLES != 0 {
            head.runs = bundle::runs(&mut reader)?;
        }
        if flags & CLAIMED_UNSEEN != 0 {
            reply.unseen = Some(head);
            break;
        }
        let lengths: Result<Vec<usize>> = head.ids.iter().map(|_| reader.u32()).collect();
        let records = lengths?.into_iter().map(|length| reader.take(length));
        let records: Vec<&[u8]> = records.collect::<Result<_>>()?;
        reply.add(head, records.into_iter().map(Some))?;
    }
    if flags & CLAIMED_LIMITED != 0 {
        reply.claimed.limited = limited(&mut reader)?;
    }
    if flags & CLAIMED_SHARES != 0 {
        opened(&mut reader, &mut reply.claimed.limited, |queue| {
            &mut queue.shares
        })?;
    }
    if flags & CLAIMED_NAMED != 0 {
        opened(&mut reader, &mut reply.claimed.limited, |queue| {
            &mut queue.limits
        })?;
    }
    reader.end()?;
    Ok(reply)
}

/// `count 1`, then `name, open since 8` each.
fn limited(reader: &mut Reader<'_>) -> Result<Vec<LimitedQueue>> {
    let count = reader.u8()?;
    let mut one = || {
        let length = usize::from(reader.u8()?);
        Ok(LimitedQueue::new(
            super::text(reader.take(length)?)?,
            reader.instant()?,
        ))
    };
    (0..count).map(|_| one()).collect()
}

/// `count 2`, then `the place of its queue 1, length 2, share or limit, open since 8` each.
fn opened(
    reader: &mut Reader<'_>,
    limited: &mut [LimitedQueue],
    of: impl Fn(&mut LimitedQueue) -> &mut Vec<(String, Timestamp)>,
) -> Result<()> {
    for _ in 0..reader.u16()? {
        let queue = usize::from(reader.u8()?);
        let length = reader.u16()?;
        let key = super::text(reader.take(length)?)?;
        let queue = limited.get_mut(queue).ok_or_else(damaged)?;
        of(queue).push((key, reader.instant()?));
    }
    Ok(())
}

/// `token | deadline | started | count | ids`
fn head(reader: &mut Reader<'_>, worker: WorkerId) -> Result<Unseen> {
    let token = reader.token()?;
    let deadline = reader.instant()?;
    let started = reader.instant()?;
    Ok(Unseen {
        token,
        holder: Holder {
            worker,
            started,
            deadline,
        },
        ids: reader.ids()?,
        runs: Vec::new(),
    })
}

impl Reply {
    /// Adds a lease with its jobs' records, in order; a job whose record is gone is of it no more.
    pub(crate) fn add<'a>(
        &mut self,
        lease: Unseen,
        records: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<()> {
        let mut jobs = Vec::with_capacity(lease.ids.len());
        let mut cores = Vec::with_capacity(lease.ids.len());
        let has_all = lease.runs.is_empty();
        let (mut untouched, mut examined) = (has_all, false);
        for (id, record) in lease.ids.into_iter().zip(records) {
            let Some(record) = record else { continue };
            if has_all {
                cores.push(core_of(id, record)?);
                untouched &= is_untouched(record);
                examined |= record.first() == Some(&TAG_WAITING);
            }
            jobs.push(read_record(
                id,
                JobState::Active,
                Some(lease.holder),
                record,
            )?);
        }
        if !jobs.is_empty() {
            let kinds = Kinds::of(&jobs);
            let holds = (untouched && examined && jobs.len() > 1).then(|| Holds::of(&jobs));
            let cached = CachedLease {
                cores,
                kinds,
                holds,
            };
            self.cached.push((lease.token, cached));
            self.claimed
                .leases
                .push(Lease::new(lease.token, lease.holder.deadline, jobs));
        }
        Ok(())
    }
}

/// Whether a record is as it was when its lease was opened: nothing was ever written to a job whose
/// record has no ext, or nothing in it, and no call takes out what was written.
pub(crate) fn is_untouched(record: &[u8]) -> bool {
    match record.first() {
        Some(&TAG_PLAIN) => true,
        Some(&TAG_WAITING) => record.get(31..36) == Some(&EMPTY_EXT),
        _ => false,
    }
}

/// Due and hash of a claimed job as they stand in its record: a settle that sends them saves the
/// server a read of it.
pub(crate) type Core = (JobId, [u8; 16]);

fn core_of(id: JobId, record: &[u8]) -> Result<Core> {
    let note = record.get(REC_CORE).and_then(|note| note.try_into().ok());
    Ok((id, note.ok_or_else(damaged)?))
}
