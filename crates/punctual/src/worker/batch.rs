//! Handlers of many jobs at once: jobs of one kind are gathered and handed over together.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::handler::{AnyHandler, decode};
use super::runtime::panic_text;
use crate::error::Result;
use crate::job::{Job, JobRecord};
use crate::sync::Lock;
use crate::time::{millis, pause};
use crate::worker::{BoxError, Context, IntoVerdict, States, Verdict};

/// How many jobs of a kind a worker gathers for one call of its handler, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    max: usize,
    linger: Duration,
    is_by_share: bool,
}

impl Batch {
    /// At most that many jobs, gathered for 50 ms; never more than the worker has slots, as each
    /// job takes one.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual::{time::millis, worker::Batch};
    ///
    /// let batch = Batch::of(100).linger(millis(200));
    /// ```
    pub const fn of(max: usize) -> Self {
        Self {
            max,
            linger: millis(50),
            is_by_share: false,
        }
    }

    /// Waits that long after the first job for more; a third of the worker's lease at most.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Gathers the jobs of each share for themselves: a batch has jobs of one share of one queue,
    /// or jobs without a share.
    ///
    /// The batches that are being gathered have together no more jobs than the worker has slots.
    #[must_use]
    pub const fn by_share(mut self) -> Self {
        self.is_by_share = true;
        self
    }

    /// What the jobs of one batch have in common.
    fn gathered_by(&self, job: &JobRecord) -> Option<Gathered> {
        let of = || (job.queue.clone(), job.share.clone());
        self.is_by_share.then(of)
    }
}

/// The queue and the share of the jobs of one batch.
type Gathered = (String, Option<String>);

/// The attempts of one batch, in the order of its jobs. Cheap to clone.
///
/// A job without an outcome of its own ends as the handler does.
#[derive(Debug, Clone)]
pub struct BatchContext(Arc<Attempts>);

#[derive(Debug)]
struct Attempts {
    contexts: Vec<Context>,
    verdicts: Mutex<Vec<Option<Verdict>>>,
}

impl BatchContext {
    /// The attempts: one for each job, in order.
    pub fn contexts(&self) -> &[Context] {
        &self.0.contexts
    }

    /// Ends the `nth` job with an outcome of its own; one that is not there is ignored.
    pub fn set(&self, nth: usize, verdict: impl IntoVerdict) {
        let verdict = verdict.into_verdict();
        if let Some(own) = self.0.verdicts.locked().get_mut(nth) {
            *own = Some(verdict);
        }
    }

    /// Fails the `nth` job: retried by its policy, or dead if the error is
    /// [`Error::permanent`](crate::Error::permanent).
    pub fn fail(&self, nth: usize, error: impl Into<BoxError>) {
        self.set(nth, Verdict::failed(error));
    }
}

/// A handler that takes many jobs at once.
pub(super) struct Many<F, J> {
    handler: Arc<F>,
    batch: Batch,
    gatherings: Arc<Mutex<Gatherings<J>>>,
    job: PhantomData<fn(J)>,
}

/// The batches that wait to be full or old enough.
struct Gatherings<J> {
    /// Counts batches, so that a late timer does not hand over the next one.
    begun: u64,
    /// One, or one for each share; the jobs of each occupy slots, which bounds them.
    open: BTreeMap<Option<Gathered>, Gathering<J>>,
}

struct Gathering<J> {
    nth: u64,
    members: Vec<Member<J>>,
    task: Arc<Task>,
}

struct Member<J> {
    job: J,
    ctx: Context,
    end: oneshot::Sender<Verdict>,
}

/// The task of a batch's handler: aborted with the last run that waits for it.
#[derive(Default)]
struct Task(OnceLock<AbortHandle>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }
}

