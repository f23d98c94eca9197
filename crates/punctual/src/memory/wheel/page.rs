//! Finding a page of timers in slots that are not sorted.

use std::collections::BinaryHeap;

use super::entry::Entry;

/// The first so many of the entries offered, of those after a cursor.
pub(super) struct Page<T> {
    after: Option<(u64, u64)>,
    limit: usize,
    /// The last one on top, to be pushed out by any that comes before it.
    entries: BinaryHeap<Entry<T>>,
}

impl<T: Copy> Page<T> {
    pub(super) fn new(after: Option<(u64, u64)>, limit: usize) -> Self {
        Page {
            after,
            limit,
            entries: BinaryHeap::new(),
        }
    }

    /// True if only entries that come before one of the page's can still change it.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    pub(super) fn offer<'a>(&mut self, entries: impl Iterator<Item = &'a Entry<T>>)
    where
        T: 'a,
    {
        let after = self.after;
        for entry in entries.filter(|entry| after < Some(entry.key())) {
            if !self.is_full() {
                self.entries.push(*entry);
            } else if let Some(mut last) = self.entries.peek_mut()
                && entry < &*last
            {
                *last = *entry;
            }
        }
    }

    pub(super) fn into_timers(self) -> Vec<(u64, u64, T)> {
        let entries = self.entries.into_sorted_vec();
        entries.into_iter().map(Entry::into_parts).collect()
    }
}
