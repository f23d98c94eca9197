//! The durable engine in one directory.
//!
//! [`EmbeddedEngine`] writes each change to a commit log and answers after the sync. It needs no
//! server. A kill at any moment loses nothing that was acknowledged.
//!
//! ```
//! use punctual::{NewJob, Queue};
//! use punctual_embedded::{EmbeddedEngine, Options};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let parent = tempfile::tempdir().unwrap();
//! # let directory = parent.path().join("data");
//! let queue = Queue::new(EmbeddedEngine::open(&directory, Options::default())?);
//! let receipt = queue.enqueue_job(NewJob::new("mail", "{}")).await?;
//! drop(queue); // waits until the engine has closed
//!
//! let queue = Queue::new(EmbeddedEngine::open(&directory, Options::default())?);
//! assert!(queue.get(receipt.id).await?.is_some());
//! # Ok::<(), punctual::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Where to start
//! - Open a directory: [`EmbeddedEngine::open`], with the durability in [`Options`].
//! - Copy it while it runs: [`backup`] and [`restore`].
//! - After damage: [`verify`] and [`repair`].
//! - The format on disk: `FORMAT.md` beside the sources.

mod activity;
mod backup;
mod call_queue;
mod checkpoint;
mod committer;
pub mod disk;
mod engine;
mod lock;
mod log;
mod marker;
mod opening;
mod options;
mod repair;
mod space;
pub mod store;
mod syncing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use backup::{Copied, backup, restore};
pub use engine::EmbeddedEngine;
pub use opening::Opened;
pub use options::Options;
pub use repair::{Cut, Repaired, repair, verify};

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
