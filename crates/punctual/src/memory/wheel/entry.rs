//! One timer as it lies in the wheel.

use std::cmp::Ordering;

/// A timer with all that is needed to move, order and fire it, so that no step follows a pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<T> {
    pub(super) due: u64,
    pub(super) order: u64,
    pub(super) index: u32,
    pub(super) value: T,
}

impl<T> Entry<T> {
    pub(super) fn key(&self) -> (u64, u64) {
        (self.due, self.order)
    }

    pub(super) fn into_parts(self) -> (u64, u64, T) {
        (self.due, self.order, self.value)
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // As one number: sorting is most of the work of firing, and this has no branch.
        let number = |entry: &Self| u128::from(entry.due) << u64::BITS | u128::from(entry.order);
        number(self).cmp(&number(other))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}
