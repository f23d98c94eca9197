//! One run of a worker: what its loops share, and how they are started, supervised and ended.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::claimer::Unknown;
use super::context::Seed;
use super::ending::Cause;
use super::handler::AnyHandler;
use super::health::{Activity, Loop};
use super::join::{Join, Joiner};
use super::layer::Layer;
use super::metrics::{Labels, Metrics};
use super::settler::Outbox;
use super::slots::{Board, Run};
use super::{Setup, alone, claimer, lease, settler, watch as watcher};
use crate::backoff::Backoff;
use crate::engine::{Engine, Namespace, WorkerRecord};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, Limits};
use crate::sync::Lock;
use crate::time::{Stopwatch, Timestamp, millis, pause, seconds, within};
use crate::worker::Shutdown;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Claiming,
    Draining,
    Releasing,
    Over,
    /// Ended from outside, as a process that is killed, or by an engine that stopped: nothing more
    /// is settled.
    Dropped,
}

/// What a run that ends with the work learned last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) now: Timestamp,
    pub(super) wake_at: Option<Timestamp>,
}

pub(super) struct Runtime {
    pub(super) setup: Arc<Setup>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) namespace: Namespace,
    pub(super) activity: Arc<Activity>,
    pub(super) metrics: Metrics,
    /// What the worker says of itself with every claim.
    pub(super) record: WorkerRecord,
    pub(super) layers: Arc<[Arc<dyn Layer>]>,
    /// By the place of a kind in the labels of metrics, the last one for all others.
    handlers: Vec<Option<Arc<dyn AnyHandler>>>,
    joiner: Arc<dyn AnyHandler>,
    pub(super) unknown: Unknown,
    pub(super) outbox: tokio::sync::Mutex<Outbox>,
    /// The nonce of a claim that was not answered, to be sent again; zero if there is none.
    pub(super) nonce: AtomicU64,
    /// Something ended: wakes the settler.
    pub(super) settle: Notify,
    /// A lease came: wakes the heartbeats.
    pub(super) beats: Notify,
    /// A run came or is stopped: wakes the watch.
    pub(super) watch: Notify,
    /// Whether to end with the work, and what is known when it does.
    until_idle: bool,
    idle: Mutex<Option<Idle>>,
    /// The error of an engine that stopped itself.
    stopped: OnceLock<Error>,
    board: Mutex<Board>,
    changed: Notify,
    phase: watch::Sender<Phase>,
    ticks: watch::Sender<u64>,
    started: Stopwatch,
}

/// Runs a worker until its shutdown.
pub(super) async fn run(setup: Arc<Setup>, shutdown: Shutdown) -> Result<()> {
    let running = Running::start(setup, false).await?;
    let rt = &running.0;
    let ended = async {
        shutdown.drain.await;
        rt.wind_down(shutdown.release).await;
    };
    rt.unless_stopped(ended).await
}

/// Runs a worker until there is nothing more to do at the engine's present time.
pub(super) async fn run_until_idle(setup: Arc<Setup>) -> Result<Idle> {
    let running = Running::start(setup, true).await?;
    let rt = &running.0;
    let ended = async {
        rt.reached(Phase::Draining).await;
        rt.wind_down(std::future::pending().boxed()).await;
    };
    rt.unless_stopped(ended).await?;
    let idle = *rt.idle.locked();
    idle.ok_or_else(|| Error::new(ErrorKind::Internal, "worker ended before it was idle"))
}

/// A run and its loops; dropped, it ends them and every handler at once.
struct Running(
    Arc<Runtime>,
    #[allow(dead_code, reason = "dropped")] JoinSet<()>,
);

impl Running {
    async fn start(setup: Arc<Setup>, until_idle: bool) -> Result<Self> {
        setup.check()?;
        // Without an answer the defaults will do: the loops go on until the engine is there.
        let limits = match within(seconds(5), setup.engine.info()).await {
            Some(Ok(info)) => Some(info.limits),
            Some(Err(error)) if error.kind() == ErrorKind::EngineStopped => return Err(error),
            _ => None,
        };
        let rt = Arc::new(Runtime::new(setup, limits, until_idle));
        rt.activity.running(true);
        if !rt.setup.isolated {
            alone::move_in(&rt);
        }
        let mut loops = JoinSet::new();
        loops.spawn(supervise(rt.clone(), Loop::Settler, settler::run));
        loops.spawn(supervise(rt.clone(), Loop::Leases, lease::run));
        loops.spawn(supervise(rt.clone(), Loop::Watch, watcher::run));
        loops.spawn(supervise(rt.clone(), Loop::Claimer, claimer::run));
        tracing::info!(
            worker = %rt.setup.id,
            queues = ?rt.setup.queue_names(),
            slots = rt.setup.slots,
            "worker starts"
        );
        Ok(Self(rt, loops))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let rt = &self.0;
        // Before its handlers are aborted: the settler may be at work, and would release their
        // jobs.
        rt.enter(Phase::Dropped);
        let mut board = rt.board();
        board.stop_all(Cause::Shutdown, Duration::ZERO);
        board.runs.values_mut().for_each(Run::abort);
        drop(board);
        rt.activity.running(false);
        tracing::info!(worker = %rt.setup.id, "worker ends");
    }
}

/// Runs a loop, again after a panic, until it ends by itself.
async fn supervise<F, Fut>(rt: Arc<Runtime>, name: Loop, run: F)
where
    F: Fn(Arc<Runtime>) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut backoff = Backoff::engine();
    while let Err(panic) = AssertUnwindSafe(run(rt.clone())).catch_unwind().await {
        rt.activity.restarted(name);
        tracing::error!(
            panic = panic_text(&*panic),
            "{} panicked and is started again; please report it",
            name.name()
        );
        rt.pause(backoff.pause(), Phase::Over).await;
    }
}

