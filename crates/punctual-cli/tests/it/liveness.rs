//! What has to happen in the end, on real processes and servers: innocents run, idle workers are
//! quiet, and what was done leaves nothing behind.

/// A hundred workers with nothing to do.
mod idle;
/// Many jobs come and go.
mod soak;
/// One job that ends its worker, among others that do not.
mod suspects;
/// Claims that wait at gateways, and go.
mod waiters;

use std::sync::Arc;

use punctual::{Engine, Namespace};
use punctual_client::HttpEngine;
use punctual_redis::RedisEngine;

const QUEUE: &str = "orders";

fn here() -> Namespace {
    Namespace::default()
}

/// The engine at an address: of Redis, or of the process that holds a directory.
async fn engine(address: &str) -> Arc<dyn Engine> {
    if let Some(directory) = address.strip_prefix("file:") {
        return Arc::new(HttpEngine::in_directory(directory.as_ref()));
    }
    let options = address.parse().expect("a good address");
    let engine = RedisEngine::connect(options).await;
    Arc::new(engine.expect("the server is there"))
}
