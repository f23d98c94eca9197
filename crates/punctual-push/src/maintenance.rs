//! The loops that post: each is started again whenever it ends, and shows its progress.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use punctual::backoff::Backoff;
use punctual::engine::{Health, LoopHealth, NamespaceProblem};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, minutes, pause};
use punctual::worker::WorkerHealth;
use punctual::{Namespace, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The supervised loops of a process. One that panics, or ends before it is stopped, is logged and
/// started again after 50 ms, 5 s at most. Dropping this cuts them off.
#[derive(Default)]
pub struct Maintenance {
    running: JoinSet<()>,
    /// Dropping it ends them.
    stop: watch::Sender<()>,
    health: MaintenanceHealth,
}

/// Whether the loops of a process do their maintenance; stays valid when they have ended. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub struct MaintenanceHealth(Arc<Mutex<Vec<MaintenanceLoop>>>);

/// A loop reports its progress by it, and learns that it shall end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    health: MaintenanceHealth,
    place: usize,
    stopped: watch::Receiver<()>,
}

#[derive(Debug)]
struct MaintenanceLoop {
    name: &'static str,
    namespace: Namespace,
    beat: Stopwatch,
    /// It waits for something to do, however long.
    rests: bool,
    restarts: u64,
    /// It ended, and the next one has not begun.
    is_down: bool,
    workers: Vec<WorkerHealth>,
}

/// A loop that ran for so long is started again as soon as the first time.
pub(crate) const LONG: Duration = minutes(1);

impl Maintenance {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a loop, which shall go on until [`Heartbeat::ended`].
    pub fn start<F, Run>(&mut self, name: &'static str, namespace: &Namespace, run: F)
    where
        F: Fn(Heartbeat) -> Run + Send + Sync + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        self.start_then(name, namespace, run, async {});
    }

    /// Starts a loop as [`start`](Self::start) does; `end` follows once it has ended for good,
    /// however that was.
    pub(crate) fn start_then<F, Run>(
        &mut self,
        name: &'static str,
        namespace: &Namespace,
        run: F,
        end: impl Future<Output = ()> + Send + 'static,
    ) where
        F: Fn(Heartbeat) -> Run + Send + Sync + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        let mut maintenance = self.health.lock();
        maintenance.push(MaintenanceLoop {
            name,
            namespace: namespace.clone(),
            beat: Stopwatch::start(),
            rests: false,
            restarts: 0,
            is_down: false,
            workers: Vec::new(),
        });
        let heartbeat = Heartbeat {
            health: self.health.clone(),
            place: maintenance.len() - 1,
            stopped: self.stop.subscribe(),
        };
        drop(maintenance);
        self.running.spawn(async move {
            supervise(heartbeat.clone(), run).await;
            heartbeat.over();
            end.await;
        });
    }

    /// A handle that shows whether they do their maintenance.
    pub fn health(&self) -> MaintenanceHealth {
        self.health.clone()
    }

    /// Stops all of them, and waits until they have ended.
    pub async fn end(mut self) {
        drop(self.stop);
        while self.running.join_next().await.is_some() {}
    }
}

