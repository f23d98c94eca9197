use punctual::State;

use super::told::{CLAIMED, LEASE, MS, Told, completed, token};
use crate::event::{Event, Verdict};

/// When the lease of the first claim is over.
const OVER: u64 = CLAIMED + LEASE;

/// A worker comes with the end of its attempt that long after its lease, and nobody else has claimed the job.
fn late(by: u64, answer: Option<Verdict>) -> Told {
    let mut told = Told::nothing();
    told.sends(super::told::JOB, "created");
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.runs("worker", CLAIMED + MS, 1);
    told.settles("worker", OVER + by, 1, "completed", answer);
    told.ends_as(State::Completed, 1);
    // The engine answers others all the while.
    answers_others(&mut told, CLAIMED, OVER + by + 10 * MS);
    told
}

/// Somebody else claims every ten milliseconds, and there is nothing for him.
fn answers_others(told: &mut Told, from: u64, until: u64) {
    for at in (from..until).step_by(10 * MS as usize) {
        let claim = Event::ClaimOk {
            invoked: at - MS,
            now: at,
            alone: false,
            pages: Vec::new(),
        };
        told.say("another", at, claim);
    }
}

#[test]
fn an_end_after_the_lease_has_run_out_that_is_accepted_is_found() {
    let accepted = late(100 * MS, completed());
    assert_eq!(accepted.broken(), ["I3"]);
    assert_eq!(accepted.judged().tally.stale_accepted, 1);
    let in_time = late(0, completed());
    assert!(in_time.broken().is_empty(), "{:?}", in_time.broken());
}

#[test]
fn an_end_after_a_lease_that_was_prolonged_is_in_time() {
    let mut told = late(100 * MS, completed());
    told.extends(
        "worker",
        CLAIMED + 500 * MS,
        token(1),
        Some(OVER + 500 * MS),
    );
    assert!(told.broken().is_empty(), "{:?}", told.broken());
    let mut unsure = late(100 * MS, completed());
    let (invoked, tokens) = (CLAIMED + 400 * MS, vec![token(1)]);
    let unknown = Event::ExtendUnknown { invoked, tokens };
    unsure.say("worker", CLAIMED + 500 * MS, unknown);
    assert!(unsure.broken().is_empty(), "{:?}", unsure.broken());
}

/// The extension itself comes after the lease, and is found.
#[test]
fn an_extension_excuses_the_end_beside_it_and_none_that_was_answered_before() {
    let late_ones = |extended: u64| {
        let mut told = late(100 * MS, completed());
        told.extends("worker", extended, token(1), Some(OVER + 2 * LEASE));
        told.judged().tally.stale_accepted
    };
    let end = OVER + 100 * MS;
    assert_eq!(late_ones(end + MS), 1);
    assert_eq!(late_ones(end + 3 * MS), 2);
}

#[test]
fn an_extension_after_the_lease_has_run_out_that_is_accepted_is_found() {
    let mut told = late(200 * MS, Some(Verdict::LeaseLost));
    told.extends("worker", OVER + 100 * MS, token(1), Some(OVER + LEASE));
    assert!(
        told.broken().contains(&"I3".to_owned()),
        "{:?}",
        told.broken()
    );
}

#[test]
fn a_lease_that_was_spared_as_the_engine_had_answered_nobody_is_no_break() {
    let mut told = late(100 * MS, completed());
    let silent = CLAIMED + 200 * MS..CLAIMED + 200 * MS + LEASE / 2 + 20 * MS;
    told.forget(|event| matches!(event, Event::ClaimOk { now, .. } if silent.contains(now)));
    assert!(told.broken().is_empty(), "{:?}", told.broken());
}

#[test]
fn a_lease_that_a_network_may_have_prolonged_late_is_not_judged_and_one_beside_a_killed_worker_is()
{
    let beside = |fault| {
        let mut told = late(100 * MS, completed());
        told.fault(fault, CLAIMED + 100 * MS, CLAIMED + 200 * MS);
        told.broken()
    };
    assert!(beside("F12").is_empty());
    assert_eq!(beside("F01"), ["I3"]);
}
