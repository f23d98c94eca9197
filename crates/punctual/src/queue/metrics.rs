//! Metrics of a queue.

use std::collections::HashMap;
use std::sync::Mutex;

use metrics::{Counter, counter};

use crate::engine::Receipt;
use crate::job::NewJob;
use crate::sync::Lock;

/// Counters per (queue, kind, verdict), looked up in a map of our own, not in the recorder.
///
/// Names that users make up must not become endless series: past a bound they count as `other`.
#[derive(Default)]
pub(super) struct Metrics(Mutex<HashMap<String, HashMap<String, Verdicts>>>);

type Verdicts = HashMap<&'static str, Counter>;

/// Counts messages that were published: `matched` or `unmatched` by a call of their own, or
/// `with_outcome` of an attempt.
pub(crate) fn published(result: &'static str, messages: u64) {
    counter!("punctual_published_total", "result" => result).increment(messages);
}

/// Queues, and kinds per queue, that are counted by name.
const NAMES_MAX: usize = 100;
const OTHER: &str = "other";

impl Metrics {
    pub(super) fn enqueued(&self, jobs: &[NewJob], receipts: &[Receipt]) {
        let mut queues = self.0.locked();
        let names = |at: usize| {
            let (job, receipt) = (&jobs[at], &receipts[at]);
            (&*job.queue, &*job.kind, receipt.verdict.name())
        };
        let count = jobs.len().min(receipts.len());
        let mut at = 0;
        while at < count {
            // Most jobs of a call are counted alike.
            let (queue, kind, verdict) = names(at);
            let alike = (at..count).take_while(|next| names(*next) == (queue, kind, verdict));
            let alike = alike.count();
            at += alike;
            let queue = bounded(&queues, queue);
            let kinds = named(&mut queues, queue);
            let kind = bounded(kinds, kind);
            named(kinds, kind)
                .entry(verdict)
                .or_insert_with(|| {
                    counter!(
                        "punctual_enqueued_total",
                        "queue" => queue.to_owned(),
                        "kind" => kind.to_owned(),
                        "verdict" => verdict
                    )
                })
                .increment(alike as u64);
        }
    }
}

fn bounded<'a, V>(map: &HashMap<String, V>, name: &'a str) -> &'a str {
    if map.len() < NAMES_MAX || map.contains_key(name) {
        name
    } else {
        OTHER
    }
}

fn named<'a, V: Default>(map: &'a mut HashMap<String, V>, name: &str) -> &'a mut V {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), V::default());
    }
    map.get_mut(name)
        .unwrap_or_else(|| unreachable!("it was inserted above"))
}
