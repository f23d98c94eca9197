//! The builder of one enqueue.

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::engine::{EnqueueVerdict, Receipt};
use crate::error::{Error, ErrorKind, Result};
use crate::job::NewJob;
use crate::queue::Queue;

/// One job on its way: set options, then await it.
///
/// What cannot be sent (a payload that is no JSON, an option out of range) is the error of the
/// await.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct Enqueue {
    queue: Queue,
    job: Result<NewJob>,
    expires_in: Option<Duration>,
}

impl Enqueue {
    pub(super) fn new(queue: Queue, job: Result<NewJob>) -> Self {
        Self {
            queue,
            job,
            expires_in: None,
        }
    }

    /// Is `cancelled: expired` that span after the enqueue, unless it is active then.
    ///
    /// Counted from the engine's time, which is asked for first: one more call.
    pub fn expires_in(mut self, span: Duration) -> Self {
        self.expires_in = Some(span);
        self
    }

    /// Sends it and answers the receipt whatever its verdict, where awaiting makes an error of a
    /// verdict that means "not stored".
    ///
    /// ```
    /// # use punctual::{engine::EnqueueVerdict, Hold, MemoryEngine, NewJob, Queue, UniquePolicy};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let queue = Queue::new(MemoryEngine::new());
    /// let report = || NewJob::new("reports", "{}").unique_with(
    ///     "weekly",
    ///     UniquePolicy::Replace,
    ///     Hold::UntilSettled,
    /// );
    /// let first = queue.enqueue_job(report()).receipt().await?;
    /// let second = queue.enqueue_job(report()).receipt().await?;
    /// assert_eq!(second.verdict, EnqueueVerdict::Replaced(first.id));
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn receipt(self) -> Result<Receipt> {
        self.send().await.map(|sent| sent.receipt)
    }

    async fn send(self) -> Result<Sent> {
        let mut job = self.job.map_err(|error| error.operation("enqueue"))?;
        if let Some(span) = self.expires_in {
            let now = self.queue.engine().info().await?.now;
            job.expires_at = Some(now + span);
        }
        let (queue, share, limits) = (job.queue.clone(), job.share.clone(), job.limits.clone());
        let enqueued = self.queue.send(vec![job]).await?;
        match enqueued.receipts.first() {
            Some(receipt) => Ok(Sent {
                receipt: *receipt,
                queue,
                share,
                limits,
            }),
            None => Err(Error::new(
                ErrorKind::Internal,
                "engine answered no receipt; please report it",
            )),
        }
    }

    pub(super) fn edit(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }
}

impl IntoFuture for Enqueue {
    type Output = Result<Receipt>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let sent = self.send().await?;
            let receipt = sent.receipt;
            stored(receipt).map_err(|error| {
                let error = error.with("queue", &sent.queue).with("id", receipt.id);
                match sent.full() {
                    Some((name, full)) => error.with(name, full),
                    None => error,
                }
            })
        })
    }
}

/// A job that was sent, and what became of it.
struct Sent {
    receipt: Receipt,
    queue: String,
    share: Option<String>,
    limits: Vec<String>,
}

impl Sent {
    /// Its limit or its share that is full, if that refused it.
    fn full(&self) -> Option<(&'static str, &String)> {
        match self.receipt.verdict {
            EnqueueVerdict::LimitFull(nth) => {
                let limit = self.limits.get(usize::from(nth));
                limit.map(|limit| ("limit", limit))
            }
            EnqueueVerdict::ShareFull(_) => self.share.as_ref().map(|share| ("share", share)),
            _ => None,
        }
    }
}

/// The receipt of a job that is stored or served for; else what stands in its way.
fn stored(receipt: Receipt) -> Result<Receipt> {
    let refused = |kind, message: &str| Err(Error::new(kind, message).operation("enqueue"));
    match receipt.verdict {
        EnqueueVerdict::IdConflict => refused(
            ErrorKind::Conflict,
            "id belongs to a job with other content; send another id",
        ),
        EnqueueVerdict::UniqueActive(holder) => refused(
            ErrorKind::Conflict,
            "unique key is held by an active job, which cannot be replaced; wait until it settles",
        )
        .map_err(|error| error.with("holder", holder)),
        EnqueueVerdict::Full => refused(
            ErrorKind::EngineFull,
            "queue has as many pending jobs as it may; raise max_pending or add workers",
        ),
        EnqueueVerdict::ParentUnknown(job) => refused(
            ErrorKind::NotFound,
            "job waits for one that is not known; send that one first",
        )
        .map_err(|error| error.with("job", job)),
        EnqueueVerdict::FlowClosed => refused(
            ErrorKind::Conflict,
            "flow takes no more steps: it is sealed, cancelled or has settled",
        ),
        EnqueueVerdict::LimitFull(_) => refused(
            ErrorKind::Conflict,
            "as many jobs with this limit are active as may be, and it refuses more; send the job \
             again when one has ended",
        ),
        EnqueueVerdict::ShareFull(most) => refused(
            ErrorKind::EngineFull,
            "share has as many pending jobs as it may; raise max_pending of the queue's shares or \
             add workers",
        )
        .map_err(|error| error.with("max_pending", most)),
        verdict if verdict.is_accepted() => Ok(receipt),
        verdict => refused(ErrorKind::Conflict, "job was not stored")
            .map_err(|error| error.with("verdict", verdict.name())),
    }
}
