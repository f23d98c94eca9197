//! Durable delayed jobs on Redis.

mod address;
mod link;
mod options;
mod refusal;
#[cfg(feature = "testing")]
pub mod testing;

pub use options::Options;
