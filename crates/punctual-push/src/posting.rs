//! The workers that post due jobs to their targets.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use punctual::backoff::Backoff;
use punctual::engine::{StatsRequest, WaitFor};
use punctual::job::CLAIM_QUEUES_MAX;
use punctual::time::{Stopwatch, Timestamp, pause, seconds};
use punctual::worker::{QueueShare, WorkerHealth};
use punctual::{Context, Engine, JobRecord, Namespace, Result, Worker, push};
use tokio::sync::{Mutex, watch};
use tokio::task::{Id, JoinError, JoinSet};

use crate::callbacks::Callbacks;
use crate::maintenance::{Heartbeat, LONG, Maintenance};
use crate::push_wakeup::PushWakeup;
use crate::pusher::Pusher;

/// Posts every job of a namespace that has a target, whatever its queue: what `punctual serve`
/// does unasked.
///
/// Such jobs lie in queues whose names start with `http:`. It claims from all of them, in turns,
/// and finds new ones by its [`PushWakeup`], or within five seconds; those of callbacks and of
/// alerts at once. Beside that it enqueues missing [`Callbacks`].
pub struct Posting {
    engine: Arc<dyn Engine>,
    namespace: Namespace,
    pusher: Pusher,
    push_wakeup: PushWakeup,
    slots: usize,
    drain: Duration,
    poll: Duration,
    /// Before a worker that has ended is followed by another.
    restart: Backoff,
}

/// Deliveries at the same time: they wait more than they work.
const SLOTS: usize = 256;
/// Workers beyond those that the queues need, before they are gathered.
const SPARE_WORKERS: usize = 4;
/// How often it polls for queues without a wakeup.
const POLL: Duration = seconds(5);

impl Posting {
    /// Posts by that pusher what lies in that namespace.
    pub fn new(engine: Arc<dyn Engine>, namespace: Namespace, pusher: Pusher) -> Self {
        Self {
            engine,
            pusher: pusher.namespace(namespace.clone()),
            namespace,
            push_wakeup: PushWakeup::default(),
            slots: SLOTS,
            drain: seconds(25),
            poll: POLL,
            restart: Backoff::engine(),
        }
    }

    /// Learns of new queues by that wakeup.
    #[must_use]
    pub fn push_wakeup(mut self, push_wakeup: PushWakeup) -> Self {
        self.push_wakeup = push_wakeup;
        self
    }

    /// Lets deliveries end for that long after the shutdown, before it hands them back; 25 s by
    /// default.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// How often it polls for queues without a wakeup; 5 s by default.
    #[must_use]
    pub fn poll_every(mut self, span: Duration) -> Self {
        self.poll = span;
        self
    }

