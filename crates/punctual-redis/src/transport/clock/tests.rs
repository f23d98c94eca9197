//! Unit tests of `clock`.

use super::*;
use punctual::time::{millis, seconds};

const HOUR: Timestamp = Timestamp::from_micros(3_600_000_000);

#[test]
fn a_short_call_is_believed_before_a_long_one() {
    let clock = ServerClock::default();
    clock.observe(HOUR, millis(2));
    clock.observe(HOUR, millis(100));
    let now = clock.now();
    assert!(now >= HOUR + millis(1) && now < HOUR + millis(30), "{now}");
}

#[test]
fn a_server_whose_time_jumped_is_believed() {
    let clock = ServerClock::default();
    clock.observe(HOUR, millis(2));
    clock.observe(HOUR + seconds(60), millis(100));
    assert!(clock.now() >= HOUR + seconds(60));
    clock.observe(HOUR, millis(100));
    assert!(clock.now() < HOUR + seconds(60));
}
