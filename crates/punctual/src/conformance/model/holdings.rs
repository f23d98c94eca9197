//! The reference model: leases.

use std::time::Duration;

use crate::engine::{Extend, ExtendVerdict, Token, WorkerId};
use crate::job::{JobId, LogLine};
use crate::time::Timestamp;

use super::Space;

/// A lease.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) token: Token,
    pub(crate) worker: WorkerId,
    pub(crate) deadline: Timestamp,
    /// The span last asked for.
    pub(crate) span: Duration,
    /// Whether a silence has extended it since its last extension.
    pub(crate) extended_after_pause: bool,
    /// Whether it is the lease of one suspect.
    pub(crate) alone: bool,
    pub(crate) with_engine: bool,
    /// The jobs left of it, in the order in which they were claimed.
    pub(crate) jobs: Vec<JobId>,
}

impl Space {
    pub(crate) fn extend(&mut self, now: Timestamp, leases: &[Extend]) -> Vec<ExtendVerdict> {
        (leases.iter())
            .map(|lease| self.extend_one(now, lease))
            .collect()
    }

    /// Lines of a job's attempt, one after the other; the oldest give way.
    pub(super) fn log(&mut self, job: usize, now: Timestamp, lines: &[String]) {
        let record = &mut self.jobs[job].record;
        for text in lines {
            record.log.push(LogLine {
                at: now,
                attempt: record.attempt,
                text: text.clone(),
            });
            let bytes = |log: &[LogLine]| log.iter().map(|line| line.text.len()).sum::<usize>();
            while record.log.len() > 100 || bytes(&record.log) > 16_384 {
                record.log.remove(0);
            }
        }
    }

    fn extend_one(&mut self, now: Timestamp, extend: &Extend) -> ExtendVerdict {
        let Some(at) = self.holding(extend.token) else {
            return ExtendVerdict::LeaseLost;
        };
        let holding = &mut self.holdings[at];
        holding.deadline = holding.deadline.max(now + extend.lease_duration);
        holding.span = extend.lease_duration;
        holding.extended_after_pause = false;
        let holding = holding.clone();
        self.show_deadline(&holding);
        let of_lease = |id: &JobId| holding.jobs.contains(id);
        for (id, progress) in extend.progress.iter().filter(|(id, _)| of_lease(id)) {
            if let Some(job) = self.find_whole(*id) {
                self.jobs[job].record.progress = Some(progress.clone());
            }
        }
        for (id, lines) in extend.log.iter().filter(|(id, _)| of_lease(id)) {
            if let Some(job) = self.find_whole(*id) {
                self.log(job, now, lines);
            }
        }
        let asked_to_stop = |id: &JobId| {
            self.find_whole(*id)
                .is_some_and(|job| self.jobs[job].record.cancel_requested)
        };
        ExtendVerdict::Extended {
            deadline: holding.deadline,
            lost: (extend.jobs.iter().copied())
                .filter(|id| !of_lease(id))
                .collect(),
            cancel_requested: (holding.jobs.iter().copied())
                .filter(asked_to_stop)
                .collect(),
        }
    }

    /// Writes a lease's deadline into its jobs.
    pub(super) fn show_deadline(&mut self, holding: &Holding) {
        for id in &holding.jobs {
            if let Some(job) = self.find_whole(*id) {
                self.jobs[job].record.lease_until = Some(holding.deadline);
            }
        }
    }

    /// Takes a job out of its lease; a lease without jobs is no lease any more.
    pub(super) fn leave_lease(&mut self, id: JobId) {
        for holding in &mut self.holdings {
            holding.jobs.retain(|job| *job != id);
        }
        self.holdings.retain(|holding| !holding.jobs.is_empty());
    }
}
