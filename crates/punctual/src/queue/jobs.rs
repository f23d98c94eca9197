//! What a producer does with jobs that are in: each a thin convenience over one verb of the engine.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::engine::{
    Action, Control, Controlled, Edit, EditVerdict, Explanation, Got, Select, Target, WaitFor,
    Waited,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, Job, JobId};
use crate::queue::Queue;
use crate::time::Timestamp;

impl Queue {
    /// The job, or the tombstone that is left of it; `None` if the engine does not know it (any
    /// more).
    ///
    /// A job is named by its id, or by queue and unique key: `queue.get(("orders", "order:7"))`.
    pub async fn get(&self, target: impl Into<Target>) -> Result<Option<Got>> {
        self.read(target.into(), false).await
    }

    /// Why the job has not run yet, or what became of it; `None` if the engine does not know it.
    pub async fn explain(&self, target: impl Into<Target>) -> Result<Option<Explanation>> {
        Ok(match self.read(target.into(), true).await? {
            Some(Got::Job(_, explanation)) => explanation,
            _ => None,
        })
    }

    /// Cancels a job; an active one is asked to stop.
    pub async fn cancel(&self, target: impl Into<Target>) -> Result<EditVerdict> {
        self.edit(target.into(), Action::Cancel).await
    }

    /// Gives a job that has not started another due: a span from now, or an instant.
    pub async fn reschedule(
        &self,
        target: impl Into<Target>,
        due: impl Into<Due>,
    ) -> Result<EditVerdict> {
        self.edit(target.into(), Action::Reschedule(due.into()))
            .await
    }

    /// Makes a held or scheduled job due now.
    pub async fn run_now(&self, target: impl Into<Target>) -> Result<EditVerdict> {
        self.edit(target.into(), Action::RunNow).await
    }

    /// Gives a job that has not started another priority, 0 (first) to 9 (last).
    pub async fn reprioritise(
        &self,
        target: impl Into<Target>,
        priority: u8,
    ) -> Result<EditVerdict> {
        self.edit(target.into(), Action::Reprioritise(priority))
            .await
    }

    /// Sends a settled job that is still kept back to its queue, with its failures and crashes at
    /// zero.
    ///
    /// Dead jobs are kept for 30 days, cancelled ones for a day, completed ones for their
    /// `retention`.
    pub async fn redrive(&self, target: impl Into<Target>) -> Result<EditVerdict> {
        self.edit(target.into(), Action::Redrive).await
    }