async fn supervise<F, Run>(heartbeat: Heartbeat, run: F)
where
    F: Fn(Heartbeat) -> Run,
    Run: Future<Output = ()>,
{
    let mut backoff = Backoff::engine();
    loop {
        let ran = Stopwatch::start();
        let running = AssertUnwindSafe(async { run(heartbeat.clone()).await });
        let ended = running.catch_unwind().await;
        if heartbeat.is_over() {
            return;
        }
        let why = match &ended {
            Ok(()) => "it ended unexpectedly",
            Err(panic) => panic_text(&**panic),
        };
        let (name, namespace) = heartbeat.down();
        tracing::error!(%namespace, why, "{name} was restarted; please report it");
        if ran.elapsed() > LONG {
            backoff.reset();
        }
        tokio::select! {
            biased;
            () = heartbeat.ended() => return,
            () = pause(backoff.pause()) => {}
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// What a loop does once in every interval.
pub(crate) trait Periodic: Send {
    /// The pause between the end of a round and the next.
    const INTERVAL: Duration;
    /// What the log says if a round fails.
    const FAILED: &'static str;

    /// One round; an error leaves the rest for the next.
    fn once(&mut self) -> impl Future<Output = Result<()>> + Send;
}

impl Heartbeat {
    /// Does it once in every interval, until the loop shall end. Logs a round that fails.
    pub(crate) async fn repeat<P: Periodic>(&self, mut periodic: P) {
        let rounds = async {
            loop {
                self.works();
                if let Err(error) = periodic.once().await {
                    tracing::warn!(%error, "{}", P::FAILED);
                }
                self.rests();
                pause(P::INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            () = self.ended() => {}
            () = rounds => {}
        }
    }

    /// A round begins. Call it again within a minute, or [`rests`](Self::rests).
    pub fn works(&self) {
        self.turn(|maintenance_loop| {
            (maintenance_loop.rests, maintenance_loop.is_down) = (false, false)
        });
    }

    /// A round begins although a lost worker is not back: red stays red.
    pub(crate) fn works_in_part(&self) {
        self.turn(|maintenance_loop| maintenance_loop.rests = false);
    }

    /// It waits for something to do.
    pub fn rests(&self) {
        self.turn(|maintenance_loop| maintenance_loop.rests = true);
    }

    /// Ends once the loop shall end.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stopped.clone();
        async move { while stopped.changed().await.is_ok() {} }
    }

    /// These workers belong to the loop: their health counts as its own.
    pub(crate) fn has(&self, workers: Vec<WorkerHealth>) {
        self.turn(|maintenance_loop| maintenance_loop.workers = workers);
    }

    /// The loop or a worker of it has ended; red until the next round.
    pub(crate) fn down(&self) -> (&'static str, Namespace) {
        self.turn(|maintenance_loop| {
            maintenance_loop.is_down = true;
            maintenance_loop.restarts += 1;
            (maintenance_loop.name, maintenance_loop.namespace.clone())
        })
    }

    /// It has ended for good: what it still waits for, such as deliveries on their way, may take
    /// its time.
    fn over(&self) {
        self.turn(|maintenance_loop| {
            (maintenance_loop.rests, maintenance_loop.is_down) = (true, false);
            maintenance_loop.workers.clear();
        });
    }

    fn is_over(&self) -> bool {
        self.stopped.has_changed().is_err()
    }

    fn turn<T>(&self, change: impl FnOnce(&mut MaintenanceLoop) -> T) -> T {
        let maintenance_loop = &mut self.health.lock()[self.place];
        maintenance_loop.beat = Stopwatch::start();
        change(maintenance_loop)
    }
}

impl MaintenanceHealth {
    /// Adds the loops to the health of an engine, those of all namespaces as one: they are no
    /// tenant's. The namespace that waits for a loop that is down gets a problem of its own.
    pub fn add_to(&self, health: &mut Health) {
        for maintenance_loop in self.lock().iter() {
            let age = match maintenance_loop.rests {
                true => Duration::ZERO,
                false => maintenance_loop.beat.elapsed(),
            };
            add(
                &mut health.loops,
                maintenance_loop.name.to_owned(),
                age,
                maintenance_loop.restarts,
            );
            for worker in &maintenance_loop.workers {
                for one in worker.report().loops {
                    let name = format!("{} {}", maintenance_loop.name, one.name);
                    add(&mut health.loops, name, one.age, one.restarts);
                }
            }
            if maintenance_loop.is_down {
                let text = format!(
                    "{} ended and was restarted; the log has the cause, please report it",
                    maintenance_loop.name
                );
                let namespace = maintenance_loop.namespace.clone();
                let problem = NamespaceProblem::new(namespace, text);
                health.of_namespaces.push(problem);
                health.ok = false;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<MaintenanceLoop>> {
        self.0.locked()
    }
}

/// The oldest beat and all restarts under one name.
fn add(loops: &mut Vec<LoopHealth>, name: String, age: Duration, restarts: u64) {
    match loops.iter_mut().find(|one| one.name == name) {
        Some(one) => {
            one.age = one.age.max(age);
            one.restarts += restarts;
        }
        None => loops.push(LoopHealth::new(name, age, restarts)),
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.health.fmt(f)
    }
}
