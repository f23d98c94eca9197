//! Servers that tests start, stop and kill, and a proxy before them.

mod cluster;
mod proxy;
mod replies;
mod sentinels;
mod server;

pub use cluster::TestCluster;
pub use proxy::{Ending, TestProxy, Way, Weather};
pub use replies::read_replies;
pub use sentinels::TestSentinels;
pub use server::TestServer;
