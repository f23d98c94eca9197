//! Tests of the checker: bounds.

use punctual::time::{millis, seconds};

use super::scenario::{JOB, MS, SENT, Scenario};
use crate::cell::CellKind;
use crate::check::bounded::{SILENCE, TURN};
use crate::event::Event;

/// When the job is acknowledged.
const ANSWERED: u64 = SENT + MS;
/// What a fault may take.
const MOST: u64 = 200 * MS;
/// That, on a machine that has other work.
const REACH: u64 = MOST + TURN;

/// An acknowledged job is gone, and a fault held from so long after its answer on; the engine
/// answers all the while.
fn gone(fault: &str, after: u64) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.loses_at_most = Some(MOST);
    scenario.sends(JOB, "created");
    scenario.answers_others(ANSWERED, ANSWERED + after);
    scenario.fault(fault, ANSWERED + after, ANSWERED + after + 50 * MS);
    scenario
}

/// The same, and these syncs were noted at the fault, by when they began and ended after the
/// answer.
fn gone_beside(syncs: &[(u64, Option<u64>)], after: u64) -> Scenario {
    let mut scenario = gone("F05", after);
    let since = |at: u64| ANSWERED + at;
    let spans = syncs.iter();
    let spans = spans.map(|(began, ended)| (since(*began), ended.map(since)));
    let spans = spans.collect();
    scenario.say("nemesis", ANSWERED + after + MS, Event::Syncs { spans });
    scenario
}

/// Whether L is among the broken.
fn is_found(scenario: &Scenario) -> bool {
    scenario.broken().contains(&"L".to_owned())
}

#[test]
fn what_was_acknowledged_shortly_before_a_power_cut_may_be_lost_by_it() {
    assert!(!is_found(&gone("F05", REACH)));
    assert_eq!(gone("F05", REACH).checked("L"), 1);
}

#[test]
fn what_was_acknowledged_before_that_and_is_lost_is_found() {
    assert!(is_found(&gone("F05", REACH + 1)));
    let scenario = gone("F05", 3 * REACH).judged();
    let examples = scenario
        .verdicts
        .into_iter()
        .flat_map(|verdict| verdict.examples);
    let example = examples.last().expect("it is found");
    assert!(
        example.contains("2100 ms before F05 (a fault), 2100 of which count"),
        "{example}"
    );
}

#[test]
fn what_the_syncs_before_a_power_cut_really_took_comes_on_top_and_no_more() {
    // One that does not have what was written meanwhile, and the one after it, which the cut meets.
    let took = 1_700 * MS;
    let second = took + MOST;
    let syncs = [(0, Some(took)), (second, None)];
    let after = |more: u64| second + 900 * MS + TURN + more;
    let beside =
        |more: u64| gone_beside(&[syncs[0], (second, Some(second + 900 * MS))], after(more));
    assert!(!is_found(&beside(0)));
    assert!(is_found(&beside(1)));
    assert!(
        !is_found(&gone_beside(&syncs, after(10_000 * MS))),
        "it is under way"
    );
    assert!(is_found(&gone_beside(&[syncs[0]], after(0))));
}

#[test]
fn syncs_of_two_files_at_the_same_time_take_no_longer_than_one() {
    let one = (MS, Some(1_001 * MS));
    let beside = |syncs: &[_], after| is_found(&gone_beside(syncs, after));
    let after = REACH + 1_000 * MS;
    assert!(!beside(&[one], after));
    assert!(beside(&[one, one], after + 1));
    assert!(!beside(
        &[one, (501 * MS, Some(1_501 * MS))],
        after + 500 * MS
    ));
    assert!(beside(
        &[one, (501 * MS, Some(1_501 * MS))],
        after + 500 * MS + 1
    ));
    let within = [one, (101 * MS, Some(501 * MS))];
    assert!(!beside(&within, after));
    assert!(beside(&within, after + 1));
}

