//! Faults of relays: of every cell alike.

use fastrand::Rng;

use super::{Fault, Faults, Filling, Kind, Track, quiet_periods};

const RELAYS: Faults = &[
    (Kind::KillRelay, 14),
    (Kind::TerminateRelay, 3),
    (Kind::StopRelay, 1),
];
const SOURCES: Faults = &[(Kind::KillSource, 1)];

/// A relay that is stopped is taken for dead after five seconds.
pub(super) const STOPPED_MILLIS: u64 = 6_000;

/// The faults of one round besides those of its cell.
pub(crate) fn plan_of_relays(seed: u64, round: u64, spans: u64) -> Vec<Fault> {
    let mut random = Rng::with_seed(seed ^ 0x004e_1a75 ^ (round << 40));
    let mut plan = Vec::new();
    let quiet_periods = quiet_periods(spans);
    for (track, kinds, gap) in [
        (Track::Relays, RELAYS, 100..500),
        (Track::Sources, SOURCES, 1_000..3_000),
    ] {
        // The first relays are to be up: a kill of one that starts meets no message.
        let from = random.u64(800..1_500);
        let filling = Filling {
            track,
            kinds,
            gap,
            quiet_periods: &quiet_periods,
            spans,
        };
        filling.fill(from, |_| 0, &mut random, &mut plan);
    }
    plan
}
