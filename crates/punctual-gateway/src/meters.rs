//! What the gateway itself counts, and what stands on `/metrics` of this process.

mod buckets;
mod measured;
mod page;
mod registry;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, Histogram};
use punctual::Outcome;
use punctual::engine::SettleVerdict;

pub(crate) use self::measured::Measured;
pub(crate) use self::page::Page;
pub use self::registry::Registry;

/// Queues whose claims are counted by name; those that come later count as `other`.
const QUEUES_MAX: usize = 100;
/// What is not told apart by name any more.
pub(crate) const OTHER: &str = "other";

/// Handles to what the gateway counts.
#[derive(Debug)]
pub(crate) struct Meters {
    registry: Registry,
    requests: [Counter; 5],
    pub(crate) sockets: metrics::Gauge,
    claimed: Mutex<HashMap<String, Counter>>,
    settled: [Counter; OUTCOMES.len()],
    retries: Counter,
    lease_lost: Counter,
    lateness: Histogram,
    run_time: Histogram,
}

const OUTCOMES: [&str; 6] = [
    "completed",
    "retry",
    "snooze",
    "cancelled",
    "dead",
    "released",
];

impl Meters {
    pub(crate) fn new(registry: Registry) -> Self {
        let requests = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        Self {
            requests: requests.map(|status| {
                registry.count("punctual_http_requests_total", &[("status", status)])
            }),
            sockets: registry.gauge("punctual_sockets"),
            claimed: Mutex::default(),
            settled: OUTCOMES
                .map(|outcome| registry.count("punctual_settled_total", &[("outcome", outcome)])),
            retries: registry.count("punctual_retries_total", &[]),
            lease_lost: registry.count("punctual_lease_lost_total", &[]),
            lateness: registry.spans("punctual_lateness_seconds", &[]),
            run_time: registry.spans("punctual_run_time_seconds", &[]),
            registry,
        }
    }

    /// Counts a request by the class of its status.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(class) = self.requests.get(usize::from(status / 100).wrapping_sub(1)) {
            class.increment(1);
        }
    }

    /// Counts a job that was claimed.
    fn claimed(&self, queue: &str) {
        let mut known = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match known.len() < QUEUES_MAX || known.contains_key(queue) {
            true => queue,
            false => OTHER,
        };
        if let Some(counter) = known.get(name) {
            return counter.increment(1);
        }
        let labels = [("queue", name)];
        let counter = self.registry.count("punctual_claimed_total", &labels);
        counter.increment(1);
        known.insert(name.to_owned(), counter);
    }

    /// Counts how an attempt ended, or that it had lost its lease.
    fn settled(&self, outcome: &Outcome, verdict: &SettleVerdict) {
        match verdict {
            SettleVerdict::LeaseLost => return self.lease_lost.increment(1),
            // It was counted the first time.
            SettleVerdict::Repeated => return,
            _ => {}
        }
        let at = match outcome {
            Outcome::Completed => 0,
            Outcome::Retry { .. } => 1,
            Outcome::Snooze { .. } => 2,
            Outcome::Cancelled => 3,
            Outcome::Dead => 4,
            Outcome::Released => 5,
            _ => return,
        };
        self.settled[at].increment(1);
        if at == 1 {
            self.retries.increment(1);
        }
    }

    /// Adds everything that was counted in this process.
    pub(crate) fn write(&self, page: &mut Page) {
        self.registry.write(page);
    }
}
