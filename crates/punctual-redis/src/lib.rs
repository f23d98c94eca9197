//! Durable delayed jobs on Redis or Valkey, for many processes and hosts.
//!
//! [`RedisEngine`] keeps the law of [`punctual::engine`] in functions that it loads into servers.
//!
//! ```no_run
//! use punctual::{NewJob, Queue, time::minutes};
//! use punctual_redis::RedisEngine;
//!
//! # async fn example() -> punctual::Result<()> {
//! let engine = RedisEngine::connect("redis://127.0.0.1".parse()?).await?;
//! let queue = Queue::new(engine);
//! queue.enqueue_job(NewJob::new("mail", "{}")).delay(minutes(30)).await?;
//! # Ok(()) }
//! ```
//!
//! # Where to start
//! - Connect to a server, sentinels or a cluster: [`RedisEngine::connect`], with the address and
//!   its options in [`Options`].
//! - Check how servers are set up: [`RedisEngine::examine`]. A user for them: [`ACL_RULES`].
//! - What each durability may lose, and faults: `docs/engines/redis.md`.
//! - Call the functions from another language: `docs/wire-protocol.md`.

mod access;
mod engine;
mod flows;
mod health;
mod library;
mod named;
mod options;
mod policy;
mod servers;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod verbs;
mod wakeup;
mod wire;

pub use access::ACL_RULES;
pub use engine::RedisEngine;
pub use options::Options;
pub use policy::server_info::ServerInfo;
pub use verbs::clock::ShardClock;
pub use verbs::key_sizes::KeySize;
