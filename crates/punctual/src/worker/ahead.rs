//! How many jobs a worker claims ahead of its free slots.

use std::time::Duration;

use crate::time::millis;

/// Work that may be claimed ahead of a free slot.
const AHEAD_SPAN: Duration = millis(5);
/// Jobs that may be claimed ahead for their short run times alone, before a pace was seen.
const AHEAD_JOBS_UNSEEN: usize = 256;
/// Jobs that may be claimed ahead, however fast they end: with the slots of a default worker, what
/// one call may carry.
const AHEAD_JOBS_MAX: usize = 936;
/// Payload bytes that may be claimed ahead.
pub(super) const AHEAD_BYTES_MAX: usize = 4 << 20;
/// What was claimed ahead and has waited so long is handed back: the estimate was wrong.
pub(super) const AHEAD_WAIT_MAX: Duration = millis(250);

/// How many jobs the slots get through in the span that may be claimed ahead, from the run times
/// seen; none before one was seen. Beyond a few hundred only at the pace at which jobs do end:
/// handlers that compute share the cores, however many slots there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Estimate {
    mean_us: Option<f64>,
    pace: Pace,
}

impl Estimate {
    /// Takes in the run time of a job that ended now: a moving mean in which the last 16 weigh
    /// about two thirds.
    pub(super) fn observe(&mut self, run_time: Duration, now: Duration) {
        self.pace.observe(now);
        let us = run_time.as_secs_f64() * 1e6;
        self.mean_us = Some(match self.mean_us {
            Some(mean) => mean + (us - mean) / 16.0,
            None => us,
        });
    }

    /// Forgets what was seen.
    pub(super) fn reset(&mut self) {
        *self = Estimate::default();
    }

    /// Jobs to have ahead for that many slots.
    pub(super) fn jobs(&self, slots: usize) -> usize {
        let Some(mean_us) = self.mean_us else {
            return 0;
        };
        let span_us = AHEAD_SPAN.as_secs_f64() * 1e6;
        // A cast from a float saturates.
        let jobs = (slots as f64 * span_us / mean_us.max(1.0)) as usize;
        jobs.min(self.pace.per_span.clamp(AHEAD_JOBS_UNSEEN, AHEAD_JOBS_MAX))
    }
}

/// How many jobs ended per span of late, whatever their run times.
#[derive(Debug, Clone, Default)]
struct Pace {
    since: Duration,
    ended: usize,
    per_span: usize,
}

impl Pace {
    /// Takes in a job that ended now. Each window of a span weighs as much as all before it.
    fn observe(&mut self, now: Duration) {
        self.ended += 1;
        let took = now.saturating_sub(self.since);
        if took >= AHEAD_SPAN {
            let spans = took.as_secs_f64() / AHEAD_SPAN.as_secs_f64();
            let seen = (self.ended as f64 / spans) as usize;
            self.per_span = (self.per_span + seen) / 2;
            self.since = now;
            self.ended = 0;
        }
    }
}

#[cfg(test)]
mod tests;
