//! Unit tests of `batcher`.

use punctual::Result;
use punctual::time::seconds;
use tokio::sync::oneshot::{Receiver, channel};

use super::{
    Answer, BYTES_MAX, Batcher, CALLS_MAX, COST_MAX_US, Call, FULL_US, IN_FLIGHT_MAX, InFlight,
};
use crate::transport::link::Deadline;

/// A call with a body of so many bytes, and its caller.
fn call(bytes: usize, cost_us: usize) -> (Call, Receiver<Result<Answer>>) {
    let (answer, caller) = channel();
    let call = Call {
        verb: "enqueue",
        body: vec![0; bytes].into(),
        cost_us,
        deadline: Deadline::within(seconds(1)),
        answer,
    };
    (call, caller)
}

/// A class where these wait, each of so many bytes and such a cost.
fn class(calls: &[(usize, usize)]) -> (Batcher, Vec<Receiver<Result<Answer>>>) {
    let class = Batcher::default();
    let join = |(bytes, cost_us): &(usize, usize)| {
        let (call, caller) = call(*bytes, *cost_us);
        class.join(call);
        caller
    };
    let callers = calls.iter().map(join).collect();
    (class, callers)
}

/// The bytes of the calls that leave next.
fn load(calls: Option<Vec<Call>>) -> Vec<usize> {
    let calls = calls.into_iter().flatten();
    calls.map(|call| call.body.bytes()).collect()
}

#[test]
fn the_first_call_starts_a_batch_and_others_wait() {
    let class = Batcher::default();
    let mut callers = Vec::new();
    let mut join = || {
        let (call, caller) = call(1, 1);
        callers.push(caller);
        class.join(call)
    };
    assert!(join());
    let mut in_flight = class.start();
    assert_eq!(load(in_flight.next()), [1]);
    assert!(!join());
    assert!(!join());
    assert_eq!(load(in_flight.next()), [1, 1]);
    assert!(in_flight.next().is_none());
    assert!(join());
}

#[test]
fn a_full_batch_starts_at_once_within_a_bound() {
    let class = Batcher::default();
    let mut callers = Vec::new();
    let mut join = |cost_us| {
        let (call, caller) = call(1, cost_us);
        callers.push(caller);
        class.join(call)
    };
    assert!(join(1));
    let mut in_flight = vec![class.start()];
    assert_eq!(load(in_flight[0].next()), [1]);
    assert!(!join(FULL_US - 1));
    assert!(join(1));
    in_flight.push(class.start());
    assert_eq!(load(in_flight[1].next()), [1, 1]);
    while in_flight.len() < IN_FLIGHT_MAX {
        assert!(join(FULL_US));
        in_flight.push(class.start());
        assert_eq!(load(in_flight.last_mut().and_then(InFlight::next)), [1]);
    }
    assert!(!join(FULL_US));
}

#[test]
fn calls_leave_in_the_order_of_arrival() {
    let (class, _callers) = class(&[(3, 1), (1, 1), (2, 1)]);
    assert_eq!(load(class.start().next()), [3, 1, 2]);
}

#[test]
fn what_leaves_together_is_bounded_in_calls_bytes_and_time() {
    let (many, _callers) = class(&[(1, 0); CALLS_MAX + 1]);
    assert_eq!(load(many.start().next()).len(), CALLS_MAX);
    let (large, _callers) = class(&[(BYTES_MAX - 1, 0), (1, 0), (2, 0)]);
    let mut in_flight = large.start();
    assert_eq!(load(in_flight.next()), [BYTES_MAX - 1, 1]);
    assert_eq!(load(in_flight.next()), [2]);
    let (long, _callers) = class(&[(1, COST_MAX_US), (2, 1), (3, COST_MAX_US)]);
    let mut in_flight = long.start();
    assert_eq!(load(in_flight.next()), [1]);
    assert_eq!(load(in_flight.next()), [2]);
    assert_eq!(load(in_flight.next()), [3]);
}

#[test]
fn a_call_beyond_every_bound_leaves_alone() {
    let (class, _callers) = class(&[(BYTES_MAX + 1, COST_MAX_US + 1), (1, 1)]);
    let mut in_flight = class.start();
    assert_eq!(load(in_flight.next()), [BYTES_MAX + 1]);
    assert_eq!(load(in_flight.next()), [1]);
}

#[test]
fn a_call_whose_caller_has_gone_is_left_behind() {
    let (class, mut callers) = class(&[(1, 1), (2, 1), (3, 1)]);
    drop(callers.remove(1));
    assert_eq!(load(class.start().next()), [1, 3]);
}

#[test]
fn a_dropped_batch_makes_room_for_another() {
    let (class, _callers) = class(&[(1, 1)]);
    let mut in_flight = class.start();
    assert_eq!(load(in_flight.next()), [1]);
    drop(in_flight);
    let (call, _caller) = call(2, 1);
    assert!(class.join(call));
}
