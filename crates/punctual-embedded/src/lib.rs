//! The durable engine in one directory.

mod activity;
mod backup;
mod calls;
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
