//! The reference model: queues and records.

use crate::engine::{RecordValue, VersionedRecord};
use crate::job::{CancelReason, JobId, JobState};
use crate::time::Timestamp;

use super::{Entry, Space};

impl Space {
    /// Pauses a queue; whether it was not before.
    pub(crate) fn pause(&mut self, queue: &str) -> bool {
        let was = self.is_paused(queue);
        if !was {
            self.paused.push(queue.to_owned());
        }
        !was
    }

    /// Resumes a queue; whether it was paused.
    pub(crate) fn resume(&mut self, queue: &str) -> bool {
        let was = self.is_paused(queue);
        self.paused.retain(|paused| paused != queue);
        was
    }

    /// Cancels pending jobs of a queue, at most so many, and answers how many.
    pub(crate) fn purge(&mut self, queue: &str, now: Timestamp, most: usize) -> usize {
        let mut pending: Vec<&Entry> = (self.jobs.iter())
            .filter(|job| job.is_in(queue) && job.is_pending())
            .collect();
        // Held ones first, so that no follower starts because its holder goes.
        pending.sort_by_key(|job| job.record.state != JobState::Held);
        let pending: Vec<JobId> = (pending.iter().take(most))
            .map(|job| job.record.id)
            .collect();
        for id in &pending {
            if let Some(job) = self.find_whole(*id) {
                self.cancel(job, now, CancelReason::Purged, None);
            }
        }
        pending.len()
    }

    /// Deletes a queue without jobs; whether it has none.
    pub(crate) fn delete_queue(&mut self, queue: &str) -> bool {
        if self.jobs.iter().any(|job| job.is_in(queue)) {
            return false;
        }
        for job in &mut self.jobs {
            if job.record.queue == queue {
                job.holds_key = false;
            }
        }
        self.resume(queue);
        self.records.remove(&format!("queue/{queue}"));
        self.starts.retain(|(of, _)| of != queue);
        true
    }

    /// The record of a name.
    pub(crate) fn record(&self, name: &str) -> Option<&VersionedRecord> {
        self.records.get(name)
    }

    /// The names of records that start with a prefix, in order.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        (self.records.keys())
            .filter(|name| name.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Writes or removes a record if its version is `expected`; `None` on a conflict. The version
    /// is the engine's where that answered one.
    pub(crate) fn write(
        &mut self,
        name: &str,
        expected: u64,
        value: Option<RecordValue>,
        answered: Option<u64>,
    ) -> Option<u64> {
        if self.record(name).map_or(0, |record| record.version) != expected {
            return None;
        }
        let queue = name.strip_prefix("queue/").map(str::to_owned);
        let had_rate = (queue.as_deref()).is_some_and(|queue| self.settings(queue).rate.is_some());
        let version = answered.unwrap_or(0).max(self.version + 1);
        self.version = version;
        match value {
            Some(value) => {
                let record = VersionedRecord { version, value };
                self.records.insert(name.to_owned(), record);
            }
            None => {
                self.records.remove(name);
            }
        }
        if let Some(queue) = queue {
            self.obey_limits(&queue, had_rate);
        }
        Some(version)
    }
}
