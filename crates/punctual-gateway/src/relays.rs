//! What a server reports of the relays that it runs: a relay reports, the gateway only shows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::Namespace;

use crate::metrics::Exposition;

/// The relays that run beside a gateway, as they are at each reading. Cheap to clone.
#[derive(Clone)]
pub struct Relays(Arc<dyn Fn() -> Vec<RelayReport> + Send + Sync>);

/// A relay and how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// Its name, that no other of its namespace has.
    pub name: String,
    /// Its jobs are of that namespace, and no other sees it.
    pub namespace: Namespace,
    /// What it relays, such as `redis-list`.
    pub kind: String,
    /// The queue of its jobs.
    pub queue: String,
    /// `connecting`, `running`, `engine_refuses` or `down`.
    pub state: &'static str,
    /// Messages and jobs a second.
    pub rate: u64,
    /// Messages taken.
    pub received: u64,
    /// Jobs stored.
    pub enqueued: u64,
    /// Messages that were jobs already.
    pub duplicates: u64,
    /// Messages that are no jobs, and jobs that the other system refused.
    pub refused: u64,
    /// Jobs that the other system took.
    pub emitted: u64,
    /// Starts after a failure.
    pub restarts: u64,
    /// What waits over there, if that is known.
    pub lag: Option<u64>,
    /// The text of the last failure.
    pub last_error: Option<String>,
    /// Since its last progress.
    pub age: Duration,
}

impl RelayReport {
    /// A relay that connects, and has taken nothing yet.
    pub fn new(
        namespace: Namespace,
        name: impl Into<String>,
        kind: impl Into<String>,
        queue: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            namespace,
            kind: kind.into(),
            queue: queue.into(),
            state: "connecting",
            rate: 0,
            received: 0,
            enqueued: 0,
            duplicates: 0,
            refused: 0,
            emitted: 0,
            restarts: 0,
            lag: None,
            last_error: None,
            age: Duration::ZERO,
        }
    }
}

impl Relays {
    /// Relays whose reports that function returns.
    pub fn new(read: impl Fn() -> Vec<RelayReport> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Those of a namespace, by name.
    pub(crate) fn of(&self, namespace: &Namespace) -> Vec<RelayReport> {
        let mut relays = (self.0)();
        relays.retain(|relay| relay.namespace == *namespace);
        relays.sort_by(|a, b| a.name.cmp(&b.name));
        relays
    }

    /// Those of a namespace that fail, in words.
    pub(crate) fn failing(&self, namespace: &Namespace) -> Vec<String> {
        let failing = self.of(namespace).into_iter().filter_map(|relay| {
            let last = relay.last_error.as_deref().unwrap_or("it gave no reason");
            match relay.state {
                "down" => Some(format!("relay {} is down: {last}", relay.name)),
                "engine_refuses" => Some(format!("relay {} cannot store: {last}", relay.name)),
                _ => None,
            }
        });
        failing.collect()
    }

    /// Adds the numbers of a namespace's relays to `/metrics`.
    pub(crate) fn write(&self, page: &mut Exposition, namespace: &Namespace) {
        type Number = fn(&RelayReport) -> Option<u64>;
        let families: [(&str, &str, Number); 7] = [
            ("punctual_relay_up", "gauge", |relay| {
                Some(u64::from(relay.state != "down"))
            }),
            ("punctual_relay_lag", "gauge", |relay| relay.lag),
            ("punctual_relay_received_total", "counter", |relay| {
                Some(relay.received)
            }),
            ("punctual_relay_enqueued_total", "counter", |relay| {
                Some(relay.enqueued)
            }),
            ("punctual_relay_emitted_total", "counter", |relay| {
                Some(relay.emitted)
            }),
            ("punctual_relay_refused_total", "counter", |relay| {
                Some(relay.refused)
            }),
            ("punctual_relay_restarts_total", "counter", |relay| {
                Some(relay.restarts)
            }),
        ];
        let relays = self.of(namespace);
        for (name, kind, number) in families {
            let numbers = relays
                .iter()
                .filter_map(|relay| Some((&relay.name, number(relay)?)));
            let mut numbers = numbers.peekable();
            if numbers.peek().is_some() {
                page.family(name, kind);
            }
            // A name has the characters of a queue's: no quote needs an escape.
            for (relay, number) in numbers {
                page.sample(name, &format!("relay=\"{relay}\""), number);
            }
        }
    }
}

impl Default for Relays {
    /// None.
    fn default() -> Self {
        Self::new(Vec::new)
    }
}

impl fmt::Debug for Relays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((self.0)()).finish()
    }
}
