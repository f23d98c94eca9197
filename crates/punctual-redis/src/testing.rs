//! Servers that tests start, stop and kill.

mod cluster;
mod sentinels;
mod server;

pub use cluster::TestCluster;
pub use sentinels::TestSentinels;
pub use server::TestServer;
