//! Queues that had neither jobs nor settings for a day leave nothing, so that names which come and
//! go are not kept for ever.

use std::ops::Bound;
use std::time::Duration;

use super::Machine;
use super::rows::*;
use crate::engine::SETTINGS_PREFIX;
use crate::error::Result;
use crate::time::{Timestamp, days, hours};

/// How long a queue is kept that has nothing but its history: as long as that is.
const IDLE: Duration = days(1);
/// How often all queues are examined.
const ROUND: Duration = hours(1);
/// Queues that one step examines.
const EXAMINED_MAX: usize = 20;

/// The round that examines every queue.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The queues that it has not come to.
    rest: Vec<u32>,
    next: Timestamp,
}

impl Machine {
    /// Forgets queues that are idle, of the next few of this round.
    pub(super) fn forget_idle(&mut self) -> Result<()> {
        if self.round.rest.is_empty() {
            if self.now < self.round.next {
                return Ok(());
            }
            self.round.next = self.now + ROUND;
            self.round.rest.extend(self.derived.queues.keys());
            self.round.rest.sort_unstable();
        }
        let few = self.round.rest.len().saturating_sub(EXAMINED_MAX);
        for queue in self.round.rest.split_off(few) {
            if self.is_idle(queue)? {
                self.forget_queue(queue)?;
            }
        }
        Ok(())
    }

    /// Whether a queue has had neither jobs nor settings for a day, and holds no key.
    fn is_idle(&self, id: u32) -> Result<bool> {
        let Some(queue) = self.derived.queues.get(&id) else {
            return Ok(false);
        };
        let is_recent = |at: Timestamp| self.now - at <= IDLE;
        if queue.row.paused
            || queue.shares.is_some()
            || queue.row.counts.iter().any(|jobs| *jobs > 0)
            || self.history.last_minute(id).is_some_and(is_recent)
        {
            return Ok(false);
        }
        let settings = RecordKey {
            namespace: queue.namespace,
            name: format!("{SETTINGS_PREFIX}{}", queue.name),
        };
        if self.rows.records.get(&settings)?.is_some() {
            return Ok(false);
        }
        let keys = |queue| QueueText {
            queue,
            text: String::new(),
        };
        let (first, end) = (keys(id), keys(id + 1));
        let key = (self.rows.unique).first(Bound::Included(&first), Bound::Excluded(&end))?;
        if key.is_some() {
            return Ok(false);
        }
        // The history is of this process only, the ends are stored.
        Ok(!self.last_end(id)?.is_some_and(is_recent))
    }
}
