//! Servers that tests start, stop and kill.

mod cluster;
mod server;

pub use cluster::TestCluster;
pub use server::TestServer;
