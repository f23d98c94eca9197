//! The metrics of the gateway, and those that this process records.

mod buckets;
mod exposition;
mod flows;
mod help;
mod measured_engine;
mod registry;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use metrics::Counter;
use punctual::Namespace;
use punctual::sync::Lock;

use self::work::Work;

pub(crate) use self::exposition::Exposition;
pub(crate) use self::flows::FlowsSeen;
pub(crate) use self::measured_engine::MeasuredEngine;
pub use self::registry::Registry;

/// Queues whose claims are counted by name; those that come later count as `other`.
const QUEUES_MAX: usize = 100;
/// The name of all that is not counted by its own name.
pub(crate) const OTHER: &str = "other";

/// Handles to what the gateway counts.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    registry: Registry,
    requests: [Counter; 5],
    pub(crate) sockets: metrics::Gauge,
    pub(crate) body_bytes: metrics::Gauge,
    pub(crate) flows: FlowsSeen,
    claimed: Mutex<HashMap<Namespace, Claims>>,
    works: Mutex<HashMap<Namespace, Arc<Work>>>,
    all_work: Arc<Work>,
}

/// What is shown to one caller of what all in this process count together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// What is counted for all namespaces as one; if not, the same of the caller's namespace.
    pub(crate) process: bool,
    /// What workers in this process count by queue.
    pub(crate) queues: bool,
    /// What the engine counts of its store.
    pub(crate) engine: bool,
}

/// Jobs that were sent, by verdict.
const ENQUEUED: &str = "punctual_enqueued_total";
/// What the engine counts of its store.
const OF_THE_ENGINE: &str = "punctual_fsync_seconds";

/// Jobs of a namespace that were claimed, by queue: no other namespace sees its queues' names.
type Claims = HashMap<String, u64>;

impl GatewayMetrics {
    pub(crate) fn new(registry: Registry) -> Self {
        let requests = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        Self {
            requests: requests.map(|status| {
                registry.count("punctual_http_requests_total", &[("status", status)])
            }),
            sockets: registry.gauge("punctual_sockets"),
            body_bytes: registry.gauge("punctual_body_bytes"),
            flows: FlowsSeen::default(),
            claimed: Mutex::default(),
            works: Mutex::default(),
            all_work: Arc::new(Work::of(registry.clone())),
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

    /// Where it is counted what workers did: of all namespaces, and of this one.
    fn work(&self, namespace: &Namespace) -> [Arc<Work>; 2] {
        [self.all_work.clone(), self.work_of(namespace)]
    }

    fn work_of(&self, namespace: &Namespace) -> Arc<Work> {
        let mut works = self.works.locked();
        if let Some(work) = works.get(namespace) {
            return work.clone();
        }
        let work = Arc::new(Work::of(Registry::default()));
        works.insert(namespace.clone(), work.clone());
        work
    }

    /// Adds what was counted in this process; queues are named to their own namespace alone.
    pub(crate) fn write(&self, page: &mut Exposition, namespace: &Namespace, shown: Shown) {
        let claimed = self.claimed.locked();
        let claims = claimed.get(namespace).into_iter().flatten();
        let mut claims: Vec<_> = claims
            .map(|(queue, count)| (format!("queue=\"{queue}\""), *count))
            .collect();
        claims.sort();
        drop(claimed);
        let registry = match shown.process {
            true => self.registry.clone(),
            false => self.work_of(namespace).registry.clone(),
        };
        registry.write(page, ("punctual_claimed_total", claims), shown);
    }
}
