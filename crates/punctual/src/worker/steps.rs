//! Durable steps of a handler: results that are kept once they are there, sleeps and waits that
//! give the slot back.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use crate::engine::{Extend, ExtendVerdict, check_signal};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, JobId, MAX_WAIT_MAX, MEMO_BYTES_MAX, Memo, MemoSource, check_key};
use crate::queue::signal_payload;
use crate::time::{millis, pause, seconds};
use crate::worker::BoxError;

/// What a handler passes on by `?` when its job is to wait: the attempt ends without counting.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) names: Vec<String>,
    pub(super) limit: Duration,
}

impl std::fmt::Display for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "waits for {}", self.names.join(", "))
    }
}

impl std::error::Error for Suspended {}

tokio::task_local! {
    /// The step that runs in this task.
    static STEP: String;
}

/// Steps by name: the code between them may change from one deploy to the next, and steps may run
/// at the same time. Each name is used once in an attempt.
impl Context {
    /// Runs a step and keeps its result: later attempts get that without running it again.
    ///
    /// The result is kept when this returns, at the price of one call to the engine. If the worker
    /// dies before, the step runs again in the next attempt: give the other side the
    /// [`key`](Self::key), which stays the same, so that it recognises the repetition. An error of
    /// the step is not kept.
    ///
    /// ```
    /// use punctual::{Context, Job, MemoryEngine, Outcome, Queue, Result, Worker};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct Order { id: u64 }
    /// impl Job for Order { const KIND: &str = "order"; }
    /// # async fn pay(_: u64, _: String) -> Result<String> { Ok("receipt-1".into()) }
    /// # async fn ship(_: u64, _: &str) -> Result<()> { Ok(()) }
    ///
    /// async fn order(job: Order, ctx: Context) -> Result<Outcome> {
    ///     let receipt: String = ctx.step("charge", || pay(job.id, ctx.key("charge"))).await?;
    ///     ctx.step("ship", || ship(job.id, &receipt)).await?;
    ///     Ok(Outcome::Completed)
    /// }
    ///
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # runtime.enable_all().build().unwrap().block_on(async {
    /// let engine = std::sync::Arc::new(MemoryEngine::new());
    /// Queue::new(&engine).enqueue(Order { id: 7 }).await?;
    /// Worker::new(engine).handle(order).run_until_idle().await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// That of the step; `conflict` for a name that was used in this attempt and for a step within
    /// a step; `payload_too_large` for a result over 8 KiB, or more than 64 steps or 64 KiB of a
    /// job; `permanent` for a result of an earlier attempt that does not fit the type any more;
    /// `lease_lost` if another worker may run the job.
    pub async fn step<T, E, F, Fut>(&self, name: impl Into<String>, f: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<BoxError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let name = name.into();
        check_key("name of a step", &name)?;
        let within = STEP.try_with(String::clone);
        if let Ok(outer) = within {
            let message = "step runs within another one; run it before or after that";
            let error = Error::new(ErrorKind::Conflict, message).with("within", outer);
            return Err(error.with("step", name));
        }
        self.take_name(&name, "step")?;
        if let Some(memo) = self.memo(&name, |source| source == MemoSource::Step) {
            return decoded(memo);
        }
        let done = STEP.scope(name.clone(), async { f().await }).await;
        let value = done.map_err(|error| {
            let message = "step failed";
            Error::new(ErrorKind::Handler, message)
                .with("step", &name)
                .source(error)
        })?;
        let bytes = serde_json::to_vec(&value).map_err(|cause| {
            Error::new(
                ErrorKind::Codec,
                "result of a step cannot be written as JSON",
            )
            .with("step", &name)
            .source(cause)
        })?;
        if bytes.len() > MEMO_BYTES_MAX {
            let message = "result of a step is over the limit; store it elsewhere and keep a \
                           reference";
            return Err(Error::new(ErrorKind::PayloadTooLarge, message)
                .with("step", name)
                .with("bytes", bytes.len())
                .with("limit", MEMO_BYTES_MAX));
        }
        self.keep(name, Bytes::from(bytes)).await?;
        Ok(value)
    }

    /// Sleeps: the attempt ends, its slot is free, and the job comes back after that span; counts
    /// as nothing. Pass the error on by `?`: that is how the attempt ends.
    ///
    /// A [signal](crate::Queue::signal) of that name ends it early.
    ///
    /// # Errors
    /// The one that ends the attempt; `conflict` for a name that was used in this attempt.
    pub async fn sleep(&self, name: impl Into<String>, span: Duration) -> Result<()> {
        self.wait_for_bytes(name.into(), span).map(drop)
    }

