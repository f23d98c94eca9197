//! Sources against real servers, with relays that are killed between any two steps.

mod drill;
mod lines;
mod redis_list;
mod redis_stream;
mod redis_zset;
mod refusals;
mod support;
