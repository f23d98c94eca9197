//! Durable delayed jobs, on time.
//!
//! The library an application imports: the model of a job and its law, the contract of engines,
//! the memory engine, and the worker.

pub mod backoff;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod dead_letters;
pub mod engine;
pub mod error;
pub mod injected;
pub mod job;
pub mod machine;
pub mod memory;
#[cfg(feature = "otel")]
mod otel;
pub mod push;
pub mod queue;
pub mod retry;
pub mod testing;
pub mod time;
pub mod trace;
#[cfg(feature = "wire")]
pub mod wire;
pub mod worker;

pub use engine::{Engine, Namespace};
pub use error::{Error, ErrorKind, Result};
pub use job::{
    Due, Effect, Group, Hold, Job, JobId, JobRecord, Limits, NewJob, OnRetry, Outcome, State,
    Unique, UniquePolicy,
};
pub use memory::MemoryEngine;
pub use queue::Queue;
pub use retry::RetryPolicy;
pub use worker::{Context, Worker, shutdown_signal};
