//! Sources against real servers, with relays that are killed between any two steps.

mod drill;
mod injected;
mod lines;
mod migrate;
mod redis_expiry;
mod redis_list;
mod redis_pubsub;
mod redis_redisson;
mod redis_stream;
mod redis_zset;
mod refusals;
mod support;
