//! Checks every state that small laws lead to.

use punctual_model::{Bug, Law, Replication};
use stateright::{Checker, Model};

/// Visits every state that a law leads to, and holds the invariants against each.
fn is_kept(law: Law) {
    let checker = law.checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done(), "it has to come to its end");
    checker.assert_properties();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    let deep = checker.max_depth();
    println!("{states} states, {steps} steps, at most {deep} deep");
}

/// Where the process may be killed all else may happen too.
const KILLED: Law = Law {
    bug: None,
    failover: true,
    replication: Replication::None,
    jobs: 2,
};

/// A failover to a replica that has all that a client received, and perhaps not what none did.
const AWAITED: Law = Law {
    failover: false,
    replication: Replication::Awaited,
    ..KILLED
};

/// A failover to a replica that no client waited for: what was acknowledged since the last tick may
/// be lost. Each job is lost by itself, so one is enough; two have more states than there is
/// patience for.
const UNAWAITED: Law = Law {
    replication: Replication::Unawaited,
    jobs: 1,
    ..AWAITED
};

#[test]
fn every_state_keeps_the_law() {
    is_kept(KILLED);
}

#[test]
fn every_state_keeps_the_law_over_failovers_to_an_awaited_replica() {
    is_kept(AWAITED);
}

/// No stale settle is taken and nothing comes early, whatever is lost; and something is.
#[test]
fn every_state_keeps_what_is_left_of_the_law_over_failovers_that_lose() {
    is_kept(UNAWAITED);
}

#[test]
fn every_injected_bug_is_found() {
    let expected = [
        (KILLED, Bug::SettleIgnoresToken, "a stale settle is refused"),
        (
            KILLED,
            Bug::ExtendIgnoresToken,
            "a lease lasts as its holder extends it",
        ),
        (KILLED, Bug::ClaimTakesActive, "one valid lease"),
        (
            KILLED,
            Bug::RescueDoesNotCheck,
            "what was acknowledged as completed stays so",
        ),
        (
            KILLED,
            Bug::RescueDoesNotCount,
            "every lease that ran out is a crash, and nothing else is",
        ),
        (
            KILLED,
            Bug::NeighboursAreBlamed,
            "only a job that crashed alone is poison",
        ),
        (
            KILLED,
            Bug::CancelIsForgotten,
            "a cancelled job never waits again",
        ),
        (
            KILLED,
            Bug::EffectsOutsideStep,
            "an effect comes once, with its outcome",
        ),
        (
            KILLED,
            Bug::FailoverForgets,
            "what was acknowledged as completed stays so",
        ),
        (
            UNAWAITED,
            Bug::SettleComparesAttempt,
            "a stale settle is refused",
        ),
        (KILLED, Bug::ClaimTakesWaiting, "nothing comes early"),
        (UNAWAITED, Bug::LossForgetsDue, "nothing comes early"),
        (
            AWAITED,
            Bug::AnswerBeforeReplica,
            "what a client saw completed stays so over every failover",
        ),
    ];
    assert_eq!(expected.map(|(_, bug, _)| bug), Bug::ALL);
    for (law, bug, property) in expected {
        let law = Law {
            bug: Some(bug),
            ..law
        };
        let found = stateright::HasDiscoveries::AnyOf(std::collections::BTreeSet::from([property]));
        let checker = law.checker().finish_when(found).spawn_bfs().join();
        let path = checker.discovery(property);
        let path = path.unwrap_or_else(|| panic!("{bug:?} breaks {property:?} unseen"));
        println!("{bug:?} breaks {property:?} by {:?}", path.into_actions());
    }
}
