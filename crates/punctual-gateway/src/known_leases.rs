//! Which jobs of the leases that this process returned must be read again when they are settled.
//!
//! A settle of any other job makes no extra call to the engine. A lease that another process
//! returned, or that is no longer known, is read whole.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::engine::{Claimed, Settlement, Token};
use punctual::sync::Lock;
use punctual::{Effect, JobId, Namespace, push, trace};

/// Leases that are known at most; the oldest is forgotten first.
const LEASES_MAX: usize = 16_384;

/// Jobs of all known leases that have headers of interest, at most.
const JOBS_MAX: usize = 262_144;

/// The leases that this gateway returned lately.
#[derive(Debug, Default)]
pub(crate) struct KnownLeases(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    leases: HashMap<(Namespace, Token), Arc<KnownLease>>,
    oldest_first: VecDeque<(Namespace, Token)>,
    jobs: usize,
}

/// The jobs of one lease whose headers matter to a settle, sorted. Headers of an active job never
/// change.
#[derive(Debug, Default)]
pub(crate) struct KnownLease {
    with_callback: Vec<JobId>,
    with_trace: Vec<JobId>,
}

impl KnownLeases {
    /// Notes what was claimed.
    pub(crate) fn learn(&self, namespace: &Namespace, claimed: &Claimed) {
        if claimed.leases.is_empty() {
            return;
        }
        let mut known = self.lock();
        for lease in &claimed.leases {
            let ids = |has: fn(&[(String, String)]) -> bool| {
                let jobs = lease.jobs.iter().filter(|job| has(&job.headers));
                let mut ids: Vec<JobId> = jobs.map(|job| job.id).collect();
                ids.sort_unstable();
                ids
            };
            let noted = KnownLease {
                with_callback: ids(|headers| push::header(headers, push::CALLBACK).is_some()),
                with_trace: ids(|headers| trace::parent(headers).is_some()),
            };
            known.insert((namespace.clone(), lease.token), noted);
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
        self.jobs += lease.len();
        match self.leases.insert(key.clone(), Arc::new(lease)) {
            // The answer to a claim that came again has the lease of the first.
            Some(before) => self.jobs -= before.len(),
            None => self.oldest_first.push_back(key),
        }
        while self.leases.len() > LEASES_MAX || self.jobs > JOBS_MAX {
            let Some(oldest) = self.oldest_first.pop_front() else {
                return;
            };
            let gone = self.leases.remove(&oldest);
            self.jobs -= gone.map_or(0, |lease| lease.len());
        }
    }
}

impl KnownLease {
    /// Whether the job must be read before this settlement: it asked for a callback, or what its
    /// effects enqueue inherits its trace.
    pub(crate) fn needs(&self, one: &Settlement) -> bool {
        let enqueues = |effect: &Effect| matches!(effect, Effect::Enqueue(_));
        let is_in = |ids: &[JobId]| ids.binary_search(&one.id).is_ok();
        is_in(&self.with_callback) || one.effects.iter().any(enqueues) && is_in(&self.with_trace)
    }

    fn len(&self) -> usize {
        self.with_callback.len() + self.with_trace.len()
    }
}
