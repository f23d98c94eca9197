//! Tests of the checker: emptied data.

use super::told::{DUE, MS, OTHER, Told};
use crate::event::Event;

const NOTHING: [&str; 0] = [];
const EMPTIED: u64 = DUE + 5_000 * MS;

/// A job is stored and done; then the data are emptied, and another one is sent.
fn emptied(answer: impl FnOnce(&mut Told, u64, u64)) -> Told {
    let mut told = Told::one_job();
    told.fault("F17", EMPTIED, EMPTIED + MS);
    let call = told.call();
    told.invokes(OTHER, call, EMPTIED + 2 * MS);
    answer(&mut told, call, EMPTIED + 2 * MS);
    told
}

fn fails(told: &mut Told, call: u64, at: u64, kind: &str) {
    let error = format!("no ({kind}, redis: 127.0.0.1:1)");
    told.say("producer", at, Event::EnqueueUnknown { call, error });
}

#[test]
fn who_is_told_soon_that_the_data_are_gone_goes_on_with_nothing() {
    let told = emptied(|told, call, at| fails(told, call, at + MS, "engine_data_missing"));
    assert_eq!(told.broken(), NOTHING);
    assert!(told.looked_at("T") > 0);
}

#[test]
fn who_is_told_by_a_call_that_was_under_way_need_not_call_again() {
    let mut told = Told::one_job();
    told.fault("F17", EMPTIED, EMPTIED + MS);
    let call = told.call();
    told.invokes(OTHER, call, EMPTIED - MS);
    fails(&mut told, call, EMPTIED + 2 * MS, "engine_data_missing");
    assert_eq!(told.broken(), NOTHING);
    assert!(told.looked_at("T") > 0);
}

#[test]
fn a_job_that_is_stored_as_if_nothing_had_been_is_found() {
    let told = emptied(|told, call, at| told.answers(call, at + MS, "duplicate", None));
    assert!(
        told.broken().contains(&"T".to_owned()),
        "{:?}",
        told.broken()
    );
}

#[test]
fn who_is_told_late_or_something_else_is_found() {
    let late = 6_000 * MS;
    let told = emptied(|told, call, at| fails(told, call, at + late, "engine_data_missing"));
    assert_eq!(told.broken(), ["T"]);
    let told = emptied(|told, call, at| fails(told, call, at + MS, "engine_unavailable"));
    assert_eq!(told.broken(), ["T"]);
}