    /// Runs until the shutdown.
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) {
        let mut maintenance = Maintenance::new();
        self.start(&mut maintenance);
        shutdown.await;
        maintenance.end().await;
    }

    /// Starts it as one loop among others, with the callbacks of its namespace as another.
    pub fn start(self, maintenance: &mut Maintenance) {
        let (engine, namespace) = (self.engine.clone(), self.namespace.clone());
        let posting = Arc::new(self);
        // Outside of what is started again: what is on its way is neither cut off nor posted again
        // with it.
        let pool: Arc<Mutex<WorkerPool>> = Arc::default();
        let ends = pool.clone();
        let run = move |heartbeat: Heartbeat| {
            let (posting, pool) = (posting.clone(), pool.clone());
            async move { posting.run(&heartbeat, &mut *pool.lock().await).await }
        };
        let end = async move { ends.lock().await.end().await };
        maintenance.start_then("posting", &namespace, run, end);
        let home = namespace.clone();
        maintenance.start("callbacks", &namespace, move |heartbeat| {
            Callbacks::new(engine.clone(), home.clone()).run(heartbeat)
        });
    }

    /// Polls for queues until it shall end, and keeps a worker on each.
    async fn run(&self, heartbeat: &Heartbeat, pool: &mut WorkerPool) {
        let mut ended = std::pin::pin!(heartbeat.ended());
        let mut notifies = self.push_wakeup.listen();
        let mut listens = true;
        loop {
            pool.shows(heartbeat);
            // After a wakeup without a new queue the next poll will do.
            listens |= tokio::select! {
                biased;
                () = ended.as_mut() => return,
                is_new = self.poll(pool) => is_new,
            };
            heartbeat.has(pool.health());
            pool.shows(heartbeat);
            heartbeat.rests();
            let known = pool.queues();
            let restart = pool.restart_in();
            tokio::select! {
                biased;
                () = ended.as_mut() => return,
                () = pool.loses() => {
                    heartbeat.has(pool.health());
                    heartbeat.down();
                    tracing::error!("a push worker ended; a new one starts shortly");
                }
                () = pause(restart.unwrap_or_default()), if restart.is_some() => {}
                _ = notifies.changed() => {}
                () = self.has_unknown(&known), if listens => listens = false,
                () = pause(self.poll) => listens = true,
            }
        }
    }

    /// Polls once; whether there are queues that were new.
    async fn poll(&self, pool: &mut WorkerPool) -> bool {
        let known = pool.queues();
        let mut found = self.push_wakeup.queues(&self.namespace);
        // Without an answer those that are known will do: it is asked again.
        found.extend(self.find().await.unwrap_or_default());
        for lost in pool.take_due() {
            self.start_workers(pool, &lost.queues, &lost.backoff);
        }
        // Only of those that are there: to claim from a queue makes it.
        let new: BTreeSet<String> = found.difference(&known).cloned().collect();
        if new.is_empty() {
            return false;
        }
        if pool.workers.len() < (known.len() + new.len()) / CLAIM_QUEUES_MAX + SPARE_WORKERS {
            self.start_workers(pool, &new, &self.restart);
        } else {
            // The new ones first, so that nothing waits in between.
            let old = std::mem::take(&mut pool.workers);
            let all = old.iter().flat_map(|worker| &worker.queues).chain(&new);
            self.start_workers(pool, &all.cloned().collect(), &self.restart);
            drop(old);
        }
        true
    }

    /// Ends when there is a callback or an alert in a queue that is not known: any process may
    /// enqueue the first one.
    async fn has_unknown(&self, known: &BTreeSet<String>) {
        let unknown = [push::CALLBACK_QUEUE, push::ALERT_QUEUE].map(String::from);
        let unknown = unknown.into_iter().filter(|queue| !known.contains(queue));
        let work = WaitFor::Work(unknown.collect());
        if work.check().is_ok() {
            let waited = self.engine.wait(&self.namespace, work, Timestamp::MAX);
            if waited.await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }

    /// The queues that have had pushed jobs, as the engine knows them.
    async fn find(&self) -> Result<BTreeSet<String>> {
        let stats = self.engine.stats(&self.namespace, StatsRequest::default());
        let names = stats.await?.queues.into_iter().map(|queue| queue.queue);
        Ok(names.filter(|name| push::is_queue(name)).collect())
    }

    fn start_workers(&self, pool: &mut WorkerPool, queues: &BTreeSet<String>, backoff: &Backoff) {
        let queues: Vec<&String> = queues.iter().collect();
        for some in queues.chunks(CLAIM_QUEUES_MAX) {
            let (stop, mut stopped) = watch::channel(());
            // Dropping the sender is the signal.
            let until = async move { while stopped.changed().await.is_ok() {} };
            let worker = self.worker(some);
            let health = worker.health();
            let running = worker.run_until(until).map(|ended| {
                if let Err(error) = ended {
                    tracing::error!(%error, "a push worker did not start");
                }
            });
            pool.workers.push(PoolWorker {
                id: pool.running.spawn(running).id(),
                queues: some.iter().map(|queue| (*queue).clone()).collect(),
                health,
                started: Stopwatch::start(),
                backoff: backoff.clone(),
                _stop: stop,
            });
        }
    }

    fn worker(&self, queues: &[&String]) -> Worker {
        let pusher = self.pusher.clone();
        let share = |queue: &&String| QueueShare::from(((*queue).clone(), 1));
        Worker::new(&self.engine)
            .namespace(self.namespace.clone())
            .queues(queues.iter().map(share))
            .concurrency(self.slots)
            .drain_limit(self.drain)
            // What a job does happens elsewhere: no job ends this process.
            .isolated()
            .version(concat!("punctual-push ", env!("CARGO_PKG_VERSION")))
            .handle_any(move |job: JobRecord, ctx: Context| {
                let pusher = pusher.clone();
                async move { pusher.push(&job, &ctx).await }
            })
    }
}

