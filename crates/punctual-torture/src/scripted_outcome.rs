//! What a job's handler will do, decided when the job is made.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// What the handler does, as the payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScriptedOutcome {
    /// Writes its effect and completes.
    Completes,
    /// The same, over more than one lease.
    IsSlow,
    /// Fails so many times before it writes its effect.
    FailsBefore(u32),
    /// Fails so many times after it.
    FailsAfter(u32),
    /// Panics so many times.
    Panics(u32),
    /// Says once that it is too early.
    Snoozes,
    /// Ends its process in its first attempt.
    AbortsOnce,
    /// Ends its process in every attempt.
    AbortsAlways,
    /// Says that no retry can mend it.
    Dies,
}

/// How many jobs of each scripted outcome there are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// In 10,000 jobs.
    pub(crate) fails: u32,
    pub(crate) panics: u32,
    pub(crate) aborts: u32,
    pub(crate) slow: u32,
    /// The most bytes of a payload; the least are 100.
    pub(crate) payload_max: u32,
    /// The longest delay, in milliseconds.
    pub(crate) delay_max: u64,
    /// How long a producer waits after a call, in milliseconds; if it does, there is no latecomer,
    /// which would claim jobs that are to wake workers.
    #[serde(default)]
    pub(crate) quiet_periods: u64,
}

impl Mix {
    /// A tenth fails, a twentieth panics, a hundredth aborts.
    pub(crate) const ROUGH: Self = Self {
        fails: 1_000,
        panics: 500,
        aborts: 100,
        slow: 100,
        payload_max: 100 << 10,
        delay_max: 5_000,
        quiet_periods: 0,
    };
    /// Many small jobs; aborts are rare, for each costs a start of a process.
    pub(crate) const MANY: Self = Self {
        fails: 1_000,
        panics: 500,
        aborts: 1,
        slow: 2,
        payload_max: 400,
        delay_max: 5_000,
        quiet_periods: 0,
    };
    /// A job now and then, due at once: workers are idle in between.
    pub(crate) const FEW: Self = Self {
        fails: 0,
        panics: 0,
        aborts: 0,
        slow: 0,
        payload_max: 400,
        delay_max: 0,
        quiet_periods: 2_000,
    };

    pub(crate) fn scripted(&self, random: &mut Rng) -> ScriptedOutcome {
        let mut at = random.u32(0..10_000);
        let mut falls = |share: u32| {
            let hit = at < share;
            at = at.wrapping_sub(share);
            hit
        };
        if falls(self.aborts) {
            return if random.u32(0..4) == 0 {
                ScriptedOutcome::AbortsAlways
            } else {
                ScriptedOutcome::AbortsOnce
            };
        }
        if falls(self.panics) {
            return ScriptedOutcome::Panics(random.u32(1..3));
        }
        if falls(self.fails) {
            let times = random.u32(1..3);
            return if random.bool() {
                ScriptedOutcome::FailsBefore(times)
            } else {
                ScriptedOutcome::FailsAfter(times)
            };
        }
        if falls(self.slow) {
            return ScriptedOutcome::IsSlow;
        }
        match falls(50) {
            true if random.bool() => ScriptedOutcome::Dies,
            true => ScriptedOutcome::Snoozes,
            false => ScriptedOutcome::Completes,
        }
    }

    /// From 100 bytes to the most; short ones are as common per doubling as long ones.
    pub(crate) fn payload_bytes(&self, random: &mut Rng) -> usize {
        let doublings = (f64::from(self.payload_max) / 100.0).log2();
        (100.0 * (random.f64() * doublings).exp2()) as usize
    }
}
