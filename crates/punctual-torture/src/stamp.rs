//! The clock of the checker: the machine's monotonic one, the same in every process, so that lines
//! of many files have an order. The clocks of `punctual::time` are what is on trial.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the monotonic clock.
pub(crate) fn stamp() -> u64 {
    micros(ClockId::Monotonic)
}

/// Microseconds of the machine's wall clock, also where the clock of this process is set wrong.
pub(crate) fn wall() -> u64 {
    micros(ClockId::Realtime)
}

fn micros(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