    /// Gives a job that has not started another payload: the bytes that its handler reads.
    ///
    /// A resend of the job is still a duplicate: it is compared with what was sent first.
    ///
    /// ```
    /// # use punctual::{MemoryEngine, NewJob, Queue, time::minutes};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let job = NewJob::new("mail", r#"{"to":"ann"}"#).delay(minutes(5));
    /// let receipt = queue.enqueue_job(job).await?;
    /// queue.update_payload(receipt.id, r#"{"to":"bob"}"#).await?;
    /// # let got = queue.get(receipt.id).await?.unwrap();
    /// # assert_eq!(got.job().unwrap().payload, r#"{"to":"bob"}"#);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn update_payload(
        &self,
        target: impl Into<Target>,
        payload: impl Into<Bytes>,
    ) -> Result<EditVerdict> {
        let action = Action::UpdatePayload(payload.into());
        self.edit(target.into(), action).await
    }

    /// Signals a job that has not settled: the payload, written as JSON, is kept with it, and ends
    /// its [wait](crate::Context::wait_for) for that name, now or when it comes to it. A step of a
    /// flow is named by [`JobId::step`].
    ///
    /// `WaitEnded` says that an earlier signal (this one, if it is sent again) or the limit ended
    /// that wait.
    ///
    /// # Errors
    /// `payload_too_large` over 8 KiB, `codec` for a payload that cannot be written as JSON.
    pub async fn signal(
        &self,
        target: impl Into<Target>,
        name: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<EditVerdict> {
        let (name, payload) = (name.into(), signal_payload(payload)?);
        self.edit(target.into(), Action::Signal { name, payload })
            .await
    }

    /// Clears a name that a held job [waits for](crate::queue::Enqueue::wait_for); after the last
    /// one it runs. A clear that comes before its job is kept for an hour, and counts when the job
    /// comes: see [`Effect::Clear`](crate::Effect::Clear).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use punctual::{JobId, MemoryEngine, NewJob, Queue, JobState};
    ///
    /// let queue = Queue::new(MemoryEngine::new());
    /// let id = JobId::new();
    /// queue.clear(id, "paid").await?; // the webhook was faster
    /// let mut job = NewJob::with_id(id, "orders", "{}");
    /// job.wait_for = vec!["paid".into()];
    /// queue.enqueue_many(vec![job]).await?;
    /// assert_eq!(queue.get(id).await?.unwrap().state(), JobState::Ready);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `invalid_name` for a name that is empty, over 256 bytes or not printable.
    pub async fn clear(&self, job: JobId, name: impl Into<String>) -> Result<()> {
        let inner = &*self.0;
        let clear = Control::clear(job, name);
        let cleared = inner.engine.control(&inner.namespace, clear).await;
        match cleared.map_err(|error| error.operation("clear"))? {
            Controlled::Guarded { .. } => Ok(()),
            _ => Err(no_clear()),
        }
    }

    /// Removes a settled job and its tombstone.
    pub async fn delete(&self, target: impl Into<Target>) -> Result<EditVerdict> {
        self.edit(target.into(), Action::Delete).await
    }

    /// Waits until the job is settled and answers it; `None` if that took longer than `at_most`.
    ///
    /// A completed job is there as its tombstone, with its small result, for two minutes by
    /// default.
    pub async fn wait_settled(
        &self,
        target: impl Into<Target>,
        at_most: Duration,
    ) -> Result<Option<Got>> {
        let unknown = || Error::new(ErrorKind::NotFound, "no such job").operation("wait_settled");
        let mut got = self.get(target).await?.ok_or_else(unknown)?;
        let id = match &got {
            Got::Job(job, _) => job.id,
            Got::Tombstone { id, .. } => *id,
        };
        let until = self.engine().info().await?.now + at_most;
        while !got.state().is_settled() {
            let wait = WaitFor::Settled(vec![id]);
            let waited = self.engine().wait(&self.0.namespace, wait, until).await?;
            got = self.get(id).await?.ok_or_else(unknown)?;
            if waited == Waited::TimedOut {
                break;
            }
        }
        Ok(Some(got).filter(|got| got.state().is_settled()))
    }

    async fn read(&self, target: Target, explain: bool) -> Result<Option<Got>> {
        let inner = &*self.0;
        let got = inner.engine.get(&inner.namespace, vec![target], explain);
        Ok(got.await?.into_iter().next().flatten())
    }

    async fn edit(&self, target: Target, action: Action) -> Result<EditVerdict> {
        let inner = &*self.0;
        let name = action.name();
        let edit = Edit {
            select: Select::Targets(vec![target]),
            action,
            dry_run: false,
        };
        let edited = inner.engine.edit(&inner.namespace, edit).await?;
        let verdict = edited.verdicts.first().map(|(_, verdict)| *verdict);
        tracing::debug!(
            action = name,
            verdict = verdict.map(EditVerdict::name),
            "edited"
        );
        Ok(verdict.unwrap_or(EditVerdict::NotFound))
    }
}

/// The error where a clear meets a record that no caller may write.
fn no_clear() -> Error {
    let message = "record `punctual/no-record` is there and hinders every clear; remove it";
    Error::new(ErrorKind::Conflict, message)
}

impl Target {
    /// The present holder of a unique key of a kind's queue.
    ///
    /// ```
    /// use punctual::{Job, engine::Target};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct CancelUnpaid { order: u64 }
    /// # impl Job for CancelUnpaid { const KIND: &str = "cancel"; const QUEUE: &str = "orders"; }
    ///
    /// assert_eq!(Target::unique::<CancelUnpaid>("order:7"), Target::from(("orders", "order:7")));
    /// ```
    pub fn unique<J: Job>(key: impl Into<String>) -> Self {
        Self::Unique {
            queue: J::QUEUE.into(),
            key: key.into(),
        }
    }
}

impl From<(&str, &str)> for Target {
    /// Queue and unique key.
    fn from((queue, key): (&str, &str)) -> Self {
        Self::Unique {
            queue: queue.into(),
            key: key.into(),
        }
    }
}

impl From<&JobId> for Target {
    fn from(id: &JobId) -> Self {
        Self::Id(*id)
    }
}

impl From<Duration> for Due {
    fn from(span: Duration) -> Self {
        Self::After(span)
    }
}

impl From<Timestamp> for Due {
    fn from(instant: Timestamp) -> Self {
        Self::At(instant)
    }
}

/// The payload of a signal, as JSON.
pub(crate) fn signal_payload(payload: &(impl Serialize + ?Sized)) -> Result<Bytes> {
    let written = serde_json::to_vec(payload).map_err(|cause| {
        let message = "payload of the signal cannot be written as JSON";
        Error::new(ErrorKind::Codec, message).source(cause)
    });
    written.map(Bytes::from)
}
