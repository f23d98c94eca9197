//! Sources on Redis or Valkey: lists, sorted sets and streams that producers already fill, delayed
//! queues of Redisson, keys that expire, and channels.
//!
//! A list and a sorted set give messages no names. So one script moves each message from the key
//! into a hash beside it, under the id that its job will have: the message is parked. The relay
//! stores the job, and then removes the message from the hash. A message that stays parked for 5 s
//! belonged to a relay that died: the next script hands it out again, under the same id.

mod connection;
mod expiry;
mod list;
mod parked;
mod pubsub;
mod redisson;
mod stream;
mod unit;
mod zset;

pub(crate) use connection::Connection;
pub use connection::Place;
pub use expiry::ExpirySource;
pub use list::{End, ListSource};
pub use pubsub::PubSubSource;
pub use redisson::RedissonSource;
pub use stream::StreamSource;
pub use unit::Unit;
pub use zset::ZsetSource;
