//! Tests of the checker: lengths of leases.

use super::scenario::{CLAIMED, LEASE_DURATION, MS, Scenario, token};
use crate::event::Event;

const NOTHING: [&str; 0] = [];

#[test]
fn a_lease_that_is_shorter_or_longer_than_was_asked_for_is_found() {
    let claimed_for = |span| {
        let mut scenario = Scenario::one_job();
        scenario.asks_for(span);
        scenario.broken()
    };
    assert_eq!(claimed_for(LEASE_DURATION), NOTHING);
    for span in [LEASE_DURATION - 1, LEASE_DURATION + 1] {
        assert_eq!(claimed_for(span), ["I2"], "{span}");
    }
}

#[test]
fn every_lease_is_judged_whose_span_is_in_the_history() {
    let mut scenario = Scenario::a_crash();
    scenario.extends(
        "worker",
        CLAIMED + 9 * MS,
        token(1),
        Some(CLAIMED + LEASE_DURATION),
    );
    scenario.extends("worker", CLAIMED + 2 * LEASE_DURATION, token(1), None);
    let before = scenario.checked("I2");
    scenario.asks_for(LEASE_DURATION);
    assert_eq!(
        scenario.checked("I2"),
        before + 3,
        "two claims and an extend"
    );
}

/// A claim that is sent again finds the lease that it has, or one that was extended since: that one
/// is a span from now.
#[test]
fn a_lease_that_is_answered_again_may_have_been_extended() {
    let again = |until: u64| {
        let mut scenario = Scenario::one_job();
        scenario.claims("worker", CLAIMED + 4 * MS, 1, (0, 0));
        scenario.asks_for(LEASE_DURATION);
        scenario.change(|event| {
            if let Event::ClaimOk { now, leases, .. } = event
                && *now > CLAIMED
            {
                (leases[0].deadline, leases[0].jobs[0].started) = (until, Some(CLAIMED));
            }
        });
        scenario.broken()
    };
    for until in [0, 2 * MS, 4 * MS] {
        assert_eq!(again(CLAIMED + LEASE_DURATION + until), NOTHING, "{until}");
    }
    assert_eq!(again(CLAIMED + LEASE_DURATION - 1), ["I2"]);
    assert_eq!(again(CLAIMED + LEASE_DURATION + 4 * MS + 1), ["I2"]);
}

/// A call takes a millisecond here: of several shards some may have been that much before the one
/// whose time is in the history.
#[test]
fn a_lease_that_is_prolonged_by_less_or_more_than_was_asked_for_is_found() {
    let prolonged = |until: u64| {
        let mut scenario = Scenario::one_job();
        scenario.extends("worker", CLAIMED + 3 * MS, token(1), Some(until));
        scenario.asks_for(LEASE_DURATION);
        scenario
    };
    let now = CLAIMED + 3 * MS;
    for until in [now + LEASE_DURATION, now + LEASE_DURATION - MS] {
        assert_eq!(prolonged(until).broken(), NOTHING);
    }
    for until in [now + LEASE_DURATION + 1, now + LEASE_DURATION - MS - 1] {
        assert_eq!(prolonged(until).broken(), ["I2"]);
    }
    let mut elsewhere = prolonged(now + LEASE_DURATION - 2 * MS);
    elsewhere.is_elsewhere = true;
    assert_eq!(elsewhere.broken(), NOTHING);
}
