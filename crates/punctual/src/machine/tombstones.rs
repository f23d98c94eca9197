//! When tombstones go: at the end of their time, and the oldest earlier while they are too many
//! bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Machine;
use super::rows::*;
use crate::engine::resend_problem;
use crate::error::{Error, ErrorKind, Result};
use crate::job::TOMBSTONE_BYTES;
use crate::time::Timestamp;

/// The orders in which tombstones go, with the bytes of each.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    /// By the instant at which their job settled.
    by_age: BTreeMap<(Timestamp, JobKey), u32>,
    /// Those of jobs with a `remember`, by the instant until which it lasts.
    remembered: BTreeMap<(Timestamp, JobKey), u32>,
    /// Bytes of all.
    bytes: u64,
    /// Bytes of those that are remembered.
    remembered_bytes: u64,
    /// The last instant of a tombstone that went before its time.
    gone_early: Option<Timestamp>,
}

impl Tombstones {
    fn add(&mut self, key: JobKey, tombstone: &Tombstone) {
        let bytes = bytes_of(tombstone);
        self.bytes += u64::from(bytes);
        match tombstone.remembered {
            Some(until) => {
                self.remembered_bytes += u64::from(bytes);
                self.remembered.insert((until, key), bytes);
            }
            None => drop(self.by_age.insert((tombstone.finished_at, key), bytes)),
        }
    }

    fn remove(&mut self, key: &JobKey, tombstone: &Tombstone) {
        let at = |at: Timestamp| (at, key.clone());
        match tombstone.remembered {
            Some(until) => {
                let bytes = self.remembered.remove(&at(until)).unwrap_or(0);
                self.count_out(bytes, true);
            }
            None => {
                let bytes = self.by_age.remove(&at(tombstone.finished_at)).unwrap_or(0);
                self.count_out(bytes, false);
            }
        }
    }

    fn count_out(&mut self, bytes: u32, is_remembered: bool) {
        let bytes = u64::from(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if is_remembered {
            self.remembered_bytes = self.remembered_bytes.saturating_sub(bytes);
        }
    }

    /// Takes one out that is past its time.
    fn pop_over(&mut self, now: Timestamp, window: Duration) -> Option<JobKey> {
        let first = self.by_age.first_entry();
        if let Some(first) = first.filter(|first| first.key().0 + window <= now) {
            let ((_, key), bytes) = first.remove_entry();
            self.count_out(bytes, false);
            return Some(key);
        }
        let first = self.remembered.first_entry();
        let ((_, key), bytes) = first.filter(|first| first.key().0 <= now)?.remove_entry();
        self.count_out(bytes, true);
        Some(key)
    }

    /// Takes one out whatever its time: the oldest, and of those that are remembered only if there
    /// is no other.
    fn pop_oldest(&mut self) -> Option<JobKey> {
        if let Some(((finished_at, key), bytes)) = self.by_age.pop_first() {
            self.count_out(bytes, false);
            self.gone_early = self.gone_early.max(Some(finished_at));
            return Some(key);
        }
        let ((_, key), bytes) = self.remembered.pop_first()?;
        self.count_out(bytes, true);
        Some(key)
    }

    /// When the next one is past its time.
    pub(super) fn next(&self, window: Duration) -> Option<Timestamp> {
        let by_age = self
            .by_age
            .first_key_value()
            .map(|((at, _), _)| *at + window);
        let remembered = self.remembered.first_key_value().map(|((at, _), _)| *at);
        by_age.into_iter().chain(remembered).min()
    }

    /// Bytes in memory of these orders, about.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.by_age.len() + self.remembered.len()) * 48
    }
}

/// What a tombstone counts against the bound.
fn bytes_of(tombstone: &Tombstone) -> u32 {
    let result = tombstone.result.as_ref().map_or(0, bytes::Bytes::len);
    u32::try_from(TOMBSTONE_BYTES + result).unwrap_or(u32::MAX)
}

impl Machine {
    /// Puts a tombstone where a job was, and lets older ones go while all are too many bytes.
    pub(super) fn leave_tombstone(&mut self, key: JobKey, tombstone: Tombstone) {
        self.derived.tombstones.add(key.clone(), &tombstone);
        self.rows
            .tombstones
            .insert_forgettable(&mut self.journal, key, tombstone);
        while self.derived.tombstones.bytes > self.limits.tombstone_bytes as u64 {
            let Some(key) = self.derived.tombstones.pop_oldest() else {
                break;
            };
            // Recovery drops old tombstones by itself: nothing to write.
            self.rows.tombstones.forget(&key);
        }
    }

    /// Refuses a job that is to be remembered while those of others have their share of the bound.
    pub(super) fn may_remember(&self) -> Result<()> {
        let held = self.derived.tombstones.remembered_bytes;
        if held < self.limits.tombstone_bytes as u64 / 2 {
            return Ok(());
        }
        let message = "tombstones of jobs with a `remember` have reached their share of the bound, half \
             of it; send without `remember`, or later";
        let error = Error::new(ErrorKind::EngineFull, message);
        Err(error.with("bytes", held))
    }

    /// Removes a tombstone for good.
    pub(super) fn remove_tombstone(&mut self, key: &JobKey, tombstone: &Tombstone) {
        self.rows.tombstones.remove(&mut self.journal, key);
        self.derived.tombstones.remove(key, tombstone);
    }

    /// Forgets tombstones past their time; how many.
    pub(super) fn prune_tombstones(&mut self, limit: usize) -> usize {
        let mut pruned = 0;
        while pruned < limit {
            let tombstones = &mut self.derived.tombstones;
            let Some(key) = tombstones.pop_over(self.now, self.limits.settled_window) else {
                break;
            };
            self.rows.tombstones.forget(&key);
            pruned += 1;
        }
        pruned
    }

    /// Takes in the tombstones that were read back.
    pub(super) fn index_tombstones(&mut self, all: Vec<(JobKey, Tombstone)>) {
        for (key, tombstone) in all {
            self.derived.tombstones.add(key, &tombstone);
        }
        // What went early before is not on record: a bound that is reached says that something did.
        let tombstones = &mut self.derived.tombstones;
        if tombstones.bytes + NEARLY > self.limits.tombstone_bytes as u64 {
            let oldest = tombstones.by_age.first_key_value();
            tombstones.gone_early = oldest.map(|((at, _), _)| *at);
        }
    }

    /// How long ago a job may have settled whose id is recognised for sure: the
    /// [settled window](Self::settled_window), or less after tombstones went early.
    pub fn resend_window(&self) -> Duration {
        let gone_early = self.derived.tombstones.gone_early;
        let held = gone_early.map_or(Duration::MAX, |at| self.now - at);
        held.min(self.limits.settled_window)
    }

    /// What is wrong if resends are recognised for less than the settled window.
    pub fn resend_problem(&self) -> Option<String> {
        resend_problem(self.resend_window(), self.limits.settled_window)
    }
}

/// Bytes below the bound that a few tombstones with results may have left.
const NEARLY: u64 = 64 << 10;
