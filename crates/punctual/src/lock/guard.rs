//! The guard of a lock that is held: extends it, says whether it still counts, releases it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Queue;
use crate::engine::{Extend, ExtendVerdict, LeaseReport, Settle, SettleVerdict, Settlement, Token};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobRecord, Outcome};
use crate::time::{Stopwatch, pause, within};

/// A lock that is held. Dropping it releases it in the background; [`release`](Self::release) does
/// so and answers.
///
/// While it lives it extends its lease at a third of it. A process that stands still for longer
/// than that may lose the lock to another one: it finds out by [`is_valid`](Self::is_valid) and
/// [`lost`](Self::lost), and a store by the [`fence`](Self::fence).
#[must_use = "a guard that is dropped releases its lock"]
pub struct LockGuard(Arc<Held>);

impl LockGuard {
    pub(super) fn new(held: Arc<Held>) -> Self {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(keep(Arc::downgrade(&held)));
        }
        Self(held)
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A number that is larger than those of all holders before.
    pub fn fence(&self) -> u64 {
        self.0.token.fence
    }

    /// Whether the lock is still held for sure: its lease was extended in time, as counted from
    /// before the call. Once `false` it stays so.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Waits until the lock is lost. Run it beside the work that needs the lock.
    pub async fn lost(&self) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.0.is_valid() {
                return;
            }
            let left = self.0.valid_for();
            let _ = within(left.max(Duration::from_millis(1)), ended).await;
        }
    }

    /// Gives the lease away: nothing extends or releases it any more. A caller that has the job's
    /// id and the token can, by [`extend`](crate::Engine::extend) and
    /// [`settle`](crate::Engine::settle).
    pub fn detach(self) -> (JobId, Token) {
        self.0.end();
        (self.0.ticket, self.0.token)
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// `lease_lost` if another one may have had it meanwhile; `engine_unavailable` if the engine
    /// did not answer: the lock is free after its lease at the latest.
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.0.name)
            .field("fence", &self.0.token.fence)
            .finish_non_exhaustive()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.0.release_soon();
    }
}

/// A lock's lease, shared by its guard, what extends it, and the attempt that took it.
pub(crate) struct Held {
    queue: Queue,
    name: String,
    token: Token,
    ticket: JobId,
    attempt: u32,
    lease: Duration,
    since: Stopwatch,
    /// Until when it is ours for sure, in microseconds of `since`.
    valid_us: AtomicU64,
    /// Released, or lost.
    over: AtomicBool,
    ended: Notify,
}

impl Held {
    pub(super) fn new(
        queue: &Queue,
        name: &str,
        token: Token,
        job: &JobRecord,
        since: Stopwatch,
        lease: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            queue: queue.clone(),
            name: name.to_owned(),
            token,
            ticket: job.id,
            attempt: job.attempt,
            lease,
            since,
            valid_us: AtomicU64::new(lease.as_micros() as u64),
            over: AtomicBool::new(false),
            ended: Notify::new(),
        })
    }

    fn is_valid(&self) -> bool {
        !self.over.load(Ordering::Acquire) && !self.valid_for().is_zero()
    }

    fn valid_for(&self) -> Duration {
        let until = Duration::from_micros(self.valid_us.load(Ordering::Acquire));
        until.saturating_sub(self.since.elapsed())
    }

    /// Whether it was not over before.
    fn end(&self) -> bool {
        let was_over = self.over.swap(true, Ordering::AcqRel);
        self.ended.notify_waiters();
        !was_over
    }

    async fn extend(&self) -> Result<()> {
        let sent = self.since.elapsed();
        let extend = Extend::new(self.token, self.lease);
        let (engine, namespace) = (self.queue.engine(), self.queue.own_namespace());
        let extended = engine.extend(namespace, vec![extend]).await?;
        match extended.verdicts.first() {
            Some(ExtendVerdict::Extended { .. }) => {
                let until = sent.saturating_add(self.lease);
                self.valid_us
                    .store(until.as_micros() as u64, Ordering::Release);
                Ok(())
            }
            _ => Err(lost(&self.name)),
        }
    }

    async fn release(&self) -> Result<()> {
        if !self.end() {
            return Err(lost(&self.name));
        }
        let settlement = Settlement::new(self.ticket, self.attempt, Outcome::Completed);
        let leases = vec![LeaseReport::new(self.token, vec![settlement])];
        let (engine, namespace) = (self.queue.engine(), self.queue.own_namespace());
        let settled = engine.settle(namespace, Settle { leases }).await?;
        match settled
            .verdicts
            .first()
            .and_then(|of_lease| of_lease.first())
        {
            Some(SettleVerdict::LeaseLost) | None => Err(lost(&self.name)),
            Some(_) => Ok(()),
        }
    }

    /// Releases it in the background, unless that was done.
    pub(crate) fn release_soon(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let held = self.clone();
        runtime.spawn(async move {
            if let Err(error) = held.release().await {
                tracing::warn!(%error, lock = held.name, "lock is not released; it is free after its lease");
            }
        });
    }
}

fn lost(name: &str) -> Error {
    let message = "lock is lost: its lease ended, or it was released; another one may hold it";
    Error::new(ErrorKind::LeaseLost, message)
        .operation("lock")
        .with("lock", name)
}

/// Extends a lock at a third of its lease until it is released or lost.
async fn keep(held: Weak<Held>) {
    loop {
        let Some(lease) = held.upgrade().map(|held| held.lease) else {
            return;
        };
        pause(lease / 3).await;
        let Some(held) = held.upgrade() else {
            return;
        };
        if held.over.load(Ordering::Acquire) {
            return;
        }
        if held.valid_for().is_zero() {
            held.end();
            return;
        }
        match within(held.valid_for(), held.extend()).await {
            Some(Ok(())) => {}
            Some(Err(error)) if error.kind() == ErrorKind::LeaseLost => {
                held.end();
                tracing::warn!(lock = held.name, "lock is lost");
                return;
            }
            Some(Err(error)) => {
                tracing::warn!(%error, lock = held.name, "lock is not extended; trying again");
            }
            None => {}
        }
    }
}
