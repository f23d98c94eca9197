use std::time::Duration;

use crate::time::{minutes, seconds};

/// When a worker takes time off its usual work for suspects: jobs that were active in two leases
/// that ran out, and are now claimed only by a worker that runs nothing else.
///
/// To run nothing else a worker stops claiming and waits until its handlers have ended. So that
/// suspects do not starve the rest, and the rest does not starve them:
/// - An idle worker takes them at once.
/// - A busy one takes them for a second in a row, or one of them if that takes longer, and then
///   does its usual work four times as long as that took, waiting included.
/// - If its handlers do not end within five seconds, it gives up and tries again after four times
///   as long, with twice the patience, up to five minutes.
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    waiting: bool,
    /// The last turn brought nothing, although they wait: not even an idle worker is to hurry.
    barren: bool,
    turn_since: Option<Duration>,
    rest_until: Duration,
    patience: Duration,
}

const TURN_MAX: Duration = seconds(1);
const REST_TIMES: u32 = 4;
const PATIENCE_MIN: Duration = seconds(5);
const PATIENCE_MAX: Duration = minutes(5);

impl Default for Suspects {
    fn default() -> Self {
        Self {
            waiting: false,
            barren: false,
            turn_since: None,
            rest_until: Duration::ZERO,
            patience: PATIENCE_MIN,
        }
    }
}

impl Suspects {
    /// A claim said whether suspects wait.
    pub(super) fn seen(&mut self, waiting: bool) {
        self.waiting = waiting;
        if !waiting {
            self.barren = false;
            self.turn_since = None;
            self.patience = PATIENCE_MIN;
        }
    }

    pub(super) fn are_waiting(&self) -> bool {
        self.waiting
    }

    /// Usual work has run out: no need to rest from suspects.
    pub(super) fn idle(&mut self) {
        if !self.barren {
            self.rest_until = Duration::ZERO;
        }
    }

    /// Whether the next claim is to be alone.
    pub(super) fn is_turn(&mut self, now: Duration) -> bool {
        let turn = self.waiting && now >= self.rest_until;
        if turn && self.turn_since.is_none() {
            self.turn_since = Some(now);
        }
        turn
    }

    /// How long to wait for the handlers to end.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// What a claim alone brought has ended; one that brought nothing ends the turn.
    pub(super) fn done(&mut self, now: Duration, brought: bool) {
        self.barren = !brought;
        let took = now.saturating_sub(self.turn_since.unwrap_or(now));
        if took >= TURN_MAX || !brought {
            self.rest(now, took.max(TURN_MAX));
        }
    }

    /// The handlers did not end in time.
    pub(super) fn gave_up(&mut self, now: Duration) {
        self.rest(now, self.patience);
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
    }

    fn rest(&mut self, now: Duration, took: Duration) {
        self.rest_until = now + took * REST_TIMES;
        self.turn_since = None;
    }

    /// When the next turn is, if one is due.
    pub(super) fn turn_at(&self) -> Option<Duration> {
        self.waiting.then_some(self.rest_until)
    }
}

#[cfg(test)]
mod tests;
