//! The metrics of the gateway, and those that this process records.

mod buckets;
mod exposition;
mod metered_engine;
mod registry;

use std::collections::HashMap;
use std::sync::Mutex;

use metrics::{Counter, Histogram};
use punctual::engine::SettleVerdict;
use punctual::sync::Lock;
use punctual::{Namespace, Outcome};

pub(crate) use self::exposition::Exposition;
pub(crate) use self::metered_engine::MeteredEngine;
pub use self::registry::Registry;

/// Queues whose claims are counted by name; those that come later count as `other`.
const QUEUES_MAX: usize = 100;
/// What is not told apart by name any more.
pub(crate) const OTHER: &str = "other";

/// Handles to what the gateway counts.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    registry: Registry,
    requests: [Counter; 5],
    pub(crate) sockets: metrics::Gauge,
    pub(crate) body_bytes: metrics::Gauge,
    claimed: Mutex<HashMap<Namespace, Claims>>,
    settled: [Counter; OUTCOMES.len()],
    retries: Counter,
    lease_lost: Counter,
    lateness: Histogram,
    run_time: Histogram,
}

/// What is shown to one caller of what all in this process count together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// What workers in this process count by queue.
    pub(crate) queues: bool,
    /// What the engine counts of its store.
    pub(crate) engine: bool,
}

/// What the engine counts of its store.
const OF_THE_ENGINE: &str = "punctual_fsync_seconds";

/// Jobs of a namespace that were claimed, by queue: nobody else sees its queues' names.
type Claims = HashMap<String, u64>;

const OUTCOMES: [&str; 6] = [
    "completed",
    "retry",
    "snooze",
    "cancelled",
    "dead",
    "released",
];

impl GatewayMetrics {
    pub(crate) fn new(registry: Registry) -> Self {
        let requests = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        Self {
            requests: requests.map(|status| {
                registry.count("punctual_http_requests_total", &[("status", status)])
            }),
            sockets: registry.gauge("punctual_sockets"),
            body_bytes: registry.gauge("punctual_body_bytes"),
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
    fn claimed(&self, namespace: &Namespace, queue: &str) {
        let mut claimed = self.claimed.locked();
        let claims = match claimed.get_mut(namespace) {
            Some(claims) => claims,
            None => claimed.entry(namespace.clone()).or_default(),
        };
        let name = match claims.len() < QUEUES_MAX || claims.contains_key(queue) {
            true => queue,
            false => OTHER,
        };
        match claims.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = claims.insert(name.to_owned(), 1),
        }
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

    /// Adds everything that was counted in this process; queues are named to their own namespace alone.
    ///
    pub(crate) fn write(&self, page: &mut Exposition, namespace: &Namespace, shown: Shown) {
        let claimed = self.claimed.locked();
        let claims = claimed.get(namespace).into_iter().flatten();
        let mut claims: Vec<_> = claims
            .map(|(queue, count)| (format!("queue=\"{queue}\""), *count))
            .collect();
        claims.sort();
        drop(claimed);
        self.registry
            .write(page, ("punctual_claimed_total", claims), shown);
    }
}
