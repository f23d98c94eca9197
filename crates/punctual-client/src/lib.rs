//! A remote gateway as an engine: whatever takes an engine takes this one.
//!
//! ```no_run
//! use punctual::{NewJob, Queue};
//! use punctual_client::HttpEngine;
//!
//! # async fn example() -> punctual::Result<()> {
//! let engine = HttpEngine::connect("127.0.0.1:4180", Some("the token that serve printed"))?;
//! let queue = Queue::new(engine);
//! queue.enqueue_job(NewJob::new("mail", "{}")).await?;
//! # Ok(()) }
//! ```
//!
//! # Where to start
//! - By address: [`HttpEngine::connect`]; by TLS: [`HttpEngine::connect_by`] and a [`Transport`].
//! - By the socket in a directory of another process: [`HttpEngine::in_directory`]. The crate
//!   `punctual-directory` chooses between that and opening the directory.
//! - A worker on it needs the gateway only: `punctual::Worker::new(engine)`.

mod activity;
mod connection;
mod engine;
mod tls;

pub use connection::Transport;
pub use engine::HttpEngine;
