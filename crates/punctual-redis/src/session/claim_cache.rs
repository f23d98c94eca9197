//! What this process remembers of its claims, so that settles cost the server no read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use punctual::JobId;
use punctual::engine::{ENDS_KEPT, LeaseReport, Token};
use punctual::sync::Lock;

use crate::wire::claim::{CachedLease, Holds, Kinds};
use crate::wire::settle::Known;

/// What is remembered of the leases that this process claimed, to settle them cheaply. Forgetting
/// costs the server a look at each job, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct ClaimCache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    leases: BTreeMap<Token, CachedLease>,
    order: VecDeque<(Token, usize)>,
    weight: usize,
}

/// Jobs that are remembered at the same time, some 40 bytes each.
const JOBS_MAX: usize = 100_000;
/// A lease itself weighs as much as so many jobs.
const LEASE_WEIGHT: usize = 4;

impl ClaimCache {
    pub(crate) fn insert(&self, leases: Vec<(Token, CachedLease)>) {
        let mut known = self.known();
        for (token, mut lease) in leases {
            lease.cores.sort_unstable();
            let weight = LEASE_WEIGHT
                + lease.cores.len()
                + lease.kinds.weight()
                + lease.holds.as_ref().map_or(0, Holds::weight);
            known.weight += weight;
            known.order.push_back((token, weight));
            known.leases.insert(token, lease);
        }
        while known.weight > JOBS_MAX {
            let Some((token, weight)) = known.order.pop_front() else {
                return;
            };
            known.weight -= weight;
            known.leases.remove(&token);
        }
    }

    /// What is known of a report's jobs, in their order.
    pub(crate) fn of(&self, report: &LeaseReport) -> Known {
        let known = self.known();
        let Some(lease) = known.leases.get(&report.token) else {
            return Known::default();
        };
        let core = |id: JobId| {
            let at = lease
                .cores
                .binary_search_by_key(&id, |(known, _)| *known)
                .ok()?;
            Some(lease.cores[at].1)
        };
        let ids = report.settlements.iter().map(|one| one.id);
        Known {
            cores: ids.map(core).collect(),
            kinds: kinds_of(&lease.kinds, report),
            holds: lease.holds.as_ref().map(|holds| {
                let ids = report.settlements.iter().map(|one| one.id);
                let keys = ids.map(|id| holds.keys.get(&id).cloned().unwrap_or_default());
                (holds.expires, keys.collect())
            }),
        }
    }

    fn known(&self) -> MutexGuard<'_, Cached> {
        self.0.locked()
    }
}

/// The kinds of the last jobs of a report, as many as are kept of a queue's ends: how many in a row
/// have which. No entry if all are named after their queue.
fn kinds_of(kinds: &Kinds, report: &LeaseReport) -> Option<Vec<(usize, String)>> {
    let from = report.settlements.len().saturating_sub(ENDS_KEPT);
    let last = &report.settlements[from..];
    match kinds {
        Kinds::OfQueue => Some(Vec::new()),
        Kinds::One(kind) => Some(vec![(last.len(), kind.clone())]),
        Kinds::Each(each) => {
            let mut runs: Vec<(usize, String)> = Vec::new();
            for settlement in last {
                let kind = each.get(&settlement.id)?;
                match runs.last_mut() {
                    Some((count, known)) if known == kind => *count += 1,
                    _ => runs.push((1, kind.clone())),
                }
            }
            Some(runs)
        }
    }
}
