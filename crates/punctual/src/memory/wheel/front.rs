//! What comes next, in order: everything due up to the wheel's cursor.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::entry::Entry;

/// A sorted run, and a heap for what arrives too late to be sorted into it.
///
/// The run is a slot that was small enough to be sorted at once. Later arrivals mostly come in
/// order and are appended to it; the rest goes to the heap, which stays small because the wheel
/// rewinds when it grows.
#[derive(Debug)]
pub(super) struct Front<T> {
    run: VecDeque<Entry<T>>,
    late: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T: Copy> Front<T> {
    pub(super) fn new() -> Self {
        Front {
            run: VecDeque::new(),
            late: BinaryHeap::new(),
        }
    }

    pub(super) fn push(&mut self, entry: Entry<T>) {
        if self.run.back().is_none_or(|last| *last <= entry) {
            self.run.push_back(entry);
        } else {
            self.late.push(Reverse(entry));
        }
    }

    /// Sorts these into an empty front.
    pub(super) fn fill(&mut self, entries: impl Iterator<Item = Entry<T>>) {
        debug_assert_eq!(
            self.len(),
            0,
            "a run is followed by another, never mixed with it"
        );
        let mut run = Vec::from(std::mem::take(&mut self.run));
        run.extend(entries);
        run.sort_unstable();
        self.run = run.into();
    }

    pub(super) fn first(&self) -> Option<&Entry<T>> {
        let late = self.late.peek().map(|Reverse(late)| late);
        match self.run.front() {
            Some(run) if late.is_none_or(|late| run <= late) => Some(run),
            _ => late,
        }
    }

    pub(super) fn pop(&mut self) -> Option<Entry<T>> {
        match (self.run.front(), self.late.peek()) {
            (Some(run), late) if late.is_none_or(|Reverse(late)| run <= late) => {
                self.run.pop_front()
            }
            _ => self.late.pop().map(|Reverse(late)| late),
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Entry<T>) -> bool) {
        self.run.retain(&mut keep);
        self.late.retain(|Reverse(late)| keep(late));
    }

    /// Hands out all entries, in no order.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry<T>> {
        self.run
            .into_iter()
            .chain(self.late.into_iter().map(|Reverse(late)| late))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.run
            .iter()
            .chain(self.late.iter().map(|Reverse(late)| late))
    }

    pub(super) fn len(&self) -> usize {
        self.run.len() + self.late.len()
    }

    pub(super) fn late_len(&self) -> usize {
        self.late.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.run.capacity() + self.late.capacity()) * size_of::<Entry<T>>()
    }
}
