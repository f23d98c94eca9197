//! Servers that tests start, stop and kill, a proxy before them, and bugs in their functions.

mod cli;
mod cluster;
mod injected;
mod proxy;
mod replies;
mod sentinels;
mod server;

pub use cli::ask;
pub use cluster::{SlotMove, TestCluster};
pub(crate) use injected::{inject, injected};
pub use proxy::{Ending, TestProxy, Way, Weather};
pub use replies::read_replies;
pub use sentinels::TestSentinels;
pub use server::TestServer;
