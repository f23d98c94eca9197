//! Health of a worker.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::engine::{Health, LoopHealth};
use crate::error::Error;
use crate::sync::Lock;
use crate::time::{Stopwatch, format_span, seconds};

/// Shows whether a worker works as it should; stays valid when the worker has ended. Cheap to
/// clone.
///
/// ```
/// # use punctual::{MemoryEngine, Worker};
/// let worker = Worker::new(MemoryEngine::new()).queues(["mail"]);
/// let health = worker.health();
/// assert!(!health.report().ok, "it does not run yet");
/// ```
#[derive(Clone)]
pub struct WorkerHealth(pub(super) Arc<Activity>);

impl WorkerHealth {
    /// The loops with their heartbeats, and what is wrong, in words.
    pub fn report(&self) -> Health {
        self.0.report()
    }

    /// Jobs that run now.
    pub fn busy(&self) -> usize {
        self.0.busy.load(Ordering::Relaxed)
    }

    /// Whether its shutdown has begun: it claims nothing more, and lets running handlers end.
    pub fn is_draining(&self) -> bool {
        self.0.lock().draining
    }

    /// Slots given up because their handlers block a thread; each comes back when its handler ends.
    pub fn leaked(&self) -> usize {
        self.0.lock().leaked
    }
}

impl fmt::Debug for WorkerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

/// The loops of a running worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    Claimer,
    Leases,
    Watch,
    Settler,
}

impl Loop {
    const ALL: [Self; 4] = [Self::Claimer, Self::Leases, Self::Watch, Self::Settler];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claimer => "claimer",
            Self::Leases => "leases",
            Self::Watch => "watch",
            Self::Settler => "settler",
        }
    }
}

/// A loop goes round at least once a second, or waits for one call of the engine.
const AGE_MAX: Duration = seconds(45);

#[derive(Debug, Default)]
pub(super) struct Activity {
    busy: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    draining: bool,
    loops: [LoopActivity; 4],
    leaked: usize,
}

#[derive(Debug, Default)]
struct LoopActivity {
    beat: Option<Stopwatch>,
    restarts: u64,
    trouble: Option<(Stopwatch, String)>,
}

impl Activity {
    pub(super) fn running(&self, running: bool) {
        let mut state = self.lock();
        state.running = running;
        state.draining = false;
        if running {
            state.loops = Default::default();
        }
    }

    pub(super) fn draining(&self) {
        self.lock().draining = true;
    }

    pub(super) fn beat(&self, of: Loop) {
        self.lock().loops[of as usize].beat = Some(Stopwatch::start());
    }

    pub(super) fn restarted(&self, of: Loop) {
        self.lock().loops[of as usize].restarts += 1;
    }

    /// The engine answers this loop's calls with errors, since the first one.
    pub(super) fn trouble(&self, of: Loop, error: &Error) {
        let mut state = self.lock();
        let trouble = &mut state.loops[of as usize].trouble;
        let since = trouble
            .take()
            .map_or_else(Stopwatch::start, |(since, _)| since);
        *trouble = Some((since, error.to_string()));
    }

    pub(super) fn well(&self, of: Loop) {
        self.lock().loops[of as usize].trouble = None;
    }

    pub(super) fn started(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn leaked(&self, slots: usize) {
        self.lock().leaked = slots;
    }

    fn report(&self) -> Health {
        let state = self.lock();
        let mut problems = Vec::new();
        if !state.running {
            problems.push("worker does not run".to_owned());
        }
        if state.draining {
            problems.push("worker drains and claims nothing more".to_owned());
        }
        if state.leaked > 0 {
            problems.push(format!(
                "{} handlers block their threads; run blocking code in spawn_blocking",
                state.leaked
            ));
        }
        let mut loops = Vec::new();
        for of in Loop::ALL {
            let tick = &state.loops[of as usize];
            let Some(beat) = &tick.beat else { continue };
            let age = beat.elapsed();
            if state.running && age > AGE_MAX {
                problems.push(format!("{} is stuck for {}", of.name(), format_span(age)));
            }
            if let Some((since, error)) = &tick.trouble {
                let span = format_span(since.elapsed());
                problems.push(format!("{} fails for {span}: {error}", of.name()));
            }
            loops.push(LoopHealth {
                name: of.name().to_owned(),
                age,
                restarts: tick.restarts,
            });
        }
        Health {
            ok: problems.is_empty(),
            problems,
            of_namespaces: Vec::new(),
            loops,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}
