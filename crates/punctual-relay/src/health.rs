//! What a relay did and how it is, in numbers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::Error;
use punctual::sync::Lock;
use punctual::time::Stopwatch;

/// A handle that shows what a relay did, also after it has ended. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RelayHealth(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    numbers: RelayNumbers,
    beat: Stopwatch,
}

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
    /// Messages that did not become jobs.
    pub refused: u64,
    /// How often it started again after a failure.
    pub restarts: u64,
    /// Messages that wait in the source, if it can tell.
    pub lag: Option<u64>,
    /// The text of the last failure.
    pub last_error: Option<String>,
    /// How long ago it last made progress.
    pub age: Duration,
}

impl Default for RelayHealth {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Kept {
            numbers: RelayNumbers::default(),
            beat: Stopwatch::start(),
        })))
    }
}

impl RelayHealth {
    /// The present numbers.
    pub fn numbers(&self) -> RelayNumbers {
        let kept = self.lock();
        RelayNumbers {
            age: kept.beat.elapsed(),
            ..kept.numbers.clone()
        }
    }

    pub(crate) fn is(&self, state: RelayState) {
        self.turn(|numbers| numbers.state = state);
    }

    pub(crate) fn failed(&self, why: &str) {
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

    pub(crate) fn turn(&self, change: impl FnOnce(&mut RelayNumbers)) {
        let mut kept = self.lock();
        kept.beat = Stopwatch::start();
        change(&mut kept.numbers);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.locked()
    }
}
