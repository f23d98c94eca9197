//! Durable delayed jobs on Redis or Valkey, for many processes and hosts.
//!
//! [`RedisEngine`] keeps the law of [`punctual::engine`] in functions that it loads into the servers;
//! `docs/wire-protocol.md` says how any other client calls them.

mod access;
mod address;
mod calls;
mod clock;
mod wakeup_listener;
mod engine;
mod examine;
mod batcher;
mod maintenance;
mod library;
mod link;
mod refresh;
mod node;
mod claim_cache;
mod options;
mod dispatcher;
mod error_mapping;
mod replicas;
mod servers;
mod shards;
mod server_info;
mod outbox_acks;
#[cfg(feature = "testing")]
pub mod testing;
mod topology;
mod truncated_aof;
mod uninitialised;
mod verbs;
mod waiting;
mod wire;

pub use access::ACL_RULES;
pub use engine::RedisEngine;
pub use options::Options;
pub use server_info::ServerInfo;
