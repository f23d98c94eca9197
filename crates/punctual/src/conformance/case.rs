//! What a law works with: an engine, its clock and shorthand calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;

use super::{Harness, START, Subject};
use crate::engine::{
    Capability, Claimed, Engine, Info, Lease, Maintained, Namespace, Settlement, Target, Token,
    WorkerId,
};
use crate::error::{Error, ErrorKind};
use crate::job::{Due, JobId, JobRecord, JobState, Limits, NewJob, Outcome};
use crate::retry::RetryPolicy;
use crate::time::{Timestamp, hours, seconds};

/// The queue of jobs that a law says nothing special about.
pub(super) const QUEUE: &str = "orders";
/// The lease of every claim that a law says nothing special about.
pub(super) const LEASE_DURATION: Duration = seconds(10);
/// The smallest step of engine time.
pub(super) const TICK: Duration = Duration::from_micros(1);

/// A job of [`QUEUE`], due at once.
pub(super) fn job() -> NewJob {
    NewJob::new(QUEUE, "{}")
}

/// A job of [`QUEUE`], due that long after it is taken.
pub(super) fn job_in(delay: Duration) -> NewJob {
    NewJob {
        due: Due::After(delay),
        ..job()
    }
}

/// The instant that long before another.
pub(super) fn before(instant: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_micros(instant.as_micros() - span.as_micros() as u64)
}

/// The ids of jobs, in order.
pub(super) fn ids<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Vec<JobId> {
    jobs.into_iter().map(|job| job.id).collect()
}

/// One claimed job with the token of its lease.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) token: Token,
    pub(super) job: JobRecord,
}

impl Attempt {
    pub(super) fn id(&self) -> JobId {
        self.job.id
    }

    /// This attempt's end with that outcome, to be settled.
    pub(super) fn ended(&self, outcome: Outcome) -> Settlement {
        Settlement::new(self.job.id, self.job.attempt, outcome)
    }
}

/// The attempts of every lease of a claim, in order.
pub(super) fn attempts(claimed: &Claimed) -> Vec<Attempt> {
    let of_lease = |lease: &Lease| {
        let token = lease.token;
        let jobs = lease.jobs.clone().into_iter();
        jobs.map(move |job| Attempt { token, job })
    };
    claimed.leases.iter().flat_map(of_lease).collect()
}

/// The error is of that kind and names the item of the call.
pub(super) fn assert_names(error: &Error, kind: ErrorKind, index: usize) {
    assert_eq!(error.kind(), kind, "{error}");
    let mut context = error.context();
    let named = context
        .find(|(name, _)| *name == "index")
        .map(|(_, value)| value);
    assert_eq!(named, Some(index.to_string().as_str()), "{error}");
}

/// A fresh engine with a namespace and a worker: what a law talks to, so that a change of the
/// contract touches this file and not each law.
pub(super) struct Case {
    harness: Arc<dyn Harness>,
    subject: Box<dyn Subject>,
    clock: AtomicU64,
    pub(super) namespace: Namespace,
    pub(super) worker: WorkerId,
}

impl Case {
    pub(super) async fn fresh(harness: Arc<dyn Harness>) -> Self {
        Self::with_limits(harness, Limits::default()).await
    }

    async fn with_limits(harness: Arc<dyn Harness>, limits: Limits) -> Self {
        Self {
            subject: harness.fresh(limits).await,
            harness,
            clock: AtomicU64::new(START.as_micros()),
            namespace: Namespace::default(),
            worker: WorkerId::random(),
        }
    }

    /// A fresh engine with other limits instead of this one.
    pub(super) async fn limited(self, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let harness = self.harness.clone();
        drop(self);
        Self::with_limits(harness, limits).await
    }

    /// The same case, speaking as another tenant.
    pub(super) fn tenant(self, name: &str) -> Self {
        let namespace = Namespace::new(name).expect("a good name");
        Self { namespace, ..self }
    }

    /// One more fresh engine beside this one.
    pub(super) async fn another(&self) -> Self {
        Self::fresh(self.harness.clone()).await
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        self.subject.engine()
    }

    pub(super) async fn info(&self) -> Info {
        self.engine().info().await.expect("info")
    }

