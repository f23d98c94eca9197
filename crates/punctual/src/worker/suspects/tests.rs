//! Unit tests of `worker::suspects`.

use super::*;
use crate::time::{hours, millis};

/// Those of a worker that takes the first turn at once.
fn waiting() -> Suspects {
    seen_by(WorkerId(0))
}

fn seen_by(worker: WorkerId) -> Suspects {
    let mut suspects = Suspects::new(seconds(30), worker);
    suspects.seen(true, Duration::ZERO);
    suspects
}

#[test]
fn no_turn_before_one_is_seen() {
    assert!(!Suspects::new(seconds(30), WorkerId(0)).is_turn(seconds(9), None));
    assert!(waiting().is_turn(Duration::ZERO, None));
}

#[test]
fn workers_do_not_all_take_their_turn_together() {
    let first_turns = [0, 100, 500, 999].map(|worker| {
        let suspects = seen_by(WorkerId(worker));
        suspects.turn_at(Duration::ZERO).unwrap_or_default()
    });
    let expected = [millis(0), seconds(3), seconds(15), millis(29_970)];
    assert_eq!(first_turns, expected);
    let mut idle = seen_by(WorkerId(999));
    idle.idle();
    assert!(
        idle.is_turn(Duration::ZERO, None),
        "an idle one does not wait"
    );
}

#[test]
fn short_ones_are_taken_in_a_row_for_a_second() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(millis(0), None));
    suspects.done(millis(400), true);
    assert!(suspects.is_turn(millis(400), None));
    suspects.done(millis(1_000), true);
    assert!(
        !suspects.is_turn(millis(1_001), None),
        "usual work has its turn"
    );
}

#[test]
fn usual_work_goes_on_four_times_as_long() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(10), None));
    suspects.done(seconds(13), true);
    assert_eq!(suspects.turn_at(seconds(13)), Some(seconds(13 + 12)));
    assert!(!suspects.is_turn(seconds(24), None));
    assert!(suspects.is_turn(seconds(25), None));
}

#[test]
fn an_idle_worker_does_not_rest() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(0), None));
    suspects.done(seconds(5), true);
    suspects.idle();
    assert!(suspects.is_turn(seconds(5), None));
}

#[test]
fn an_outage_is_followed_by_no_rest() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(0), None));
    suspects.unanswered();
    assert!(suspects.is_turn(seconds(600), None));
    suspects.done(seconds(602), true);
    assert_eq!(suspects.turn_at(seconds(602)), Some(seconds(602 + 8)));
}

#[test]
fn a_handler_that_has_run_longer_than_the_wait_is_not_waited_for() {
    let mut suspects = waiting();
    assert!(!suspects.is_turn(seconds(1), Some(seconds(30))));
    assert!(suspects.is_turn(seconds(1), Some(seconds(29))));
    assert_eq!(
        suspects.wait_left(seconds(1), Some(seconds(29))),
        seconds(1)
    );
    assert_eq!(
        suspects.wait_left(seconds(11), None),
        seconds(20),
        "outcomes that are not settled are waited for too"
    );
}

#[test]
fn a_turn_that_brings_nothing_ends() {
    let mut suspects = waiting();
    assert!(suspects.is_turn(seconds(0), None));
    suspects.done(seconds(0), false);
    suspects.idle();
    assert!(
        !suspects.is_turn(seconds(3), None),
        "an idle worker does not run hot"
    );
    assert!(suspects.is_turn(seconds(4), None));
    suspects.seen(false, seconds(4));
    assert_eq!(suspects.turn_at(seconds(4)), None);
    assert!(!suspects.is_turn(seconds(9), None));
}

/// A worker with more usual work than it can do, in four slots, and a suspect that waits from the
/// start; of all workers the one with the latest first turn.
struct Busy {
    served: Option<Duration>,
    stood_still: Duration,
    longest_stand: Duration,
}

/// Plays two hours of it, in steps of 100 ms. The handlers of a slot all run for one span.
fn play(spans: [Duration; 4]) -> Busy {
    let step = millis(100);
    let mut suspects = seen_by(WorkerId(999));
    let mut started: [Option<Duration>; 4] = std::array::from_fn(|_| Some(Duration::ZERO));
    let (mut now, mut stand) = (Duration::ZERO, Duration::ZERO);
    let mut busy = Busy {
        served: None,
        stood_still: Duration::ZERO,
        longest_stand: Duration::ZERO,
    };
    while now < hours(2) && busy.served.is_none() {
        now += step;
        for (start, span) in started.iter_mut().zip(&spans) {
            start.take_if(|start| now >= *start + *span);
        }
        let eldest = started
            .iter()
            .flatten()
            .min()
            .map(|start| now.saturating_sub(*start));
        let mut stands = suspects.turn_since.is_some() || suspects.is_turn(now, eldest);
        if stands && eldest.is_none() {
            busy.served = Some(now);
        } else if stands && suspects.wait_left(now, eldest).is_zero() {
            suspects.gave_up(now);
            stands = false;
        }
        if stands {
            stand += step;
            busy.stood_still += step;
            busy.longest_stand = busy.longest_stand.max(stand);
        } else {
            stand = Duration::ZERO;
            // The slots do not end together by themselves.
            for (slot, start) in started.iter_mut().enumerate() {
                start.get_or_insert(now + step * slot as u32);
            }
        }
    }
    busy
}

#[test]
fn a_suspect_runs_within_twice_the_wait_of_its_worker() {
    for longest in [
        millis(100),
        millis(700),
        seconds(5),
        seconds(17),
        millis(29_900),
    ] {
        let busy = play([longest, longest / 2, longest / 3, longest / 7]);
        let served = busy.served.expect("it is served");
        assert!(served <= seconds(60), "{longest:?}: {served:?}");
    }
}

#[test]
fn a_suspect_runs_within_ten_times_the_longest_handler() {
    for longest in [
        seconds(30),
        seconds(31),
        seconds(60),
        seconds(111),
        seconds(299),
    ] {
        let busy = play([longest, longest * 3 / 4, longest / 3, longest / 7]);
        let served = busy.served.expect("it is served");
        assert!(served <= longest * 10, "{longest:?}: {served:?}");
    }
}

#[test]
fn usual_work_keeps_four_fifths_of_the_time_beside_long_handlers() {
    for others in [millis(500), seconds(20), seconds(200)] {
        let busy = play([hours(9), others, others / 2, minutes(7)]);
        assert_eq!(busy.served, None);
        assert!(busy.longest_stand <= WAIT_MAX);
        assert!(busy.stood_still <= hours(2) / 5, "{:?}", busy.stood_still);
    }
}

#[test]
fn beside_a_handler_that_never_ends_usual_work_goes_on_at_once() {
    let busy = play([hours(9), millis(500), millis(300), seconds(1)]);
    assert!(busy.stood_still <= seconds(31), "{:?}", busy.stood_still);
}
