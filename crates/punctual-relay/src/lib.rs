//! Jobs from the queues that people already have: supervised sources and sinks around an engine.
//!
//! A [`Source`] takes messages of another system, a [`Relay`] stores each as a job, and the source
//! removes them over there only after the engine's receipt. A relay may be killed at any point: the
//! messages come again under the same ids, and the engine answers `duplicate`.
//!
//! ```no_run
//! use punctual::MemoryEngine;
//! use punctual_relay::Relay;
//! use punctual_relay::redis::{ListSource, Place};
//!
//! # async fn run() -> punctual::Result<()> {
//! // What producers push to the list `mail` becomes jobs of the queue `mail`.
//! let list = ListSource::new(Place::new("127.0.0.1:6379", "mail")?, "mail");
//! let relay = Relay::new(MemoryEngine::new(), "mail")?;
//! relay.run_until(list, std::future::pending()).await
//! # }
//! ```
//!
//! # Where to start
//! - Run a source: [`Relay`], with its numbers in [`RelayHealth`].
//! - Sources on Redis: [`redis`]. Any other system: [`lines`], one JSON document per message.
//! - Move the jobs of BullMQ, Sidekiq, Celery or RQ: [`migrate`].
//! - Write a source in Rust: [`Open`] and [`Source`].
//! - What each source may lose or repeat: `docs/relay.md`.

mod health;
mod injected;
pub mod lines;
mod message;
pub mod migrate;
pub mod redis;
mod refused;
mod relay;
mod source;

pub use health::{RelayHealth, RelayNumbers, RelayState};
pub use message::{Message, content_type_of, foreign_id};
pub use relay::Relay;
pub use source::{Open, Refused, Source};
