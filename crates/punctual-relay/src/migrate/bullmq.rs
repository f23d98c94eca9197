//! BullMQ 5 and 6: ids in lists and sorted sets, a hash per job.

use async_trait::async_trait;
use punctual::time::{hours, millis};
use punctual::{Error, ErrorKind, Result, RetryPolicy};
use serde::Deserialize;

use super::address::Address;
use super::found::{Foreign, Format, Found, Place, Read, Shape, of_millis};
use super::there::names_like;
use crate::redis::Connection;

/// The major versions whose dumps are among the fixtures.
const MAJORS: [&str; 2] = ["5", "6"];

#[derive(Debug)]
pub(super) struct Bullmq {
    /// `bull:`.
    prefix: String,
    /// `bull:QUEUE`.
    base: String,
}

impl Bullmq {
    pub(super) fn new(address: &Address) -> Self {
        let prefix = address.prefix.as_deref().unwrap_or("bull");
        Self {
            prefix: format!("{prefix}:"),
            base: format!("{prefix}:{}", address.queue),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Options {
    attempts: Option<u32>,
    backoff: Option<Backoff>,
}

/// A number, in older jobs, or an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Backoff {
    Fixed(f64),
    Of { r#type: String, delay: Option<f64> },
}

#[async_trait]
impl Format for Bullmq {
    async fn check(&self, connection: &mut Connection) -> Result<Option<String>> {
        let meta = format!("{}:meta", self.base);
        let mut command = redis::cmd("TYPE");
        let held: String = connection.ask(command.arg(&meta)).await?;
        if held != "hash" && held != "none" {
            let message = "the key is no hash, as BullMQ writes it; check the queue and the prefix";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with("key", meta).with("type", held));
        }
        let mut command = redis::cmd("HGET");
        command.arg(meta).arg("version");
        let version: Option<String> = connection.ask(&command).await?;
        let Some(version) = version else {
            let message = "no queue of BullMQ 5 or 6 has that name; check the queue and the prefix";
            return Err(Error::new(ErrorKind::NotFound, message).with("key", &self.base));
        };
        let major = version
            .strip_prefix("bullmq:")
            .and_then(|rest| rest.split('.').next());
        match major.is_some_and(|major| MAJORS.contains(&major)) {
            true => Ok(Some(version)),
            false => {
                let message = "the queue was written by an unknown version of BullMQ; 5 and 6 are \
                               known";
                Err(Error::new(ErrorKind::Unsupported, message).with("version", version))
            }
        }
    }

    fn places(&self, workers_stopped: bool) -> Vec<Place> {
        let place = |name, shape| Place::new(format!("{}:{name}", self.base), shape, name);
        let active = place("active", Shape::Tail);
        vec![
            place("wait", Shape::Tail),
            place("paused", Shape::Tail),
            place("prioritized", Shape::Sorted),
            place("delayed", Shape::Sorted),
            place("failed", Shape::Sorted),
            match workers_stopped {
                true => active,
                false => active.stays("a worker has it; stop all and use --workers-stopped"),
            },
            place("waiting-children", Shape::Sorted).stays("flow: it waits for its children"),
            place("completed", Shape::Sorted).stays("it is done"),
            place("repeat", Shape::Sorted).stays("make it with `punctual schedules set`"),
        ]
    }

    fn hash_key(&self, name: &str) -> Option<String> {
        Some(format!("{}:{name}", self.base))
    }

    fn related(&self, name: &str) -> Vec<(String, &'static str)> {
        let waits = "flow: it waits for its children";
        let has = "flow: the results of its children are beside it";
        let ends = [
            ("dependencies", waits),
            ("processed", has),
            ("failed", has),
            ("unsuccessful", has),
        ];
        let key = |(end, why)| (format!("{}:{name}:{end}", self.base), why);
        ends.map(key).into()
    }

    async fn queues(&self, connection: &mut Connection) -> Result<Vec<String>> {
        names_like(connection, (&self.prefix, ":meta")).await
    }

    async fn is_paused(&self, connection: &mut Connection) -> Result<bool> {
        let mut command = redis::cmd("HEXISTS");
        command.arg(format!("{}:meta", self.base)).arg("paused");
        connection.ask(&command).await
    }

    fn wakes(&self) -> Option<String> {
        Some(format!("{}:marker", self.base))
    }

    fn read(&self, found: &Found) -> Read {
        let stays = |why: &str| Read::Stays(why.to_owned());
        if found.item.starts_with(b"0:") {
            return stays("it is a marker of an older version");
        }
        if found.fields.is_empty() {
            return stays("its hash is missing");
        }
        if found.fields.contains_key("rjk") {
            return stays("scheduler: make it with `punctual schedules set`");
        }
        if found.fields.contains_key("parentKey") {
            return stays("flow: a parent waits for it");
        }
        let (Some(name), Some(data)) = (found.text("name"), found.fields.get("data")) else {
            return stays("its hash has no name or no data");
        };
        let options = serde_json::from_str::<Options>(found.text("opts").unwrap_or("{}"));
        let Ok(options) = options else {
            return stays("its opts are malformed");
        };
        let mut headers = Vec::new();
        let retry = match options.backoff {
            None => Some(RetryPolicy::fixed(millis(0))),
            Some(Backoff::Fixed(ms)) => Some(RetryPolicy::fixed(span(ms))),
            Some(Backoff::Of { r#type, delay }) => match r#type.as_str() {
                "fixed" => Some(RetryPolicy::fixed(span(delay.unwrap_or(0.0)))),
                "exponential" => Some(RetryPolicy::Exponential {
                    base: span(delay.unwrap_or(0.0)),
                    factor: 2.0,
                    cap: hours(24 * 90),
                    jitter: false,
                }),
                // A strategy of the application's own: its name is all that is there.
                other => {
                    headers.push(("migrated-backoff".to_owned(), other.to_owned()));
                    None
                }
            },
        };
        let due = match (found.state, found.score) {
            ("delayed", Some(score)) => of_millis((score / 4096.0).floor().max(0.0) as u64),
            _ => None,
        };
        let priority = found.number("priority").unwrap_or(0).min(9);
        Read::Job(Box::new(Foreign {
            kind: name.to_owned(),
            payload: data.clone(),
            due,
            priority: u8::try_from(priority).ok(),
            max_attempts: Some(options.attempts.unwrap_or(1).clamp(1, 1_000_000)),
            retry: retry.filter(|retry| retry.check().is_ok()),
            enqueued_at: found.number("timestamp").and_then(of_millis),
            failures: found.number("atm").unwrap_or(0).min(1_000_000) as u32,
            last_error: found.text("failedReason").map(str::to_owned),
            failed_at: (found.number("finishedOn"))
                .or(found.number("processedOn"))
                .and_then(of_millis),
            is_dead: found.state == "failed",
            headers,
            ..Foreign::default()
        }))
    }
}

fn span(ms: f64) -> std::time::Duration {
    millis(ms.clamp(0.0, 90.0 * 86_400_000.0) as u64)
}
