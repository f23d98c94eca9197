//! What is wrong with an engine, and which of its loops go round.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use punctual::engine::{Health, LoopHealth};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, minutes, seconds};

/// Heartbeats and problems, shared by the threads of an engine.
#[derive(Debug, Default)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    disk_bytes: u64,
    memory_bytes: u64,
    problems: BTreeMap<&'static str, String>,
    loops: BTreeMap<&'static str, Loop>,
}

#[derive(Debug)]
struct Loop {
    beat: Stopwatch,
    /// It waits for something to do, however long.
    rests: bool,
    restarts: u64,
}

/// A loop that is at work for longer than this is stuck.
const STUCK_AFTER: Duration = seconds(30);
/// One step of tidying a large store up takes minutes, and delays no call.
const TIDYING_IS_STUCK_AFTER: Duration = minutes(30);

fn stuck_after(name: &str) -> Duration {
    match name {
        crate::checkpoint::TIDYING => TIDYING_IS_STUCK_AFTER,
        _ => STUCK_AFTER,
    }
}

impl Activity {
    /// A loop begins to work.
    pub(crate) fn beat(&self, name: &'static str) {
        self.turn(name, false);
    }

    /// A loop waits for something to do.
    pub(crate) fn rest(&self, name: &'static str) {
        self.turn(name, true);
    }

    fn turn(&self, name: &'static str, rests: bool) {
        let beat = Stopwatch::start();
        let mut state = self.lock();
        let restarts = state.loops.get(name).map_or(0, |before| before.restarts);
        let now = Loop {
            beat,
            rests,
            restarts,
        };
        state.loops.insert(name, now);
    }

    /// A loop was started again after a failure.
    pub(crate) fn restarted(&self, name: &'static str) {
        if let Some(found) = self.lock().loops.get_mut(name) {
            found.restarts += 1;
        }
    }

    /// Sets or clears one problem.
    pub(crate) fn set(&self, name: &'static str, problem: Option<String>) {
        let mut state = self.lock();
        match problem {
            Some(problem) => {
                if state.problems.insert(name, problem.clone()).is_none() {
                    tracing::warn!(problem, "{name}");
                }
            }
            None => {
                state.problems.remove(name);
            }
        }
    }

    /// Whether a problem is set.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lock().problems.contains_key(name)
    }

    /// Bytes that the store takes on disk and in memory.
    pub(crate) fn takes(&self, disk: u64, memory: u64) {
        let mut state = self.lock();
        (state.disk_bytes, state.memory_bytes) = (disk, memory);
    }

    /// Bytes on disk and in memory, as last seen.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.lock();
        state.disk_bytes + state.memory_bytes
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.lock();
        let mut problems: Vec<_> = state.problems.values().cloned().collect();
        for (name, one) in &state.loops {
            let age = one.beat.elapsed();
            if !one.rests && age > stuck_after(name) {
                problems.push(format!("loop {name} is at the same work for {age:?}"));
            }
        }
        let about = |(name, one): (&&'static str, &Loop)| {
            // Who reads it calls a minute stuck, whatever the loop does.
            let age = match one.beat.elapsed() {
                _ if one.rests => Duration::ZERO,
                age if *name == crate::checkpoint::TIDYING && age <= stuck_after(name) => {
                    Duration::ZERO
                }
                age => age,
            };
            LoopHealth::new(*name, age, one.restarts)
        };
        let loops = state.loops.iter().map(about).collect();
        Health::new(problems, loops)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.locked()
    }
}
