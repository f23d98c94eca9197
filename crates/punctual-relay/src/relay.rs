//! The loop from a source into an engine: started again whenever it fails.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use punctual::backoff::Backoff;
use punctual::engine::{EnqueueVerdict, Receipt};
use punctual::queue::IntoEngine;
use punctual::time::{Stopwatch, hours, minutes, pause, seconds};
use punctual::{Error, ErrorKind, JobId, Limits, Namespace, NewJob, Queue, Result};

use crate::health::{RelayHealth, RelayState};
use crate::injected::is_injected;
use crate::message::Message;
use crate::refused::{dead_job, queue_of};
use crate::source::{Open, Refused};

/// Stores the messages of a source as jobs, until it is stopped.
///
/// It takes a batch, stores it, waits for the receipt, and only then accepts the batch at the
/// source. While the engine is full it takes no more. Dropping it at any point is safe.
#[derive(Debug)]
pub struct Relay {
    queue: Queue,
    name: String,
    at_most: usize,
    remember: Duration,
    until_idle: bool,
    starts_always: bool,
    health: RelayHealth,
}

/// Messages that are taken and not yet accepted, by default.
const AT_MOST: usize = 1_000;
/// The bound of what a caller may ask for: messages that are taken stay in memory.
const AT_MOST_MAX: usize = 10_000;
/// The least pause after an error that a retry hardly mends: a person does.
const FOR_A_PERSON: Duration = seconds(10);
/// A loop that ran for so long starts again as soon as after its first failure.
const LONG: Duration = minutes(1);

impl Relay {
    /// A relay with that name into an engine, in the namespace `default`. The name is part of a
    /// queue's: messages that it cannot store become dead jobs of `relay.NAME.refused`.
    pub fn new(engine: impl IntoEngine, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        // The rule for queues is checked where the relay starts, not at its first bad message.
        NewJob::new(queue_of(&name), "").check(&Limits::default())?;
        Ok(Self {
            queue: Queue::new(engine),
            name,
            at_most: AT_MOST,
            remember: hours(1),
            until_idle: false,
            starts_always: false,
            health: RelayHealth::default(),
        })
    }

