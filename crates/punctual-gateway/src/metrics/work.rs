//! What enqueues and settles did, and how long attempts took, of one namespace or of all.

use metrics::{Counter, Histogram};
use punctual::Outcome;
use punctual::engine::{Receipt, SAMPLE_US_MAX, SettleVerdict};

use super::ENQUEUED;
use super::registry::Registry;

/// Handles to what enqueues, settles and extensions count.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) registry: Registry,
    enqueued: [Counter; VERDICTS.len()],
    settled: [Counter; OUTCOMES.len()],
    retries: Counter,
    lease_lost: Counter,
    lateness: Histogram,
    run_time: Histogram,
}

/// Each verdict of an enqueue.
const VERDICTS: [&str; 12] = [
    "created",
    "duplicate",
    "merged",
    "replaced",
    "refreshed",
    "id_conflict",
    "unique_active",
    "full",
    "parent_unknown",
    "flow_closed",
    "limit_full",
    "share_full",
];

const OUTCOMES: [&str; 7] = [
    "completed",
    "retry",
    "snooze",
    "cancelled",
    "dead",
    "released",
    "hold",
];

impl Work {
    /// Counts into that registry.
    pub(super) fn of(registry: Registry) -> Self {
        Self {
            enqueued: VERDICTS.map(|verdict| registry.count(ENQUEUED, &[("verdict", verdict)])),
            settled: OUTCOMES
                .map(|outcome| registry.count("punctual_settled_total", &[("outcome", outcome)])),
            retries: registry.count("punctual_retries_total", &[]),
            lease_lost: registry.count("punctual_lease_lost_total", &[]),
            lateness: registry.spans("punctual_lateness_seconds", &[]),
            run_time: registry.spans("punctual_run_time_seconds", &[]),
            registry,
        }
    }

    /// Counts what became of jobs that were sent.
    pub(super) fn enqueued(&self, receipts: &[Receipt]) {
        for (verdict, counter) in VERDICTS.iter().zip(&self.enqueued) {
            let is = |receipt: &&Receipt| receipt.verdict.name() == *verdict;
            match receipts.iter().filter(is).count() {
                0 => {}
                jobs => counter.increment(jobs as u64),
            }
        }
    }

    /// Counts how an attempt ended, or that it had lost its lease.
    pub(super) fn settled(&self, outcome: &Outcome, verdict: &SettleVerdict) {
        match verdict {
            SettleVerdict::LeaseLost => return self.lease_lost(1),
            // It was counted the first time.
            SettleVerdict::Repeated => return,
            // It is settled again.
            SettleVerdict::GuardConflict { .. } => return,
            _ => {}
        }
        let at = match outcome {
            Outcome::Completed => 0,
            Outcome::Retry { .. } => 1,
            Outcome::Snooze { .. } => 2,
            Outcome::Cancelled => 3,
            Outcome::Dead => 4,
            Outcome::Released => 5,
            Outcome::Hold { .. } => 6,
            _ => return,
        };
        self.settled[at].increment(1);
        if at == 1 {
            self.retries.increment(1);
        }
    }

    /// Counts answers that a lease was lost.
    pub(super) fn lease_lost(&self, times: u64) {
        self.lease_lost.increment(times);
    }

    /// Records what a worker measured, in microseconds.
    pub(super) fn measured(&self, lateness_us: &[u64], run_time_us: &[u64]) {
        let seconds = |us: &u64| (*us).min(SAMPLE_US_MAX) as f64 / 1e6;
        for us in lateness_us {
            self.lateness.record(seconds(us));
        }
        for us in run_time_us {
            self.run_time.record(seconds(us));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual::JobId;
    use punctual::engine::EnqueueVerdict;

    use super::*;

    #[test]
    fn every_verdict_of_an_enqueue_has_a_counter() {
        let id = JobId::from_bytes([7; 16]);
        let verdicts = [
            EnqueueVerdict::Created,
            EnqueueVerdict::Duplicate,
            EnqueueVerdict::Merged(id),
            EnqueueVerdict::Replaced(id),
            EnqueueVerdict::Refreshed(id),
            EnqueueVerdict::IdConflict,
            EnqueueVerdict::UniqueActive(id),
            EnqueueVerdict::Full,
            EnqueueVerdict::ParentUnknown(id),
            EnqueueVerdict::FlowClosed,
            EnqueueVerdict::LimitFull(0),
            EnqueueVerdict::ShareFull(1),
        ];
        assert_eq!(verdicts.map(EnqueueVerdict::name), VERDICTS);
    }
}