    pub(super) async fn claims(&self, needs: &[Capability]) -> bool {
        let claimed = self.info().await.capabilities;
        needs.iter().all(|need| claimed.contains(need))
    }

    pub(super) async fn reopen(&mut self) {
        self.subject.reopen().await;
    }

    pub(super) async fn crash(&mut self) {
        self.subject.crash().await;
    }
}

/// Time.
impl Case {
    /// What the clock of the engine reads.
    pub(super) fn clock(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(SeqCst))
    }

    /// Sets the clock of the engine, back too.
    pub(super) async fn set_time(&self, now: Timestamp) {
        self.clock.store(now.as_micros(), SeqCst);
        self.subject.set_time(now).await;
    }

    /// Moves the clock forward in one step: a silence, if it is longer than half a lease.
    pub(super) async fn advance(&self, span: Duration) {
        self.set_time(self.clock() + span).await;
    }

    /// Moves the clock forward in steps below a quarter of [`LEASE_DURATION`], with a call after
    /// each but the last: no call can say that the engine was silent.
    pub(super) async fn advance_awake(&self, span: Duration) {
        const STEP: Duration = seconds(2);
        let mut left = span;
        while left > STEP {
            self.advance(STEP).await;
            self.maintain().await;
            left -= STEP;
        }
        self.advance(left).await;
    }

    /// Lets the leases of every worker run out, with the engine awake all the time.
    pub(super) async fn leases_run_out(&self) {
        self.advance_awake(LEASE_DURATION).await;
    }

    /// The bytes that the store takes once its housekeeping is done, if the engine knows.
    pub(super) async fn settled_store_bytes(&self) -> Option<u64> {
        for _ in 0..5 {
            self.maintain().await;
        }
        self.info().await.store_bytes
    }

    pub(super) async fn maintain(&self) -> Maintained {
        self.engine().maintain().await.expect("maintain")
    }
}

/// The job that holds a unique key of [`QUEUE`].
pub(super) fn by_key(key: &str) -> Target {
    Target::Unique {
        queue: QUEUE.into(),
        key: key.into(),
    }
}

/// Jobs in a wanted situation.
impl Case {
    /// A job of [`QUEUE`] in that state, the only one that is or was claimed from it.
    pub(super) async fn job_in_state(&self, state: JobState) -> JobId {
        let kept = NewJob {
            retention: hours(1),
            ..job()
        };
        let held = NewJob {
            wait_for: vec!["paid".into()],
            ..job()
        };
        match state {
            JobState::Held => self.enqueue(held).await,
            JobState::Scheduled => self.enqueue(job_in(hours(1))).await,
            JobState::Ready => self.enqueue(job()).await,
            JobState::Active => self.active(job()).await.id(),
            JobState::Completed => self.ended_job(kept, Outcome::Completed).await,
            JobState::Cancelled => self.ended_job(kept, Outcome::Cancelled).await,
            JobState::Dead => self.ended_job(kept, Outcome::Dead).await,
        }
    }

    /// Stores a job, before all that wait where the engine knows priorities, and claims it.
    pub(super) async fn active(&self, job: NewJob) -> Attempt {
        let priority = match self.claims(&[Capability::Priority]).await {
            true => 0,
            false => job.priority,
        };
        let id = self.enqueue(NewJob { priority, ..job }).await;
        let attempt = self.claim_one().await;
        assert_eq!(attempt.id(), id, "nothing is claimed before it");
        attempt
    }

    /// Stores, claims and settles a job; answers its id.
    pub(super) async fn ended_job(&self, job: NewJob, outcome: Outcome) -> JobId {
        let attempt = self.active(job).await;
        self.end(&attempt, outcome).await;
        attempt.id()
    }

    /// Stores a job that crashed twice: a suspect.
    pub(super) async fn suspect(&self, job: NewJob) -> JobId {
        let id = self.active(job).await.id();
        self.leases_run_out().await;
        assert_eq!(self.claim_one().await.id(), id, "one crash is no suspicion");
        self.leases_run_out().await;
        id
    }
}

/// A policy that lets a failed job try again after a second, without a draw.
pub(super) fn after_a_second() -> RetryPolicy {
    RetryPolicy::fixed(seconds(1))
}

/// Small bytes.
pub(super) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
