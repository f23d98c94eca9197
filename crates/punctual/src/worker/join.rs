//! Durable joins: a handler enqueues jobs, gives its slot back, and comes back when all have ended.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::handler::{AnyHandler, decode};
use super::state::States;
use super::verdict::{IntoVerdict, Verdict};
use crate::engine::{EditVerdict, EnqueueVerdict, Got, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::On;
use crate::job::{Job, JobId, JobState, NewJob, Outcome, REMEMBER_MAX};
use crate::queue::IntoNewJob;
use crate::time::days;

/// Jobs of one join: with the one that waits for them they are one batch.
pub const JOIN_JOBS_MAX: usize = 999;

/// How long jobs of a join are kept after its limit: their results are read later.
const KEPT: Duration = days(1);
const KEPT_MAX: Duration = days(365);
/// The signal of a join is this and its name.
const PREFIX: &str = "all:";

/// Signals the job of a join once all have ended. Every worker runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Join {
    job: JobId,
    signal: String,
}

impl Job for Join {
    const KIND: &'static str = "punctual.join";
}

/// How a job of a [join](Context::all) stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// The job.
    pub id: JobId,
    /// Its state: one that has not settled if the limit of the join passed before. None if its
    /// record is gone, so that its end is unknown.
    pub state: Option<JobState>,
    /// What it gave as its result.
    pub result: Option<Bytes>,
}

impl Joined {
    /// Its result, read as JSON; `None` if it has none.
    ///
    /// # Errors
    /// `permanent` for a result that does not fit the type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let read = |bytes| {
            serde_json::from_slice(bytes).map_err(|cause| {
                let message = "result of a job does not fit the type that the handler asks for";
                let error = Error::new(ErrorKind::Permanent, message).with("id", self.id);
                error.source(cause)
            })
        };
        self.result.as_deref().map(read).transpose()
    }
}

impl Context {
    /// Enqueues jobs and waits until all of them have ended, however they end, or the limit has
    /// passed: then it answers each of them in the order given, one whose record is gone without a
    /// state. The attempt ends meanwhile, as in
    /// [`wait_for`](Self::wait_for), and its slot is free.
    ///
    /// The jobs get ids that follow from this job and the name, so a later attempt sends none of
    /// them twice. They are kept for a day after the limit. Workers of their queues run
    /// them; a Rust worker of this job's queue runs the small job that waits for them. A worker of
    /// another language snoozes jobs of the kind `punctual.join`: one that completes them lets the
    /// join wait to its limit. The handler must
    /// give the same number of jobs in each attempt.
    ///
    /// ```
    /// use punctual::time::hours;
    /// use punctual::{Context, Job, MemoryEngine, Outcome, Queue, Result, Worker};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct Count { pages: Vec<u64> }
    /// impl Job for Count { const KIND: &str = "count"; }
    /// #[derive(Serialize, Deserialize)]
    /// struct CountPage { page: u64 }
    /// impl Job for CountPage { const KIND: &str = "count-page"; }
    ///
    /// async fn count_page(job: CountPage, ctx: Context) -> Result<Outcome> {
    ///     ctx.result((job.page * 100).to_string())?;
    ///     Ok(Outcome::Completed)
    /// }
    ///
    /// async fn count(job: Count, ctx: Context) -> Result<Outcome> {
    ///     let pages = job.pages.iter().map(|page| CountPage { page: *page });
    ///     let counted = ctx.all("pages", pages, hours(1)).await?;
    ///     let mut words = 0;
    ///     for page in counted {
    ///         words += page.result::<u64>()?.unwrap_or_default();
    ///     }
    ///     ctx.result(words.to_string())?;
    ///     Ok(Outcome::Completed)
    /// }
    ///
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # runtime.enable_all().build().unwrap().block_on(async {
    /// let engine = std::sync::Arc::new(MemoryEngine::new());
    /// let queue = Queue::new(&engine);
    /// let job = queue.enqueue(Count { pages: vec![1, 2, 3] }).receipt().await?;
    /// Worker::new(engine).handle(count).handle(count_page).run_until_idle().await?;
    /// # let got = queue.get(job.id).await?.unwrap();
    /// # let punctual::engine::Got::Tombstone { result, .. } = got else { panic!("{got:?}") };
    /// # assert_eq!(result.unwrap(), "600");
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The one that ends the attempt; `batch_too_large` for more than 999 jobs; `conflict` for a
    /// name that was used in this attempt, and for a job that the engine did not take;
    /// `unsupported` where an engine cuts the namespace into shards.
    pub async fn all<I>(
        &self,
        name: impl Into<String>,
        jobs: I,
        limit: Duration,
    ) -> Result<Vec<Joined>>
    where
        I: IntoIterator,
        I::Item: IntoNewJob,
    {
        let name = name.into();
        let signal = format!("{PREFIX}{name}");
        let jobs = self.jobs_of_join(&name, jobs, limit)?;
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let has_ended = self.has_waited(&signal);
        if !ids.is_empty() && !has_ended {
            self.send_join(&name, &signal, jobs).await?;
        }
        if !ids.is_empty() {
            self.wait_for_bytes(signal, limit)?;
        }
        self.ends_of(ids).await
    }

