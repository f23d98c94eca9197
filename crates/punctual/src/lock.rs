//! Locks by name: one holder at a time, over all processes and hosts, with a fence.
//!
//! A lock is a job in a queue of its own, `lock:NAME`, that its holder has under a lease. So a
//! holder that dies loses the lock with its lease, a long one extends it, and every holder has a
//! larger fence than the one before. A store that keeps the largest fence seen refuses a holder
//! that was stopped for too long:
//!
//! ```sql
//! UPDATE stock SET n = n - 1, fence = $1 WHERE id = 7 AND fence < $1
//! ```
//!
//! Where the jobs themselves are what must not run together, a [group](crate::job::Group) costs
//! less: the engine starts them one after the other, and nothing waits in a slot.
//!
//! ```
//! use punctual::time::seconds;
//! use punctual::{ErrorKind, MemoryEngine, Queue};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let queue = Queue::new(MemoryEngine::new());
//! let first = queue.lock("stock:7").try_now().await?;
//! let refused = queue.lock("stock:7").try_now().await.unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::Conflict);
//!
//! let fence = first.fence();
//! first.release().await?;
//! let second = queue.lock("stock:7").wait(seconds(1)).await?;
//! assert!(second.fence() > fence);
//! # Ok::<(), punctual::Error>(())
//! # }).unwrap();
//! ```

mod guard;
mod status;
mod turn;

use std::sync::Arc;
use std::time::Duration;

pub use guard::LockGuard;
pub use status::{LockHolder, LockStatus, LockWaiter};

pub(crate) use self::guard::Held;
use self::turn::Turn;
use crate::backoff::Backoff;
use crate::engine::{
    Claim, ClaimMode, EnqueueVerdict, LeaseReport, Namespace, Settle, Settlement, Token, WaitFor,
    WorkerId, WorkerPlace, WorkerRecord,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{
    Hold, JobId, JobRecord, JobState, NewJob, Outcome, PARENT_HEADER, Unique, UniquePolicy,
};
use crate::time::{Stopwatch, Timestamp, exact_span, format_span, pause};
use crate::worker::Context;
use crate::{Engine, Queue};

/// Checks the name of a lock: 1 to 123 of `a-z A-Z 0-9 . _ - : /`.
///
/// # Errors
/// `invalid_name`, with what is wrong.
pub fn check_name(name: &str) -> Result<()> {
    crate::job::check_lock_name(name)
}

/// What the name of a lock's queue begins with.
pub const LOCK_PREFIX: &str = "lock:";

/// The unique key of the job that stands for a lock that is held.
pub const LOCK_UNIQUE: &str = "lock";

/// How long a lock lasts after its holder has died.
pub(crate) const LEASE_DEFAULT: Duration = Duration::from_secs(10);

/// Jobs that are no tickets, in the queue of a lock: one try makes that many dead letters.
const NO_TICKETS_MAX: usize = 100;

/// A waiter tries again after that time: nothing wakes it when a holder dies.
const ROUND: Duration = Duration::from_secs(1);

/// A waiter with a short lease tries sooner, and no sooner than that.
const ROUND_MIN: Duration = Duration::from_millis(50);

/// Behind other waiters of its process, a waiter tries for the first time after that time.
const FIRST_TRY: Duration = Duration::from_millis(50);

/// A lock that is to be taken.
#[derive(Debug, Clone)]
#[must_use = "a lock is taken by try_now, wait or or_snooze"]
pub struct Lock {
    queue: Queue,
    name: String,
    lease: Duration,
    /// The attempt that takes it, if it is one.
    taker: Option<Context>,
    /// Where the holder runs.
    place: WorkerPlace,
}

impl Queue {
    /// A lock of that name in this namespace; see [`lock`](crate::lock).
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock {
            queue: self.clone(),
            name: name.into(),
            lease: LEASE_DEFAULT,
            taker: None,
            place: WorkerPlace::WithEngine,
        }
    }
}

