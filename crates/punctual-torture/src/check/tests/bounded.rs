use punctual::time::{millis, seconds};

use super::told::{JOB, MS, SENT, Told};
use crate::cell::CellKind;

/// When the job is acknowledged.
const ANSWERED: u64 = SENT + MS;
/// What a power cut may take.
const MOST: u64 = 200 * MS;

/// An acknowledged job is gone, and a fault held from so long after its answer on.
fn gone(fault: &str, after: u64) -> Told {
    let mut told = Told::nothing();
    told.loses_at_most = Some(MOST);
    told.sends(JOB, "created");
    told.fault(fault, ANSWERED + after, ANSWERED + after + 50 * MS);
    told
}

/// Whether L is among the broken.
fn is_found(told: &Told) -> bool {
    told.broken().contains(&"L".to_owned())
}

#[test]
fn what_was_acknowledged_shortly_before_a_power_cut_may_be_lost_by_it() {
    assert!(!is_found(&gone("F05", MOST)));
    assert_eq!(gone("F05", MOST).looked_at("L"), 1);
}

#[test]
fn what_was_acknowledged_before_that_and_is_lost_is_found() {
    assert!(is_found(&gone("F05", MOST + 1)));
}

#[test]
fn the_bound_of_the_cell_has_room_for_two_slow_syncs() {
    let bound = CellKind::EmbeddedInterval.loses_at_most();
    assert_eq!(bound, Some(millis(200) + seconds(10)));
}

#[test]
fn what_is_lost_by_a_kill_is_found() {
    assert!(is_found(&gone("F06", 10 * MS)));
}

#[test]
fn what_a_power_cut_before_its_answer_cannot_have_taken_is_found() {
    let mut told = Told::nothing();
    told.loses_at_most = Some(MOST);
    told.sends(JOB, "created");
    told.fault("F05", MS, ANSWERED - 1);
    assert!(is_found(&told));
}

#[test]
fn where_nothing_is_said_of_how_much_is_lost_nothing_is_judged() {
    let mut told = gone("F05", MOST + 1);
    told.loses_at_most = None;
    assert!(!is_found(&told));
    assert_eq!(told.looked_at("L"), 0);
}
