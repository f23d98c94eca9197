use super::*;
use crate::time::millis;

fn waiting() -> Suspects {
    let mut suspects = Suspects::default();
    suspects.seen(true);
    suspects
}

#[test]
fn no_turn_before_one_is_seen() {
    assert!(!Suspects::default().is_turn(seconds(9)));
    assert!(waiting().is_turn(Duration::ZERO));
}

#[test]
fn short_ones_are_taken_in_a_row_for_a_second() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(millis(0)));
    suspects.done(millis(400), true);
    assert!(suspects.is_turn(millis(400)));
    suspects.done(millis(1_000), true);
    assert!(!suspects.is_turn(millis(1_001)), "usual work has its turn");
}

#[test]
fn usual_work_goes_on_four_times_as_long() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(10)));
    suspects.done(seconds(13), true);
    assert_eq!(suspects.turn_at(), Some(seconds(13 + 12)));
    assert!(!suspects.is_turn(seconds(24)));
    assert!(suspects.is_turn(seconds(25)));
}

#[test]
fn an_idle_worker_does_not_rest() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(0)));
    suspects.done(seconds(5), true);
    suspects.idle();
    assert!(suspects.is_turn(seconds(5)));
}

#[test]
fn handlers_that_do_not_end_are_given_more_time_each_turn() {
    let mut suspects = waiting();
    let mut patience = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..8 {
        assert!(suspects.is_turn(now));
        patience.push(suspects.patience().as_secs());
        now += suspects.patience();
        suspects.gave_up(now);
        now = suspects.turn_at().unwrap();
    }
    assert_eq!(patience, [5, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_turn_that_brings_nothing_ends() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(0)));
    suspects.done(seconds(0), false);
    suspects.idle();
    assert!(
        !suspects.is_turn(seconds(3)),
        "an idle worker does not run hot"
    );
    assert!(suspects.is_turn(seconds(4)));
    suspects.seen(false);
    assert_eq!(suspects.turn_at(), None);
}
