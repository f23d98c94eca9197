//! Sidekiq: JSON in a list per queue, and in sorted sets that all queues share.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::Result;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::Address;
use super::found::{Foreign, Format, Found, HEADER_BYTES, Place, Read, Shape, of_number};
use super::there::names_in;
use crate::redis::Connection;

#[derive(Debug)]
pub(super) struct Sidekiq {
    queue: String,
    prefix: String,
}

impl Sidekiq {
    pub(super) fn new(address: &Address) -> Self {
        let prefix = address.prefix.as_ref();
        Self {
            queue: address.queue.clone(),
            prefix: prefix.map_or(String::new(), |prefix| format!("{prefix}:")),
        }
    }
}

/// Attempts after the first, where a class says no number.
const RETRIES: u32 = 25;

#[derive(Debug, Deserialize)]
struct Item<'a> {
    class: String,
    #[serde(borrow)]
    args: &'a RawValue,
    jid: String,
    queue: Option<String>,
    retry: Option<Retry>,
    created_at: Option<f64>,
    failed_at: Option<f64>,
    retried_at: Option<f64>,
    retry_count: Option<u32>,
    error_class: Option<String>,
    error_message: Option<String>,
    /// Of a batch of Sidekiq Pro.
    bid: Option<String>,
    encrypt: Option<bool>,
    /// The class that ActiveJob runs: `class` is its wrapper then.
    wrapped: Option<String>,
}

/// The fields above. What else is there are options of newer versions and of plugins.
const KNOWN: [&str; 14] = [
    "class",
    "args",
    "jid",
    "queue",
    "retry",
    "created_at",
    "failed_at",
    "retried_at",
    "retry_count",
    "error_class",
    "error_message",
    "bid",
    "encrypt",
    "wrapped",
];

/// Fields that mean nothing once a job is here: instants of Sidekiq's own, and what it notes of
/// errors beside their text.
const NOTES: [&str; 5] = [
    "enqueued_at",
    "error_backtrace",
    "backtrace",
    "at",
    "discarded_at",
];
/// A lock that a plugin or Sidekiq Enterprise holds on Redis until the job has run there.
const LOCKS: [&str; 5] = [
    "lock",
    "lock_digest",
    "unique_digest",
    "unique_for",
    "unique_token",
];

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Retry {
    Some(bool),
    Times(u32),
}

#[async_trait]
impl Format for Sidekiq {
    async fn check(&self, _: &mut Connection) -> Result<Option<String>> {
        Ok(None)
    }

    fn places(&self, _: bool) -> Vec<Place> {
        let place =
            |name: &str, shape, state| Place::new(format!("{}{name}", self.prefix), shape, state);
        vec![
            place(&format!("queue:{}", self.queue), Shape::Tail, "queue"),
            place("schedule", Shape::Sorted, "schedule"),
            place("retry", Shape::Sorted, "retry"),
            place("dead", Shape::Sorted, "dead"),
        ]
    }

    async fn queues(&self, connection: &mut Connection) -> Result<Vec<String>> {
        names_in(connection, &format!("{}queues", self.prefix)).await
    }

    async fn is_paused(&self, connection: &mut Connection) -> Result<bool> {
        // A set of Sidekiq Pro.
        let paused = names_in(connection, &format!("{}paused", self.prefix)).await?;
        Ok(paused.contains(&self.queue))
    }

    fn name(&self, item: &[u8]) -> String {
        serde_json::from_slice::<Item<'_>>(item).map_or_else(
            |_| String::from_utf8_lossy(item).into_owned(),
            |item| item.jid,
        )
    }

    fn read(&self, found: &Found) -> Read {
        let Ok(item) = serde_json::from_slice::<Item<'_>>(&found.item) else {
            return Read::Stays("it is no job of Sidekiq".into());
        };
        let is_shared = found.state != "queue";
        if is_shared && item.queue.as_deref().unwrap_or("default") != self.queue {
            return Read::OfAnother;
        }
        if item.bid.is_some() {
            return Read::Stays("it is of a batch".into());
        }
        let fields: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_slice(&found.item);
        let more = fields.unwrap_or_default();
        if LOCKS.iter().any(|lock| more.contains_key(*lock)) {
            return Read::Stays("it holds a lock of a plugin: let Sidekiq run it".into());
        }
        let mut headers = vec![("sidekiq-jid".to_owned(), item.jid)];
        for (name, value) in more {
            if KNOWN.contains(&name.as_str()) || NOTES.contains(&name.as_str()) {
                continue;
            }
            let name = format!("sidekiq-{name}");
            if value.get().len() > HEADER_BYTES || name.len() > HEADER_BYTES || !is_plain(&name) {
                return Read::Stays("an option of it does not fit into a header".into());
            }
            headers.push((name, value.get().to_owned()));
        }
        if item.wrapped.is_some() {
            headers.push(("sidekiq-class".to_owned(), item.class.clone()));
        }
        if item.encrypt == Some(true) {
            headers.push(("sidekiq-encrypted".to_owned(), "true".to_owned()));
        }
        let retries = match item.retry {
            None | Some(Retry::Some(true)) => RETRIES,
            Some(Retry::Some(false)) => 0,
            Some(Retry::Times(times)) => times.min(1_000_000),
        };
        let failures = item.retry_count.map_or(0, |count| count.saturating_add(1));
        let error = match (item.error_class, item.error_message) {
            (Some(class), Some(message)) => Some(format!("{class}: {message}")),
            (class, message) => class.or(message),
        };
        let is_dead = found.state == "dead";
        Read::Job(Box::new(Foreign {
            kind: item.wrapped.unwrap_or(item.class),
            payload: Bytes::copy_from_slice(item.args.get().as_bytes()),
            due: found
                .score
                .filter(|_| is_shared && !is_dead)
                .and_then(of_number),
            max_attempts: Some(retries + 1),
            enqueued_at: item.created_at.and_then(of_number),
            failures: failures.min(1_000_000),
            last_error: error,
            failed_at: item.retried_at.or(item.failed_at).and_then(of_number),
            is_dead,
            headers,
            ..Foreign::default()
        }))
    }
}

/// Whether a text can name a header.
fn is_plain(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    name.bytes().all(allowed)
}
