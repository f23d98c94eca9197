use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, counter};

use crate::engine::Receipt;
use crate::job::NewJob;

/// Counters per (queue, kind, verdict), looked up in a map of our own, not in the recorder.
///
/// Names that users make up must not become endless series: past a bound they count as `other`.
#[derive(Default)]
pub(super) struct Meters(Mutex<HashMap<String, HashMap<String, Verdicts>>>);

type Verdicts = HashMap<&'static str, Counter>;

/// Queues, and kinds per queue, that are counted by name.
const NAMES_MAX: usize = 100;
const OTHER: &str = "other";

impl Meters {
    pub(super) fn enqueued(&self, jobs: &[NewJob], receipts: &[Receipt]) {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (job, receipt) in jobs.iter().zip(receipts) {
            let queue = bounded(&queues, &job.queue);
            let kinds = named(&mut queues, queue);
            let kind = bounded(kinds, &job.kind);
            let verdict = receipt.verdict.name();
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
                .increment(1);
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