impl Context {
    /// A lock of that name, taken for the job of this attempt. What the handler still holds when it
    /// ends is released then; see [`lock`](crate::lock).
    ///
    /// ```
    /// use punctual::worker::HandlerResult;
    /// use punctual::{Context, Outcome, time::seconds};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Buy { item: u64 }
    /// # async fn take_one(item: u64, fence: u64) {}
    ///
    /// async fn buy(job: Buy, ctx: Context) -> HandlerResult {
    ///     let stock = ctx.lock(format!("stock:{}", job.item))?;
    ///     let guard = stock.or_snooze(seconds(2)).await?;
    ///     take_one(job.item, guard.fence()).await;
    ///     Ok(Outcome::Completed)
    /// }
    /// ```
    ///
    /// # Errors
    /// `unsupported` in a test of a context without an engine.
    pub fn lock(&self, name: impl Into<String>) -> Result<Lock> {
        let queue = self.queue().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "context has no engine to lock in")
        })?;
        Ok(Lock {
            taker: Some(self.clone()),
            ..queue.lock(name)
        })
    }
}

/// What became of one try.
enum Tried {
    Taken(LockGuard),
    /// Another holder has it, by that ticket, at that engine time.
    Held(JobId, Timestamp),
}

/// The state of one wait for a lock.
struct Waiting {
    waited: Stopwatch,
    at_most: Duration,
    /// When it ends, in engine time, since the engine has first answered.
    until: Option<Timestamp>,
    turn: Turn,
    /// What its claims say of it.
    record: Option<WorkerRecord>,
}

impl Lock {
    /// How long the lock outlives a holder that died, 1 ms to 1 day; 10 s by default. A living
    /// holder extends it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Says that the holder is another process, which outlives the engine's: a restart of the
    /// engine leaves it the lock.
    pub fn elsewhere(mut self) -> Self {
        self.place = WorkerPlace::Elsewhere;
        self
    }

    /// Takes the lock, or returns its holder at once.
    ///
    /// # Errors
    /// `conflict` while another one holds it; `invalid_name` for a name over 123 characters or with
    /// others than a queue may have.
    pub async fn try_now(self) -> Result<LockGuard> {
        self.check()?;
        match self.attempt(None).await? {
            Tried::Taken(guard) => Ok(guard),
            Tried::Held(ticket, _) => Err(self.held_by(ticket).await),
        }
    }

    /// Waits until the lock is free and takes it, at most for that span.
    ///
    /// The waiters of one process take turns: a release wakes the one that came first. Of several
    /// processes any may be first. Waiters poll once a second only for the death of a holder. An
    /// engine that is away meanwhile is tried again.
    ///
    /// # Errors
    /// As [`try_now`](Self::try_now), after the span.
    pub async fn wait(self, at_most: Duration) -> Result<LockGuard> {
        self.check()?;
        let mut waiting = Waiting {
            waited: Stopwatch::start(),
            at_most,
            until: None,
            turn: Turn::join(&self).await,
            record: None,
        };
        let mut backoff = Backoff::engine();
        waiting.turn.wait(FIRST_TRY.min(at_most)).await;
        loop {
            match self.wait_a_round(&mut waiting).await {
                Ok(Some(guard)) => return Ok(guard),
                Ok(None) => {
                    backoff = Backoff::engine();
                    // A lock that is free costs no record of a waiter.
                    waiting.record.get_or_insert_with(|| self.waiter());
                }
                Err(error) => {
                    let is_away = error.kind() == ErrorKind::EngineUnavailable;
                    if !is_away || waiting.waited.elapsed() >= at_most {
                        return Err(error);
                    }
                    pause(backoff.pause()).await;
                }
            }
        }
    }

    /// Takes the lock if it is free, or waits for its release or for its own turn to wait for that,
    /// a round at most.
    async fn wait_a_round(&self, waiting: &mut Waiting) -> Result<Option<LockGuard>> {
        let (ticket, now) = match self.attempt(waiting.record.as_ref()).await? {
            Tried::Taken(guard) => return Ok(Some(guard)),
            Tried::Held(ticket, now) => (ticket, now),
        };
        let left = waiting.at_most.saturating_sub(waiting.waited.elapsed());
        let until = *waiting.until.get_or_insert_with(|| now + left);
        if now >= until {
            let error = self.held_by(ticket).await;
            return Err(error.with("waited", exact_span(waiting.at_most)));
        }
        let round = until.min(now + self.lease.clamp(ROUND_MIN, ROUND));
        if waiting.turn.is_first() {
            let released = WaitFor::Settled(vec![ticket]);
            self.engine()
                .wait(self.namespace(), released, round)
                .await?;
        } else {
            waiting.turn.wait(round - now).await;
        }
        Ok(None)
    }