/// The workers; those that were stopped are no longer in `workers`.
#[derive(Default)]
struct WorkerPool {
    running: JoinSet<()>,
    workers: Vec<PoolWorker>,
    /// At most [`SPARE_WORKERS`].
    lost: Vec<Lost>,
}

struct PoolWorker {
    id: Id,
    queues: BTreeSet<String>,
    health: WorkerHealth,
    started: Stopwatch,
    backoff: Backoff,
    /// Dropping it ends the worker.
    _stop: watch::Sender<()>,
}

/// Queues whose worker has ended: they wait for another one by themselves, and hold up no other
/// queue.
struct Lost {
    queues: BTreeSet<String>,
    backoff: Backoff,
    since: Stopwatch,
    pause: Duration,
}

impl Lost {
    fn due_in(&self) -> Duration {
        self.pause.saturating_sub(self.since.elapsed())
    }
}

impl WorkerPool {
    fn health(&self) -> Vec<WorkerHealth> {
        self.workers
            .iter()
            .map(|worker| worker.health.clone())
            .collect()
    }

    /// Queues that have a worker, or will have one again.
    fn queues(&self) -> BTreeSet<String> {
        let queues = self.workers.iter().flat_map(|worker| &worker.queues);
        let lost = self.lost.iter().flat_map(|lost| &lost.queues);
        queues.chain(lost).cloned().collect()
    }

    /// Shows that it goes on; without all its workers it is as down as it was.
    fn shows(&self, heartbeat: &Heartbeat) {
        match self.lost.is_empty() {
            true => heartbeat.works(),
            false => heartbeat.works_in_part(),
        }
    }

    /// When the next of those is due that wait for another worker.
    fn restart_in(&self) -> Option<Duration> {
        self.lost.iter().map(Lost::due_in).min()
    }

    fn take_due(&mut self) -> Vec<Lost> {
        let is_due = |lost: &mut Lost| lost.due_in().is_zero();
        self.lost.extract_if(.., is_due).collect()
    }

    /// Ends when a worker has ended that was not stopped, and any that ended with it; never, while
    /// there are none.
    async fn loses(&mut self) {
        loop {
            let Some(gone) = self.running.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let mut is_lost = self.lost(gone);
            while let Some(gone) = self.running.try_join_next_with_id() {
                is_lost |= self.lost(gone);
            }
            if is_lost {
                return;
            }
        }
    }

    /// Whether this was one that was not stopped.
    fn lost(&mut self, gone: Result<(Id, ()), JoinError>) -> bool {
        let id = gone.map_or_else(|error| error.id(), |(id, ())| id);
        let Some(at) = self.workers.iter().position(|worker| worker.id == id) else {
            return false;
        };
        let mut worker = self.workers.swap_remove(at);
        if worker.started.elapsed() > LONG {
            worker.backoff.reset();
        }
        // Where many end, it is for a reason that they share.
        if self.lost.len() >= SPARE_WORKERS
            && let Some(last) = self.lost.last_mut()
        {
            last.queues.append(&mut worker.queues);
            return true;
        }
        self.lost.push(Lost {
            queues: worker.queues,
            pause: worker.backoff.pause(),
            backoff: worker.backoff,
            since: Stopwatch::start(),
        });
        true
    }

    /// Stops all, and waits until deliveries on their way have ended.
    async fn end(&mut self) {
        self.workers.clear();
        self.lost.clear();
        while self.running.join_next().await.is_some() {}
    }
}

impl fmt::Debug for Posting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Posting({})", self.namespace)
    }
}

#[cfg(test)]
mod tests;
