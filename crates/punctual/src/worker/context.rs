//! `Context`: one attempt as its handler sees it.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::engine::{Token, WorkerId};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, JobId, JobRecord, Limits, NewJob};
use crate::lock::Held;
use crate::push;
use crate::queue::{Limit, Queue};
use crate::sync::Lock;
use crate::time::Timestamp;
use crate::topic::Message;
use crate::trace;
use crate::worker::log::Unsent;
use crate::worker::state::States;

/// One attempt as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Attempt>);

/// Why a handler is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Interrupt {
    /// The job's cancel was requested.
    CancelRequested = 1,
    /// It ran longer than the job's timeout.
    TimedOut = 2,
    /// The lease is lost, or cannot be extended in time: another worker may start the job.
    LeaseLost = 3,
    /// The worker shuts down and its time to drain is over.
    ShuttingDown = 4,
}

impl Context {
    /// The whole job, as claimed.
    pub fn job(&self) -> &JobRecord {
        &self.0.job
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Which claim of the job this is, from 1; grows with every start, failed or not.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Attempts that failed before this one.
    pub fn failures(&self) -> u32 {
        self.0.job.failures
    }

    /// Attempts before this one whose lease ran out.
    pub fn crashes(&self) -> u32 {
        self.0.job.crashes
    }

    /// Whether an attempt before this one may have been at work on the job already.
    pub fn redelivered(&self) -> bool {
        self.0.job.attempt > 1
    }

    /// The value of a header, the first of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.0.job.headers.iter();
        headers
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// The worker that runs it.
    pub fn worker(&self) -> WorkerId {
        self.0.held.seed.worker
    }

    /// The name of the lease. Its `fence` only grows from lease to lease: a store that keeps the
    /// largest one seen can refuse a late writer.
    pub fn token(&self) -> Token {
        self.0.held.token
    }

    /// The instant of engine time at which the lease ends, as the engine last answered; the worker
    /// extends it.
    pub fn lease_until(&self) -> Timestamp {
        self.0.held.until()
    }

    /// The instant of engine time at which the job's timeout ends this attempt, if it has one.
    pub fn deadline(&self) -> Option<Timestamp> {
        let timeout = self.0.job.timeout?;
        Some(self.0.started_at() + timeout)
    }

    /// When this attempt started, in engine time; at the latest, as the engine stamps a claim some
    /// time after it was sent.
    pub fn started_at(&self) -> Timestamp {
        self.0.started_at()
    }

    /// Whether the handler is asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.interrupt().is_some()
    }

    /// Why it is asked to stop, if it is.
    pub fn interrupt(&self) -> Option<Interrupt> {
        self.0.interrupt()
    }

    /// Waits until the handler is asked to stop, and says why.
    ///
    /// A handler that goes on regardless is aborted after a grace; one that ends in time decides
    /// the outcome itself: completed stays completed.
    ///
    /// ```
    /// use punctual::{Context, Outcome};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Upload;
    /// # async fn send_parts() {}
    ///
    /// async fn upload(_job: Upload, ctx: Context) -> Outcome {
    ///     tokio::select! {
    ///         () = send_parts() => Outcome::Completed,
    ///         _why = ctx.cancelled() => Outcome::Cancelled,
    ///     }
    /// }
    /// ```
    pub async fn cancelled(&self) -> Interrupt {
        loop {
            let tripped = self.0.tripped.notified();
            tokio::pin!(tripped);
            tripped.as_mut().enable();
            if let Some(interrupt) = self.interrupt() {
                return interrupt;
            }
            tripped.await;
        }
    }

    /// Keeps a note of how far the work is; it goes to the engine with the next heartbeat, or when
    /// the attempt ends. The next attempt finds it in [`job`](Self::job).
    pub fn progress(&self, note: impl Into<Bytes>) -> Result<()> {
        let note = note.into();
        self.0.check_size("progress note", note.len())?;
        let mut output = self.0.lock();
        output.progress = Some(note);
        output.progress_sent = false;
        Ok(())
    }

