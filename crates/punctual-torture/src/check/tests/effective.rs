//! Tests of the checker: effective faults.

use super::scenario::{AFTER_CRASH, CLAIMED, ENOUGH, JOB, LEASE_DURATION, MS, SENT, Scenario};
use crate::check::something_was_done;
use crate::event::Event;

/// Long before anything else, and long after.
const BEFORE: u64 = SENT - 5 * MS;
const QUIET: u64 = ENOUGH - 9_000 * MS;

/// Of a fault in a round of one job: whether it met something.
fn effective(scenario: &Scenario, id: &str) -> bool {
    let tally = scenario.judged().tally;
    assert_eq!(tally.faults.get(id), Some(&1), "it was caused");
    let (checked, effective) = tally.effective[id];
    assert_eq!(checked, 1);
    effective == 1
}

/// A fault of what all share.
fn effective_at(id: &str, from: u64, until: u64) -> bool {
    let mut scenario = Scenario::one_job();
    scenario.fault(id, from, until);
    effective(&scenario, id)
}

/// A fault of these processes, in a round in which one crashes and another one takes its job.
fn effective_on(process: &str, id: &str, from: u64, until: u64) -> bool {
    let mut scenario = Scenario::a_crash();
    scenario.fault_on(&[process], id, from, until);
    effective(&scenario, id)
}

#[test]
fn a_black_hole_is_effective_only_with_a_call_under_way() {
    assert!(!effective_at("F12", QUIET, QUIET + 2_000 * MS));
    assert!(!effective_at("F12", BEFORE, BEFORE + MS));
    assert!(
        effective_at("F12", BEFORE, SENT + MS),
        "a job was being sent"
    );
    assert!(effective_at("F12", CLAIMED - MS, CLAIMED - MS), "a claim");
    let settled = CLAIMED + 5 * MS;
    assert!(effective_at("F12", settled, settled), "an end was settled");
    assert!(!effective_at("F12", settled + 2 * MS, settled + 3 * MS));
}

#[test]
fn a_server_that_is_away_meets_calls_and_no_lease_without_calls() {
    let (from, until) = (CLAIMED + 2 * MS, CLAIMED + 4 * MS);
    assert!(!effective_at("F02", from, until));
    assert!(effective_at("F02", from, CLAIMED + 5 * MS));
}

#[test]
fn a_kill_of_a_worker_is_effective_if_it_held_or_called_something() {
    let (from, until) = (CLAIMED + 2 * MS, CLAIMED + 4 * MS);
    assert!(
        effective_on("worker", "F01", from, until),
        "it held a lease"
    );
    assert!(
        !effective_on("another", "F01", from, until),
        "it had nothing"
    );
    assert!(!effective_on("work", "F01", from, until), "there is none");
    let over = CLAIMED + LEASE_DURATION + MS;
    assert!(
        !effective_on("worker", "F01", over, over),
        "its lease was over"
    );
    let later = AFTER_CRASH + 2 * MS;
    assert!(effective_on(
        "another",
        "F08",
        later,
        later + 3 * LEASE_DURATION
    ));
    let settled = AFTER_CRASH + 7 * MS;
    assert!(!effective_on(
        "another",
        "F08",
        settled,
        settled + LEASE_DURATION
    ));
}

#[test]
fn a_wait_that_broke_was_under_way() {
    let mut scenario = Scenario::one_job();
    scenario.fault("F13", QUIET, QUIET);
    assert!(!effective(&scenario, "F13"));
    let (invoked, what) = (QUIET - 500 * MS, "wait: closed".to_owned());
    scenario.say("another", QUIET + MS, Event::Failed { invoked, what });
    assert!(effective(&scenario, "F13"));
}

#[test]
fn a_call_without_an_answer_is_not_under_way_for_ever() {
    let mut scenario = Scenario::one_job();
    scenario.invokes(JOB, 99, QUIET);
    scenario.fault("F12", QUIET + 1_001 * MS, QUIET + 2_000 * MS);
    assert!(!effective(&scenario, "F12"));
    scenario.invokes(JOB, 100, QUIET + 2 * MS);
    assert!(effective(&scenario, "F12"));
}

#[test]
fn memory_that_is_full_meets_producers() {
    assert!(!effective_at("F18", CLAIMED - MS, CLAIMED));
    assert!(effective_at("F18", SENT, SENT));
}

#[test]
fn functions_that_are_gone_meet_the_next_caller() {
    assert!(effective_at("F16", SENT - 500, SENT - 400));
    assert!(!effective_at("F16", QUIET, QUIET + MS));
}

#[test]
fn what_was_counted_where_it_was_caused_met_something() {
    let mut scenario = Scenario::one_job();
    scenario.fault("F20", QUIET, QUIET + MS);
    assert!(!effective(&scenario, "F20"));
    scenario.change(|event| {
        if let Event::Healed { met, .. } = event {
            *met = true;
        }
    });
    assert!(effective(&scenario, "F20"));
}

#[test]
fn dropped_calls_and_jobs_that_abort_are_always_effective() {
    let mut scenario = Scenario::one_job();
    scenario.say("producer", QUIET, Event::Dropped);
    let abort = Event::Abort {
        id: JOB,
        attempt: 1,
    };
    scenario.say("worker", QUIET, abort);
    let effective = scenario.judged().tally.effective;
    assert_eq!((effective["F30"], effective["F35"]), ((1, 1), (1, 1)));
}

#[test]
fn a_round_in_which_nothing_was_sent_run_or_met_is_found() {
    let mut tally = Scenario::one_job().judged().tally;
    assert_eq!(something_was_done(&tally).broken, 1, "there was no fault");
    tally.faults.insert("F02".into(), 1);
    tally.effective.insert("F02".into(), (1, 0));
    assert_eq!(something_was_done(&tally).broken, 1, "it met nothing");
    tally.effective.insert("F02".into(), (1, 1));
    assert!(something_was_done(&tally).holds());
    (tally.acknowledged, tally.starts) = (0, 0);
    assert_eq!(something_was_done(&tally).broken, 2);
}

#[test]
fn a_round_that_ran_nothing_as_all_was_lost_proves_that() {
    let mut tally = Scenario::one_job().judged().tally;
    tally.effective.insert("F02".into(), (1, 1));
    tally.starts = 0;
    assert_eq!(something_was_done(&tally).broken, 1, "nothing was run");
    tally.lost = tally.acknowledged;
    assert!(something_was_done(&tally).holds());
}
