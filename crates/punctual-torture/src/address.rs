//! Turns an address into an engine: for a client, which need not be a person.

use std::path::Path;
use std::sync::Arc;

use punctual::engine::Durability;
use punctual::time::parse_span;
use punctual::{Engine, Error, ErrorKind, Result};
use punctual_client::HttpEngine;
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_redis::RedisEngine;

/// The token that gateways of a run want.
pub(crate) const TOKEN: &str = "torture-torture-torture";

/// How the address of a directory begins.
pub(crate) const DIRECTORY: &str = "file:";

/// The address of a directory, without options.
pub(crate) fn of_directory(directory: &Path) -> String {
    format!("{DIRECTORY}{}", directory.display())
}

/// Opens the engine at an address: `file:DIR?durability=os`, `http://HOST:PORT`, or one of Redis.
pub(crate) async fn open(address: &str) -> Result<Arc<dyn Engine>> {
    if let Some(rest) = address.strip_prefix(DIRECTORY) {
        let (directory, options) = rest.split_once('?').unwrap_or((rest, ""));
        let options = embedded(options)?;
        return Ok(Arc::new(EmbeddedEngine::open(directory, options)?));
    }
    if let Some(authority) = address.strip_prefix("http://") {
        return Ok(Arc::new(HttpEngine::connect(authority, Some(TOKEN))?));
    }
    let options: punctual_redis::Options = address.parse()?;
    Ok(Arc::new(RedisEngine::connect(options).await?))
}

/// Small, so that a checkpoint is nearly always under way.
const CHECKPOINT_BYTES: usize = 400_000;

fn embedded(options: &str) -> Result<Options> {
    let mut read = Options::default().checkpoint_bytes(CHECKPOINT_BYTES);
    match options.strip_prefix("durability=").unwrap_or(options) {
        "" | "fsync" => {}
        "os" => read = read.durability(Durability::Os),
        other => {
            let span = other
                .strip_prefix("interval(")
                .and_then(|rest| rest.strip_suffix(')'));
            let span = span.ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidInput,
                    "address has an unknown option; it has durability",
                )
            })?;
            read = read.durability(Durability::Interval(parse_span(span)?));
        }
    }
    Ok(read)
}