    /// Stores jobs in that namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.queue = self.queue.namespace(namespace);
        self
    }

    /// Takes at most that many messages at once, 1 to 10,000; 1,000 by default.
    #[must_use]
    pub fn at_most(mut self, messages: usize) -> Self {
        self.at_most = messages.clamp(1, AT_MOST_MAX);
        self
    }

    /// How long after a job settled its message is recognised when it comes again; an hour by
    /// default, 7 days at most. A relay that was killed must be back within that span.
    #[must_use]
    pub fn remember(mut self, span: Duration) -> Self {
        self.remember = span;
        self
    }

    /// Ends once nothing waits in the source.
    #[must_use]
    pub fn until_idle(mut self) -> Self {
        self.until_idle = true;
        self
    }

    /// Starts again after every failure, also one that hardly ends by itself, such as a key of
    /// another type: for a server, which goes on while a person mends it.
    #[must_use]
    pub fn starts_always(mut self) -> Self {
        self.starts_always = true;
        self
    }

    /// Counts in those numbers, which a sink may share.
    #[must_use]
    pub fn count_in(mut self, health: RelayHealth) -> Self {
        self.health = health;
        self
    }

    /// A handle to its numbers.
    pub fn health(&self) -> RelayHealth {
        self.health.clone()
    }

    /// Relays until the shutdown. An error is one that no retry can mend.
    pub async fn run_until(
        self,
        open: impl Open,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let mut usual = NewJob::new(queue_of(&self.name), "");
        usual.remember = Some(self.remember);
        usual.check(&Limits::default())?;
        let mut shutdown = std::pin::pin!(shutdown);
        let mut backoff = Backoff::engine();
        loop {
            let ran = Stopwatch::start();
            let relaying = AssertUnwindSafe(self.relay(&open)).catch_unwind();
            let ended = tokio::select! {
                biased;
                () = shutdown.as_mut() => return Ok(()),
                ended = relaying => ended,
            };
            let (why, least) = match &ended {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if ends_a_relay(error) => (error.to_string(), FOR_A_PERSON),
                Ok(Err(error)) => (error.to_string(), Duration::ZERO),
                Err(_) => (
                    "a bug: it panicked; please report it".to_owned(),
                    FOR_A_PERSON,
                ),
            };
            self.health.failed(&why);
            if let Ok(Err(error)) = ended
                && ends_a_relay(&error)
                && !self.starts_always
            {
                return Err(error);
            }
            if ran.elapsed() > LONG {
                backoff.reset();
            }
            let span = backoff.pause().max(least);
            let again = span.as_millis() as u64;
            tracing::warn!(relay = %self.name, why, again_ms = again, "a relay failed and starts again");
            tokio::select! {
                biased;
                () = shutdown.as_mut() => return Ok(()),
                () = pause(span) => {}
            }
        }
    }

    /// Relays until it fails, or until nothing waits if it shall end then.
    async fn relay(&self, open: &impl Open) -> Result<()> {
        self.health.is(RelayState::Connecting);
        let mut source = open.open().await?;
        let limits = self.queue.engine().info().await?.limits;
        loop {
            self.health.is(RelayState::Running);
            let batch = source.next(self.at_most).await?;
            if batch.is_empty() {
                let lag = source.waiting().await?;
                self.health.turn(|numbers| numbers.lag = lag);
                if self.until_idle && lag.is_none_or(|lag| lag == 0) && !source.has_more() {
                    return Ok(());
                }
                continue;
            }
            let taken = Stopwatch::start();
            self.health
                .turn(|numbers| numbers.received += batch.len() as u64);
            let is_unstored = is_injected("AcceptedBeforeStored");
            if is_unstored {
                source.accept(&[]).await?;
            }
            let refused = self
                .store(batch, source.keeps_refused(), &limits, taken)
                .await?;
            if !is_unstored {
                source.accept(&refused).await?;
            }
            self.health
                .turn(|numbers| numbers.refused += refused.len() as u64);
        }
    }

    /// Stores a batch; answers which messages did not become jobs. Every one that did has its
    /// receipt then, and every one that did not is a dead job, unless the source keeps it.
    async fn store(
        &self,
        batch: Vec<Message>,
        source_keeps: bool,
        limits: &Limits,
        taken: Stopwatch,
    ) -> Result<Vec<Refused>> {
        let mut left = Batch::default();
        for message in batch {
            match message {
                Message::Job(mut job) => {
                    job.remember.get_or_insert(self.remember);
                    match job.check(limits) {
                        Ok(()) => left.jobs.push(*job),
                        Err(error) => left.refuse(job.id, job.payload, error.to_string()),
                    }
                }
                Message::Bad { id, body, why } => left.refuse(id, body, why),
            }
        }
        let mut backoff = Backoff::engine();
        while !left.jobs.is_empty() {
            self.check_age(taken)?;
            match self.queue.enqueue_many(left.jobs.clone()).await {
                Ok(receipts) => left.take(&receipts, &self.health),
                Err(error) if error.is_retryable() => self.health.engine_refuses(&error),
                Err(error) if left.jobs.len() == 1 => left.refuse_all(&error),
                Err(_) => self.store_singly(&mut left, taken).await?,
            }
            if !left.jobs.is_empty() {
                pause(backoff.pause()).await;
            }
        }
        if !source_keeps && !is_injected("RefusedDropped") {
            self.quarantine(&left, limits, taken).await?;
        }
        Ok(left
            .refused
            .into_iter()
            .map(|(refused, _)| refused)
            .collect())
    }

    /// One call per job, to find the one for which a whole batch was refused.
    async fn store_singly(&self, left: &mut Batch, taken: Stopwatch) -> Result<()> {
        for job in std::mem::take(&mut left.jobs) {
            self.check_age(taken)?;
            match self.queue.enqueue_many([job.clone()]).await {
                Ok(receipts) => left.take_one(job, &receipts, &self.health),
                Err(error) if error.is_retryable() => left.jobs.push(job),
                Err(error) => left.refuse(job.id, job.payload, error.to_string()),
            }
        }
        Ok(())
    }

    /// Stores what was refused as dead jobs.
    async fn quarantine(&self, left: &Batch, limits: &Limits, taken: Stopwatch) -> Result<()> {
        if left.refused.is_empty() {
            return Ok(());
        }
        let now = self.queue.engine().info().await?.now;
        let dead = |(refused, body): &(Refused, Bytes)| {
            let message = (refused.id, body.clone(), refused.why.as_str());
            dead_job(&self.name, message, limits, now)
        };
        let dead: Vec<NewJob> = left.refused.iter().map(dead).collect();
        let mut backoff = Backoff::engine();
        loop {
            self.check_age(taken)?;
            match self.queue.enqueue_many(dead.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => self.health.engine_refuses(&error),
                Err(error) => return Err(error),
            }
            pause(backoff.pause()).await;
        }
    }

    /// A batch that lay for long may have been taken by another relay, done, and forgotten by the
    /// engine: stored now, it would be done twice.
    fn check_age(&self, taken: Stopwatch) -> Result<()> {
        if taken.elapsed() < self.remember / 2 {
            return Ok(());
        }
        let message = "the batch was taken too long ago; it is taken again";
        Err(Error::new(ErrorKind::EngineUnavailable, message))
    }
}

