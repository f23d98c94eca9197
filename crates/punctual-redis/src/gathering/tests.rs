use punctual::Result;
use punctual::time::seconds;
use tokio::sync::oneshot::{Receiver, channel};

use super::{
    Answer, BYTES_MAX, CALLS_MAX, COST_MAX_US, Call, FLIGHTS_MAX, FULL_US, Flight, Gathering,
};
use crate::link::Deadline;

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

/// A lane where these wait, told by their bytes and cost.
fn lane(calls: &[(usize, usize)]) -> (Gathering, Vec<Receiver<Result<Answer>>>) {
    let lane = Gathering::default();
    let join = |(bytes, cost_us): &(usize, usize)| {
        let (call, caller) = call(*bytes, *cost_us);
        lane.join(call);
        caller
    };
    let callers = calls.iter().map(join).collect();
    (lane, callers)
}

/// The bytes of the calls that leave next.
fn load(calls: Option<Vec<Call>>) -> Vec<usize> {
    let calls = calls.into_iter().flatten();
    calls.map(|call| call.body.bytes()).collect()
}

#[test]
fn the_first_call_begins_a_flight_and_others_wait_for_it() {
    let lane = Gathering::default();
    let mut callers = Vec::new();
    let mut join = || {
        let (call, caller) = call(1, 1);
        callers.push(caller);
        lane.join(call)
    };
    assert!(join());
    let mut flight = lane.flight();
    assert_eq!(load(flight.next()), [1]);
    assert!(!join());
    assert!(!join());
    assert_eq!(load(flight.next()), [1, 1]);
    assert!(flight.next().is_none());
    assert!(join());
}

#[test]
fn a_full_load_waits_for_no_flight_but_flights_are_bounded() {
    let lane = Gathering::default();
    let mut callers = Vec::new();
    let mut join = |cost_us| {
        let (call, caller) = call(1, cost_us);
        callers.push(caller);
        lane.join(call)
    };
    assert!(join(1));
    let mut flights = vec![lane.flight()];
    assert_eq!(load(flights[0].next()), [1]);
    assert!(!join(FULL_US - 1));
    assert!(join(1));
    flights.push(lane.flight());
    assert_eq!(load(flights[1].next()), [1, 1]);
    while flights.len() < FLIGHTS_MAX {
        assert!(join(FULL_US));
        flights.push(lane.flight());
        assert_eq!(load(flights.last_mut().and_then(Flight::next)), [1]);
    }
    assert!(!join(FULL_US));
}

#[test]
fn calls_leave_in_the_order_of_arrival() {
    let (lane, _callers) = lane(&[(3, 1), (1, 1), (2, 1)]);
    assert_eq!(load(lane.flight().next()), [3, 1, 2]);
}

#[test]
fn what_leaves_together_is_bounded_in_calls_bytes_and_time() {
    let (many, _callers) = lane(&[(1, 0); CALLS_MAX + 1]);
    assert_eq!(load(many.flight().next()).len(), CALLS_MAX);
    let (large, _callers) = lane(&[(BYTES_MAX - 1, 0), (1, 0), (2, 0)]);
    let mut flight = large.flight();
    assert_eq!(load(flight.next()), [BYTES_MAX - 1, 1]);
    assert_eq!(load(flight.next()), [2]);
    let (long, _callers) = lane(&[(1, COST_MAX_US), (2, 1), (3, COST_MAX_US)]);
    let mut flight = long.flight();
    assert_eq!(load(flight.next()), [1]);
    assert_eq!(load(flight.next()), [2]);
    assert_eq!(load(flight.next()), [3]);
}

#[test]
fn a_call_beyond_every_bound_leaves_alone() {
    let (lane, _callers) = lane(&[(BYTES_MAX + 1, COST_MAX_US + 1), (1, 1)]);
    let mut flight = lane.flight();
    assert_eq!(load(flight.next()), [BYTES_MAX + 1]);
    assert_eq!(load(flight.next()), [1]);
}

#[test]
fn a_call_whose_caller_has_gone_is_left_behind() {
    let (lane, mut callers) = lane(&[(1, 1), (2, 1), (3, 1)]);
    drop(callers.remove(1));
    assert_eq!(load(lane.flight().next()), [1, 3]);
}

#[test]
fn a_flight_that_is_dropped_makes_room_for_another() {
    let (lane, _callers) = lane(&[(1, 1)]);
    let mut flight = lane.flight();
    assert_eq!(load(flight.next()), [1]);
    drop(flight);
    let (call, _caller) = call(2, 1);
    assert!(lane.join(call));
}
