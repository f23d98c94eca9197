//! Ranges of keys in which a scan met removed rows only.
//!
//! What is always taken from the front, such as the oldest kept job, would else step over
//! everything that was taken before, in memory and in the base, until it is gone from both.

use std::collections::BTreeMap;

/// Ranges without a row, from a start to an end (excluded); none touches another.
///
/// That there is no row says nothing about where: freezing and thawing change none of it, and only
/// a row that is put ends a range.
#[derive(Debug)]
pub(super) struct Cleared<K>(BTreeMap<K, K>);

/// Ranges remembered per table.
const RANGES_MAX: usize = 4_096;

impl<K> Default for Cleared<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Cleared<K> {
    /// Where to go on from a key that lies in a range.
    pub(super) fn end_after(&self, key: &K) -> Option<&K> {
        let (_, end) = self.0.range(..=key).next_back()?;
        (end > key).then_some(end)
    }

    /// There is no row from `start` up to `end`.
    pub(super) fn add(&mut self, start: K, end: K) {
        if end <= start {
            return;
        }
        let (mut start, mut end) = (start, end);
        if let Some((before, its_end)) = self.0.range(..=&start).next_back()
            && *its_end >= start
        {
            start = before.clone();
        }
        while let Some((next, _)) = self.0.range(&start..=&end).next() {
            let next = next.clone();
            end = self.0.remove(&next).map_or(end.clone(), |its| its.max(end));
        }
        if self.0.len() == RANGES_MAX {
            self.0.clear();
        }
        self.0.insert(start, end);
    }

    /// A row is put at that key: what was known beyond it is forgotten.
    pub(super) fn put(&mut self, key: &K) {
        if let Some((_, end)) = self.0.range_mut(..=key).next_back()
            && *end > *key
        {
            *end = key.clone();
        }
    }
}
