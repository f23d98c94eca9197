//! Helpers for users' own tests: virtual time, and questions about what was enqueued.
//!
//! The memory engine takes a clock that stands still until a test moves it, and the worker sleeps
//! by the engine's clock: what runs is the code that production runs, and a month takes
//! milliseconds. What the worker measures itself is real time still: leases, timeouts, graces.
//!
//! "Remind after 30 days, retry five times":
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use punctual::testing::{TestClock, advance, assert_enqueued};
//! use punctual::time::{days, hours};
//! use punctual::worker::{HandlerResult, State};
//! use punctual::{Job, MemoryEngine, Outcome, Queue, RetryPolicy, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Remind { rider: u64 }
//! impl Job for Remind { const KIND: &str = "remind"; }
//!
//! /// The mail server is down for the first five attempts.
//! async fn remind(_job: Remind, State(tries): State<Arc<AtomicU32>>) -> HandlerResult {
//!     if tries.fetch_add(1, Ordering::Relaxed) < 5 {
//!         return Err("mail server is down".into());
//!     }
//!     Ok(Outcome::Completed)
//! }
//!
//! # async fn example() -> punctual::Result<()> {
//! let clock = TestClock::default();
//! let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
//! let tries = Arc::new(AtomicU32::new(0));
//! let worker = Worker::new(&engine).state(tries.clone()).handle(remind);
//!
//! let queue = Queue::new(&engine);
//! queue
//!     .enqueue(Remind { rider: 7 })
//!     .delay(days(30))
//!     .retry(RetryPolicy::fixed(hours(1)))
//!     .await?;
//! assert_enqueued::<Remind>(&engine, |job| job.rider == 7).await;
//!
//! advance(&clock, &worker, days(29)).await?;
//! assert_eq!(tries.load(Ordering::Relaxed), 0);
//! advance(&clock, &worker, days(1)).await?;
//! assert_eq!(tries.load(Ordering::Relaxed), 1);
//! advance(&clock, &worker, hours(5)).await?;
//! assert_eq!(tries.load(Ordering::Relaxed), 6);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```

use std::time::Duration;

use crate::engine::{Engine, Filter, List, ListBy, Namespace};
use crate::error::Result;
use crate::job::{Job, JobRecord, JobState};
use crate::queue::IntoEngine;
use crate::time::{Clock, Timestamp};
use crate::worker::Worker;

pub use crate::time::ManualClock as TestClock;

/// Runs a worker until nothing is ready or active at the present instant of its engine; answers
/// the next instant at which something is.
///
/// Jobs that it cannot claim stay: in a paused queue, behind a group, of another queue.
pub async fn drain(worker: &Worker) -> Result<Option<Timestamp>> {
    worker.run_until_idle().await
}

/// Moves time forward and runs a worker at every instant on the way at which something is due:
/// retries, snoozes and jobs enqueued by jobs included.
pub async fn advance(clock: &TestClock, worker: &Worker, span: Duration) -> Result<()> {
    let end = clock.now() + span;
    loop {
        match drain(worker).await? {
            Some(due) if due <= end => clock.set(due.max(clock.now())),
            _ if clock.now() < end => clock.set(end),
            _ => return Ok(()),
        }
    }
}

/// Answers the first unsettled job of that type, in the queue of its type and the namespace
/// `default`, whose payload fits.
///
/// # Panics
/// If there is none; the message lists those that are there.
pub async fn assert_enqueued<J: Job>(
    engine: impl IntoEngine,
    fits: impl Fn(&J) -> bool,
) -> JobRecord {
    let jobs = unsettled::<J>(&*engine.into_engine()).await;
    let found = jobs
        .iter()
        .find(|job| decoded::<J>(job).is_some_and(|payload| fits(&payload)));
    found.cloned().unwrap_or_else(|| {
        let kind = J::KIND;
        panic!("no job of kind {kind} fits; there are: {:#?}", shown(&jobs))
    })
}

/// Checks that [`assert_enqueued`] would find nothing.
///
/// # Panics
/// If there is such a job.
pub async fn refute_enqueued<J: Job>(engine: impl IntoEngine, fits: impl Fn(&J) -> bool) {
    let mut jobs = unsettled::<J>(&*engine.into_engine()).await;
    jobs.retain(|job| decoded::<J>(job).is_some_and(|payload| fits(&payload)));
    let kind = J::KIND;
    assert!(
        jobs.is_empty(),
        "jobs of kind {kind} fit although none should: {:#?}",
        shown(&jobs)
    );
}

fn decoded<J: Job>(job: &JobRecord) -> Option<J> {
    serde_json::from_slice(&job.payload).ok()
}

/// State, due and payload, for people.
fn shown(jobs: &[JobRecord]) -> Vec<String> {
    let line = |job: &JobRecord| {
        let payload = String::from_utf8_lossy(&job.payload);
        format!("{} due {} {payload}", job.state, job.due)
    };
    jobs.iter().map(line).collect()
}

async fn unsettled<J: Job>(engine: &dyn Engine) -> Vec<JobRecord> {
    let mut jobs = Vec::new();
    for state in [
        JobState::Held,
        JobState::Scheduled,
        JobState::Ready,
        JobState::Active,
    ] {
        let mut list = List {
            by: ListBy::State {
                queue: J::QUEUE.into(),
                state,
            },
            filter: Filter {
                kind: Some(J::KIND.into()),
                ..Filter::default()
            },
            cursor: None,
            limit: 1_000,
            payloads: true,
        };
        loop {
            let listing = engine
                .list(&Namespace::default(), list.clone())
                .await
                .expect("the engine lists its jobs");
            jobs.extend(listing.jobs);
            list.cursor = listing.cursor;
            if list.cursor.is_none() {
                break;
            }
        }
    }
    jobs
}
