use punctual_model::{Bug, Law};
use stateright::{Checker, Model};

/// Every state that there is. Where the process may be killed all else may happen too.
#[test]
fn every_state_keeps_the_law() {
    let law = Law {
        bug: None,
        failover: true,
    };
    let checker = law.checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done(), "it has to come to its end");
    checker.assert_properties();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    println!(
        "{states} states, {steps} steps, at most {} deep",
        checker.max_depth()
    );
}

#[test]
fn every_planted_bug_is_found() {
    let expected = [
        (Bug::SettleIgnoresToken, "a stale settle is refused"),
        (
            Bug::ExtendIgnoresToken,
            "a lease lasts as its holder extends it",
        ),
        (Bug::ClaimTakesActive, "one valid lease"),
        (
            Bug::RescueDoesNotLook,
            "what was acknowledged as completed stays so",
        ),
        (
            Bug::RescueDoesNotCount,
            "every lease that ran out is a crash, and nothing else is",
        ),
        (
            Bug::NeighboursAreBlamed,
            "only a job that crashed alone is poison",
        ),
        (Bug::CancelIsForgotten, "a cancelled job never waits again"),
        (
            Bug::EffectsOutsideStep,
            "an effect comes once, with its outcome",
        ),
        (
            Bug::FailoverForgets,
            "what was acknowledged as completed stays so",
        ),
    ];
    assert_eq!(expected.map(|(bug, _)| bug), Bug::ALL);
    for (bug, property) in expected {
        let law = Law {
            bug: Some(bug),
            failover: true,
        };
        let found = stateright::HasDiscoveries::AnyOf(std::collections::BTreeSet::from([property]));
        let checker = law.checker().finish_when(found).spawn_bfs().join();
        let path = checker.discovery(property);
        let path = path.unwrap_or_else(|| panic!("{bug:?} breaks {property:?} unseen"));
        println!("{bug:?} breaks {property:?} by {:?}", path.into_actions());
    }
}
