//! A gateway elsewhere as an engine: whatever takes an engine takes this one.
//!
//! ```no_run
//! # async fn example() -> punctual::Result<()> {
//! use punctual::Queue;
//! use punctual_client::HttpEngine;
//!
//! let engine = HttpEngine::connect("127.0.0.1:4180", Some("the token that serve printed"))?;
//! let queue = Queue::new(engine);
//! # Ok(()) }
//! ```

mod activity;
mod connection;
mod engine;
mod tls;

pub use connection::Transport;
pub use engine::HttpEngine;
