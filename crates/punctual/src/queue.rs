//! The producer's handle: puts typed jobs in, and asks about, changes and awaits those that are
//! there.

pub mod dead_letters;
mod engine;
mod enqueue;
mod flows;
mod jobs;
mod limits;
mod metrics;
mod named;
mod options;
mod publishing;
#[cfg(feature = "schedules")]
mod schedules;
mod step_refusals;
mod topics;

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

pub use engine::IntoEngine;
pub use enqueue::Enqueue;
pub use flows::{Flows, NewFlow, Recounted, SentFlow, Step};
pub use limits::QueueLimits;
pub use named::Limit;
pub use options::IntoNewJob;
#[doc(hidden)]
pub use publishing::{Matched, Messages};
#[cfg(feature = "schedules")]
pub use schedules::{NewSchedule, Schedules};
pub use topics::{Copy, MatchLine, Publish, Published, Topics};

pub(crate) use self::jobs::signal_payload;
use self::metrics::Metrics;
pub(crate) use self::metrics::published;
use crate::backoff::Backoff;
use crate::engine::{CallSize, Engine, Enqueued, Namespace, Receipt};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, Limits, NewJob};
use crate::time::{millis, pause};
use crate::topic::Matcher;

/// Puts jobs into an engine. Cheap to clone; share one in the whole program.
///
/// ```
/// use punctual::{Job, MemoryEngine, Queue, time::minutes};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct CancelUnpaid { order: u64 }
/// impl Job for CancelUnpaid {
///     const KIND: &str = "orders.cancel_unpaid";
///     const QUEUE: &str = "orders";
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let queue = Queue::new(MemoryEngine::new());
/// let receipt = queue
///     .enqueue(CancelUnpaid { order: 7 })
///     .delay(minutes(30))
///     .unique("order:7")
///     .await?;
///
/// // The order was paid in time:
/// queue.cancel(("orders", "order:7")).await?;
/// # let got = queue.get(receipt.id).await?.unwrap();
/// # assert_eq!(got.state(), punctual::JobState::Cancelled);
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    namespace: Namespace,
    limits: OnceCell<Limits>,
    metrics: Metrics,
    /// The subscriptions as they were last read, or came with a conflict.
    topics: Mutex<Option<Arc<Matcher>>>,
}

impl Queue {
    /// A handle to that engine, in the namespace `default`.
    pub fn new(engine: impl IntoEngine) -> Self {
        Self::with(engine.into_engine(), Namespace::default())
    }

    /// The same engine in another namespace.
    #[must_use]
    pub fn namespace(&self, namespace: Namespace) -> Self {
        Self::with(self.0.engine.clone(), namespace)
    }

    fn with(engine: Arc<dyn Engine>, namespace: Namespace) -> Self {
        Self(Arc::new(Inner {
            engine,
            namespace,
            limits: OnceCell::new(),
            metrics: Metrics::default(),
            topics: Mutex::default(),
        }))
    }

    /// The namespace.
    pub(crate) fn own_namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }

    /// The namespace.
    pub(crate) fn of_namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// A typed job, sent when awaited; the options come in between.
    ///
    /// Awaiting answers a receipt for a job that is stored, or that another one serves for
    /// (`merged`); a job that is not stored is an error, never a silent drop.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue {
        Enqueue::new(self.clone(), NewJob::of(&job))
    }

    /// An untyped job, sent when awaited.
    pub fn enqueue_job(&self, job: NewJob) -> Enqueue {
        Enqueue::new(self.clone(), Ok(job))
    }

    /// Sends many jobs in several calls, so that none keeps others waiting for more than a few
    /// milliseconds; one receipt per job, in order. A call carries at most 256 KiB of payload and
    /// 250 jobs: 100 if they have a key, an expiry, a retention or names to wait for, 50 if they
    /// have groups. Each call is a step of its own; jobs that must be stored together go in one
    /// [`Engine::enqueue`].
    ///
    /// Unlike [`enqueue`](Self::enqueue) it answers the verdict of each, whatever it is. On an
    /// error the batches before it are stored, and the error says `sent`: how many jobs that were.
    /// Send [`NewJob`]s whose ids you keep, and sending all of them again is safe.
    pub async fn enqueue_many<I>(&self, jobs: I) -> Result<Vec<Receipt>>
    where
        I: IntoIterator,
        I::Item: IntoNewJob,
    {
        let limits = self.engine_limits().await?;
        let mut receipts = Vec::new();
        let mut batch = Vec::new();
        let mut size = CallSize::default();
        for job in jobs {
            let index = receipts.len() + batch.len();
            let job = job
                .into_new_job()
                .and_then(|job| job.check(&limits).map(|()| job))
                .map_err(|error| error.with("index", index).with("sent", receipts.len()))?;
            if !size.add(&job, &limits) {
                self.send_batch(&mut batch, &mut receipts).await?;
                size = CallSize::default();
                size.add(&job, &limits);
            }
            batch.push(job);
        }
        if !batch.is_empty() {
            self.send_batch(&mut batch, &mut receipts).await?;
        }
        Ok(receipts)
    }

    async fn send_batch(&self, batch: &mut Vec<NewJob>, done: &mut Vec<Receipt>) -> Result<()> {
        match self.send(std::mem::take(batch)).await {
            Ok(enqueued) => done.extend(enqueued.receipts),
            Err(error) => return Err(error.with("sent", done.len())),
        }
        Ok(())
    }

    /// Sends, and sends the same ids again while the engine leaves it unknown whether they arrived.
    async fn send(&self, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let inner = &*self.0;
        let mut backoff = Backoff::new(millis(20), millis(1_000));
        let mut sends = 1;
        loop {
            match inner.engine.enqueue(&inner.namespace, jobs.clone()).await {
                Ok(enqueued) => {
                    inner.metrics.enqueued(&jobs, &enqueued.receipts);
                    tracing::debug!(
                        namespace = %inner.namespace,
                        jobs = jobs.len(),
                        durability = %enqueued.durability,
                        "enqueued"
                    );
                    return Ok(enqueued);
                }
                Err(error) if is_unknown(&error) && sends < SENDS_MAX => {
                    let pause_for = backoff.pause();
                    tracing::warn!(%error, sends, ?pause_for, "enqueue is sent again");
                    pause(pause_for).await;
                    sends += 1;
                }
                Err(error) => return Err(error.operation("enqueue").with("sends", sends)),
            }
        }
    }

    async fn engine_limits(&self) -> Result<Limits> {
        let inner = &*self.0;
        let ask = || async { inner.engine.info().await.map(|info| info.limits) };
        inner.limits.get_or_try_init(ask).await.copied()
    }
}

/// Sends of the same jobs, the first one included: with their pauses up to about two seconds.
const SENDS_MAX: u32 = 6;

/// Whether a call that answered this error may have taken effect.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::EngineUnavailable | ErrorKind::Io)
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("engine", &self.0.engine)
            .field("namespace", &self.0.namespace)
            .finish()
    }
}
