//! Durable delayed jobs on Redis or Valkey, for many processes and hosts.
//!
//! [`RedisEngine`] keeps the law of [`punctual::engine`] in functions that it loads into the servers;
//! `docs/wire-protocol.md` says how any other client calls them.

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