    /// Logs a line to the job, for people who read it later; more lines if it holds line breaks.
    ///
    /// Lines go to the engine with the next heartbeat, or with the settlement. The job keeps the
    /// last [`LOG_LINES_KEPT`](crate::job::LOG_LINES_KEPT) lines and
    /// [`LOG_BYTES_KEPT`](crate::job::LOG_BYTES_KEPT) bytes for as long as its record is kept.
    ///
    /// ```
    /// use punctual::{Context, Outcome};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Upload;
    ///
    /// async fn upload(_job: Upload, ctx: Context) -> Outcome {
    ///     ctx.log("sent 3 of 7 parts");
    ///     Outcome::Completed
    /// }
    /// ```
    pub fn log(&self, text: impl AsRef<str>) {
        self.0.lock().log.add(text.as_ref());
    }

    /// Keeps a small result with the job, should it complete.
    pub fn result(&self, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        self.0.check_size("result", bytes.len())?;
        self.0.lock().result = Some(bytes);
        Ok(())
    }

    /// Enqueues a job in the same step that settles this one: both happen or neither.
    ///
    /// An attempt that ends in an error sends nothing. The job gets this one's headers
    /// `traceparent` and `tracestate` if it has no `traceparent` of its own; with the feature
    /// `otel` that of the span this is called in. And this one's id as
    /// [`PARENT_HEADER`](crate::job::PARENT_HEADER), by which its page shows what it caused.
    pub fn then(&self, mut job: NewJob) -> Result<()> {
        let cause = trace::cause(&self.0.job.headers);
        let header_bytes = self.0.limits().header_bytes;
        trace::inherit(&cause, &mut job, header_bytes);
        trace::name_parent(self.id(), &mut job, header_bytes);
        job.check(self.0.limits())?;
        self.0.add(Effect::Enqueue(Box::new(job)))
    }

    /// Clears a name that a held job waits for, in the same step that settles this one.
    pub fn clear(&self, held: JobId, name: impl Into<String>) -> Result<()> {
        let name = name.into();
        crate::job::check_key("name to clear", &name)?;
        self.0.add(Effect::Clear { job: held, name })
    }

    pub(super) fn new(attempt: Attempt) -> Self {
        Self(Arc::new(attempt))
    }

    /// A named limit of the job's namespace, to block it for a while after a 429.
    ///
    /// ```
    /// use punctual::time::seconds;
    /// use punctual::{Context, JobRecord, Outcome};
    ///
    /// async fn send(_: JobRecord, ctx: Context) -> punctual::Result<Outcome> {
    ///     ctx.limit("smtp:gmail.com").block_for(seconds(60)).await?;
    ///     Ok(Outcome::Released)
    /// }
    /// ```
    pub fn limit(&self, name: impl Into<String>) -> Limit {
        Limit::new(self.queue().cloned(), name)
    }

    /// The engine that the job came from, in its namespace.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.0.held.seed.queue.as_ref()
    }

    /// A lock that is released with the attempt, if its guard is still there.
    pub(crate) fn holds(&self, lock: &Arc<Held>) {
        self.0.lock().locks.push(Arc::downgrade(lock));
    }

    /// The slots of the worker, and how long its leases last.
    pub(super) fn slots(&self) -> (usize, Duration) {
        let seed = &self.0.held.seed;
        (seed.slots, seed.lease_duration)
    }

    pub(super) fn shared(&self) -> &Attempt {
        &self.0
    }

    pub(super) fn states(&self) -> &States {
        &self.0.held.seed.states
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id())
            .field("kind", &self.0.job.kind)
            .field("attempt", &self.attempt())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

/// The lease, shared by its attempts and the heartbeat that extends it.
pub(super) struct HeldLease {
    pub(super) token: Token,
    until_us: AtomicU64,
    seed: Arc<Seed>,
}

