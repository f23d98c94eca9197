//! The change feed: the last changes of each watched namespace.
//!
//! Each namespace has a feed of its own, so that neither the numbers nor the gaps of one depend on
//! what another one does.

use std::collections::{HashMap, VecDeque};

use crate::engine::Change;
use crate::time::{Timestamp, minutes};

/// How long a feed is recorded after the last call that read it.
const WATCHED_FOR: std::time::Duration = minutes(1);

/// The feeds of the watched namespaces, by name.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    known: HashMap<String, Feed>,
    /// The last instant at which any of them is recorded.
    until: Timestamp,
    /// Changes that were recorded in all of them.
    pub(super) recorded: u64,
}

#[derive(Debug)]
struct Feed {
    /// Changes with their numbers.
    changes: VecDeque<(u64, Change)>,
    latest: u64,
    until: Timestamp,
}

impl Feed {
    /// A feed begins at a number that no earlier feed of the namespace has come to: an instant.
    fn begun(now: Timestamp) -> Self {
        Self {
            changes: VecDeque::new(),
            latest: now.as_micros(),
            until: Timestamp::ZERO,
        }
    }
}

impl Feeds {
    /// Whether a change is to be recorded at all.
    pub(super) fn are_watched(&self, now: Timestamp) -> bool {
        now <= self.until
    }

    pub(super) fn record(&mut self, now: Timestamp, namespace: &str, change: Change, bound: usize) {
        let Some(feed) = self.known.get_mut(namespace) else {
            return;
        };
        if now > feed.until {
            return;
        }
        self.recorded += 1;
        feed.latest += 1;
        feed.changes.push_back((feed.latest, change));
        if feed.changes.len() > bound {
            feed.changes.pop_front();
        }
    }

    /// Changes after a number, at most so many, the number to go on after, and whether some were
    /// forgotten.
    pub(super) fn after(
        &mut self,
        now: Timestamp,
        namespace: &str,
        after: Option<u64>,
        most: usize,
    ) -> (Vec<Change>, u64, bool) {
        self.known
            .retain(|name, feed| now <= feed.until || name == namespace);
        let feed = self
            .known
            .entry(namespace.to_owned())
            .or_insert_with(|| Feed::begun(now));
        let recorded = now <= feed.until;
        feed.until = now + WATCHED_FOR;
        self.until = self.until.max(feed.until);
        let Some(after) = after else {
            return (Vec::new(), feed.latest, false);
        };
        if !recorded {
            feed.changes.clear();
        }
        let first = feed.changes.front().map(|(number, _)| *number);
        // The number before the first change that is known.
        let forgotten = first.map_or(feed.latest, |first| first - 1);
        let gap = !recorded || after < forgotten || after > feed.latest;
        let from = if gap { forgotten } else { after };
        let known = feed.changes.iter().filter(|(number, _)| *number > from);
        let found: Vec<_> = known.take(most).collect();
        let cursor = found.last().map_or(from, |(number, _)| *number);
        let changes = found.into_iter().map(|(_, change)| change.clone());
        (changes.collect(), cursor, gap)
    }
}