    /// Waits for a [signal](crate::Queue::signal) of that name and answers its payload, read as
    /// JSON; `None` once the limit has passed. The attempt ends, as in [`sleep`](Self::sleep), and
    /// the job is held; it comes back with its signal. A signal that came before counts.
    ///
    /// What the handler did before runs again in the next attempt, but for its steps.
    ///
    /// # Errors
    /// The one that ends the attempt; `permanent` for a payload that does not fit the type.
    pub async fn wait_for<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        limit: Duration,
    ) -> Result<Option<T>> {
        match self.wait_for_bytes(name.into(), limit)? {
            Some(memo) => decoded(memo).map(Some),
            None => Ok(None),
        }
    }

    /// Signals another job in the same step that settles this one: both happen or neither. The
    /// payload, written as JSON, ends its [wait](Self::wait_for) for that name, now or when it
    /// comes to it. An attempt that ends in an error signals nothing.
    ///
    /// A job that is unknown or has settled by then is left as it is:
    /// [`Queue::signal`](crate::Queue::signal) answers which.
    ///
    /// ```
    /// use punctual::{Context, Job, JobId, Outcome, Result};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Review { of: JobId, by: String }
    /// # impl Job for Review { const KIND: &str = "review"; }
    ///
    /// async fn review(job: Review, ctx: Context) -> Result<Outcome> {
    ///     ctx.signal(job.of, "approved", &job.by)?;
    ///     Ok(Outcome::Completed)
    /// }
    /// ```
    ///
    /// # Errors
    /// `payload_too_large` over 8 KiB, `codec` for a payload that cannot be written as JSON,
    /// `batch_too_large` for too many effects in one attempt.
    pub fn signal(
        &self,
        job: JobId,
        name: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        let (name, payload) = (name.into(), signal_payload(payload)?);
        check_signal(&name, &payload)?;
        self.shared().add(Effect::Signal { job, name, payload })
    }

    /// The key of a step for the other side: the job's id and the step's name, the same in every
    /// attempt.
    pub fn key(&self, step: &str) -> String {
        format!("{}/{step}", self.id())
    }

    pub(super) fn wait_for_bytes(&self, name: String, limit: Duration) -> Result<Option<&Memo>> {
        check_key("name of a signal", &name)?;
        if limit.is_zero() || limit > MAX_WAIT_MAX {
            let message = "span of a wait is out of range; use over 0 to 365 days";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("name", name));
        }
        self.take_name(&name, "signal")?;
        match self.memo(&name, |source| source != MemoSource::Step) {
            Some(memo) if memo.source == MemoSource::Signal => Ok(Some(memo)),
            Some(_) => Ok(None),
            None => {
                let message = "handler waits; pass this error on with `?`";
                let names = vec![name];
                Err(Error::new(ErrorKind::Handler, message).source(Suspended { names, limit }))
            }
        }
    }

    /// Whether a wait for that name has ended, by its signal or its limit.
    pub(super) fn has_waited(&self, name: &str) -> bool {
        self.memo(name, |source| source != MemoSource::Step)
            .is_some()
    }

    fn memo(&self, name: &str, is_of: impl Fn(MemoSource) -> bool) -> Option<&Memo> {
        let mut memos = self.job().memos.iter();
        memos.find(|memo| memo.name == name && is_of(memo.source))
    }

    /// A name stands for one step: twice it would give one's result for the other.
    fn take_name(&self, name: &str, what: &str) -> Result<()> {
        if self.shared().take_name(format!("{what} {name}")) {
            return Ok(());
        }
        let message = format!("{what} of that name was used in this attempt; give it another name");
        Err(Error::new(ErrorKind::Conflict, message).with("name", name))
    }

    /// Keeps the result of a step under the token; returns once the engine has it.
    async fn keep(&self, name: String, value: Bytes) -> Result<()> {
        let queue = self.queue().ok_or_else(no_engine)?;
        let (_, lease_duration) = self.slots();
        let id = self.id();
        let extend = Extend::new(self.token(), lease_duration)
            .memos(vec![(id, name.clone(), value)])
            .jobs(vec![id]);
        let mut wait = millis(50);
        loop {
            let call = queue
                .engine()
                .extend(queue.of_namespace(), vec![extend.clone()]);
            let error = match call.await.map(|extended| extended.verdicts) {
                Ok(verdicts) => match verdicts.first() {
                    Some(ExtendVerdict::Extended { deadline, lost, .. }) if lost.is_empty() => {
                        self.shared().held.extend(*deadline);
                        return Ok(());
                    }
                    _ => return Err(lease_lost().with("step", name)),
                },
                Err(error) => error,
            };
            if !error.is_retryable() {
                return Err(error.with("step", name));
            }
            tracing::warn!(%error, step = name, "result of a step is sent again");
            // Sent again it is the same memo.
            tokio::select! {
                () = pause(wait) => wait = (wait * 2).min(seconds(1)),
                _ = self.cancelled() => return Err(error.with("step", name)),
            }
        }
    }
}

fn decoded<T: DeserializeOwned>(memo: &Memo) -> Result<T> {
    let value = match memo.value.is_empty() {
        true => &b"null"[..],
        false => &memo.value[..],
    };
    serde_json::from_slice(value).map_err(|cause| {
        let message = format!(
            "what was kept as {} does not fit the type that the handler asks for; a deploy must \
             rename it, or read both forms",
            memo.name
        );
        Error::new(ErrorKind::Permanent, message).source(cause)
    })
}

fn lease_lost() -> Error {
    let message =
        "lease is lost: the result of the step was not kept, and another worker may run it";
    Error::new(ErrorKind::LeaseLost, message)
}

pub(super) fn no_engine() -> Error {
    Error::new(ErrorKind::Conflict, "attempt has no engine to keep a step")
}
