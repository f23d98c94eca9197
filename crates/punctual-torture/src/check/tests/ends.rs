//! Tests of the checker: how attempts end.

use punctual::JobState;

use super::scenario::{CLAIMED, LEASE_DURATION, MS, Scenario};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

/// The second claim counts so many failures and crashes.
fn counted(mut scenario: Scenario, failures: u32, crashes: u32) -> Scenario {
    scenario.change(|event| {
        if let Event::ClaimOk { leases, .. } = event
            && leases[0].jobs[0].attempt == 2
        {
            (leases[0].jobs[0].failures, leases[0].jobs[0].crashes) = (failures, crashes);
        }
    });
    scenario
}

#[test]
fn a_failure_that_is_counted_as_a_crash_is_found_and_the_reverse() {
    assert_eq!(counted(Scenario::a_retry(), 1, 0).broken(), NOTHING);
    assert_eq!(counted(Scenario::a_retry(), 0, 1).broken(), ["I7"]);
    assert_eq!(counted(Scenario::a_crash(), 0, 1).broken(), NOTHING);
    assert_eq!(counted(Scenario::a_crash(), 1, 0).broken(), ["I7"]);
}

#[test]
fn an_attempt_that_is_not_counted_at_all_or_twice_is_found() {
    assert_eq!(counted(Scenario::a_crash(), 0, 0).broken(), ["I7"]);
    assert_eq!(counted(Scenario::a_crash(), 0, 2).broken(), ["I7"]);
    assert_eq!(counted(Scenario::a_retry(), 1, 1).broken(), ["I7"]);
}

/// The first attempt is handed back, and claimed again at once.
fn handed_back(outcome: &str, answer: Option<Verdict>, counts: (u32, u32)) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(super::scenario::JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.settles("worker", CLAIMED + MS, 1, outcome, answer);
    scenario.claims("worker", CLAIMED + LEASE_DURATION + 3 * MS, 2, counts);
    scenario.ends_as(JobState::Dead, 2);
    scenario
}

#[test]
fn what_is_handed_back_is_no_failure_and_no_crash() {
    let taken = |state| Some(Verdict::Settled(state, None));
    for (outcome, state) in [
        ("released", JobState::Ready),
        ("snooze", JobState::Scheduled),
    ] {
        assert_eq!(handed_back(outcome, taken(state), (0, 0)).broken(), NOTHING);
        assert_eq!(handed_back(outcome, taken(state), (1, 0)).broken(), ["I7"]);
        assert_eq!(handed_back(outcome, taken(state), (0, 1)).broken(), ["I7"]);
    }
}

#[test]
fn an_end_without_an_answer_may_count_or_not() {
    assert_eq!(handed_back("retry", None, (1, 0)).broken(), NOTHING);
    assert_eq!(handed_back("retry", None, (0, 1)).broken(), NOTHING);
    assert_eq!(handed_back("retry", None, (0, 0)).broken(), ["I7"]);
    assert_eq!(handed_back("retry", None, (1, 1)).broken(), ["I7"]);
}

#[test]
fn an_end_that_was_refused_does_not_count() {
    let lost = Some(Verdict::LeaseLost);
    assert_eq!(handed_back("retry", lost.clone(), (1, 0)).broken(), ["I7"]);
    let mut scenario = Scenario::a_crash();
    scenario.settles(
        "worker",
        CLAIMED + LEASE_DURATION + 9 * MS,
        1,
        "retry",
        lost,
    );
    assert_eq!(counted(scenario, 1, 0).broken(), ["I7"]);
}
