//! The reference model: counts.

use std::time::Duration;

use crate::engine::{Claim, Counts, DueBucket, JobEnd, WorkerRecord, WorkerSeen};
use crate::job::JobState;
use crate::time::{Timestamp, minutes};

use super::{Left, Space};

impl Space {
    /// How many jobs a queue has in each state.
    pub(crate) fn counts(&self, queue: &str, now: Timestamp) -> Counts {
        Counts(JobState::ALL.map(|state| self.count(queue, now, state) as u64))
    }

    /// Whether a queue is paused.
    pub(crate) fn pauses(&self, queue: &str) -> bool {
        self.is_paused(queue)
    }

    /// How long each ready job of a queue has been due that no job of its group keeps from a claim.
    pub(crate) fn due_for(&self, queue: &str, now: Timestamp) -> Vec<Duration> {
        (0..self.jobs.len())
            .filter(|job| self.may_be_claimed(*job, queue, now))
            .map(|job| now.since(self.jobs[job].record.due))
            .collect()
    }

    /// How many scheduled jobs of a queue fall due in a bucket.
    pub(crate) fn due_in(&self, queue: &str, bucket: &DueBucket, now: Timestamp) -> u64 {
        (self.jobs.iter())
            .filter(|job| job.is_in(queue) && job.state(now) == JobState::Scheduled)
            .filter(|job| (bucket.from..bucket.until).contains(&job.record.due))
            .count() as u64
    }

    /// Every queue that has jobs.
    pub(crate) fn queues(&self) -> Vec<String> {
        let mut queues: Vec<String> = (self.jobs.iter())
            .filter(|job| job.left == Left::Whole)
            .map(|job| job.record.queue.clone())
            .collect();
        queues.sort();
        queues.dedup();
        queues
    }

    /// The jobs of a queue that ended, the latest first; those of one instant by id.
    pub(crate) fn ends(&self, queue: &str) -> Vec<JobEnd> {
        let of_queue = self.ends.iter().filter(|(name, _)| name == queue);
        let mut ends: Vec<JobEnd> = of_queue.map(|(_, end)| end.clone()).collect();
        ends.sort_by_key(|end| (std::cmp::Reverse(end.at), end.id));
        ends
    }

    /// The workers that claimed in the last minute.
    pub(crate) fn workers_seen(&self, now: Timestamp) -> Vec<WorkerSeen> {
        (self.workers.iter())
            .filter(|(_, at)| now.since(*at) <= minutes(1))
            .map(|(worker, at)| WorkerSeen {
                worker: worker.clone(),
                seen_at: *at,
                leased: (self.holdings.iter())
                    .filter(|holding| holding.worker == worker.id)
                    .map(|holding| holding.jobs.len())
                    .sum(),
            })
            .collect()
    }

    pub(super) fn saw_worker(&mut self, now: Timestamp, claim: &Claim) {
        self.workers
            .retain(|(worker, _)| worker.id != claim.worker.id);
        let slots = claim.worker.slots_for(claim.limit);
        let worker = WorkerRecord {
            slots,
            ..claim.worker.clone()
        };
        self.workers.push((worker, now));
    }
}
