use std::time::Duration;

use crate::engine::{Extend, ExtendVerdict, Token, WorkerId};
use crate::job::{JobId, LogLine};
use crate::time::Timestamp;

use super::Space;

/// A leased page.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) token: Token,
    pub(crate) worker: WorkerId,
    pub(crate) deadline: Timestamp,
    /// The span last asked for.
    pub(crate) span: Duration,
    /// Whether a silence has prolonged it since its last extension.
    pub(crate) spared: bool,
    /// Whether it is the page of one suspect.
    pub(crate) alone: bool,
    pub(crate) in_process: bool,
    /// The jobs left of it, in the order in which they were claimed.
    pub(crate) jobs: Vec<JobId>,
}

impl Space {
    pub(crate) fn extend(&mut self, now: Timestamp, pages: &[Extend]) -> Vec<ExtendVerdict> {
        (pages.iter())
            .map(|page| self.extend_one(now, page))
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
        let Some(at) = self.lease(extend.token) else {
            return ExtendVerdict::LeaseLost;
        };
        let lease = &mut self.leases[at];
        lease.deadline = lease.deadline.max(now + extend.lease_duration);
        lease.span = extend.lease_duration;
        lease.spared = false;
        let lease = lease.clone();
        self.show_deadline(&lease);
        let of_page = |id: &JobId| lease.jobs.contains(id);
        for (id, progress) in extend.progress.iter().filter(|(id, _)| of_page(id)) {
            if let Some(job) = self.find_whole(*id) {
                self.jobs[job].record.progress = Some(progress.clone());
            }
        }
        for (id, lines) in extend.log.iter().filter(|(id, _)| of_page(id)) {
            if let Some(job) = self.find_whole(*id) {
                self.log(job, now, lines);
            }
        }
        let asked_to_stop = |id: &JobId| {
            self.find_whole(*id)
                .is_some_and(|job| self.jobs[job].record.cancel_requested)
        };
        ExtendVerdict::Extended {
            deadline: lease.deadline,
            lost: (extend.jobs.iter().copied())
                .filter(|id| !of_page(id))
                .collect(),
            cancel_requested: (lease.jobs.iter().copied()).filter(asked_to_stop).collect(),
        }
    }

    /// Writes a page's deadline into its jobs.
    pub(super) fn show_deadline(&mut self, lease: &Holding) {
        for id in &lease.jobs {
            if let Some(job) = self.find_whole(*id) {
                self.jobs[job].record.lease_until = Some(lease.deadline);
            }
        }
    }

    /// Takes a job out of its page; a page without jobs is no lease any more.
    pub(super) fn leave_page(&mut self, id: JobId) {
        for lease in &mut self.leases {
            lease.jobs.retain(|job| *job != id);
        }
        self.leases.retain(|lease| !lease.jobs.is_empty());
    }
}
