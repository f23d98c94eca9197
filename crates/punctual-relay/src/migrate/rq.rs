//! RQ: ids in lists and sorted sets, a hash per job. The call is a compressed pickle, which stays
//! opaque.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use punctual::time::seconds;
use punctual::{Result, RetryPolicy};

use super::address::Address;
use super::found::{Foreign, Format, Found, HEADER_BYTES, Place, Read, Shape, of_number, of_text};
use super::there::names_in;
use crate::redis::Connection;

#[derive(Debug)]
pub(super) struct Rq {
    queue: String,
}

impl Rq {
    pub(super) fn new(address: &Address) -> Self {
        Self {
            queue: address.queue.clone(),
        }
    }
}

/// Fields of what nothing here does for a job that is a pickle.
const STAYS: [(&str, &str); 5] = [
    ("success_callback_name", CALLBACK),
    ("failure_callback_name", CALLBACK),
    ("stopped_callback_name", CALLBACK),
    (
        "repeats_left",
        "it repeats: make it with `punctual schedules set`",
    ),
    ("serializer", "its serializer is not known"),
];
const CALLBACK: &str = "callback: RQ calls a function after it";

/// The pauses before retries, in seconds.
fn intervals_of(found: &Found) -> serde_json::Result<Vec<u64>> {
    serde_json::from_str(found.text("retry_intervals").unwrap_or("[]"))
}

/// How long a job waits in its queue before RQ drops it.
fn ttl_of(found: &Found) -> Result<Option<Duration>, std::num::ParseIntError> {
    let ttl = found.text("ttl").map(str::parse::<i64>).transpose()?;
    let ttl = ttl.and_then(|ttl| u64::try_from(ttl).ok());
    Ok(ttl.map(|ttl| seconds(ttl.min(SECONDS_MAX))))
}

/// A hundred years: an instant that far away is one that an engine has.
const SECONDS_MAX: u64 = 100 * 366 * 86_400;

#[async_trait]
impl Format for Rq {
    async fn check(&self, _: &mut Connection) -> Result<Option<String>> {
        Ok(None)
    }

    fn places(&self, workers_stopped: bool) -> Vec<Place> {
        let place = |name, shape| Place::new(format!("rq:{name}:{}", self.queue), shape, name);
        let begun = place("wip", Shape::Sorted);
        vec![
            place("queue", Shape::Head),
            place("scheduled", Shape::Sorted),
            place("failed", Shape::Sorted),
            match workers_stopped {
                true => begun,
                false => begun.stays("a worker has it; stop all and use --workers-stopped"),
            },
            place("deferred", Shape::Sorted).stays("it waits for another job"),
            place("finished", Shape::Sorted).stays("it is done"),
            place("canceled", Shape::Sorted).stays("it is cancelled"),
        ]
    }

    fn related(&self, name: &str) -> Vec<(String, &'static str)> {
        let waits = "another job waits for it: let RQ run both";
        vec![(format!("rq:job:{name}:dependents"), waits)]
    }

    async fn queues(&self, connection: &mut Connection) -> Result<Vec<String>> {
        let keys = names_in(connection, "rq:queues").await?;
        let names = keys.iter().filter_map(|key| key.strip_prefix("rq:queue:"));
        Ok(names.map(str::to_owned).collect())
    }

    async fn is_paused(&self, connection: &mut Connection) -> Result<bool> {
        let mut command = redis::cmd("EXISTS");
        connection.ask(command.arg("rq:suspended")).await
    }

    fn hash_key(&self, name: &str) -> Option<String> {
        Some(format!("rq:job:{name}"))
    }

    fn name(&self, item: &[u8]) -> String {
        let text = String::from_utf8_lossy(item);
        // What a worker has begun is `JOB:EXECUTION`.
        text.split(':').next().unwrap_or_default().to_owned()
    }

    fn read(&self, found: &Found) -> Read {
        let stays = |why: &str| Read::Stays(why.to_owned());
        let Some(data) = found.fields.get("data") else {
            return stays("its hash is missing, or has no data");
        };
        let dependencies = found.text("dependency_ids").unwrap_or("[]");
        if found.state == "queue" && dependencies != "[]" {
            // Its dependency is done: nothing holds it any more.
        } else if dependencies != "[]" {
            return stays("it waits for another job");
        }
        for (field, why) in STAYS {
            if found.text(field).is_some_and(|text| text != "0") {
                return stays(why);
            }
        }
        let (Ok(intervals), Ok(ttl)) = (intervals_of(found), ttl_of(found)) else {
            return stays("its retry_intervals or ttl is malformed");
        };
        let described = found.text("description").unwrap_or_default();
        let (kind, _) = described.split_once('(').unwrap_or((described, ""));
        let retries = found.number("retries_left").unwrap_or(0).min(1_000_000);
        let spans = intervals.into_iter().map(seconds).collect::<Vec<_>>();
        let retry = RetryPolicy::List(spans);
        let is_dead = found.state == "failed";
        let due = found
            .score
            .filter(|_| found.state == "scheduled")
            .and_then(of_number);
        // RQ counts the ttl from the instant at which the job is put into its queue.
        let queued = due.or_else(|| found.text("enqueued_at").and_then(of_text));
        let expires_at = match (ttl, queued) {
            (Some(ttl), Some(queued)) if !is_dead => Some(queued + ttl),
            (Some(_), None) if !is_dead => return stays("it has a ttl, and no enqueued_at"),
            _ => None,
        };
        let mut headers = vec![("rq-encoding".to_owned(), "zlib, pickle".to_owned())];
        if let Some(meta) = found.fields.get("meta").filter(|meta| !meta.is_empty()) {
            let meta = BASE64_STANDARD.encode(meta);
            if meta.len() > HEADER_BYTES {
                return stays("its meta is too large for a header");
            }
            headers.push(("rq-meta".to_owned(), meta));
        }
        if let Some(group) = found.text("group_id") {
            headers.push(("rq-group".to_owned(), group.to_owned()));
        }
        Read::Job(Box::new(Foreign {
            kind: kind.to_owned(),
            payload: data.clone(),
            content_type: Some("application/octet-stream"),
            due,
            expires_at,
            max_attempts: Some(1 + retries as u32),
            retry: retry.check().is_ok().then_some(retry),
            timeout: found.number("timeout").filter(|of| *of > 0).map(seconds),
            enqueued_at: found.text("created_at").and_then(of_text),
            failures: u32::from(is_dead),
            last_error: (found.text("exc_info"))
                .filter(|_| is_dead)
                .map(str::to_owned),
            failed_at: found.text("ended_at").and_then(of_text),
            is_dead,
            headers,
            ..Foreign::default()
        }))
    }
}
