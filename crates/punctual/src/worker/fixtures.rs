//! What the unit tests of the worker start from.

use std::sync::Arc;
use std::time::Duration;

use super::context::{Attempt, Context, Lease, Seed};
use super::meters::Labels;
use super::slots::Board;
use crate::engine::{Token, WorkerId};
use crate::job::{JobId, JobRecord, Limits, State};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;
use crate::worker::States;

pub(super) const LABELS: Labels = Labels { queue: 0, kind: 0 };
pub(super) const CLAIMED_AT: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

pub(crate) fn record() -> JobRecord {
    JobRecord {
        id: JobId::new(),
        queue: "mail".into(),
        kind: "send".into(),
        payload: "{}".into(),
        content_type: "application/json".into(),
        headers: Vec::new(),
        expires_at: None,
        priority: 5,
        unique: None,
        group: None,
        max_attempts: 20,
        retry: RetryPolicy::default(),
        timeout: None,
        retention: Duration::ZERO,
        wait_for: Vec::new(),
        state: State::Active,
        due: CLAIMED_AT,
        attempt: 1,
        failures: 0,
        crashes: 0,
        enqueued_at: CLAIMED_AT,
        started_at: Some(CLAIMED_AT),
        finished_at: None,
        last_error: None,
        result: None,
        progress: None,
        cancel_requested: false,
        cancelled: None,
        dead: None,
        stopped: None,
        worker: None,
        attempts: Vec::new(),
        lease_until: None,
    }
}

fn seed() -> Seed {
    Seed {
        worker: WorkerId::random(),
        states: States::default(),
        limits: Limits::default(),
    }
}

pub(super) fn lease(fence: u64) -> Arc<Lease> {
    lease_with(fence, Arc::new(seed()))
}

pub(super) fn lease_with(fence: u64, seed: Arc<Seed>) -> Arc<Lease> {
    Arc::new(Lease::new(Token { fence, nonce: 7 }, CLAIMED_AT, seed))
}

pub(super) fn context(job: JobRecord) -> Context {
    context_under(job, lease(1))
}

pub(super) fn context_under(job: JobRecord, lease: Arc<Lease>) -> Context {
    let context = Context::new(Attempt::new(job, lease));
    context.shared().starts(CLAIMED_AT);
    context
}

pub(super) fn board(slots: usize) -> Board {
    let mut board = Board::new(slots, crate::time::seconds(2), seed(), true);
    board.set_engine_time(CLAIMED_AT, Duration::ZERO);
    board
}