/// What every attempt of a worker is given.
pub(super) struct Seed {
    /// None in tests of a context alone.
    pub(super) queue: Option<Queue>,
    pub(super) worker: WorkerId,
    pub(super) states: States,
    pub(super) limits: Limits,
    /// Jobs that it runs at the same time.
    pub(super) slots: usize,
    pub(super) lease_duration: Duration,
}

impl HeldLease {
    pub(super) fn new(token: Token, until: Timestamp, seed: Arc<Seed>) -> Self {
        Self {
            token,
            until_us: AtomicU64::new(until.as_micros()),
            seed,
        }
    }

    fn until(&self) -> Timestamp {
        Timestamp::from_micros(self.until_us.load(Ordering::Relaxed))
    }

    /// The engine that the lease is of; none in tests of a context alone.
    pub(super) fn queue(&self) -> Option<&Queue> {
        self.seed.queue.as_ref()
    }

    pub(super) fn extend(&self, until: Timestamp) {
        self.until_us.store(until.as_micros(), Ordering::Relaxed);
    }
}

/// What the worker and the handler share of one attempt.
pub(super) struct Attempt {
    pub(super) job: JobRecord,
    pub(super) held: Arc<HeldLease>,
    /// Since when the limits of its queue let it start; an instant before its due without limits.
    open_since: Timestamp,
    started_us: AtomicU64,
    interrupt: AtomicU8,
    tripped: Notify,
    output: Mutex<Output>,
}

/// What a handler gave besides its verdict.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) effects: Vec<Effect>,
    effect_bytes: usize,
    /// What it published; matched when it is settled.
    pub(super) messages: Vec<Message>,
    /// What goes with its settlement.
    to_send: Vec<Message>,
    pub(super) result: Option<Bytes>,
    progress: Option<Bytes>,
    progress_sent: bool,
    pub(super) log: Unsent,
    locks: Vec<Weak<Held>>,
    /// Of steps and waits that this attempt has come to.
    names: HashSet<String>,
}

impl Attempt {
    pub(super) fn new(job: JobRecord, held: Arc<HeldLease>, open_since: Timestamp) -> Self {
        Self {
            job,
            held,
            open_since,
            started_us: AtomicU64::new(0),
            interrupt: AtomicU8::new(0),
            tripped: Notify::new(),
            output: Mutex::default(),
        }
    }

    /// It got a slot at that instant of engine time.
    pub(super) fn starts(&self, at: Timestamp) {
        self.started_us.store(at.as_micros(), Ordering::Relaxed);
    }

    /// Its handler was called that much later.
    pub(super) fn starts_later(&self, span: Duration) {
        let us = span.as_micros() as u64;
        if us > 0 {
            self.started_us.fetch_add(us, Ordering::Relaxed);
        }
    }

    /// From its due to the call of its handler, at most; not counting what it waited at limits.
    pub(super) fn lateness(&self) -> Duration {
        self.started_at().since(self.job.due.max(self.open_since))
    }

    /// How long after its due the limits of its queue let it start.
    pub(super) fn waited_at_limits(&self) -> Duration {
        self.open_since.since(self.job.due)
    }

    fn started_at(&self) -> Timestamp {
        Timestamp::from_micros(self.started_us.load(Ordering::Relaxed))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.held.seed.limits
    }

    /// Asks the handler to stop; the first reason stays.
    pub(super) fn trip(&self, why: Interrupt) {
        let untouched =
            self.interrupt
                .compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
        if untouched.is_ok() {
            self.tripped.notify_waiters();
        }
    }

    fn interrupt(&self) -> Option<Interrupt> {
        match self.interrupt.load(Ordering::Acquire) {
            1 => Some(Interrupt::CancelRequested),
            2 => Some(Interrupt::TimedOut),
            3 => Some(Interrupt::LeaseLost),
            4 => Some(Interrupt::ShuttingDown),
            _ => None,
        }
    }