/// Errors that the next try would meet again.
fn ends_a_relay(error: &Error) -> bool {
    use ErrorKind::*;
    let kinds = [
        InvalidInput,
        InvalidName,
        Unsupported,
        Permanent,
        EngineStopped,
    ];
    kinds.contains(&error.kind())
}

/// Jobs that are not stored yet, and messages that are none.
#[derive(Default)]
struct Batch {
    jobs: Vec<NewJob>,
    refused: Vec<(Refused, Bytes)>,
}

impl Batch {
    fn refuse(&mut self, id: JobId, body: Bytes, why: String) {
        self.refused.push((Refused { id, why }, body));
    }

    fn refuse_all(&mut self, error: &Error) {
        for job in std::mem::take(&mut self.jobs) {
            self.refuse(job.id, job.payload, error.to_string());
        }
    }

    /// A job without a receipt is not stored: it stays.
    fn take(&mut self, receipts: &[Receipt], health: &RelayHealth) {
        let jobs = std::mem::take(&mut self.jobs);
        for (at, job) in jobs.into_iter().enumerate() {
            let receipt = receipts.get(at..=at).unwrap_or_default();
            self.take_one(job, receipt, health);
        }
    }

    fn take_one(&mut self, job: NewJob, receipts: &[Receipt], health: &RelayHealth) {
        let verdict = receipts.first().map(|receipt| receipt.verdict);
        match verdict {
            Some(EnqueueVerdict::Duplicate) => health.turn(|numbers| numbers.duplicates += 1),
            Some(verdict) if verdict.is_accepted() => {
                health.turn(|numbers| numbers.enqueued += 1);
            }
            // The queue, or the share, has as many jobs as it may: this one waits in the source.
            Some(EnqueueVerdict::Full | EnqueueVerdict::ShareFull(_)) | None => {
                let message = "the queue has reached max_pending; raise it or let workers go on";
                let error = Error::new(ErrorKind::EngineFull, message).with("queue", &job.queue);
                health.engine_refuses(&error);
                self.jobs.push(job);
            }
            Some(verdict) => {
                let why = format!("the engine refused it: {}", verdict.name());
                self.refuse(job.id, job.payload, why);
            }
        }
    }
}
