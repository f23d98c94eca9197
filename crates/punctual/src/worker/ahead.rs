use std::time::Duration;

use crate::time::millis;

/// Work that may be claimed ahead of a free slot.
const AHEAD_SPAN: Duration = millis(5);
/// Jobs that may be claimed ahead, however short they are.
const AHEAD_JOBS_MAX: usize = 256;
/// Payload bytes that may be claimed ahead.
pub(super) const AHEAD_BYTES_MAX: usize = 4 << 20;
/// What was claimed ahead and has waited so long is handed back: the estimate was wrong.
pub(super) const AHEAD_WAIT_MAX: Duration = millis(250);

/// How many jobs the slots get through in the span that may be claimed ahead, from the run times
/// seen; none before one was seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Estimate {
    mean_us: Option<f64>,
}

impl Estimate {
    /// Takes in one run time: a moving mean in which the last 16 weigh about two thirds.
    pub(super) fn observe(&mut self, run_time: Duration) {
        let us = run_time.as_secs_f64() * 1e6;
        self.mean_us = Some(match self.mean_us {
            Some(mean) => mean + (us - mean) / 16.0,
            None => us,
        });
    }

    /// Forgets what was seen.
    pub(super) fn reset(&mut self) {
        self.mean_us = None;
    }

    /// Jobs to have ahead for that many slots.
    pub(super) fn jobs(&self, slots: usize) -> usize {
        let Some(mean_us) = self.mean_us else {
            return 0;
        };
        let span_us = AHEAD_SPAN.as_secs_f64() * 1e6;
        // A cast from a float saturates.
        let jobs = (slots as f64 * span_us / mean_us.max(1.0)) as usize;
        jobs.min(AHEAD_JOBS_MAX)
    }
}

#[cfg(test)]
mod tests;
