//! The worker: claims due jobs, runs their handlers, and settles how they ended.
//!
//! A run has four loops, each supervised: the claimer, the heartbeats of the leases, the watch
//! over what runs too long, and the settler. What they share is one board under a short lock.

mod ahead;
mod alone;
mod batch;
mod claimer;
mod context;
mod ending;
mod engine_time;
#[cfg(test)]
pub(crate) mod fixtures;
mod handler;
mod health;
mod join;
mod layer;
mod lease;
mod log;
mod metrics;
mod publish;
mod queues;
mod runner;
mod runtime;
mod settler;
mod shutdown;
mod slots;
mod state;
mod steps;
mod suspects;
mod upstream;
mod verdict;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

pub use batch::{Batch, BatchContext};
pub use context::{Context, Interrupt};
pub use handler::Handler;
pub use health::WorkerHealth;
pub use join::{JOIN_JOBS_MAX, Joined};
pub use layer::Next;
pub use queues::QueueShare;
pub use shutdown::{Shutdown, shutdown_signal};
pub use state::{FromContext, State, States};
pub use verdict::{BoxError, HandlerResult, IntoVerdict, Verdict};

use self::batch::Many;
use self::handler::{AnyHandler, Raw, Typed};
use self::health::Activity;
use self::layer::Layer;
use self::queues::Queues;
use crate::engine::{Engine, Namespace, WorkerId, WorkerRecord};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobRecord, Outcome, check_name};
use crate::queue::IntoEngine;
use crate::time::{Timestamp, days, millis, seconds};

/// Runs jobs.
///
/// A handler is an async function whose first argument is the payload; what it returns is the
/// verdict. An error by `?` means that the job is retried by its policy,
/// [`Error::permanent`](crate::Error::permanent) that it is dead, a panic is a failure too.
///
/// ```
/// use punctual::worker::{HandlerResult, State};
/// use punctual::{Context, Job, MemoryEngine, Outcome, Worker, shutdown_signal};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)] struct CancelUnpaid { order: u64 }
/// # impl Job for CancelUnpaid { const KIND: &str = "cancel"; const QUEUE: &str = "orders"; }
/// # #[derive(Clone)] struct Db;
/// # impl Db { async fn cancel(&self, _: u64) -> std::io::Result<()> { Ok(()) } }
///
/// async fn cancel_unpaid(job: CancelUnpaid, ctx: Context, State(db): State<Db>) -> HandlerResult {
///     db.cancel(job.order).await?;
///     ctx.result("done")?;
///     Ok(Outcome::Completed)
/// }
///
/// # async fn example(engine: MemoryEngine, db: Db) -> punctual::Result<()> {
/// Worker::new(engine)
///     .state(db)
///     .handle(cancel_unpaid)
///     .concurrency(64)
///     .run_until(shutdown_signal())
///     .await
/// # }
/// ```
///
/// # What it promises
/// - A job is claimed only when a slot is free, or will be within 5 ms by the run times seen.
/// - It holds a lease on what it runs and extends it at a third. A handler whose lease cannot be
///   extended is asked to stop at four fifths of it and aborted at nine tenths, so that no two
///   workers run a job at once as long as handlers do not block their threads.
/// - A handler that ignores a request to stop is aborted after a grace, and its slot is free
///   again. Code that blocks its thread cannot be aborted: after a second more its slot is given
///   up and counted as leaked. Put blocking code in `tokio::task::spawn_blocking`.
/// - Errors of the engine are waited out, 50 ms to 5 s at a time; nothing needs a restart.
/// - A kind it has no handler for is delayed, never failed.
/// - Jobs that crashed two workers are run with nothing beside them (see
///   [`isolated`](Self::isolated)).
///
/// # What it shows
/// Through `tracing`, a span `job` per attempt (id, kind, queue, attempt, and `traceparent` from
/// the header of that name) and an event per step, never a payload. What an attempt causes by
/// [`Context::then`] goes on with its W3C trace context. Through the `metrics` facade, with the
/// recorder installed before the run, by `queue` and `kind` (its own queues and registered kinds,
/// all others as `other`): `punctual_claimed_total`, `punctual_settled_total` (and `outcome`),
/// `punctual_retries_total`, `punctual_lateness_seconds` (due to handler start),
/// `punctual_limit_wait_seconds` (what a job waited at limits of its queue, not counted as late),
/// `punctual_run_time_seconds`; and without labels `punctual_active` and
/// `punctual_lease_lost_total`. A [`Queue`](crate::Queue) counts `punctual_enqueued_total` (and
/// `verdict`).
///
/// Dropping the future of a run ends its loops and handlers and hands back nothing: the leases run
/// out, and each running job counts a crash. End it by its shutdown.
pub struct Worker(Setup);

