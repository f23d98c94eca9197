//! RQ: ids in lists and sorted sets, a hash per job. The call is a compressed pickle, which stays
//! opaque.

use async_trait::async_trait;
use punctual::time::seconds;
use punctual::{Result, RetryPolicy};

use super::address::Address;
use super::found::{Foreign, Format, Found, Place, Read, Shape, of_number, of_text};
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
        let described = found.text("description").unwrap_or_default();
        let (kind, _) = described.split_once('(').unwrap_or((described, ""));
        let retries = found.number("retries_left").unwrap_or(0).min(1_000_000);
        let intervals = found.text("retry_intervals").unwrap_or("[]");
        let intervals: Vec<u64> = serde_json::from_str(intervals).unwrap_or_default();
        let spans = intervals.into_iter().map(seconds).collect::<Vec<_>>();
        let retry = RetryPolicy::List(spans);
        let is_dead = found.state == "failed";
        Read::Job(Box::new(Foreign {
            kind: kind.to_owned(),
            payload: data.clone(),
            content_type: Some("application/octet-stream"),
            due: found
                .score
                .filter(|_| found.state == "scheduled")
                .and_then(of_number),
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
            headers: vec![("rq-encoding".into(), "zlib, pickle".into())],
            ..Foreign::default()
        }))
    }
}
