//! Unit tests of `engine_time`.

use super::*;
use crate::time::{millis, seconds};

const STAMP: Timestamp = Timestamp::from_millis(1_000_000);
const SENT: Duration = seconds(100);

/// What is known after a claim that was under way for so long.
fn after(way: Duration) -> EngineTime {
    let mut time = EngineTime::UNKNOWN;
    time.learn(STAMP, SENT, SENT + way);
    time
}

#[test]
fn engine_time_counts_from_the_sending_of_the_claim() {
    let time = after(millis(6));
    let at = time.at(SENT + millis(6));
    assert!(at >= STAMP + millis(6), "{at}");
    assert!(at < STAMP + millis(7), "{at}");
}

#[test]
fn the_claim_with_the_shortest_way_there_counts() {
    let mut time = after(millis(1));
    let (sent, received) = (SENT + millis(10), SENT + millis(18));
    // Stamped 5 ms after it was sent: counted from there it would be 13 ms at its arrival.
    time.learn(STAMP + millis(15), sent, received);
    assert!(time.at(received) < STAMP + millis(19));
}

#[test]
fn a_bound_that_is_old_gives_way_to_a_better_one() {
    let mut time = after(millis(1));
    let sent = SENT + seconds(25);
    time.learn(STAMP + seconds(25), sent, sent + millis(1));
    assert!(time.at(sent + millis(1)) <= STAMP + seconds(25) + millis(2));
}

#[test]
fn an_engine_clock_that_was_set_forward_counts_from_then_on() {
    let mut time = after(millis(1));
    let sent = SENT + millis(10);
    let stamp = STAMP + seconds(60);
    time.learn(stamp, sent, sent + millis(1));
    assert!(time.at(sent + millis(1)) >= stamp + millis(1));
}

#[test]
fn an_engine_clock_that_was_set_back_counts_from_then_on() {
    let mut time = after(millis(1));
    let sent = SENT + seconds(60);
    time.learn(STAMP + seconds(1), sent, sent + millis(1));
    assert!(time.at(sent + millis(1)) <= STAMP + seconds(1) + millis(2));
}
