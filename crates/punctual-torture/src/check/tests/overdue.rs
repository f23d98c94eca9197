//! Tests of the checker: calls after the lease.

use punctual::JobState;

use super::scenario::{CLAIMED, LEASE_DURATION, MS, Scenario, completed, token};
use crate::check::bounded::TURN;
use crate::event::{Event, Verdict};

/// When the lease of the first claim is over.
const OVER: u64 = CLAIMED + LEASE_DURATION;

/// A worker comes with the end of its attempt that long after its lease, and no other has
/// claimed the job.
fn late(by: u64, answer: Option<Verdict>) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(super::scenario::JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.runs("worker", CLAIMED + MS, 1);
    scenario.settles("worker", OVER + by, 1, "completed", answer);
    scenario.ends_as(JobState::Completed, 1);
    // The engine answers others all the while.
    scenario.answers_others(CLAIMED, OVER + by + 10 * MS);
    scenario
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
    let mut scenario = late(100 * MS, completed());
    scenario.extends(
        "worker",
        CLAIMED + 500 * MS,
        token(1),
        Some(OVER + 500 * MS),
    );
    assert!(scenario.broken().is_empty(), "{:?}", scenario.broken());
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
        let mut scenario = late(by, completed());
        let (invoked, tokens) = (CLAIMED + 400 * MS, vec![token(1)]);
        scenario.say("worker", given_up, Event::ExtendUnknown { invoked, tokens });
        (scenario.broken(), scenario.judged().tally.late_excused)
    };
    let lasts = given_up + TURN + LEASE_DURATION - OVER;
    assert_eq!(unsure(lasts), (vec![], 1));
    assert_eq!(unsure(lasts + MS), (vec!["I3".to_owned()], 0));
}

#[test]
fn late_refusals_are_judged_apart_from_unjudged_ones() {
    let tally = |scenario: &Scenario| {
        let tally = scenario.judged().tally;
        (tally.late_judged, tally.late_excused)
    };
    let refused = Some(Verdict::LeaseLost);
    assert_eq!(tally(&late(100 * MS, refused.clone())), (1, 0));
    assert_eq!(tally(&late(100 * MS, completed())), (1, 0));
    assert_eq!(tally(&Scenario::one_job()), (0, 0), "in time");
    let excused = |answer| {
        let mut scenario = late(100 * MS, answer);
        scenario.fault("F12", CLAIMED + 100 * MS, CLAIMED + 200 * MS);
        tally(&scenario)
    };
    assert_eq!(excused(completed()), (0, 1));
    assert_eq!(excused(refused), (0, 0));
}

/// The extension itself comes after the lease, and is found.
#[test]
fn an_extension_excuses_the_end_beside_it_and_no_earlier_one() {
    let late_ones = |extended: u64| {
        let mut scenario = late(100 * MS, completed());
        scenario.extends(
            "worker",
            extended,
            token(1),
            Some(OVER + 2 * LEASE_DURATION),
        );
        scenario.judged().tally.stale_accepted
    };
    let end = OVER + 100 * MS;
    assert_eq!(late_ones(end + MS), 1);
    assert_eq!(late_ones(end + 3 * MS), 2);
}

#[test]
fn an_extension_after_the_lease_has_run_out_that_is_accepted_is_found() {
    let mut scenario = late(200 * MS, Some(Verdict::LeaseLost));
    scenario.extends(
        "worker",
        OVER + 100 * MS,
        token(1),
        Some(OVER + LEASE_DURATION),
    );
    assert!(
        scenario.broken().contains(&"I3".to_owned()),
        "{:?}",
        scenario.broken()
    );
}

#[test]
fn a_lease_that_was_extended_after_a_silence_is_no_break() {
    let mut scenario = late(100 * MS, completed());
    let silent = CLAIMED + 200 * MS..CLAIMED + 200 * MS + LEASE_DURATION / 2 + 20 * MS;
    scenario.forget(|event| matches!(event, Event::ClaimOk { now, .. } if silent.contains(now)));
    assert!(scenario.broken().is_empty(), "{:?}", scenario.broken());
}

#[test]
fn a_lease_that_a_network_may_have_extended_late_is_not_judged() {
    let beside = |fault| {
        let mut scenario = late(100 * MS, completed());
        scenario.fault(fault, CLAIMED + 100 * MS, CLAIMED + 200 * MS);
        scenario.broken()
    };
    assert!(beside("F12").is_empty());
    assert_eq!(beside("F01"), ["I3"]);
}

/// The end comes in the microsecond after so many answers to others since its lease ran out.
fn after_answers(answers: u64) -> Scenario {
    let mut scenario = late(answers * 10 * MS, completed());
    scenario.forget(|event| matches!(event, Event::ClaimOk { now, .. } if *now > OVER));
    for answer in 0..answers {
        scenario.answers_others(OVER + MS + answer * MS, OVER + 2 * MS + answer * MS);
    }
    scenario
}

/// A call rescues a bounded number of jobs, and others may have taken their turn.
#[test]
fn an_end_is_judged_after_five_calls_that_could_have_rescued_the_job() {
    assert_eq!(after_answers(4).broken(), NOTHING);
    assert_eq!(after_answers(5).broken(), ["I3"]);
}

#[test]
fn an_engine_is_silent_without_answers_for_more_than_half_a_lease() {
    let silent_for = |span: u64| {
        let mut scenario = late(100 * MS, completed());
        let from = CLAIMED + 200 * MS;
        let is_silent = from + 1..from + span;
        scenario
            .forget(|event| matches!(event, Event::ClaimOk { now, .. } if is_silent.contains(now)));
        scenario.answers_others(from + span, from + span + MS);
        scenario.broken()
    };
    assert_eq!(silent_for(LEASE_DURATION / 2), ["I3"]);
    assert_eq!(silent_for(LEASE_DURATION / 2 + 1), NOTHING);
}

/// A lease of which a later claim was answered that less is left is as short as that.
#[test]
fn a_lease_that_was_answered_twice_ends_with_the_later_end() {
    let mut scenario = late(100 * MS, completed());
    scenario.claims("worker", CLAIMED + 50 * MS, 1, (0, 0));
    assert_eq!(scenario.broken(), ["I3"], "50 ms after the later end");
    scenario.claims("worker", CLAIMED + 101 * MS, 1, (0, 0));
    assert_eq!(scenario.broken(), NOTHING);
}

const NOTHING: [&str; 0] = [];
