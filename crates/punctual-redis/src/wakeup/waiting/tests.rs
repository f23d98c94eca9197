//! Unit tests of `waiting`.

use punctual::Namespace;
use punctual::engine::{Stats, WorkerRecord, WorkerSeen};
use punctual::time::{Timestamp, minutes, seconds};

use super::free_workers;
use super::turns::{Turns, poll_interval};

#[test]
fn gone_workers_are_not_counted() {
    let at = |second: u64| Timestamp::ZERO + seconds(600 + second);
    let now = at(60);
    let seen = |ago: u64| WorkerSeen::new(WorkerRecord::default(), at(60 - ago), 0);
    let count = |workers: Vec<WorkerSeen>| {
        let mut stats = Stats::new(now);
        stats.workers = workers;
        free_workers(&stats)
    };
    assert_eq!(count((0..200).map(|_| seen(31)).collect()), 1);
    assert_eq!(count(vec![seen(0), seen(25), seen(31), seen(59)]), 2);
    let full = |leased| {
        let mut full = seen(1);
        (full.worker.slots, full.leased) = (8, leased);
        full
    };
    assert_eq!(count(vec![seen(0), full(7), full(8), full(9)]), 2);
}

#[test]
fn all_waiters_share_a_bounded_poll_rate() {
    assert_eq!(poll_interval(1), seconds(1));
    assert_eq!(poll_interval(22), seconds(1));
    for count in [23, 60, 200, 1_000, 100_000] {
        let together = f64::from(count) / poll_interval(count).as_secs_f64();
        assert!((22.0..23.0).contains(&together), "{count}: {together}");
    }
    // Lost data are reported to each of a hundred within five seconds.
    assert!(poll_interval(100) < seconds(5));
}

#[test]
fn one_waiter_polls_for_all_of_the_same_queues() {
    let turns = Turns::default();
    let here = Namespace::default();
    let join = |queue: &str| turns.join(&here, &[queue.to_owned()]);
    let (one, same, other) = (join("mail"), join("mail"), join("orders"));
    assert_eq!(turns.sets(), 2);
    assert_eq!(one.take(minutes(1)), None);
    for again in [&one, &same] {
        let left = again.take(minutes(1)).expect("one has just looked");
        assert!(left > seconds(30) && left <= minutes(1), "{left:?}");
    }
    assert_eq!(other.take(minutes(1)), None, "it is another queue");
    assert_eq!(same.take(seconds(0)), None, "its turn comes");
    drop((one, other));
    assert_eq!(turns.sets(), 1);
    drop(same);
    assert_eq!(turns.sets(), 0, "nothing is kept of who has gone");
}
