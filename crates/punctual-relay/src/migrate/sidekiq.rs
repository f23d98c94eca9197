//! Sidekiq: JSON in a list per queue, and in sorted sets that all queues share.

use async_trait::async_trait;
use bytes::Bytes;
use punctual::Result;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::Address;
use super::found::{Foreign, Format, Found, Place, Read, Shape, of_number};
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
}

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
        let mut headers = vec![("sidekiq-jid".to_owned(), item.jid)];
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
            kind: item.class,
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