    /// The jobs with ids that follow from the name.
    fn jobs_of_join<I>(&self, name: &str, jobs: I, limit: Duration) -> Result<Vec<NewJob>>
    where
        I: IntoIterator,
        I::Item: IntoNewJob,
    {
        let parent = self.id().to_string();
        let mut all = Vec::new();
        for (nth, job) in jobs.into_iter().enumerate() {
            if nth >= JOIN_JOBS_MAX {
                let message = "join has too many jobs; use at most 999, or a flow";
                return Err(Error::new(ErrorKind::BatchTooLarge, message).with("join", name));
            }
            let mut job = job.into_new_job()?;
            job.id = JobId::derived(&parent, &format!("{name}/{nth}"));
            let kept = limit.saturating_add(KEPT).min(KEPT_MAX);
            job.retention = job.retention.max(kept);
            // A queue keeps some of its settled jobs; of the others their tombstones have the ends.
            job.remember = Some(job.remember.unwrap_or_default().max(kept.min(REMEMBER_MAX)));
            all.push(job);
        }
        Ok(all)
    }

    async fn send_join(&self, name: &str, signal: &str, jobs: Vec<NewJob>) -> Result<()> {
        let queue = self.queue().ok_or_else(super::steps::no_engine)?;
        let parent = self.job();
        let mut join = Join {
            job: parent.id,
            signal: signal.to_owned(),
        }
        .into_new_job()?;
        join.id = id_of_join(parent.id, name);
        join.queue.clone_from(&parent.queue);
        join.priority = parent.priority;
        for job in &jobs {
            join = join.after(job.id, On::Settled);
        }
        for receipt in queue.enqueue_many(jobs.into_iter().chain([join])).await? {
            if !matches!(
                receipt.verdict,
                EnqueueVerdict::Created | EnqueueVerdict::Duplicate
            ) {
                let message = "a job of the join was not taken; see its verdict";
                return Err(Error::new(ErrorKind::Conflict, message)
                    .with("join", name)
                    .with("id", receipt.id)
                    .with("verdict", receipt.verdict.name()));
            }
        }
        Ok(())
    }

    async fn ends_of(&self, ids: Vec<JobId>) -> Result<Vec<Joined>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let queue = self.queue().ok_or_else(super::steps::no_engine)?;
        let targets: Vec<Target> = ids.iter().copied().map(Target::Id).collect();
        let got = queue
            .engine()
            .get(queue.of_namespace(), targets, false)
            .await?;
        let of = |(id, got): (JobId, Option<Got>)| {
            let (state, result) = match got {
                Some(Got::Job(job, _)) => (Some(job.state), job.result),
                Some(Got::Tombstone { state, result, .. }) => (Some(state), result),
                _ => (None, None),
            };
            Joined { id, state, result }
        };
        Ok(ids.into_iter().zip(got).map(of).collect())
    }
}

/// The id of the job that signals the end of a join.
fn id_of_join(parent: JobId, name: &str) -> JobId {
    JobId::derived(&parent.to_string(), &format!("{name}/join"))
}

/// Runs the jobs that signal the end of a join.
pub(super) struct Joiner;

impl AnyHandler for Joiner {
    fn run(&self, ctx: Context) -> BoxFuture<'static, Verdict> {
        Box::pin(async move { signal_parent(ctx).await.into_verdict() })
    }

    fn check(&self, _: &States) -> Result<()> {
        Ok(())
    }
}

/// Signals the job that waits; one that is gone, or was signalled before, needs nothing.
async fn signal_parent(ctx: Context) -> Result<Outcome> {
    let join: Join = decode(ctx.job())?;
    let queue = ctx.queue().ok_or_else(super::steps::no_engine)?;
    // Any sender may enqueue a job of this kind; only the one that `all` makes may signal.
    let name = join.signal.strip_prefix(PREFIX);
    let is_made_by_all = name.is_some_and(|name| ctx.id() == id_of_join(join.job, name));
    let parent = match is_made_by_all {
        true => queue.get(join.job).await?,
        false => return Ok(refused(&ctx)),
    };
    match parent {
        Some(Got::Job(parent, _)) if parent.queue == ctx.job().queue => {}
        Some(Got::Job(..)) => return Ok(refused(&ctx)),
        _ => return Ok(Outcome::Completed),
    }
    let verdict = queue.signal(join.job, join.signal, &()).await?;
    if verdict == EditVerdict::SignalsFull {
        ctx.log("the job has too many signals to learn of the end of its join");
        return Ok(Outcome::Dead);
    }
    Ok(Outcome::Completed)
}

fn refused(ctx: &Context) -> Outcome {
    ctx.log("no handler made it by `Context::all`, so it signals nothing");
    Outcome::Dead
}
