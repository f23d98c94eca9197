//! Collects the calls that wait for those in flight, so that they leave as one batch.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use punctual::Result;
use punctual::sync::Lock;
use tokio::sync::oneshot;

use crate::transport::link::Deadline;
use crate::wire::Packed;
use crate::wire::numbers::{CALLS_CLAIM, CALLS_EXTEND, CALLS_SETTLE};

/// A packed call and the waiter for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) body: Packed,
    /// About how long it keeps the server, in microseconds.
    pub(crate) cost_us: usize,
    pub(crate) deadline: Deadline,
    pub(crate) answer: oneshot::Sender<Result<Answer>>,
}

/// What a call was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    /// Whether it was sent more than once: an earlier sending may have been done, its answer lost.
    pub(crate) is_repeat: bool,
}

/// Which calls may leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallClass {
    /// New jobs: refused when memory is full.
    Enqueues,
    /// Claims, extends and settles: never refused for that.
    Leases,
}

impl CallClass {
    pub(crate) fn of(verb: &str) -> Self {
        match verb {
            "enqueue" => Self::Enqueues,
            _ => Self::Leases,
        }
    }

    /// The function that takes several.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Enqueues => "enqueues",
            Self::Leases => "calls",
        }
    }

    /// Whether that function needs the verb of each call.
    pub(crate) fn names_verbs(self) -> bool {
        self == Self::Leases
    }

    pub(crate) fn letter(self, verb: &str) -> u8 {
        match verb {
            "claim" => CALLS_CLAIM,
            "extend" => CALLS_EXTEND,
            _ => CALLS_SETTLE,
        }
    }
}

/// Batches in flight at the same time, of one class of one shard.
const IN_FLIGHT_MAX: usize = 3;
/// Calls that leave together.
const CALLS_MAX: usize = 256;
/// Bytes that leave together: each is copied three times, about 7 ns.
const BYTES_MAX: usize = 64 << 10;
/// How long calls that leave together may keep the server. More would save nothing: what a call
/// costs besides its items is shared by then, and what is stored together has to fit its caches.
const COST_MAX_US: usize = 800;
/// Calls that keep the server so long have no more to gain by waiting for a batch in flight.
const FULL_US: usize = 400;

/// The calls of one class of one shard that wait for those in in_flight.
#[derive(Debug, Default)]
pub(crate) struct Batcher(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Call>,
    waiting_us: usize,
    in_flight: usize,
}

impl Batcher {
    /// Takes a call in; whether one more batch is to start.
    pub(crate) fn join(&self, call: Call) -> bool {
        let mut state = self.state();
        state.waiting_us += call.cost_us;
        state.waiting.push_back(call);
        let is_full = state.waiting_us >= FULL_US;
        let begins = state.in_flight == 0 || is_full && state.in_flight < IN_FLIGHT_MAX;
        state.in_flight += usize::from(begins);
        begins
    }

    /// The batches that `join` started.
    pub(crate) fn start(&self) -> InFlight<'_> {
        InFlight {
            of: self,
            is_over: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.locked()
    }
}

/// A task that sends batches of a class. Dropped early it makes room for another.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    of: &'a Batcher,
    is_over: bool,
}

impl InFlight<'_> {
    /// What it carries next: in the order of arrival, as much as may leave together, at least one
    /// call. Nothing, and then it is over, if no call waits any more.
    pub(crate) fn next(&mut self) -> Option<Vec<Call>> {
        let mut state = self.of.state();
        let calls = state.load();
        if calls.is_empty() {
            state.in_flight -= 1;
            self.is_over = true;
        }
        Some(calls).filter(|calls| !calls.is_empty())
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.of.state().in_flight -= 1;
        }
    }
}

impl State {
    /// Those whose callers have gone are left behind.
    fn load(&mut self) -> Vec<Call> {
        let (mut calls, mut bytes, mut cost_us) = (Vec::new(), 0, 0);
        while let Some(call) = self.waiting.pop_front() {
            if !call.answer.is_closed() {
                bytes += call.body.bytes();
                cost_us += call.cost_us;
                let fits = calls.len() < CALLS_MAX && bytes <= BYTES_MAX && cost_us <= COST_MAX_US;
                if !fits && !calls.is_empty() {
                    self.waiting.push_front(call);
                    break;
                }
                self.waiting_us -= call.cost_us;
                calls.push(call);
            } else {
                self.waiting_us -= call.cost_us;
            }
        }
        calls
    }
}

#[cfg(test)]
mod tests;
