//! How long running flows have stood still, as this process saw them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use punctual::Namespace;
use punctual::flow::{FlowState, FlowStatus};
use punctual::sync::Lock;
use punctual::time::Timestamp;

/// The changes of running flows, and when they were first seen so.
#[derive(Debug, Default)]
pub(crate) struct FlowsSeen(Mutex<HashMap<Namespace, Seen>>);

type Seen = HashMap<String, (u64, Timestamp)>;

impl FlowsSeen {
    /// The longest time that one of these flows of a namespace has run without a change; flows that
    /// are not among them any more are forgotten.
    pub(crate) fn still(
        &self,
        namespace: &Namespace,
        flows: &[FlowStatus],
        now: Timestamp,
    ) -> Duration {
        let mut all = self.0.locked();
        let before = all.remove(namespace).unwrap_or_default();
        let running = flows.iter().filter(|flow| flow.state == FlowState::Running);
        let seen: Seen = running
            .map(|flow| {
                let known = before.get(&flow.name).copied();
                let same = known.filter(|(changes, _)| *changes == flow.changes);
                // Before it was first seen it may have stood still since its seal.
                let since = match known {
                    None => flow
                        .sealed_at
                        .filter(|_| flow.counts.open == flow.counts.steps),
                    Some(_) => None,
                };
                let since = same.map(|(_, at)| at).or(since).unwrap_or(now);
                (flow.name.clone(), (flow.changes, since))
            })
            .collect();
        let oldest = seen.values().map(|(_, since)| *since).min();
        if !seen.is_empty() {
            all.insert(namespace.clone(), seen);
        }
        oldest.map_or(Duration::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests;
