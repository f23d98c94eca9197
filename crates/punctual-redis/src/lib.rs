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
mod address;
mod batcher;
mod calls;
mod claim_cache;
mod clock;
mod dispatcher;
mod engine;
mod error_mapping;
mod examine;
mod library;
mod link;
mod maintenance;
mod node;
mod options;
mod outbox_acks;
mod refresh;
mod replicas;
mod server_info;
mod servers;
mod shards;
#[cfg(feature = "testing")]
pub mod testing;
mod topology;
mod truncated_aof;
mod uninitialised;
mod verbs;
mod waiting;
mod wakeup_listener;
mod wire;

pub use access::ACL_RULES;
pub use engine::RedisEngine;
pub use options::Options;
pub use server_info::ServerInfo;
