//! What settles must know of the jobs of leases that this process returned: headers that follow-ups
//! inherit or count, and of jobs with a callback what it reports.
//!
//! With it a settle makes no other call to the engine. Jobs of a lease that another process
//! returned, or that is no longer known, are read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use punctual::engine::{Claimed, Settlement, Token};
use punctual::sync::Lock;
use punctual::topic::DEPTH_HEADER;
use punctual::{JobId, JobRecord, Namespace, NewJob, Outcome, push, trace};

/// Leases that are known at most; the oldest is forgotten first.
const LEASES_MAX: usize = 16_384;

/// Bytes that jobs of all known leases take, at most.
const BYTES_MAX: usize = 32 << 20;

/// The leases that this gateway returned lately.
#[derive(Debug, Default)]
pub(crate) struct KnownLeases(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    leases: HashMap<(Namespace, Token), Arc<KnownLease>>,
    oldest_first: VecDeque<(Namespace, Token)>,
    bytes: usize,
}

/// The jobs of one lease that matter to a settle, by id.
#[derive(Debug, Default)]
pub(crate) struct KnownLease {
    jobs: Vec<(JobId, Arc<KnownJob>)>,
    bytes: usize,
}

/// A job as far as a settle needs it. Headers, queue, kind and failures of an active job never
/// change.
#[derive(Debug)]
pub(crate) struct KnownJob {
    /// Those that follow-ups inherit or count.
    headers: Vec<(String, String)>,
    /// The record without what no callback reports, if the job asked for one.
    reported: Option<Box<JobRecord>>,
}

impl KnownLeases {
    /// Notes what was claimed.
    pub(crate) fn learn(&self, namespace: &Namespace, claimed: &Claimed) {
        for lease in &claimed.leases {
            let known = KnownLease::of(&lease.jobs);
            self.lock().insert((namespace.clone(), lease.token), known);
        }
    }

    /// What is known of a lease of the namespace, if anything.
    pub(crate) fn get(&self, namespace: &Namespace, token: Token) -> Option<Arc<KnownLease>> {
        let known = self.lock();
        known.leases.get(&(namespace.clone(), token)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.locked()
    }
}

impl Known {
    fn insert(&mut self, key: (Namespace, Token), lease: KnownLease) {
        self.bytes += lease.bytes;
        match self.leases.insert(key.clone(), Arc::new(lease)) {
            // The answer to a claim that came again has the lease of the first.
            Some(before) => self.bytes -= before.bytes,
            None => self.oldest_first.push_back(key),
        }
        while self.leases.len() > LEASES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.oldest_first.pop_front() else {
                return;
            };
            let gone = self.leases.remove(&oldest);
            self.bytes -= gone.map_or(0, |lease| lease.bytes);
        }
    }
}

impl KnownLease {
    fn of(jobs: &[JobRecord]) -> Self {
        let known = |job: &JobRecord| Some((job.id, Arc::new(KnownJob::of(job)?)));
        let mut jobs: Vec<_> = jobs.iter().filter_map(known).collect();
        jobs.sort_unstable_by_key(|(id, _)| *id);
        let bytes = jobs.iter().map(|(_, job)| job.bytes()).sum();
        Self { jobs, bytes }
    }

    /// The job, if it matters to a settle.
    pub(crate) fn job(&self, id: JobId) -> Option<&Arc<KnownJob>> {
        let place = self.jobs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.jobs[place].1)
    }
}

impl KnownJob {
    /// Nothing, if neither a callback nor anything else follows from the job.
    pub(crate) fn of(job: &JobRecord) -> Option<Self> {
        let asks = push::header(&job.headers, push::CALLBACK).is_some();
        let counts = push::header(&job.headers, DEPTH_HEADER).is_some();
        if !asks && !counts && trace::parent(&job.headers).is_none() {
            return None;
        }
        let is_used = |(name, _): &&(String, String)| {
            let used = [push::CALLBACK, DEPTH_HEADER, "traceparent", "tracestate"];
            used.iter().any(|used| used.eq_ignore_ascii_case(name))
        };
        let headers: Vec<_> = job.headers.iter().filter(is_used).cloned().collect();
        let reported = asks.then(|| Box::new(without_bodies(job, &headers)));
        Some(Self { headers, reported })
    }

    /// Whether what follows from a settlement is known here. It is not where a callback depends on
    /// whether the job's cancel was requested since the claim.
    pub(crate) fn is_enough_for(&self, one: &Settlement) -> bool {
        let ends = matches!(
            one.outcome,
            Outcome::Completed | Outcome::Dead | Outcome::Cancelled
        );
        ends || self.reported.is_none()
    }

    /// Those that follow-ups inherit or count.
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The job that posts how it ended, if it asked for one and the settlement ends it.
    pub(crate) fn callback(&self, one: &Settlement) -> Option<NewJob> {
        push::callback(self.reported.as_deref()?, one)
    }

    /// About the memory that it takes.
    fn bytes(&self) -> usize {
        let texts = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + HEADER);
        let headers: usize = texts.sum();
        let reported = self.reported.as_ref().map_or(0, |job| {
            size_of::<JobRecord>() + job.queue.len() + job.kind.len() + headers
        });
        size_of::<Self>() + headers + reported
    }
}

/// Bytes of a header, besides its characters.
const HEADER: usize = size_of::<(String, String)>();

/// What a callback reports of a job, which has these headers then.
fn without_bodies(job: &JobRecord, headers: &[(String, String)]) -> JobRecord {
    let mut job = job.clone();
    job.headers = headers.to_vec();
    job.payload = Bytes::new();
    (job.progress, job.result, job.last_error) = (None, None, None);
    (job.attempts, job.log, job.memos) = (Vec::new(), Vec::new(), Vec::new());
    job.wait_for = Vec::new();
    job
}