impl Runtime {
    pub(super) fn new(setup: Arc<Setup>, limits: Option<Limits>, until_idle: bool) -> Self {
        let queue = crate::Queue::new(setup.engine.clone());
        let seed = Seed {
            queue: Some(queue.namespace(setup.namespace.clone())),
            worker: setup.id,
            states: setup.states.clone(),
            limits: limits.unwrap_or_default(),
            slots: setup.slots,
            lease_duration: setup.lease_duration,
        };
        let board = Board::new(setup.slots, setup.abort_grace, seed, limits.is_some());
        Self {
            engine: setup.engine.clone(),
            namespace: setup.namespace.clone(),
            activity: setup.activity.clone(),
            metrics: Metrics::new(setup.queue_names(), setup.kinds()),
            record: setup.record(),
            layers: setup.layers.clone().into(),
            handlers: setup.handlers_by_kind(),
            joiner: Arc::new(Joiner),
            unknown: Unknown::default(),
            outbox: Default::default(),
            nonce: AtomicU64::new(0),
            settle: Notify::new(),
            beats: Notify::new(),
            watch: Notify::new(),
            until_idle,
            idle: Mutex::new(None),
            stopped: OnceLock::new(),
            board: Mutex::new(board),
            changed: Notify::new(),
            phase: watch::Sender::new(Phase::Claiming),
            ticks: watch::Sender::new(0),
            started: Stopwatch::start(),
            setup,
        }
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.locked()
    }

    /// What runs a job, if there is anything: every worker runs the jobs that end joins.
    pub(super) fn handler(&self, labels: Labels, kind: &str) -> Option<&Arc<dyn AnyHandler>> {
        let others = usize::from(labels.kind) + 1 == self.handlers.len();
        if others && kind == Join::KIND {
            return Some(&self.joiner);
        }
        self.handlers[usize::from(labels.kind)].as_ref()
    }

    /// The local instant: the span since the start of the run.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn lease_duration(&self) -> Duration {
        self.setup.lease_duration
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = *now < phase;
            *now = phase.max(*now);
            later
        });
        self.changed();
        self.settle.notify_one();
        self.beats.notify_one();
        self.watch.notify_one();
    }

    /// The engine answers a loop's calls with errors; one that has stopped ends the run.
    pub(super) fn trouble(&self, of: Loop, error: &Error) {
        self.activity.trouble(of, error);
        if error.kind() == ErrorKind::EngineStopped {
            let stopped = Error::new(error.kind(), error.message());
            let _ = self.stopped.set(stopped.operation(error.operation_name()));
            self.enter(Phase::Dropped);
        }
    }

    /// Waits for an end, or for the engine to stop, which is an error.
    async fn unless_stopped(&self, ended: impl Future<Output = ()>) -> Result<()> {
        tokio::select! {
            () = ended => {}
            () = self.reached(Phase::Dropped) => {}
        }
        match self.stopped.get() {
            None => Ok(()),
            Some(error) => {
                let stopped = Error::new(error.kind(), error.message());
                Err(stopped.operation(error.operation_name()))
            }
        }
    }

    pub(super) async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // The sender is ours: it cannot be gone.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Waits until the board is in some state.
    pub(super) async fn until(&self, fact: impl Fn(&Board) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if fact(&self.board()) {
                return;
            }
            changed.await;
        }
    }

    /// The board may be in a state that a task waits for.
    pub(super) fn changed(&self) {
        self.changed.notify_waiters();
    }

    /// Sleeps until a local instant or a wakeup; the tick sends one too.
    pub(super) async fn sleep_until(&self, at: Option<Duration>, wakeup: &Notify) {
        let left = at.map(|at| at.saturating_sub(self.now()));
        match left.filter(|left| *left < TICK) {
            Some(left) => drop(within(left, wakeup.notified()).await),
            None => wakeup.notified().await,
        }
    }

    /// Once a second: every loop goes round, to show that it is alive. One timer for all of them,
    /// where a timer per wait would pile up in busy times.
    pub(super) fn tick(&self) {
        self.ticks.send_modify(|count| *count += 1);
        self.settle.notify_one();
        self.beats.notify_one();
    }

    /// Waits for that many ticks, at least so many seconds.
    pub(super) async fn ticked(&self, count: u64) {
        let mut ticks = self.ticks.subscribe();
        let last = *ticks.borrow() + count + 1;
        // The sender is ours: it cannot be gone.
        let _ = ticks.wait_for(|now| *now >= last).await;
    }

    /// The answer of a call, if it comes within about that many seconds.
    pub(super) async fn answer<T>(
        &self,
        operation: &'static str,
        seconds: u64,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.ticked(seconds) => {
                let message = "engine did not answer in time";
                Err(Error::new(ErrorKind::EngineUnavailable, message).operation(operation))
            }
        }
    }

    /// Pauses, until a phase is reached at most.
    pub(super) async fn pause(&self, span: Duration, end: Phase) {
        tokio::select! {
            () = pause(span) => {}
            () = self.reached(end) => {}
        }
    }

    /// Whether the run ends when there is nothing more to do.
    pub(super) fn ends_idle(&self) -> bool {
        self.until_idle
    }

    pub(super) fn idle(&self, idle: Idle) {
        *self.idle.locked() = Some(idle);
        self.enter(Phase::Draining);
    }
}

/// Between tries while the worker ends: there are seconds left.
pub(super) const HURRIED_PAUSE: Duration = millis(100);
/// The watch goes round at least that often, and has the other loops go round too.
pub(super) const TICK: Duration = seconds(1);
/// While jobs run, the watch goes round that often; what ends later needs no wakeup.
pub(super) const WATCH_ROUND: Duration = millis(250);

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
