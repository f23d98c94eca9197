//! Tests of the checker: emptied data.

use super::scenario::{DUE, MS, OTHER, Scenario};
use crate::event::Event;

const NOTHING: [&str; 0] = [];
const EMPTIED: u64 = DUE + 5_000 * MS;

/// A job is stored and done; then the data are emptied, and another one is sent.
fn emptied(answer: impl FnOnce(&mut Scenario, u64, u64)) -> Scenario {
    let mut scenario = Scenario::one_job();
    scenario.fault("F17", EMPTIED, EMPTIED + MS);
    let call = scenario.call();
    scenario.invokes(OTHER, call, EMPTIED + 2 * MS);
    answer(&mut scenario, call, EMPTIED + 2 * MS);
    scenario
}

fn fails(scenario: &mut Scenario, call: u64, at: u64, kind: &str) {
    let error = format!("no ({kind}, redis: 127.0.0.1:1)");
    scenario.say("producer", at, Event::EnqueueUnknown { call, error });
}

#[test]
fn a_caller_that_learns_of_lost_data_goes_on_with_nothing() {
    let scenario =
        emptied(|scenario, call, at| fails(scenario, call, at + MS, "engine_data_missing"));
    assert_eq!(scenario.broken(), NOTHING);
    assert!(scenario.checked("T") > 0);
}

#[test]
fn a_caller_that_learns_by_a_call_under_way_need_not_call_again() {
    let mut scenario = Scenario::one_job();
    scenario.fault("F17", EMPTIED, EMPTIED + MS);
    let call = scenario.call();
    scenario.invokes(OTHER, call, EMPTIED - MS);
    fails(&mut scenario, call, EMPTIED + 2 * MS, "engine_data_missing");
    assert_eq!(scenario.broken(), NOTHING);
    assert!(scenario.checked("T") > 0);
}

#[test]
fn a_job_that_is_stored_as_if_nothing_had_been_is_found() {
    let scenario = emptied(|scenario, call, at| scenario.answers(call, at + MS, "duplicate", None));
    assert!(
        scenario.broken().contains(&"T".to_owned()),
        "{:?}",
        scenario.broken()
    );
}

#[test]
fn a_late_or_different_report_is_found() {
    let late = 6_000 * MS;
    let scenario =
        emptied(|scenario, call, at| fails(scenario, call, at + late, "engine_data_missing"));
    assert_eq!(scenario.broken(), ["T"]);
    let scenario =
        emptied(|scenario, call, at| fails(scenario, call, at + MS, "engine_unavailable"));
    assert_eq!(scenario.broken(), ["T"]);
}
