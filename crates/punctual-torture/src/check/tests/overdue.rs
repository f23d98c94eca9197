//! Tests of the checker: calls after the lease.

use punctual::State;

use super::told::{CLAIMED, LEASE_DURATION, MS, Told, completed, token};
use crate::check::bounded::TURN;
use crate::event::{Event, Verdict};

/// When the lease of the first claim is over.
const OVER: u64 = CLAIMED + LEASE_DURATION;

/// A worker comes with the end of its attempt that long after its lease, and nobody else has
/// claimed the job.
fn late(by: u64, answer: Option<Verdict>) -> Told {
    let mut told = Told::nothing();
    told.sends(super::told::JOB, "created");
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.runs("worker", CLAIMED + MS, 1);
    told.settles("worker", OVER + by, 1, "completed", answer);
    told.ends_as(State::Completed, 1);
    // The engine answers others all the while.
    told.answers_others(CLAIMED, OVER + by + 10 * MS);
    told
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

#[test]
fn an_extension_without_an_answer_excuses_what_comes_while_it_may_last() {
    let given_up = CLAIMED + 500 * MS;
    let unsure = |by: u64| {
        let mut told = late(by, completed());
        let (invoked, tokens) = (CLAIMED + 400 * MS, vec![token(1)]);
        told.say("worker", given_up, Event::ExtendUnknown { invoked, tokens });
        (told.broken(), told.judged().tally.late_excused)
    };
    let lasts = given_up + TURN + LEASE_DURATION - OVER;
    assert_eq!(unsure(lasts), (vec![], 1));
    assert_eq!(unsure(lasts + MS), (vec!["I3".to_owned()], 0));
}

#[test]
fn late_refusals_are_judged_and_told_apart_from_unjudged_ones() {
    let tally = |told: &Told| {
        let tally = told.judged().tally;
        (tally.late_judged, tally.late_excused)
    };
    let refused = Some(Verdict::LeaseLost);
    assert_eq!(tally(&late(100 * MS, refused.clone())), (1, 0));
    assert_eq!(tally(&late(100 * MS, completed())), (1, 0));
    assert_eq!(tally(&Told::one_job()), (0, 0), "in time");
    let excused = |answer| {
        let mut told = late(100 * MS, answer);
        told.fault("F12", CLAIMED + 100 * MS, CLAIMED + 200 * MS);
        tally(&told)
    };
    assert_eq!(excused(completed()), (0, 1));
    assert_eq!(excused(refused), (0, 0));
}

/// The extension itself comes after the lease, and is found.
#[test]
fn an_extension_excuses_the_end_beside_it_and_no_earlier_one() {
    let late_ones = |extended: u64| {
        let mut told = late(100 * MS, completed());
        told.extends(
            "worker",
            extended,
            token(1),
            Some(OVER + 2 * LEASE_DURATION),
        );
        told.judged().tally.stale_accepted
    };
    let end = OVER + 100 * MS;
    assert_eq!(late_ones(end + MS), 1);
    assert_eq!(late_ones(end + 3 * MS), 2);
}

#[test]
fn an_extension_after_the_lease_has_run_out_that_is_accepted_is_found() {
    let mut told = late(200 * MS, Some(Verdict::LeaseLost));
    told.extends(
        "worker",
        OVER + 100 * MS,
        token(1),
        Some(OVER + LEASE_DURATION),
    );
    assert!(
        told.broken().contains(&"I3".to_owned()),
        "{:?}",
        told.broken()
    );
}

#[test]
fn a_lease_that_was_spared_as_the_engine_had_answered_nobody_is_no_break() {
    let mut told = late(100 * MS, completed());
    let silent = CLAIMED + 200 * MS..CLAIMED + 200 * MS + LEASE_DURATION / 2 + 20 * MS;
    told.forget(|event| matches!(event, Event::ClaimOk { now, .. } if silent.contains(now)));
    assert!(told.broken().is_empty(), "{:?}", told.broken());
}

#[test]
fn a_lease_that_a_network_may_have_extended_late_is_not_judged() {
    let beside = |fault| {
        let mut told = late(100 * MS, completed());
        told.fault(fault, CLAIMED + 100 * MS, CLAIMED + 200 * MS);
        told.broken()
    };
    assert!(beside("F12").is_empty());
    assert_eq!(beside("F01"), ["I3"]);
}

/// The end comes in the microsecond after so many answers to others since its lease ran out.
fn after_answers(answers: u64) -> Told {
    let mut told = late(answers * 10 * MS, completed());
    told.forget(|event| matches!(event, Event::ClaimOk { now, .. } if *now > OVER));
    for answer in 0..answers {
        told.answers_others(OVER + MS + answer * MS, OVER + 2 * MS + answer * MS);
    }
    told
}

/// A call rescues a bounded number of jobs, and others may have taken their turn.
#[test]
fn an_end_is_judged_after_five_calls_that_could_have_rescued_the_job() {
    assert_eq!(after_answers(4).broken(), NOTHING);
    assert_eq!(after_answers(5).broken(), ["I3"]);
}

#[test]
fn an_engine_is_silent_once_it_answers_nobody_for_more_than_half_a_lease() {
    let silent_for = |span: u64| {
        let mut told = late(100 * MS, completed());
        let from = CLAIMED + 200 * MS;
        let is_silent = from + 1..from + span;
        told.forget(|event| matches!(event, Event::ClaimOk { now, .. } if is_silent.contains(now)));
        told.answers_others(from + span, from + span + MS);
        told.broken()
    };
    assert_eq!(silent_for(LEASE_DURATION / 2), ["I3"]);
    assert_eq!(silent_for(LEASE_DURATION / 2 + 1), NOTHING);
}

/// A lease of which a later claim was told that less is left of its lease is as short as that.
#[test]
fn a_lease_that_was_told_twice_ends_with_the_later_end() {
    let mut told = late(100 * MS, completed());
    told.claims("worker", CLAIMED + 50 * MS, 1, (0, 0));
    assert_eq!(told.broken(), ["I3"], "50 ms after the later end");
    told.claims("worker", CLAIMED + 101 * MS, 1, (0, 0));
    assert_eq!(told.broken(), NOTHING);
}

const NOTHING: [&str; 0] = [];
