//! The CPU that a bench uses: of this process and, where it can be asked, of the store.

use std::time::Duration;

use punctual::time::{Stopwatch, pause, seconds};
use rustix::time::{ClockId, clock_gettime};

use super::Place;
use crate::failure::Result;

/// User plus system time of this process so far.
pub(super) fn of_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Microseconds for each of so many, with two decimals.
pub(super) fn us_each(cpu: Duration, count: u64) -> f64 {
    (cpu.as_secs_f64() * 1e6 / count as f64 * 100.0).round() / 100.0
}

/// Counts the CPU of this process and of the store from its start on.
pub(super) struct Meter {
    process: Duration,
    store: Option<Store>,
}

struct Store {
    before: Duration,
    since: Stopwatch,
    /// Of one idle second.
    idle: Duration,
}

/// What a meter has counted.
pub(super) struct Used {
    pub(super) process: Duration,
    /// None where the store is this process, or cannot be asked.
    pub(super) store: Option<Duration>,
}

impl Meter {
    /// Starts to count. The CPU of a store that can be asked is read for an idle second first.
    pub(super) async fn start(place: &Place) -> Result<Self> {
        let cpu = || place.connection.store_cpu();
        let mut store = None;
        if let Some(before) = cpu().await? {
            pause(seconds(1)).await;
            let after = cpu().await?.unwrap_or(before);
            store = Some(Store {
                before: after,
                since: Stopwatch::start(),
                idle: after.saturating_sub(before),
            });
        }
        Ok(Self {
            process: of_process(),
            store,
        })
    }

    /// What was used since, without what the idle store would have used.
    pub(super) async fn end(self, place: &Place) -> Result<Used> {
        let process = of_process() - self.process;
        let store = match self.store {
            Some(store) => place.connection.store_cpu().await?.map(|after| {
                let idle = store.idle.mul_f64(store.since.elapsed().as_secs_f64());
                after.saturating_sub(store.before).saturating_sub(idle)
            }),
            None => None,
        };
        Ok(Used { process, store })
    }
}