/// Everything that a run needs; cloned when it starts.
#[derive(Clone)]
struct Setup {
    engine: Arc<dyn Engine>,
    namespace: Namespace,
    id: WorkerId,
    version: String,
    handlers: HashMap<String, Arc<dyn AnyHandler>>,
    any: Option<Arc<dyn AnyHandler>>,
    /// The queues of the handlers, unless others are named.
    own_queues: Vec<String>,
    shares: Option<Vec<QueueShare>>,
    layers: Vec<Arc<dyn Layer>>,
    states: States,
    activity: Arc<Activity>,
    slots: usize,
    lease_duration: Duration,
    drain_limit: Duration,
    abort_grace: Duration,
    suspect_wait: Duration,
    isolated: bool,
    /// The first mistake in the set-up; a run answers it.
    mistake: Option<String>,
}

impl Worker {
    /// A worker on that engine, in the namespace `default`; give it handlers next.
    pub fn new(engine: impl IntoEngine) -> Self {
        Self(Setup {
            engine: engine.into_engine(),
            namespace: Namespace::default(),
            id: WorkerId::random(),
            version: String::new(),
            handlers: HashMap::new(),
            any: None,
            own_queues: Vec::new(),
            shares: None,
            layers: Vec::new(),
            states: States::default(),
            activity: Arc::default(),
            slots: 64,
            lease_duration: seconds(10),
            drain_limit: seconds(25),
            abort_grace: seconds(2),
            suspect_wait: seconds(30),
            isolated: false,
            mistake: None,
        })
    }

