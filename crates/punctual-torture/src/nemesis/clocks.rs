//! Wall clocks that are wrong, by the spy that stands between a process and its clock.

use std::io;

use punctual::time::{millis, pause};
use punctual_syncspy::SyncSpy;

use crate::plan::{Fault, Kind};

const SECOND: i64 = 1_000_000;
/// How far clocks are off.
const OFF: [i64; 3] = [5 * SECOND, 3_600 * SECOND, 86_400 * SECOND];
/// An engine's clock that is ahead stays ahead, for one that is set back stands still until the
/// other one has caught up; and tombstones of settled jobs are to last as long as a round.
const AHEAD_MILLIS_MAX: u64 = 2_000;

/// Sets a clock wrong; false if that is not possible.
pub(super) async fn hit(spy: Option<&SyncSpy>, fault: &Fault) -> bool {
    match spy {
        Some(spy) => set(spy, fault).await.is_ok(),
        None => false,
    }
}

async fn set(spy: &SyncSpy, fault: &Fault) -> io::Result<()> {
    let before = spy.clock_shift()?;
    let off = OFF[fault.pick as usize % OFF.len()];
    match fault.kind {
        Kind::ClockAhead => {
            let ahead = millis(fault.pick % AHEAD_MILLIS_MAX).as_micros() as i64;
            return spy.shift_clock(before + ahead);
        }
        Kind::ClockBack => spy.shift_clock(before - off)?,
        _ if fault.pick.is_multiple_of(2) => spy.shift_clock(-off)?,
        _ => spy.shift_clock(off)?,
    }
    pause(fault.span()).await;
    spy.shift_clock(before)
}