    /// Takes the name of a step or wait; `false` if it was taken before.
    pub(super) fn take_name(&self, name: String) -> bool {
        self.lock().names.insert(name)
    }

    /// The last progress note, once.
    pub(super) fn progress_to_send(&self) -> Option<Bytes> {
        let mut output = self.lock();
        let sent = std::mem::replace(&mut output.progress_sent, true);
        output.progress.clone().filter(|_| !sent)
    }

    pub(super) fn repeat_progress(&self) {
        let mut output = self.lock();
        output.progress_sent = false;
        output.log.repeat();
    }

    /// The lines logged since the last heartbeat; none if there are none.
    pub(super) fn log_to_send(&self) -> Option<Vec<String>> {
        Some(self.lock().log.send()).filter(|lines| !lines.is_empty())
    }

    /// The last heartbeat has arrived, with the lines that it carried.
    pub(super) fn log_arrived(&self) {
        self.lock().log.arrived();
    }

    /// The lines that no heartbeat brought for sure, for the settlement.
    pub(super) fn log_left(&self) -> Vec<String> {
        self.lock().log.take()
    }

    /// Releases what a handler left locked.
    pub(super) fn release_locks(&self) {
        let locks = std::mem::take(&mut self.lock().locks);
        for held in locks.iter().filter_map(Weak::upgrade) {
            held.release_soon();
        }
    }

    pub(super) fn take_output(&self) -> Output {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn add(&self, effect: Effect) -> Result<()> {
        let mut output = self.lock();
        // A callback is an effect too.
        let asked = push::header(&self.job.headers, push::CALLBACK);
        let count = output.effects.len() + output.messages.len();
        if count + usize::from(asked.is_some()) >= self.limits().effects {
            let message = "too many effects in one attempt; enqueue a job that enqueues the rest";
            return Err(
                Error::new(ErrorKind::BatchTooLarge, message).with("limit", self.limits().effects)
            );
        }
        match &effect {
            Effect::Enqueue(job) => self.add_bytes(&mut output, job.payload.len())?,
            Effect::Signal { payload, .. } => self.add_bytes(&mut output, payload.len())?,
            _ => {}
        }
        output.effects.push(effect);
        Ok(())
    }

    /// Adds a message to be published with the outcome.
    pub(super) fn add_message(&self, message: Message) -> Result<()> {
        let mut output = self.lock();
        let count = output.effects.len() + output.messages.len();
        if count >= self.limits().effects {
            let message = "too many messages and effects in one attempt; publish the rest by a \
                           queue's `publish`";
            return Err(
                Error::new(ErrorKind::BatchTooLarge, message).with("limit", self.limits().effects)
            );
        }
        self.add_bytes(&mut output, message.job().payload.len())?;
        output.messages.push(message);
        Ok(())
    }

    fn add_bytes(&self, output: &mut Output, bytes: usize) -> Result<()> {
        let bytes = output.effect_bytes + bytes;
        if bytes > self.limits().batch_bytes {
            let message =
                "payloads of the effects of one attempt are over the limit; send references";
            return Err(Error::new(ErrorKind::BatchTooLarge, message)
                .with("bytes", bytes)
                .with("limit", self.limits().batch_bytes));
        }
        output.effect_bytes = bytes;
        Ok(())
    }

    /// Lets what was published go with the settlement of an attempt that brings its effects along.
    pub(super) fn send_messages(&self, messages: Vec<Message>) {
        self.lock().to_send = messages;
    }

    /// The messages that go with the settlement.
    pub(super) fn messages_to_send(&self) -> Vec<Message> {
        std::mem::take(&mut self.lock().to_send)
    }

    fn check_size(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes <= self.limits().result_bytes {
            return Ok(());
        }
        let message = format!("{what} is over the limit; store it elsewhere and keep a reference");
        Err(Error::new(ErrorKind::PayloadTooLarge, message)
            .with("bytes", bytes)
            .with("limit", self.limits().result_bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.locked()
    }
}