    /// Claims from another namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.0.namespace = namespace;
        self
    }

    /// Shares a value with the handlers: those with an argument [`State<T>`](State) get a clone.
    /// One per type.
    #[must_use]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.0.states = self.0.states.with(value);
        self
    }

    /// Runs jobs of a kind by an async function; its queue is claimed from, unless
    /// [`queues`](Self::queues) names others.
    #[must_use]
    pub fn handle<H, Args>(mut self, handler: H) -> Self
    where
        H: Handler<Args>,
        Args: 'static,
    {
        let queue = H::Job::QUEUE.to_owned();
        if !self.0.own_queues.contains(&queue) {
            self.0.own_queues.push(queue);
        }
        self.register(H::Job::KIND, Arc::new(Typed::new(handler)))
    }

    /// Runs jobs of a kind many at a time: they are gathered until a batch is full or has lingered,
    /// and handed over together; [`Batch::by_share`] keeps the jobs of each share apart. Each job
    /// keeps its own attempt, lease, outcome and place in its group.
    ///
    /// What the handler returns is the outcome of each job that it gave none of its own; an error
    /// fails them. A job that crashed its workers is handed over in a batch of its own.
    ///
    /// ```
    /// use punctual::worker::{Batch, BatchContext, HandlerResult};
    /// use punctual::{Job, MemoryEngine, Outcome, Queue, Worker, time::millis};
    /// # use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Index { doc: u64 }
    /// impl Job for Index { const KIND: &str = "index"; }
    ///
    /// async fn index(jobs: Vec<Index>, batch: BatchContext) -> HandlerResult {
    ///     for (nth, job) in jobs.iter().enumerate() {
    ///         batch.contexts()[nth].log(format!("one of {}", jobs.len()));
    ///         if job.doc == 13 {
    ///             batch.fail(nth, "document is locked"); // the others complete
    ///         }
    ///     }
    ///     Ok(Outcome::Completed)
    /// }
    ///
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # runtime.enable_all().build().unwrap().block_on(async {
    /// let engine = std::sync::Arc::new(MemoryEngine::new());
    /// let queue = Queue::new(&engine);
    /// queue.enqueue_many((10..14).map(|doc| Index { doc })).await?;
    /// let batch = Batch::of(100).linger(millis(20));
    /// Worker::new(engine).handle_many(index, batch).run_until_idle().await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn handle_many<J, F, Fut>(mut self, handler: F, batch: Batch) -> Self
    where
        J: Job,
        F: Fn(Vec<J>, BatchContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        let queue = J::QUEUE.to_owned();
        if !self.0.own_queues.contains(&queue) {
            self.0.own_queues.push(queue);
        }
        self.register(J::KIND, Arc::new(Many::new(handler, batch)))
    }

    /// Runs jobs of a kind undecoded; name their queues with [`queues`](Self::queues).
    ///
    /// ```
    /// # use punctual::{Context, JobRecord, MemoryEngine, Worker, worker::Verdict};
    /// # fn example(engine: MemoryEngine) -> Worker {
    /// Worker::new(engine)
    ///     .queues(["thumbnails"])
    ///     .handle_raw("thumbnail", |job: JobRecord, _ctx: Context| async move {
    ///         match job.payload.len() {
    ///             0 => Verdict::dead("no picture"),
    ///             _ => Verdict::completed().result("320x200"),
    ///         }
    ///     })
    /// # }
    /// ```
    #[must_use]
    pub fn handle_raw<F, Fut>(self, kind: &str, handler: F) -> Self
    where
        F: Fn(JobRecord, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.register(kind, Arc::new(Raw(handler)))
    }

    /// Runs jobs of every kind that has no handler of its own, undecoded.
    #[must_use]
    pub fn handle_any<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(JobRecord, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.0.any = Some(Arc::new(Raw(handler)));
        self
    }

    fn register(mut self, kind: &str, handler: Arc<dyn AnyHandler>) -> Self {
        let before = self.0.handlers.insert(kind.to_owned(), handler);
        if before.is_some() {
            let mistake = format!("kind {kind} has two handlers; give one of them another kind");
            self.0.mistake.get_or_insert(mistake);
        }
        self
    }

    /// Claims from these queues: by names alone, an earlier one is emptied before the worker claims
    /// from a later one; with weights, they take turns at being the first.
    ///
    /// ```
    /// # use punctual::{MemoryEngine, Worker};
    /// # let (a, b) = (MemoryEngine::new(), MemoryEngine::new());
    /// let strict = Worker::new(a).queues(["critical", "default"]);
    /// let weighted = Worker::new(b).queues([("critical", 6), ("default", 3), ("low", 1)]);
    /// ```
    #[must_use]
    pub fn queues<Q: Into<QueueShare>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.0.shares = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// Runs at most that many jobs at the same time; 64 by default.
    #[must_use]
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.0.slots = slots;
        self
    }

    /// Puts something around every handler: code before and after, or a verdict of its own. The
    /// first layer is the outermost.
    ///
    /// ```
    /// # use punctual::{Context, MemoryEngine, Worker, worker::Next};
    /// # fn example(engine: MemoryEngine) -> Worker {
    /// Worker::new(engine).layer(|ctx: Context, next: Next| async move {
    ///     let id = ctx.id();
    ///     let verdict = next.run(ctx).await;
    ///     println!("{id} ended as {:?}", verdict.outcome);
    ///     verdict
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn layer<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Context, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.0.layers.push(Arc::new(layer));
        self
    }

    /// Computes the span to the next attempt here, instead of the job's policy in the engine;
    /// `None` leaves it to the policy.
    ///
    /// ```
    /// # use punctual::{Context, MemoryEngine, Worker, time::{hours, seconds}, worker::BoxError};
    /// # fn example(engine: MemoryEngine) -> Worker {
    /// Worker::new(engine).retry_after(|ctx: &Context, error: &BoxError| {
    ///     let busy = error.to_string().contains("429");
    ///     busy.then(|| if ctx.failures() < 3 { seconds(30) } else { hours(1) })
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn retry_after<F>(self, span: F) -> Self
    where
        F: Fn(&Context, &BoxError) -> Option<Duration> + Send + Sync + 'static,
    {
        let span = Arc::new(span);
        self.layer(move |ctx: Context, next: Next| {
            let span = span.clone();
            async move {
                let verdict = next.run(ctx.clone()).await;
                let open = verdict.outcome == Outcome::Retry { after: None };
                match verdict.error.as_ref().filter(|_| open) {
                    Some(error) => match span(&ctx, error) {
                        Some(span) => verdict.after(span),
                        None => verdict,
                    },
                    None => verdict,
                }
            }
        })
    }

    /// Leases jobs for that long at a time, 50 ms to 1 day; 10 s by default. The cancel of a
    /// running job reaches it within a third of that; so does a crash the other workers, in full.
    #[must_use]
    pub fn lease_duration(mut self, lease_duration: Duration) -> Self {
        self.0.lease_duration = lease_duration;
        self
    }

    /// Lets handlers end for that long after the first signal; 25 s by default. Then it asks them
    /// to stop, and hands their jobs back once they have, at the latest after the abort grace.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.0.drain_limit = limit.min(SPAN_MAX);
        self
    }

    /// Aborts a handler that long after it was asked to stop; 2 s by default.
    #[must_use]
    pub fn abort_grace(mut self, grace: Duration) -> Self {
        self.0.abort_grace = grace.min(SPAN_MAX);
        self
    }

    /// Waits that long for a handler to end, counted from its start, so that a suspect can run with
    /// nothing beside it; 30 s by default. Until then nothing else is claimed.
    ///
    /// If no handler runs longer, a suspect is claimed within twice that span after the worker
    /// learns of it with a claim, or after the rest from the turn before: four times what that
    /// took. Half of it is to keep workers from standing still all at the same time. If one
    /// does, the worker goes on with its usual work, and waits longer the longer the suspect does,
    /// up to five minutes: ten times the longest handler. Any other worker may take it before, and
    /// one that is idle does so at once.
    ///
    /// Several workers in one process do not know of each other: their suspects are not alone.
    #[must_use]
    pub fn suspect_wait(mut self, span: Duration) -> Self {
        self.0.suspect_wait = span.min(SPAN_MAX);
        self
    }

    /// Says that each handler runs its job in a process of its own, so that a job that ends its
    /// process harms no other: such a worker claims suspects beside its usual work.
    ///
    /// Any other worker runs a suspect with nothing beside it (see
    /// [`suspect_wait`](Self::suspect_wait)).
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.0.isolated = true;
        self
    }

    /// Labels the worker's record with the version of the program.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.0.version = version.into();
        self
    }

    /// Its name: random, new for each worker that is built.
    pub fn id(&self) -> WorkerId {
        self.0.id
    }

    /// A handle that shows whether it works as it should.
    pub fn health(&self) -> WorkerHealth {
        WorkerHealth(self.0.activity.clone())
    }

    /// Runs until the shutdown: a future, or [`shutdown_signal`].
    ///
    /// An error is a mistake in its set-up, returned before the first claim: no queue, two handlers
    /// of one kind, a state that was not given. Or the engine stopped itself (`engine_stopped`):
    /// handlers are aborted then, and their jobs run again once it is open again.
    pub fn run_until(&self, shutdown: impl Into<Shutdown>) -> BoxFuture<'static, Result<()>> {
        runtime::run(Arc::new(self.0.clone()), shutdown.into()).boxed()
    }

    /// Runs until nothing is left that it could claim at the engine's present time; answers the
    /// next instant at which there is, if time alone brings any.
    ///
    /// For tests (see [`testing`](crate::testing)), and for programs that work off what is due
    /// and exit.
    pub async fn run_until_idle(&self) -> Result<Option<Timestamp>> {
        let idle = runtime::run_until_idle(Arc::new(self.0.clone())).await?;
        Ok(idle.wake_at)
    }

    /// The engine that it claims from.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }
}

