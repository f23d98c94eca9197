//! When a worker runs a suspect alone.

use std::time::Duration;

use crate::engine::WorkerId;
use crate::time::{minutes, seconds};

/// When a worker takes time off its usual work for suspects: jobs that were active in two leases
/// that ran out, and are now claimed only by a worker that runs nothing else.
///
/// To run nothing else a worker stops claiming and waits until its handlers have ended. So that
/// suspects do not starve the rest, and the rest does not starve them:
/// - An idle worker takes them at once.
/// - A busy one takes them for a second in a row, or one of them if that takes longer, and then
///   does its usual work four times as long as that took, waiting included.
/// - It waits for handlers that have run less long than `suspect_wait`. One that has run longer may
///   never end: as long as it runs, there is no turn.
/// - Its first turn comes after a part of that wait that is each worker's own: workers that learn
///   of a suspect together do not all stop for it together.
/// - While a suspect waits in vain that span grows to a quarter of its wait, up to five minutes, so
///   that handlers of any shorter span do not keep it out for ever.
///
/// So a suspect that a worker has seen waits for twice `suspect_wait` at most, if no handler runs
/// longer than that; and if one does, ten times the longest, up to those five minutes.
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    least_wait: Duration,
    stagger: Duration,
    waiting_since: Option<Duration>,
    /// The last turn brought nothing, although they wait: not even an idle worker is to hurry.
    barren: bool,
    turn_since: Option<Duration>,
    rest_until: Duration,
}

const TURN_MAX: Duration = seconds(1);
const REST_TIMES: u32 = 4;
const WAIT_MAX: Duration = minutes(5);
const PARTS: u128 = 1_000;

impl Suspects {
    /// For handlers that are waited for until they have run for so long, by that worker.
    pub(super) fn new(wait: Duration, worker: WorkerId) -> Self {
        Self {
            least_wait: wait,
            stagger: wait * (worker.0 % PARTS) as u32 / PARTS as u32,
            waiting_since: None,
            barren: false,
            turn_since: None,
            rest_until: Duration::ZERO,
        }
    }

    /// A claim said whether suspects wait.
    pub(super) fn seen(&mut self, waiting: bool, now: Duration) {
        if waiting {
            if self.waiting_since.is_none() {
                self.waiting_since = Some(now);
                self.rest_until = self.rest_until.max(now + self.stagger);
            }
        } else {
            self.waiting_since = None;
            self.barren = false;
            self.turn_since = None;
        }
    }

    pub(super) fn are_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Usual work has run out: no need to rest from suspects.
    pub(super) fn idle(&mut self) {
        if !self.barren {
            self.rest_until = Duration::ZERO;
        }
    }

    /// Whether the next claim is to be alone, once the handlers have ended of which the eldest has
    /// run for so long.
    pub(super) fn is_turn(&mut self, now: Duration, eldest: Option<Duration>) -> bool {
        let waits_for = |age| age < self.wait(now);
        let turn = self.are_waiting() && now >= self.rest_until && eldest.is_none_or(waits_for);
        if turn && self.turn_since.is_none() {
            self.turn_since = Some(now);
        }
        turn
    }

    /// How much longer to wait for the handlers to end; with none left, for their outcomes to be
    /// settled.
    pub(super) fn wait_left(&self, now: Duration, eldest: Option<Duration>) -> Duration {
        let waited = now.saturating_sub(self.turn_since.unwrap_or(now));
        self.wait(now).saturating_sub(eldest.unwrap_or(waited))
    }

    fn wait(&self, now: Duration) -> Duration {
        let waited = now.saturating_sub(self.waiting_since.unwrap_or(now));
        self.least_wait.max((waited / REST_TIMES).min(WAIT_MAX))
    }

    /// What a claim alone brought has ended; one that brought nothing ends the turn.
    pub(super) fn done(&mut self, now: Duration, brought: bool) {
        if brought {
            // It was the first in line that has waited so long.
            self.waiting_since = self.waiting_since.map(|_| now);
        }
        self.barren = !brought;
        let took = now.saturating_sub(self.turn_since.unwrap_or(now));
        if took >= TURN_MAX || !brought {
            self.rest(now, took.max(TURN_MAX));
        }
    }

    /// The claim was not answered: an outage is no turn, and no rest follows it.
    pub(super) fn unanswered(&mut self) {
        self.turn_since = None;
    }

    /// The handlers did not end in time.
    pub(super) fn gave_up(&mut self, now: Duration) {
        self.rest(now, now.saturating_sub(self.turn_since.unwrap_or(now)));
    }

    fn rest(&mut self, now: Duration, took: Duration) {
        self.rest_until = now + took * REST_TIMES;
        self.turn_since = None;
    }

    /// When the next turn is, if only the rest is in its way.
    pub(super) fn turn_at(&self, now: Duration) -> Option<Duration> {
        (self.are_waiting() && now < self.rest_until).then_some(self.rest_until)
    }
}

#[cfg(test)]
mod tests;
