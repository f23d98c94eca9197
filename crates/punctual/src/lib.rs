//! Durable delayed jobs, on time.
//!
//! An application enqueues jobs with a [`Queue`] and runs them with a [`Worker`]. Both work on any
//! [`Engine`]: the [`MemoryEngine`] here, or the engines of the crates `punctual-embedded` (one
//! directory), `punctual-redis` (many hosts) and `punctual-client` (a gateway).
//!
//! ```
//! use std::sync::Arc;
//!
//! use punctual::time::{millis, seconds};
//! use punctual::{Job, MemoryEngine, Queue, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct CancelUnpaid { order: u64 }
//! impl Job for CancelUnpaid {
//!     const KIND: &str = "orders.cancel_unpaid";
//!     const QUEUE: &str = "orders";
//! }
//!
//! async fn cancel_unpaid(job: CancelUnpaid) {
//!     println!("order {} was not paid in time", job.order);
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let engine = Arc::new(MemoryEngine::new());
//! let queue = Queue::new(&engine);
//! let job = queue.enqueue(CancelUnpaid { order: 7 }).delay(millis(20)).unique("order:7").await?;
//! // `queue.cancel(("orders", "order:7"))` cancels it when the payment comes.
//!
//! let settled = async move { drop(queue.wait_settled(job.id, seconds(10)).await) };
//! Worker::new(&engine).handle(cancel_unpaid).run_until(settled).await
//! # }).unwrap();
//! ```
//!
//! # Where to start
//! - Enqueue, cancel and read jobs: [`Queue`], and [`Job`] for a type of job.
//! - Run jobs: [`Worker`], with [`Context`] for the attempt and [`Outcome`] for its result.
//! - Failures: [`RetryPolicy`], and [`queue::dead_letters`] for jobs that used up their attempts.
//! - Test with virtual time: [`time::ManualClock`] and [`MemoryEngine`].
//! - Write an engine: the trait [`Engine`] and the module [`engine`], then the conformance suite.

#[doc(hidden)]
pub mod backoff;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod engine;
mod error;
pub mod flow;
#[doc(hidden)]
pub mod injected;
pub mod job;
pub mod lock;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod memory;
#[cfg(feature = "otel")]
mod otel;
#[doc(hidden)]
pub mod push;
pub mod queue;
mod retry;
pub mod schedule;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod testing;
pub mod time;
pub mod topic;
#[doc(hidden)]
pub mod trace;
#[cfg(feature = "wire")]
#[doc(hidden)]
pub mod wire;
pub mod worker;

pub use engine::{Engine, Namespace};
pub use error::{Error, ErrorKind, Result};
pub use job::{
    Due, Effect, Group, Hold, Job, JobId, JobRecord, JobState, Limits, NewJob, OnRetry, Outcome,
    Unique, UniquePolicy,
};
pub use memory::MemoryEngine;
pub use queue::Queue;
pub use retry::RetryPolicy;
pub use worker::{Context, Worker, shutdown_signal};
