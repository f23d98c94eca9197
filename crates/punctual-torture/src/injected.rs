//! Bugs that are injected in every process of a run, to see whether the run finds them.

use std::time::Duration;

use punctual::engine::Waited;
use punctual::time::{Clock, SystemClock, Timestamp, days, millis, pause};

use crate::roles::Failed;
use crate::stamp::wall;

/// The variable that names the bug.
pub(crate) const VARIABLE: &str = "PUNCTUAL_PLANTED";

/// Injects the bug that the environment names, if it names one.
#[cfg(feature = "injected")]
pub(crate) fn inject() -> Result<(), Failed> {
    let Ok(name) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    use punctual::injected::Bug;
    let bug = Bug::ALL
        .into_iter()
        .chain(Bug::BELOW_THE_LAW)
        .find(|bug| format!("{bug:?}") == name);
    // Others are injected where the functions of Redis are loaded.
    punctual::injected::inject(bug);
    Ok(())
}

/// Refuses: this build has no bugs of that kind.
#[cfg(not(feature = "injected"))]
pub(crate) fn inject() -> Result<(), Failed> {
    match std::env::var(VARIABLE) {
        Ok(name) => {
            Err(format!("no bug {name} in this build; build with --features injected").into())
        }
        Err(_) => Ok(()),
    }
}

/// Whether a bug is injected: none is, in a build without them.
fn is_injected(bug: &str) -> bool {
    cfg!(feature = "injected") && std::env::var(VARIABLE).is_ok_and(|name| name == bug)
}

/// Whether a wait that breaks is the last one in which its process listens: the bug that is
/// injected.
pub(crate) fn deafens() -> bool {
    is_injected("DeafAfterBreak")
}

/// A wait without a listener for wakeups: over at its instant.
pub(crate) async fn sleep_deaf(until: Timestamp) -> punctual::Result<Waited> {
    let left = until.as_micros().saturating_sub(wall());
    pause(Duration::from_micros(left)).await;
    Ok(Waited::TimedOut)
}

/// The interval at which an engine syncs: the configured one, unless the bug is injected
/// that it takes its time.
pub(crate) fn interval(configured: Duration) -> Duration {
    match is_injected("IntervalTooLong") {
        true => configured * 20,
        false => configured,
    }
}

/// The span of a lease that is asked for: that one, unless the bug is injected that its process
/// says when it is to end by its own clock, and the engine takes its word. Where that clock is
/// right, the two are the same.
pub(crate) fn lease_duration(asked: Duration) -> Duration {
    if !is_injected("LocalClock") {
        return asked;
    }
    let (before, own, after) = (wall(), SystemClock.now().as_micros(), wall());
    let ahead = match (before..=after).contains(&own) {
        true => 0,
        false => own as i64 - after as i64,
    };
    let span = (asked.as_micros() as u64).saturating_add_signed(ahead);
    Duration::from_micros(span).clamp(LEASE_DURATIONS[0], LEASE_DURATIONS[1])
}

/// The shortest and the longest lease that an engine grants.
const LEASE_DURATIONS: [Duration; 2] = [millis(1), days(1)];
