//! The loops that post: each is started again whenever it ends, and says whether it goes round.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use punctual::Namespace;
use punctual::backoff::Backoff;
use punctual::engine::{Health, LoopHealth, NamespaceProblem};
use punctual::time::{Stopwatch, minutes, pause};
use punctual::worker::WorkerHealth;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Loops of a process that nobody else looks after. One that panics, or ends although nobody told it
/// to, is told to the log and started again after 50 ms, 5 s at most. Dropping this cuts them off.
#[derive(Default)]
pub struct Duties {
    running: JoinSet<()>,
    /// Dropping it ends them.
    stop: watch::Sender<()>,
    health: DutyHealth,
}

/// Whether the loops of a process do their duties; stays valid when they have ended. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct DutyHealth(Arc<Mutex<Vec<Duty>>>);

/// What a loop says of itself, and hears. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pulse {
    health: DutyHealth,
    place: usize,
    stopped: watch::Receiver<()>,
}

#[derive(Debug)]
struct Duty {
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

impl Duties {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a loop, which shall go on until [`Pulse::ended`].
    pub fn start<F, Run>(&mut self, name: &'static str, namespace: &Namespace, run: F)
    where
        F: Fn(Pulse) -> Run + Send + Sync + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        self.start_then(name, namespace, run, async {});
    }

    /// Starts a loop as [`start`](Self::start) does; `end` follows once it has ended for good, however that was.
    pub(crate) fn start_then<F, Run>(
        &mut self,
        name: &'static str,
        namespace: &Namespace,
        run: F,
        end: impl Future<Output = ()> + Send + 'static,
    ) where
        F: Fn(Pulse) -> Run + Send + Sync + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        let mut duties = self.health.lock();
        duties.push(Duty {
            name,
            namespace: namespace.clone(),
            beat: Stopwatch::start(),
            rests: false,
            restarts: 0,
            is_down: false,
            workers: Vec::new(),
        });
        let pulse = Pulse {
            health: self.health.clone(),
            place: duties.len() - 1,
            stopped: self.stop.subscribe(),
        };
        drop(duties);
        self.running.spawn(async move {
            supervise(pulse.clone(), run).await;
            pulse.over();
            end.await;
        });
    }

    /// A handle that shows whether they do their duties.
    pub fn health(&self) -> DutyHealth {
        self.health.clone()
    }

    /// Tells all of them to end, and waits until they have.
    pub async fn end(mut self) {
        drop(self.stop);
        while self.running.join_next().await.is_some() {}
    }
}

async fn supervise<F, Run>(pulse: Pulse, run: F)
where
    F: Fn(Pulse) -> Run,
    Run: Future<Output = ()>,
{
    let mut backoff = Backoff::engine();
    loop {
        let ran = Stopwatch::start();
        let running = AssertUnwindSafe(async { run(pulse.clone()).await });
        let ended = running.catch_unwind().await;
        if pulse.is_over() {
            return;
        }
        let why = match &ended {
            Ok(()) => "it ended unexpectedly",
            Err(panic) => panic_text(&**panic),
        };
        let (name, namespace) = pulse.down();
        tracing::error!(%namespace, why, "{name} was restarted; please report it");
        if ran.elapsed() > LONG {
            backoff.reset();
        }
        tokio::select! {
            biased;
            () = pulse.ended() => return,
            () = pause(backoff.pause()) => {}
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

impl Pulse {
    /// It begins a round. To be said again within a minute, or [`rests`](Self::rests).
    pub fn works(&self) {
        self.turn(|duty| (duty.rests, duty.is_down) = (false, false));
    }

    /// It begins a round although who worked for it is not there again: red stays red.
    pub(crate) fn works_in_part(&self) {
        self.turn(|duty| duty.rests = false);
    }

    /// It waits for something to do.
    pub fn rests(&self) {
        self.turn(|duty| duty.rests = true);
    }

    /// Ends once the loop shall end.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stopped.clone();
        async move { while stopped.changed().await.is_ok() {} }
    }

    /// These work for it, and are as much its duty as itself.
    pub(crate) fn has(&self, workers: Vec<WorkerHealth>) {
        self.turn(|duty| duty.workers = workers);
    }

    /// It, or who worked for it, has ended; red until the next round.
    pub(crate) fn down(&self) -> (&'static str, Namespace) {
        self.turn(|duty| {
            duty.is_down = true;
            duty.restarts += 1;
            (duty.name, duty.namespace.clone())
        })
    }

    /// It has ended for good: what it still waits for, such as deliveries on their way, may take its time.
    fn over(&self) {
        self.turn(|duty| {
            (duty.rests, duty.is_down) = (true, false);
            duty.workers.clear();
        });
    }

    fn is_over(&self) -> bool {
        self.stopped.has_changed().is_err()
    }

    fn turn<T>(&self, change: impl FnOnce(&mut Duty) -> T) -> T {
        let duty = &mut self.health.lock()[self.place];
        duty.beat = Stopwatch::start();
        change(duty)
    }
}

impl DutyHealth {
    /// Adds the loops to what is told of an engine, those of all namespaces as one: they are no
    /// tenant's. What is down is told to the namespace that waits for it.
    pub fn add_to(&self, health: &mut Health) {
        for duty in self.lock().iter() {
            let age = match duty.rests {
                true => Duration::ZERO,
                false => duty.beat.elapsed(),
            };
            add(&mut health.loops, duty.name.to_owned(), age, duty.restarts);
            for worker in &duty.workers {
                for one in worker.report().loops {
                    let name = format!("{} {}", duty.name, one.name);
                    add(&mut health.loops, name, one.age, one.restarts);
                }
            }
            if duty.is_down {
                let text = format!(
                    "{} ended and was restarted; the log has the cause, please report it",
                    duty.name
                );
                let namespace = duty.namespace.clone();
                let problem = NamespaceProblem { namespace, text };
                health.of_namespaces.push(problem);
                health.ok = false;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Duty>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest beat and all restarts under one name.
fn add(loops: &mut Vec<LoopHealth>, name: String, age: Duration, restarts: u64) {
    match loops.iter_mut().find(|one| one.name == name) {
        Some(one) => {
            one.age = one.age.max(age);
            one.restarts += restarts;
        }
        None => loops.push(LoopHealth {
            name,
            age,
            restarts,
        }),
    }
}

impl fmt::Debug for Duties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.health.fmt(f)
    }
}