impl Setup {
    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        if let Some(mistake) = &self.mistake {
            return refuse(mistake.clone());
        }
        if self.handlers.is_empty() && self.any.is_none() {
            return refuse("worker has no handler; give it one with `.handle(..)`".into());
        }
        self.queues()?;
        for (kind, handler) in &self.handlers {
            check_name("kind", kind)?;
            handler.check(&self.states)?;
        }
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return refuse(format!("concurrency is out of range; use 1 to {SLOTS_MAX}"));
        }
        // Shorter ones would be lost to the scheduling of a busy machine.
        if self.lease_duration < millis(50) || self.lease_duration > days(1) {
            return refuse("lease_duration is out of range; use 50 ms to 1 day".into());
        }
        Ok(())
    }

    fn queues(&self) -> Result<Queues> {
        match &self.shares {
            Some(shares) => Queues::new(shares),
            None => {
                let own: Vec<QueueShare> =
                    self.own_queues.iter().cloned().map(Into::into).collect();
                Queues::new(&own)
            }
        }
    }

    fn queue_names(&self) -> Vec<String> {
        self.queues()
            .map(|queues| queues.names())
            .unwrap_or_default()
    }

    /// The kinds that have a handler of their own, in their order.
    fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self.handlers.keys().cloned().collect();
        kinds.sort();
        kinds
    }

    /// A handler for each of the kinds, and last the one for all others.
    fn handlers_by_kind(&self) -> Vec<Option<Arc<dyn AnyHandler>>> {
        let kinds = self.kinds();
        let known = kinds.iter().map(|kind| self.handlers.get(kind).cloned());
        known.chain([self.any.clone()]).collect()
    }

    /// What it says of itself with every claim.
    fn record(&self) -> WorkerRecord {
        WorkerRecord {
            id: self.id,
            host: host_name(),
            version: self.version.clone(),
            queues: self.queue_names(),
            kinds: if self.any.is_some() {
                Vec::new()
            } else {
                self.kinds()
            },
            slots: self.slots as u32,
            busy: 0,
        }
    }
}

/// As good as for ever, and no sum of instants overflows.
const SPAN_MAX: Duration = days(365);
/// Slots of one worker: beyond this its leases would outgrow its calls.
const SLOTS_MAX: usize = 10_000;

/// A label for people; empty where the system does not say.
pub(crate) fn host_name() -> String {
    let reported = std::env::var("HOSTNAME").ok();
    let asked = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    reported
        .or_else(asked)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.0.id)
            .field("queues", &self.0.queue_names())
            .field("kinds", &self.0.kinds())
            .field("slots", &self.0.slots)
            .finish_non_exhaustive()
    }
}
