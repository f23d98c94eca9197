//! What was: counts by minutes for a day, and the workers of the last minute. In memory only.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

use crate::engine::{MinuteStats, SAMPLE_US_MAX, WorkerRecord, WorkerSeen};
use crate::job::JobState;
use crate::time::{Timestamp, minutes};

const MINUTE_US: u64 = 60_000_000;
/// Minutes kept per queue.
const MINUTES: usize = 24 * 60;
/// Workers remembered per namespace.
const WORKERS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct History {
    queues: FxHashMap<u32, QueueHistory>,
    workers: FxHashMap<u32, BTreeMap<u128, (WorkerRecord, Timestamp)>>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "History of {} queues", self.queues.len())
    }
}

#[derive(Default)]
struct QueueHistory {
    minutes: VecDeque<MinuteStats>,
    /// Of the minute that runs.
    lateness: Option<Histogram<u64>>,
    run_time: Option<Histogram<u64>>,
}

impl History {
    pub(super) fn enqueued(&mut self, queue: u32, now: Timestamp) {
        self.minute(queue, now).enqueued += 1;
    }

    /// The last minute in which something was counted.
    pub(super) fn last_minute(&self, queue: u32) -> Option<Timestamp> {
        Some(self.queues.get(&queue)?.minutes.back()?.minute)
    }

    /// The queue is deleted.
    pub(super) fn forget(&mut self, queue: u32) {
        self.queues.remove(&queue);
    }

    pub(super) fn claimed(&mut self, queue: u32, now: Timestamp) {
        self.minute(queue, now).claimed += 1;
    }

    pub(super) fn failed(&mut self, queue: u32, now: Timestamp) {
        self.minute(queue, now).failed += 1;
    }

    pub(super) fn settled(&mut self, queue: u32, now: Timestamp, state: JobState) {
        let minute = self.minute(queue, now);
        match state {
            JobState::Completed => minute.completed += 1,
            JobState::Dead => minute.dead += 1,
            _ => minute.cancelled += 1,
        }
    }

    /// What a worker measured: lateness of starts and run times, in microseconds.
    pub(super) fn measured(
        &mut self,
        queue: u32,
        now: Timestamp,
        lateness_us: &[u64],
        run_time_us: &[u64],
    ) {
        if lateness_us.is_empty() && run_time_us.is_empty() {
            return;
        }
        self.minute(queue, now);
        let history = self.queues.entry(queue).or_default();
        record(&mut history.lateness, lateness_us);
        record(&mut history.run_time, run_time_us);
    }

    fn minute(&mut self, queue: u32, now: Timestamp) -> &mut MinuteStats {
        let first = Timestamp::from_micros(now.as_micros() / MINUTE_US * MINUTE_US);
        let history = self.queues.entry(queue).or_default();
        if history
            .minutes
            .back()
            .is_none_or(|last| last.minute != first)
        {
            history.close_minute();
            history.minutes.push_back(empty_minute(first));
            if history.minutes.len() > MINUTES {
                history.minutes.pop_front();
            }
        }
        let at = history.minutes.len() - 1;
        &mut history.minutes[at]
    }

    pub(super) fn minutes(&self, queue: u32, now: Timestamp) -> Vec<MinuteStats> {
        let Some(history) = self.queues.get(&queue) else {
            return Vec::new();
        };
        let day = minutes(MINUTES as u64);
        let mut minutes: Vec<_> = history
            .minutes
            .iter()
            .filter(|one| now - one.minute <= day)
            .cloned()
            .collect();
        if let Some(last) = minutes.last_mut() {
            last.lateness_us = history
                .lateness
                .as_ref()
                .map(quantiles)
                .or(last.lateness_us);
            last.run_time_us = history
                .run_time
                .as_ref()
                .map(quantiles)
                .or(last.run_time_us);
        }
        minutes
    }

    /// A worker has claimed that many jobs at most; one that names no queues is not listed.
    pub(super) fn seen(
        &mut self,
        namespace: u32,
        worker: &WorkerRecord,
        limit: usize,
        now: Timestamp,
    ) {
        if worker.queues.is_empty() {
            return;
        }
        let workers = self.workers.entry(namespace).or_default();
        match workers.get_mut(&worker.id.0) {
            Some((known, at)) => {
                *at = now;
                known.slots = worker.slots;
                if known != worker {
                    known.clone_from(worker);
                }
                known.slots = worker.slots_for(limit);
            }
            None => {
                workers.retain(|_, (_, at)| now - *at <= minutes(1));
                if workers.len() < WORKERS_MAX {
                    let slots = worker.slots_for(limit);
                    let known = WorkerRecord {
                        slots,
                        ..worker.clone()
                    };
                    workers.insert(worker.id.0, (known, now));
                }
            }
        }
    }

    /// Whether a worker of the last minute claims from a queue, and whether one of them takes a
    /// kind.
    pub(super) fn takers(
        &self,
        namespace: u32,
        queue: &str,
        kind: &str,
        now: Timestamp,
    ) -> (bool, bool) {
        let workers = self
            .workers
            .get(&namespace)
            .into_iter()
            .flat_map(BTreeMap::values);
        let here = workers
            .filter(|(_, at)| now - *at <= minutes(1))
            .filter(|(worker, _)| worker.queues.iter().any(|name| name == queue))
            .map(|(worker, _)| {
                worker.kinds.is_empty() || worker.kinds.iter().any(|name| name == kind)
            });
        here.fold((false, false), |(_, takes), this| (true, takes || this))
    }

    /// Workers of the last minute, without what they have leased.
    pub(super) fn workers(&self, namespace: u32, now: Timestamp) -> Vec<WorkerSeen> {
        let workers = self
            .workers
            .get(&namespace)
            .into_iter()
            .flat_map(BTreeMap::values);
        workers
            .filter(|(_, at)| now - *at <= minutes(1))
            .map(|(worker, at)| WorkerSeen {
                worker: worker.clone(),
                seen_at: *at,
                leased: 0,
            })
            .collect()
    }
}

impl QueueHistory {
    /// Reduces the minute that ran to its quantiles.
    fn close_minute(&mut self) {
        if let Some(last) = self.minutes.back_mut() {
            last.lateness_us = self.lateness.take().as_ref().map(quantiles);
            last.run_time_us = self.run_time.take().as_ref().map(quantiles);
        }
    }
}

fn empty_minute(minute: Timestamp) -> MinuteStats {
    MinuteStats {
        minute,
        enqueued: 0,
        claimed: 0,
        completed: 0,
        failed: 0,
        dead: 0,
        cancelled: 0,
        lateness_us: None,
        run_time_us: None,
    }
}

fn record(histogram: &mut Option<Histogram<u64>>, samples: &[u64]) {
    if histogram.is_none() && !samples.is_empty() {
        *histogram = Histogram::new(2).ok();
    }
    if let Some(histogram) = histogram {
        for sample in samples {
            // It grows up to that value, so no sample is out of its range.
            let _ = histogram.record((*sample).min(SAMPLE_US_MAX));
        }
    }
}

fn quantiles(histogram: &Histogram<u64>) -> (u64, u64) {
    (
        histogram.value_at_quantile(0.5),
        histogram.value_at_quantile(0.99),
    )
}
