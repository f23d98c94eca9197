//! Clears that come before their jobs: kept for a while, and used by the enqueue that waits for
//! them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Machine;
use super::rows::*;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::bounds::EARLY_CLEAR_MS;
use crate::job::{JobId, JobRecord, JobState, NewJob, PastOutcome};
use crate::time::{Timestamp, millis};

/// How long a clear is kept whose job has not come.
const KEPT: Duration = millis(EARLY_CLEAR_MS);
/// Clears that one step forgets whose time is over: more than one step adds, mostly.
const FORGOTTEN_PER_STEP: usize = 64;

/// What the rows imply.
#[derive(Debug, Default)]
pub(super) struct EarlyClears {
    /// How many each namespace has, and when its oldest one goes.
    counts: FxHashMap<u32, (usize, Timestamp)>,
    /// Namespaces by when their oldest one goes.
    ends: BTreeSet<(Timestamp, u32)>,
}

fn key_of(key: &JobKey, name: &str) -> EarlyKey {
    EarlyKey {
        namespace: key.namespace,
        id: key.id,
        name: name.to_owned(),
    }
}

/// Where the clears of a namespace begin.
fn first_of(namespace: u32) -> EarlyEndKey {
    EarlyEndKey {
        namespace,
        until: Timestamp::ZERO,
        id: JobId::from_bytes([0; 16]),
        name: String::new(),
    }
}

impl Machine {
    /// Keeps the clear of a name of a job that is not known. The oldest one of a full namespace
    /// goes: a settle does not fail because of clears that no job waited for.
    pub(super) fn keep_clear(&mut self, job: &JobKey, name: &str) -> Result<()> {
        if is_injected(Bug::EarlyClearForgotten) {
            return Ok(());
        }
        self.forget_early_clear(key_of(job, name))?;
        let counts = &self.derived.early_clears.counts;
        let count = counts.get(&job.namespace).map_or(0, |(count, _)| *count);
        if count >= self.limits.early_clears {
            match self.oldest_early_clear(job.namespace)? {
                Some(oldest) => self.forget_early_clear(early_key(oldest))?,
                None => return Ok(()),
            }
        }
        let until = self.now + KEPT;
        let key = key_of(job, name);
        let end = end_of(&key, until);
        self.rows
            .early_clears
            .put(&mut self.journal, key, EarlyRow { until });
        self.rows.early_ends.put(&mut self.journal, end, ());
        self.derived.early_clears.add(job.namespace, until);
        Ok(())
    }

    /// Takes the names out of what a new job waits for that were cleared before it came. An import
    /// of an attempt that waits for signals goes by its own names.
    pub(super) fn use_early_clears(&mut self, key: &JobKey, job: &mut NewJob) -> Result<()> {
        if self.derived.early_clears.counts.is_empty() {
            return Ok(());
        }
        let names = match &mut job.history {
            None => &mut job.wait_for,
            Some(past) if waits_for_names(past) => &mut past.wait_for,
            Some(_) => return Ok(()),
        };
        self.take_early_clears(key, names)
    }

    fn take_early_clears(&mut self, job: &JobKey, names: &mut Vec<String>) -> Result<()> {
        let mut used = Vec::new();
        for name in names.iter() {
            let key = key_of(job, name);
            let row = self.rows.early_clears.get(&key)?;
            if row.is_some_and(|row| row.until > self.now) {
                self.forget_early_clear(key)?;
                used.push(name.clone());
            }
        }
        names.retain(|name| !used.contains(name));
        Ok(())
    }

    /// Forgets clears whose time is over, a bounded number in a step.
    pub(super) fn end_early_clears(&mut self) -> Result<()> {
        for _ in 0..FORGOTTEN_PER_STEP {
            let first = self.derived.early_clears.ends.first().copied();
            let Some((_, namespace)) = first.filter(|(at, _)| *at <= self.now) else {
                break;
            };
            let Some(oldest) = self.oldest_early_clear(namespace)? else {
                break;
            };
            self.forget_early_clear(early_key(oldest))?;
        }
        Ok(())
    }

    fn oldest_early_clear(&self, namespace: u32) -> Result<Option<EarlyEndKey>> {
        let (from, to) = (first_of(namespace), first_of(namespace + 1));
        let ends = &self.rows.early_ends;
        let first = ends.first(Bound::Included(&from), Bound::Excluded(&to))?;
        Ok(first.map(|(key, ())| key))
    }

    fn forget_early_clear(&mut self, key: EarlyKey) -> Result<()> {
        let Some(row) = self.rows.early_clears.get(&key)? else {
            return Ok(());
        };
        let end = end_of(&key, row.until);
        let namespace = key.namespace;
        self.rows.early_clears.remove(&mut self.journal, &key);
        self.rows.early_ends.remove(&mut self.journal, &end);
        let next = self.oldest_early_clear(namespace)?;
        let next = next.map(|next| next.until);
        self.derived.early_clears.remove(namespace, next);
        Ok(())
    }

    /// Counts the clears of every namespace again.
    pub(super) fn recover_early_clears(&mut self) -> Result<()> {
        let ends = &self.rows.early_ends;
        for (key, ()) in ends.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)? {
            self.derived.early_clears.add(key.namespace, key.until);
        }
        Ok(())
    }
}

/// Whether an imported job is held for names, and not in the middle of an attempt.
fn waits_for_names(past: &JobRecord) -> bool {
    let last = past.attempts.last().map(|last| last.outcome);
    past.state == JobState::Held && last != Some(PastOutcome::Hold)
}

fn early_key(end: EarlyEndKey) -> EarlyKey {
    EarlyKey {
        namespace: end.namespace,
        id: end.id,
        name: end.name,
    }
}

fn end_of(key: &EarlyKey, until: Timestamp) -> EarlyEndKey {
    EarlyEndKey {
        namespace: key.namespace,
        until,
        id: key.id,
        name: key.name.clone(),
    }
}

impl EarlyClears {
    /// One more, which goes after all others of its namespace.
    fn add(&mut self, namespace: u32, until: Timestamp) {
        let (count, first) = self.counts.entry(namespace).or_insert((0, until));
        *count += 1;
        self.ends.insert((*first, namespace));
    }

    /// One less; the oldest that is left goes `next`.
    fn remove(&mut self, namespace: u32, next: Option<Timestamp>) {
        let Some((count, first)) = self.counts.get_mut(&namespace) else {
            return;
        };
        self.ends.remove(&(*first, namespace));
        match next {
            Some(next) => {
                (*count, *first) = (*count - 1, next);
                self.ends.insert((next, namespace));
            }
            None => {
                self.counts.remove(&namespace);
            }
        }
    }
}
