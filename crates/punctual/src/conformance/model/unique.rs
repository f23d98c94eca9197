//! The reference model: unique keys.

use crate::job::JobId;
use crate::time::Timestamp;

use super::{Left, Space};

impl Space {
    /// The present holder of a unique key of a queue.
    pub(super) fn holder(&self, queue: &str, key: &str, now: Timestamp) -> Option<usize> {
        self.jobs.iter().position(|job| {
            let unique = job.record.unique.as_ref();
            job.holds_key
                && job.record.queue == queue
                && unique.is_some_and(|unique| unique.key == key)
                && job.key_period_end().is_none_or(|end| end > now)
        })
    }

    /// The job that follows another one.
    pub(super) fn follower(&self, of: JobId) -> Option<usize> {
        (self.jobs.iter()).position(|job| job.left == Left::Whole && job.follows == Some(of))
    }

    /// After a job has settled: its key is free unless held for a period, and its follower starts.
    pub(super) fn pass_key_on(&mut self, job: usize) {
        let entry = &mut self.jobs[job];
        entry.follows = None;
        if entry.key_period_end().is_none() {
            entry.holds_key = false;
        }
        self.start_follower(job);
    }

    fn start_follower(&mut self, job: usize) {
        let Some(follower) = self.follower(self.jobs[job].record.id) else {
            return;
        };
        self.jobs[job].holds_key = false;
        self.jobs[follower].holds_key = true;
        self.jobs[follower].follows = None;
        self.start_if_nothing_holds(follower);
    }

    /// A held job that waits for nothing any more stands in its line by its due.
    pub(super) fn start_if_nothing_holds(&mut self, job: usize) {
        use crate::job::JobState;
        let entry = &mut self.jobs[job];
        if entry.record.state == JobState::Held
            && entry.record.wait_for.is_empty()
            && entry.follows.is_none()
        {
            entry.record.state = JobState::Scheduled;
        }
    }

    /// A key held for a period that is over is the follower's, which starts.
    pub(super) fn pass_on_lapsed_keys(&mut self, now: Timestamp) {
        for job in 0..self.jobs.len() {
            let lapsed = self.jobs[job]
                .key_period_end()
                .is_some_and(|end| end <= now);
            if self.jobs[job].holds_key && lapsed {
                self.jobs[job].holds_key = false;
                self.start_follower(job);
            }
        }
    }
}