#[test]
fn what_is_acknowledged_while_the_power_is_being_cut_may_be_lost() {
    let mut scenario = Scenario::nothing();
    scenario.loses_at_most = Some(MOST);
    scenario.sends(JOB, "created");
    scenario.fault("F05", ANSWERED - 5 * MS, ANSWERED + 50 * MS);
    let spans = vec![(ANSWERED - 8 * MS, Some(ANSWERED + 8 * MS))];
    scenario.say("nemesis", ANSWERED + 9 * MS, Event::Syncs { spans });
    assert!(!is_found(&scenario));
}

#[test]
fn a_sync_in_which_the_process_was_killed_was_over_with_it() {
    let killed = 300 * MS;
    let lost_after = |after: u64| {
        let mut scenario = gone_beside(&[(100 * MS, None)], after);
        scenario.fault("F06", ANSWERED + 250 * MS, ANSWERED + killed);
        is_found(&scenario)
    };
    let after = REACH + killed - 100 * MS;
    assert!(!lost_after(after));
    assert!(lost_after(after + 1));
}

#[test]
fn of_a_silence_only_the_first_part_counts() {
    let silent_for = |span: u64, after: u64| {
        let mut scenario = gone("F05", after);
        let silent = ANSWERED + 1..ANSWERED + span;
        scenario
            .forget(|event| matches!(event, Event::ClaimOk { now, .. } if silent.contains(now)));
        scenario.answers_others(ANSWERED + span, ANSWERED + span + MS);
        is_found(&scenario)
    };
    let span = 4_000 * MS;
    assert!(!silent_for(span, REACH + span - SILENCE));
    assert!(silent_for(span, REACH + span - SILENCE + 1));
    assert!(silent_for(SILENCE, REACH + 1), "that is none");
}

#[test]
fn cells_are_held_to_what_the_table_of_durabilities_says() {
    let said = |cell: CellKind| cell.loses_at_most();
    assert_eq!(said(CellKind::EmbeddedInterval), Some(millis(200)));
    assert_eq!(said(CellKind::RedisEverysec), Some(seconds(2)));
    assert_eq!(said(CellKind::RedisEverysecSlow), Some(seconds(2)));
    assert_eq!(said(CellKind::RedisEverysecPower), Some(seconds(2)));
}

#[test]
fn what_is_lost_by_a_kill_is_found() {
    assert!(is_found(&gone("F06", 10 * MS)));
}

#[test]
fn a_kill_of_redis_takes_what_it_said_that_it_had_delayed_to_write() {
    let met = |bytes: u64, after: u64| {
        let mut scenario = gone("F03", after);
        let (at, delayed) = (ANSWERED + after + 10 * MS, 0);
        scenario.say("nemesis", at, Event::Unwritten { bytes, delayed });
        is_found(&scenario)
    };
    assert!(!met(1, REACH));
    assert!(met(1, REACH + 1));
    assert!(met(0, 10 * MS), "it had written all");
    let mut another = gone("F03", 10 * MS);
    let (bytes, delayed) = (1, 0);
    another.say("nemesis", MS, Event::Unwritten { bytes, delayed });
    assert!(is_found(&another), "that was another kill");
}

#[test]
fn what_redis_answers_once_it_was_asked_what_it_delayed_may_be_lost() {
    let mut scenario = Scenario::nothing();
    scenario.loses_at_most = Some(MOST);
    scenario.sends(JOB, "created");
    scenario.fault("F03", ANSWERED, ANSWERED + 50 * MS);
    assert!(!is_found(&scenario));
}

#[test]
fn what_a_power_cut_before_its_answer_cannot_have_taken_is_found() {
    let mut scenario = Scenario::nothing();
    scenario.loses_at_most = Some(MOST);
    scenario.sends(JOB, "created");
    scenario.fault("F05", MS, ANSWERED - 1);
    assert!(is_found(&scenario));
}

#[test]
fn where_nothing_is_said_of_how_much_is_lost_nothing_is_judged() {
    let mut scenario = gone("F05", REACH + 1);
    scenario.loses_at_most = None;
    assert!(!is_found(&scenario));
    assert_eq!(scenario.checked("L"), 0);
}
