//! The reference model: explain.

use crate::engine::{Explanation, Reason};
use crate::job::{CancelReason, DeadReason, JobId, JobState};
use crate::time::{Timestamp, minutes};

use super::Space;

impl Space {
    /// Every reason why a job has not run, or what became of it; `None` for one that is unknown.
    pub(crate) fn explain(&self, now: Timestamp, id: JobId) -> Option<Explanation> {
        let job = self.find_whole(id)?;
        let record = &self.jobs[job].record;
        let reasons = match self.jobs[job].state(now) {
            JobState::Active => vec![Reason::Active {
                worker: crate::engine::WorkerId(record.worker.unwrap_or_default()),
                since: record.started_at.unwrap_or_default(),
                until: record.lease_until.unwrap_or_default(),
            }],
            JobState::Completed => vec![Reason::Completed],
            JobState::Cancelled => vec![Reason::Cancelled {
                reason: record.cancelled.unwrap_or(CancelReason::Requested),
            }],
            JobState::Dead => vec![Reason::Dead {
                reason: record.dead.unwrap_or(DeadReason::Permanent),
                error: record.last_error.clone(),
            }],
            _ => self.why_it_waits(now, job),
        };
        Some(Explanation { reasons })
    }

    fn why_it_waits(&self, now: Timestamp, job: usize) -> Vec<Reason> {
        let entry = &self.jobs[job];
        let record = &entry.record;
        let id = |job: usize| self.jobs[job].record.id;
        let mut reasons = Vec::new();
        let state = entry.state(now);
        if state == JobState::Held {
            reasons.extend(
                entry
                    .follows
                    .map(|holder| Reason::WaitsForHolder { holder }),
            );
            if !record.wait_for.is_empty() {
                let names = record.wait_for.clone();
                reasons.push(Reason::WaitsForNames { names });
            }
        }
        if state == JobState::Scheduled {
            let (due, failures) = (record.due, record.failures);
            reasons.push(if record.attempt > 0 {
                Reason::WaitsForRetry { due, failures }
            } else {
                Reason::NotDue { due }
            });
        }
        if self.is_paused(&record.queue) {
            reasons.push(Reason::QueuePaused);
        }
        if state != JobState::Ready {
            return reasons;
        }
        reasons.extend(self.why_limited(&record.queue, now));
        let active = self.group_active(job).map(id);
        reasons.extend(active.map(|by| Reason::GroupActive { by }));
        let held = self.group_held_by(job);
        reasons.extend(held.map(|by| Reason::GroupHeld {
            by: id(by),
            until: self.jobs[by].record.due,
        }));
        if record.is_suspect() {
            let crashes = record.crashes;
            reasons.push(Reason::Suspect { crashes });
        }
        reasons.extend(self.lack_of_workers(now, job));
        if reasons.is_empty() {
            // How many are ahead depends on the order of the lines, which is the engine's.
            reasons.push(Reason::InLine { ahead: 0 });
        }
        reasons
    }

    fn lack_of_workers(&self, now: Timestamp, job: usize) -> Option<Reason> {
        let record = &self.jobs[job].record;
        let mut seen = (self.workers.iter()).filter(|(worker, at)| {
            now.since(*at) <= minutes(1) && worker.queues.contains(&record.queue)
        });
        let mut any = false;
        let knows = seen.any(|(worker, _)| {
            any = true;
            worker.kinds.is_empty() || worker.kinds.contains(&record.kind)
        });
        match (any, knows) {
            (false, _) => Some(Reason::NoWorker),
            (true, false) => Some(Reason::NoWorkerForKind {
                kind: record.kind.clone(),
            }),
            (true, true) => None,
        }
    }
}
