//! Publishing from a handler: messages are matched when the attempt is settled, and their copies
//! are effects of it, under the version that they were matched with.

use super::context::Context;
use super::slots::Ended;
use crate::engine::{Guard, Settle, SettleVerdict};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, NewJob};
use crate::queue::published;
use crate::topic::message::set;
use crate::topic::{DEPTH_HEADER, Message, TOPICS};
use crate::trace;

impl Context {
    /// Publishes a job under a subject in the same step that settles this one: both happen or
    /// neither. Each subscription of that instant that matches has a copy enqueued.
    ///
    /// An attempt that ends in an error publishes nothing. All copies and other effects of an
    /// attempt are at most [`Limits::effects`](crate::Limits): publish to more by
    /// [`Queue::publish`](crate::Queue::publish), which is a step of its own. The job gets this
    /// one's trace and its id as parent, as with [`then`](Self::then).
    ///
    /// A message counts the publishes that it came through from handler to handler; after 32 it is
    /// refused as a loop.
    ///
    /// ```
    /// use punctual::{Context, Job, Outcome, worker::HandlerResult};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Pay { order: u64 }
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Paid { order: u64 }
    /// # impl Job for Paid { const KIND: &str = "paid"; }
    ///
    /// async fn pay(job: Pay, ctx: Context) -> HandlerResult {
    ///     ctx.publish("orders.eu.paid", Paid { order: job.order })?;
    ///     Ok(Outcome::Completed)
    /// }
    /// ```
    pub fn publish<J: Job>(&self, subject: impl Into<String>, job: J) -> Result<()> {
        let job = self.caused(NewJob::of(&job)?);
        self.add_message(Message::new(subject, job)?.of_kind())
    }

    /// The same of an untyped job: where its kind is the name of its own queue, that of a copy is
    /// the name of the subscription's.
    pub fn publish_job(&self, subject: impl Into<String>, job: NewJob) -> Result<()> {
        let job = self.caused(job);
        self.add_message(Message::new(subject, job)?)
    }

    /// The job with what it takes over from this one.
    fn caused(&self, mut job: NewJob) -> NewJob {
        let header_bytes = self.shared().limits().header_bytes;
        trace::inherit(&trace::cause(&self.job().headers), &mut job, header_bytes);
        trace::name_parent(self.id(), &mut job, header_bytes);
        if let Some(depth) = self.header(DEPTH_HEADER) {
            set(&mut job, DEPTH_HEADER, depth);
        }
        job
    }

    fn add_message(&self, message: Message) -> Result<()> {
        if self.queue().is_none() {
            let message = "publish: this context has no engine; run the handler in a worker";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        message.check(self.shared().limits())?;
        self.shared().add_message(message)
    }
}

/// Matches what was published, and adds the copies to the settlements, each with the version that
/// it depends on.
pub(super) async fn add_copies(
    ended: &[Ended],
    settle: &mut Settle,
    places: &[(usize, usize)],
) -> Result<()> {
    for (ended, (lease, at)) in ended.iter().zip(places) {
        let Some(queue) = ended.held.queue().filter(|_| !ended.messages.is_empty()) else {
            continue;
        };
        let matcher = queue.matcher().await?;
        let report = settle.leases.get_mut(*lease);
        let Some(settlement) = report.and_then(|lease| lease.settlements.get_mut(*at)) else {
            continue;
        };
        for message in &ended.messages {
            let now = queue.time_for(&matcher, message).await?;
            let copies = message.copies(&matcher, now).into_iter();
            settlement.effects.extend(copies.map(|(_, effect)| effect));
        }
        settlement.guard = Some(Guard::new(TOPICS, matcher.version()));
    }
    Ok(())
}

/// Counts what was published, once the attempt is settled.
pub(super) fn count(ended: &Ended, verdict: &SettleVerdict) {
    if matches!(verdict, SettleVerdict::Settled { .. }) && !ended.messages.is_empty() {
        published("with_outcome", ended.messages.len() as u64);
    }
}

/// Whether a job was not settled, as subscriptions changed since it was matched: it is matched
/// again.
pub(super) fn is_conflict(ended: &Ended, verdict: &SettleVerdict) -> bool {
    let conflicts = matches!(verdict, SettleVerdict::GuardConflict { .. });
    if conflicts && let Some(queue) = ended.held.queue() {
        queue.forget_matcher();
    }
    conflicts
}