    /// Takes the lock, or ends the attempt: the job comes again after about that span, which counts
    /// as neither a failure nor a crash. Return the error from the handler with `?`.
    ///
    /// The span is stretched by up to a half at random, so that jobs that met one holder do not
    /// come back together.
    ///
    /// # Errors
    /// As [`try_now`](Self::try_now). The `conflict` makes a handler that returns it snooze.
    pub async fn or_snooze(self, span: Duration) -> Result<LockGuard> {
        match self.try_now().await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let span = span.mul_f64(1.0 + random_part() / 2.0);
                Err(error.source(SnoozeFor(span)))
            }
            other => other,
        }
    }

    fn check(&self) -> Result<()> {
        check_name(&self.name)
    }

    fn queue_name(&self) -> String {
        format!("{LOCK_PREFIX}{}", self.name)
    }

    fn engine(&self) -> &Arc<dyn Engine> {
        self.queue.engine()
    }

    fn namespace(&self) -> &Namespace {
        self.queue.own_namespace()
    }

    /// Two calls, sent one behind the other without waiting: a ticket of this lock, unless there is
    /// one, and the claim of whichever is there. The claim alone decides.
    async fn attempt(&self, waiter: Option<&WorkerRecord>) -> Result<Tried> {
        let ticket = self.ticket();
        let mine = ticket.id;
        let enqueued = self.queue.engine().enqueue(self.namespace(), vec![ticket]);
        let (enqueued, claimed) = tokio::join!(biased; enqueued, self.claim(waiter));
        let verdict = enqueued?.receipts.first().map(|receipt| receipt.verdict);
        let now = match claimed? {
            (Some(guard), _) => return Ok(Tried::Taken(guard)),
            (None, now) => now,
        };
        match verdict {
            Some(EnqueueVerdict::Merged(ticket)) => Ok(Tried::Held(ticket, now)),
            Some(EnqueueVerdict::Created) => {
                // The claim may have come before the ticket, over HTTP.
                Ok(match self.claim(waiter).await? {
                    (Some(guard), _) => Tried::Taken(guard),
                    (None, now) => Tried::Held(mine, now),
                })
            }
            other => {
                let message = "lock has no ticket; its queue may be paused or bounded";
                let verdict = other.map_or("none", EnqueueVerdict::name);
                Err(Error::new(ErrorKind::Conflict, message)
                    .operation("lock")
                    .with("lock", &self.name)
                    .with("verdict", verdict))
            }
        }
    }

    fn ticket(&self) -> NewJob {
        let mut ticket = NewJob::new(self.queue_name(), "");
        ticket.kind = "lock".into();
        ticket.content_type = "text/plain".into();
        // A holder that dies is no reason to bury the lock.
        ticket.max_crashes = Some(u32::MAX);
        ticket.unique = Some(Unique {
            key: LOCK_UNIQUE.into(),
            policy: UniquePolicy::Keep,
            hold: Hold::UntilSettled,
        });
        if let Some(taker) = &self.taker {
            let header = (PARENT_HEADER.to_owned(), taker.id().to_string());
            ticket.headers.push(header);
        }
        ticket
    }

    /// The lock if it is free, and engine time.
    ///
    /// One that waits has its own record; another one names no queues, so that it is not listed.
    async fn claim(&self, waiter: Option<&WorkerRecord>) -> Result<(Option<LockGuard>, Timestamp)> {
        let mut now = Timestamp::ZERO;
        for _ in 0..NO_TICKETS_MAX {
            // A name that no other try has: a ticket whose holders died is given to one that has
            // nothing else.
            let fresh = || WorkerRecord::new(WorkerId::random());
            let worker = waiter.cloned().unwrap_or_else(fresh);
            let claim = Claim::new(worker.id, self.queue_name(), 1)
                .worker(worker)
                .mode(ClaimMode::Alone)
                .place(self.place)
                .lease_duration(self.lease);
            let sent = Stopwatch::start();
            let claimed = self.engine().claim(self.namespace(), claim).await?;
            now = claimed.now;
            let lease = claimed.leases.into_iter().next();
            let taken = lease.and_then(|mut lease| Some((lease.token, lease.jobs.pop()?)));
            let Some((token, job)) = taken else {
                return Ok((None, now));
            };
            if !is_ticket(&job) {
                self.reject(token, &job).await?;
                continue;
            }
            let held = Held::new(&self.queue, &self.name, token, &job, sent, self.lease);
            if let Some(taker) = &self.taker {
                taker.holds(&held);
            }
            return Ok((Some(LockGuard::new(held)), now));
        }
        Ok((None, now))
    }

    /// Makes a dead letter of a job that a producer enqueued into the lock's queue: it is no lock.
    async fn reject(&self, token: Token, job: &JobRecord) -> Result<()> {
        let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Dead);
        let error = "the queues of locks take no jobs; enqueue it to another queue";
        settlement.error = Some(error.into());
        let leases = vec![LeaseReport::new(token, vec![settlement])];
        let settled = self.engine().settle(self.namespace(), Settle { leases });
        settled.await.map(drop)
    }

    /// The error of a lock that is held; it names the holder's job if the engine knows it.
    async fn held_by(&self, ticket: JobId) -> Error {
        let named = |message| {
            Error::new(ErrorKind::Conflict, message)
                .operation("lock")
                .with("lock", &self.name)
                .with("ticket", ticket)
        };
        let Ok(Some(got)) = self.queue.get(ticket).await else {
            return named("lock is held");
        };
        let message = match got.state() {
            JobState::Ready => Some(
                "lock has no holder and cannot be taken: its queue is paused or limited, or its \
                 holder died just now",
            ),
            JobState::Held | JobState::Scheduled => Some(
                "lock has no holder and cannot be taken: a producer enqueued the job that stands \
                 for it, to run later; cancel that job",
            ),
            _ => None,
        };
        if let Some(message) = message {
            return named(message).with("queue", self.queue_name());
        }
        let error = named("lock is held");
        let holder = got.job().and_then(parent_of);
        match holder {
            Some(holder) => error.with("holder", holder),
            None => error,
        }
    }
}

