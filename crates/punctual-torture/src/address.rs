//! Turns an address into an engine: for a client, which need not be a person.

use std::path::Path;
use std::sync::Arc;

use punctual::engine::Durability;
use punctual::time::parse_span;
use punctual::{Engine, Error, ErrorKind, Result};
use punctual_client::{HttpEngine, Transport};
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_redis::RedisEngine;

use crate::injected;

/// The token that gateways of a run want.
pub(crate) const TOKEN: &str = "torture-torture-torture";

/// How the address of a directory begins.
pub(crate) const DIRECTORY: &str = "file:";

/// The address of a directory, without options.
pub(crate) fn of_directory(directory: &Path) -> String {
    format!("{DIRECTORY}{}", directory.display())
}

/// Opens the engine at an address: `file:DIR?durability=os`, `http://HOST:PORT`,
/// `https://HOST:PORT?ca=FILE`, or one of Redis.
pub(crate) async fn open(address: &str) -> Result<Arc<dyn Engine>> {
    if let Some(rest) = address.strip_prefix(DIRECTORY) {
        let (directory, options) = rest.split_once('?').unwrap_or((rest, ""));
        let options = embedded(options)?;
        return Ok(Arc::new(EmbeddedEngine::open(directory, options)?));
    }
    if let Some(rest) = address.strip_prefix("http://") {
        return Ok(Arc::new(gateway(rest, Transport::Plain)?));
    }
    if let Some(rest) = address.strip_prefix("https://") {
        return Ok(Arc::new(gateway(rest, Transport::Tls(None))?));
    }
    let options: punctual_redis::Options = address.parse()?;
    Ok(Arc::new(RedisEngine::connect(options).await?))
}

/// The option of a gateway that is not of the run: its token is in that variable of the
/// environment.
pub(crate) const TOKEN_OUTSIDE: &str = "token=PUNCTUAL_TOKEN";

fn gateway(rest: &str, mut transport: Transport) -> Result<HttpEngine> {
    let (authority, options) = rest.split_once('?').unwrap_or((rest, ""));
    let mut token = Some(TOKEN.to_owned());
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match (option.strip_prefix("ca="), &mut transport) {
            _ if option == TOKEN_OUTSIDE => token = std::env::var("PUNCTUAL_TOKEN").ok(),
            (Some(file), Transport::Tls(ca)) => *ca = Some(file.into()),
            _ => {
                let message = "address has an unknown option; one of a gateway by https has ca";
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
        }
    }
    let authority = authority.trim_end_matches('/');
    HttpEngine::connect_by(transport, authority, token.as_deref())
}

/// A text without the passwords of the addresses in it, for people.
pub(crate) fn hidden(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let word = match word.split_once("://") {
            Some((scheme, rest)) => match rest.rsplit_once('@') {
                Some((user, place)) if !user.contains('?') => {
                    let user = user.split(':').next().unwrap_or_default();
                    format!("{scheme}://{user}:{HIDDEN}@{place}")
                }
                _ => word.to_owned(),
            },
            None => word.to_owned(),
        };
        match word.split_once(PASSWORD) {
            Some((before, after)) => {
                let after = after.split_once('&').map_or("", |(_, after)| after);
                let and = if after.is_empty() { "" } else { "&" };
                format!("{before}{PASSWORD}{HIDDEN}{and}{after}")
            }
            None => word,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

const HIDDEN: &str = "***";
/// The option of an address that holds one.
const PASSWORD: &str = "sentinel_password=";

/// Small, so that a checkpoint is nearly always under way.
const CHECKPOINT_BYTES: usize = 400_000;
/// The end of a log segment syncs it whatever the interval, which is what is to be seen.
const CHECKPOINT_BYTES_SELDOM: usize = 64 << 20;

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
            let span = injected::interval(parse_span(span)?);
            read = read
                .durability(Durability::Interval(span))
                .checkpoint_bytes(CHECKPOINT_BYTES_SELDOM);
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
