//! How late handlers started, by what was broken meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job_timelines::Case;

/// Lateness of first attempts, by the fault that held or had just ended; `quiet` for none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Lateness(pub(crate) BTreeMap<String, Spread>);

/// Counts by buckets, so that rounds add up: a bucket is a power of the fourth root of two, in
/// microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Spread(pub(crate) BTreeMap<u32, u64>);

/// A fault is said to be the cause for so long after it is over.
const AFTERMATH_US: u64 = 1_000_000;

impl Lateness {
    pub(crate) fn of(case: &Case) -> Self {
        let mut lateness = Self::default();
        if case.keeps_other_time() {
            return lateness;
        }
        for start in case
            .jobs
            .values()
            .flat_map(|timeline| &timeline.starts)
            .filter(|start| start.attempt == 1)
        {
            let late = start.wall.saturating_sub(start.due);
            let from = start.at.saturating_sub(late);
            let mut named: Vec<&str> = Vec::new();
            let after = case.faults.partition_point(|fault| fault.from <= start.at);
            for fault in &case.faults[after.saturating_sub(NEAR)..after] {
                let may_be_why = fault.until.saturating_add(AFTERMATH_US) >= from;
                if may_be_why && !named.contains(&&*fault.id) {
                    lateness.0.entry(fault.id.clone()).or_default().add(late);
                    named.push(&fault.id);
                }
            }
            if named.is_empty() {
                lateness.0.entry("quiet".into()).or_default().add(late);
            }
        }
        lateness
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (fault, spread) in &other.0 {
            self.0.entry(fault.clone()).or_default().merge(spread);
        }
    }
}

/// Faults that began longer ago than so many others are over.
const NEAR: usize = 40;

impl Spread {
    pub(super) fn add(&mut self, micros: u64) {
        let bucket = (f64::from(u32::try_from(micros.max(1)).unwrap_or(u32::MAX)).log2() * 4.0)
            .ceil() as u32;
        *self.0.entry(bucket).or_insert(0) += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_insert(0) += count;
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bound below which that share lies, in microseconds.
    pub(crate) fn share(&self, share: f64) -> u64 {
        let all = self.count();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return 2_f64.powf(f64::from(*bucket) / 4.0) as u64;
            }
        }
        0
    }
}