/// The job whose handler took the lock, as its ticket says.
fn parent_of(ticket: &JobRecord) -> Option<String> {
    let mut headers = ticket.headers.iter();
    let parent = headers.find(|(name, _)| name == PARENT_HEADER);
    parent.map(|(_, id)| id.clone())
}

/// Whether the job stands for its queue's lock: it has the one key that only one job can have.
fn is_ticket(job: &JobRecord) -> bool {
    let unique = job.unique.as_ref();
    unique.is_some_and(|unique| unique.key == LOCK_UNIQUE && unique.hold == Hold::UntilSettled)
}

/// Takes several locks, in the order of their names: two that want the same ones cannot wait for
/// each other. All or none.
///
/// # Errors
/// As [`Lock::wait`]; `invalid_input` if a name comes twice.
pub async fn lock_all(
    locks: impl IntoIterator<Item = Lock>,
    at_most: Duration,
) -> Result<Vec<LockGuard>> {
    let mut locks: Vec<Lock> = locks.into_iter().collect();
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twice) = locks.windows(2).find(|two| two[0].name == two[1].name) {
        let message = "lock is named twice; name each once";
        return Err(Error::new(ErrorKind::InvalidInput, message).with("lock", &twice[0].name));
    }
    let begun = Stopwatch::start();
    let mut guards = Vec::with_capacity(locks.len());
    for lock in locks {
        let left = at_most.saturating_sub(begun.elapsed());
        guards.push(lock.wait(left).await?);
    }
    Ok(guards)
}

/// From 0 to 1.
fn random_part() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_u128() as u32) / f64::from(u32::MAX)
}

/// The source of an error that makes a handler's job snooze for that span.
#[derive(Debug)]
pub(crate) struct SnoozeFor(pub(crate) Duration);

impl std::fmt::Display for SnoozeFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the job snoozes for {}", format_span(self.0))
    }
}

impl std::error::Error for SnoozeFor {}