impl<F, Fut, J> Many<F, J>
where
    F: Fn(Vec<J>, BatchContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
    J: Job,
{
    pub(super) fn new(handler: F, batch: Batch) -> Self {
        let gatherings = Gatherings {
            begun: 0,
            open: BTreeMap::new(),
        };
        Self {
            handler: Arc::new(handler),
            batch,
            gatherings: Arc::new(Mutex::new(gatherings)),
            job: PhantomData,
        }
    }

    /// Adds a job to the batch that is being gathered, and hands that over if it is full.
    fn join(&self, member: Member<J>) -> Arc<Task> {
        let (slots, lease_duration) = member.ctx.slots();
        let max = self.batch.max.min(slots).max(1);
        // What crashed workers runs alone: in a batch the culprit would be unknown.
        if member.ctx.job().is_suspect() || max == 1 {
            let task = Arc::default();
            launch(&self.handler, vec![member], &task);
            return task;
        }
        let by = self.batch.gathered_by(member.ctx.job());
        let mut gatherings = self.gatherings.locked();
        let next = gatherings.begun + 1;
        let gathering = gatherings
            .open
            .entry(by.clone())
            .or_insert_with(|| Gathering {
                nth: next,
                members: Vec::new(),
                task: Arc::default(),
            });
        gathering.members.push(member);
        let (nth, task) = (gathering.nth, gathering.task.clone());
        match gathering.members.len() {
            1 => {
                gatherings.begun = next;
                let linger = self.batch.linger.min(lease_duration / 3);
                let (all, handler) = (self.gatherings.clone(), self.handler.clone());
                tokio::spawn(async move {
                    pause(linger).await;
                    all.locked().hand_over(&by, nth, &handler);
                });
            }
            n if n >= max => gatherings.hand_over(&by, nth, &self.handler),
            _ => {}
        }
        task
    }
}

impl<J: Job> Gatherings<J> {
    /// Hands over the batch of that number, unless that was done.
    fn hand_over<F, Fut>(&mut self, by: &Option<Gathered>, nth: u64, handler: &Arc<F>)
    where
        F: Fn(Vec<J>, BatchContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        if self.open.get(by).is_some_and(|open| open.nth == nth)
            && let Some(gathering) = self.open.remove(by)
        {
            launch(handler, gathering.members, &gathering.task);
        }
    }
}

/// Runs the handler in a task of its own: the timeout of one job does not end the others.
fn launch<F, Fut, J>(handler: &Arc<F>, mut members: Vec<Member<J>>, task: &Arc<Task>)
where
    F: Fn(Vec<J>, BatchContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
    J: Job,
{
    // Its lease is lost, it was cancelled, or its worker ended.
    members.retain(|member| !member.end.is_closed() && !member.ctx.is_cancelled());
    if members.is_empty() {
        return;
    }
    let span = tracing::info_span!(parent: None, "batch", kind = J::KIND, jobs = members.len());
    let handler = handler.clone();
    let running = async move {
        let (mut jobs, mut contexts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for Member { job, ctx, end } in members {
            jobs.push(job);
            contexts.push(ctx);
            ends.push(end);
        }
        let verdicts = Mutex::new(ends.iter().map(|_| None).collect());
        let batch = BatchContext(Arc::new(Attempts { contexts, verdicts }));
        let called = async { handler(jobs, batch.clone()).await.into_verdict() };
        let whole = AssertUnwindSafe(called).catch_unwind().await;
        let whole = whole.unwrap_or_else(|panic| {
            Verdict::retry(format!("handler panicked: {}", panic_text(&*panic)))
        });
        let own = std::mem::take(&mut *batch.0.verdicts.locked());
        for (end, own) in ends.into_iter().zip(own) {
            // A run that was stopped meanwhile has ended by that.
            let _ = end.send(own.unwrap_or_else(|| same_as(&whole)));
        }
    };
    let running = tokio::spawn(running.instrument(span));
    let _ = task.0.set(running.abort_handle());
}

/// What the handler's own verdict means for one of its jobs.
fn same_as(whole: &Verdict) -> Verdict {
    Verdict {
        outcome: whole.outcome.clone(),
        error: whole.error_text().map(Into::into),
        result: whole.result.clone(),
        stopped: whole.stopped,
    }
}

impl<F, Fut, J> AnyHandler for Many<F, J>
where
    F: Fn(Vec<J>, BatchContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
    J: Job,
{
    fn run(&self, ctx: Context) -> BoxFuture<'static, Verdict> {
        let job = match decode::<J>(ctx.job()) {
            Ok(job) => job,
            Err(error) => return Box::pin(std::future::ready(Verdict::failed(error))),
        };
        let (end, ended) = oneshot::channel();
        let of_stopped = ctx.clone();
        let task = self.join(Member { job, ctx, end });
        Box::pin(async move {
            let mut ended = ended;
            let verdict = tokio::select! {
                biased;
                verdict = &mut ended => verdict,
                _ = of_stopped.cancelled() => match task.0.get() {
                    None => return Verdict::retry("stopped before its batch was full"),
                    // Its handler runs and sees to it.
                    Some(_) => ended.await,
                },
            };
            drop(task);
            verdict.unwrap_or_else(|_| Verdict::retry("batch of the job was aborted"))
        })
    }

    fn check(&self, _: &States) -> Result<()> {
        Ok(())
    }
}
