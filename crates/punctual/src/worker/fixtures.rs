//! What the unit tests of the worker start from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::context::{Attempt, Context, HeldLease, Seed};
use super::metrics::Labels;
use super::slots::Board;
use crate::engine::*;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobRecord, JobState, Limits, NewJob};
use crate::time::Timestamp;
use crate::worker::States;

pub(super) const LABELS: Labels = Labels { queue: 0, kind: 0 };
pub(super) const CLAIMED_AT: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

pub(crate) fn record() -> JobRecord {
    let job = NewJob::new("mail", "{}");
    JobRecord {
        kind: "send".into(),
        state: JobState::Active,
        attempt: 1,
        started_at: Some(CLAIMED_AT),
        ..JobRecord::new(job, CLAIMED_AT, CLAIMED_AT)
    }
}

fn seed() -> Seed {
    Seed {
        queue: None,
        worker: WorkerId::random(),
        states: States::default(),
        limits: Limits::default(),
        slots: 64,
        lease_duration: crate::time::seconds(10),
    }
}

pub(super) fn held(fence: u64) -> Arc<HeldLease> {
    lease_with(fence, Arc::new(seed()))
}

pub(super) fn lease_with(fence: u64, seed: Arc<Seed>) -> Arc<HeldLease> {
    Arc::new(HeldLease::new(Token { fence, nonce: 7 }, CLAIMED_AT, seed))
}

pub(super) fn context(job: JobRecord) -> Context {
    context_under(job, held(1))
}

pub(super) fn context_under(job: JobRecord, held: Arc<HeldLease>) -> Context {
    let context = Context::new(Attempt::new(job, held, Timestamp::ZERO));
    context.shared().starts(CLAIMED_AT);
    context
}

pub(super) fn board(slots: usize) -> Board {
    let mut board = Board::new(slots, crate::time::seconds(2), seed(), true);
    board.learn_engine_time(CLAIMED_AT, Duration::ZERO, Duration::ZERO);
    board
}

/// An engine that answers nothing, and counts what is settled.
#[derive(Debug, Default)]
pub(super) struct Away(AtomicUsize);

impl Away {
    pub(super) fn settles(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn away<T>() -> Result<T> {
    Err(Error::new(ErrorKind::EngineUnavailable, "it is away"))
}

#[async_trait]
impl Engine for Away {
    async fn enqueue(&self, _: &Namespace, _: Vec<NewJob>) -> Result<Enqueued> {
        away()
    }

    async fn claim(&self, _: &Namespace, _: Claim) -> Result<Claimed> {
        away()
    }

    async fn extend(&self, _: &Namespace, _: Vec<Extend>) -> Result<Extended> {
        away()
    }

    async fn settle(&self, _: &Namespace, _: Settle) -> Result<Settled> {
        self.0.fetch_add(1, Ordering::Relaxed);
        away()
    }

    async fn wait(&self, _: &Namespace, _: WaitFor, _: Timestamp) -> Result<Waited> {
        away()
    }

    async fn get(&self, _: &Namespace, _: Vec<Target>, _: bool) -> Result<Vec<Option<Got>>> {
        away()
    }

    async fn list(&self, _: &Namespace, _: List) -> Result<Listing> {
        away()
    }

    async fn edit(&self, _: &Namespace, _: Edit) -> Result<Edited> {
        away()
    }

    async fn stats(&self, _: &Namespace, _: StatsRequest) -> Result<Stats> {
        away()
    }

    async fn control(&self, _: &Namespace, _: Control) -> Result<Controlled> {
        away()
    }

    async fn maintain(&self) -> Result<Maintained> {
        away()
    }

    async fn info(&self) -> Result<Info> {
        away()
    }
}
