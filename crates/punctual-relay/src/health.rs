//! What a relay did and how it is, in numbers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::Error;
use punctual::sync::Lock;
use punctual::time::{Stopwatch, seconds};

/// A handle that shows what a relay did, also after it has ended. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RelayHealth(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    numbers: RelayNumbers,
    beat: Stopwatch,
    /// Messages of the present span, and of the one before it.
    span: Stopwatch,
    in_span: u64,
    in_last: u64,
}

/// The rate is that of so long.
const RATE_SPAN: Duration = seconds(10);

/// What a relay is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelayState {
    /// It connects to the source.
    #[default]
    Connecting,
    /// It waits for messages, or stores some.
    Running,
    /// The engine takes no jobs: it is full, or cannot be reached. The messages stay in the source.
    EngineRefuses,
    /// It failed, and starts again after a pause.
    Down,
}

impl RelayState {
    /// The name on the screen and for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Running => "running",
            Self::EngineRefuses => "engine_refuses",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for RelayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The numbers of a relay since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RelayNumbers {
    /// What it is doing.
    pub state: RelayState,
    /// Messages taken, those that came again included.
    pub received: u64,
    /// Jobs stored.
    pub enqueued: u64,
    /// Messages whose job was stored before: they came again after a failure.
    pub duplicates: u64,
    /// Messages that did not become jobs, or jobs that the other system refused.
    pub refused: u64,
    /// Jobs that the other system took.
    pub emitted: u64,
    /// How often it started again after a failure.
    pub restarts: u64,
    /// Messages that wait in the source, if it knows.
    pub lag: Option<u64>,
    /// The text of the last failure.
    pub last_error: Option<String>,
    /// How long ago it last made progress.
    pub age: Duration,
    /// Messages and jobs a second, in about the last 10 s; rounded up, so that 0 is none.
    pub rate: u64,
}

impl Default for RelayHealth {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Kept {
            numbers: RelayNumbers::default(),
            beat: Stopwatch::start(),
            span: Stopwatch::start(),
            in_span: 0,
            in_last: 0,
        })))
    }
}

impl Kept {
    /// Begins another span if the present one is over.
    fn turn_span(&mut self) {
        let spans = self.span.elapsed().as_millis() / RATE_SPAN.as_millis();
        if spans == 0 {
            return;
        }
        self.in_last = if spans == 1 { self.in_span } else { 0 };
        self.in_span = 0;
        self.span = Stopwatch::start();
    }

    fn rate(&self) -> u64 {
        let span = RATE_SPAN.as_secs_f64();
        let part = (self.span.elapsed().as_secs_f64() / span).min(1.0);
        let messages = self.in_last as f64 * (1.0 - part) + self.in_span as f64;
        (messages / span).ceil() as u64
    }
}

impl RelayHealth {
    /// The present numbers.
    pub fn numbers(&self) -> RelayNumbers {
        let mut kept = self.lock();
        kept.turn_span();
        RelayNumbers {
            age: kept.beat.elapsed(),
            rate: kept.rate(),
            ..kept.numbers.clone()
        }
    }

    /// Notes what it does.
    pub fn is(&self, state: RelayState) {
        self.turn(|numbers| numbers.state = state);
    }

    /// Notes that it failed and starts again.
    pub fn failed(&self, why: &str) {
        self.turn(|numbers| {
            numbers.state = RelayState::Down;
            numbers.restarts += 1;
            numbers.last_error = Some(why.to_owned());
        });
    }

    pub(crate) fn engine_refuses(&self, error: &Error) {
        self.turn(|numbers| {
            numbers.state = RelayState::EngineRefuses;
            numbers.last_error = Some(error.to_string());
        });
    }

    /// Changes the numbers.
    pub fn turn(&self, change: impl FnOnce(&mut RelayNumbers)) {
        let mut kept = self.lock();
        kept.beat = Stopwatch::start();
        let moved = |numbers: &RelayNumbers| numbers.received + numbers.emitted;
        let before = moved(&kept.numbers);
        change(&mut kept.numbers);
        kept.turn_span();
        kept.in_span += moved(&kept.numbers).saturating_sub(before);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.locked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let health = RelayHealth::default();
        assert_eq!(health.numbers().rate, 0);
        health.turn(|numbers| numbers.received += 40);
        health.turn(|numbers| numbers.emitted += 10);
        health.turn(|numbers| numbers.duplicates += 1_000);
        assert_eq!(health.numbers().rate, 5);
    }
}
