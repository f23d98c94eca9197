//! Schedules of which a run is expected to complete, by when that is.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::RecordKey;
use crate::schedule::{OVERDUE_MAX, Overdue};
use crate::time::Timestamp;

/// Both ways round: what one schedule expects, and what is overdue in a namespace.
#[derive(Debug, Default)]
pub(super) struct Expected {
    by: BTreeMap<RecordKey, Timestamp>,
    order: BTreeSet<(u32, Timestamp, String)>,
}

impl Expected {
    /// Expects a run of a schedule to complete by an instant, or none.
    pub(super) fn set(&mut self, key: &RecordKey, by: Option<Timestamp>) {
        let before = match by {
            Some(by) => self.by.insert(key.clone(), by),
            None => self.by.remove(key),
        };
        if before == by {
            return;
        }
        if let Some(before) = before {
            let place = (key.namespace, before, key.name.clone());
            self.order.remove(&place);
        }
        if let Some(by) = by {
            self.order.insert((key.namespace, by, key.name.clone()));
        }
    }

    /// Those of a namespace that are overdue, the longest ones first.
    pub(super) fn overdue(&self, namespace: u32, now: Timestamp) -> Vec<Overdue> {
        let from = (namespace, Timestamp::ZERO, String::new());
        let until = (namespace, now, String::new());
        let overdue = self.order.range(from..until).take(OVERDUE_MAX);
        let overdue = overdue.map(|(_, since, schedule)| Overdue {
            schedule: schedule.clone(),
            since: *since,
        });
        overdue.collect()
    }
}
