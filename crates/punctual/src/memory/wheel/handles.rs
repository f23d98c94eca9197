//! The table behind [`Handle`]: which timers are alive, and which handles are still theirs.
//!
//! Cancelling touches only this table. The cancelled entry stays where it lies until its slot is
//! emptied or swept, and only then is its index given to another timer. So an entry needs no
//! generation of its own, and one bit answers whether it lives: the bits of ten million timers
//! fit into a second-level cache.

use std::num::NonZeroU32;

/// Names one timer of a [`Wheel`](super::Wheel), for [`cancel`](super::Wheel::cancel).
///
/// A handle never reaches a timer other than its own: once that one has fired or has been
/// cancelled, the handle is refused for ever, even when its place is used again. It has a
/// meaning only in the wheel that gave it. `Option<Handle>` is 8 bytes, like `Handle`.
///
/// ```
/// use punctual::memory::wheel::{Handle, Wheel};
///
/// let mut wheel = Wheel::new(0);
/// let handle: Handle = wheel.insert(10, 0, 'a');
/// assert!(wheel.cancel(handle));
/// assert!(!wheel.cancel(handle));
/// assert_eq!(size_of::<Option<Handle>>(), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    generation: NonZeroU32,
}

impl Handle {
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug, Default)]
pub(super) struct Handles {
    /// How often each index has been given out, which is the generation of its newest handle.
    generations: Vec<NonZeroU32>,
    /// A bit per index: the timer is pending.
    alive: Vec<u64>,
    /// Indices that no entry carries any more.
    free: Vec<u32>,
    /// Entries whose timer is alive.
    pending: usize,
    /// Entries whose timer was cancelled.
    stale: usize,
}

impl Handles {
    /// Gives out a handle that no timer has had before.
    pub(super) fn acquire(&mut self) -> Handle {
        let handle = self.reuse().unwrap_or_else(|| self.extend());
        let (word, bit) = place(handle.index);
        debug_assert_eq!(self.alive[word] & bit, 0, "a free index has a live timer");
        self.alive[word] |= bit;
        self.pending += 1;
        handle
    }

    /// Takes a free index. One whose generations are used up is dropped for good: that costs
    /// four bytes per 2^32 timers, and buys that no handle ever comes back.
    fn reuse(&mut self) -> Option<Handle> {
        while let Some(index) = self.free.pop() {
            let generation = &mut self.generations[index as usize];
            if let Some(next) = generation.checked_add(1) {
                *generation = next;
                return Some(Handle {
                    index,
                    generation: next,
                });
            }
        }
        None
    }

    fn extend(&mut self) -> Handle {
        let index = u32::try_from(self.generations.len()).expect("at most 2^32 timers");
        push_tight(&mut self.generations, NonZeroU32::MIN);
        if index.is_multiple_of(u64::BITS) {
            push_tight(&mut self.alive, 0);
        }
        Handle {
            index,
            generation: NonZeroU32::MIN,
        }
    }

    pub(super) fn is_alive(&self, index: u32) -> bool {
        let (word, bit) = place(index);
        self.alive[word] & bit != 0
    }

    /// Ends the timer of `handle`; false if it had ended before.
    pub(super) fn revoke(&mut self, handle: Handle) -> bool {
        let newest = self.generations.get(handle.index as usize);
        let pending = newest == Some(&handle.generation) && self.is_alive(handle.index);
        if pending {
            let (word, bit) = place(handle.index);
            self.alive[word] &= !bit;
            self.pending -= 1;
            self.stale += 1;
        }
        pending
    }

    /// Takes back an index whose entry has left the wheel; true if its timer was alive.
    pub(super) fn release(&mut self, index: u32) -> bool {
        let alive = self.is_alive(index);
        if alive {
            let (word, bit) = place(index);
            self.alive[word] &= !bit;
            self.pending -= 1;
        } else {
            self.stale -= 1;
        }
        push_tight(&mut self.free, index);
        alive
    }

    /// True if the timer is alive; takes the index back if not, for its entry is dropped.
    pub(super) fn keep(&mut self, index: u32) -> bool {
        self.is_alive(index) || self.release(index)
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn stale(&self) -> usize {
        self.stale
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.generations.capacity() * size_of::<NonZeroU32>()
            + self.alive.capacity() * size_of::<u64>()
            + self.free.capacity() * size_of::<u32>()
    }
}

fn place(index: u32) -> (usize, u64) {
    ((index / u64::BITS) as usize, 1 << (index % u64::BITS))
}

/// Pushes, growing by an eighth instead of doubling: these tables hold one item per timer, and
/// their slack would otherwise cost as much as they do.
fn push_tight<T>(table: &mut Vec<T>, item: T) {
    if table.len() == table.capacity() {
        table.reserve_exact(64.max(table.len() / 8));
    }
    table.push(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_whose_generations_are_used_up_is_not_given_out_again() {
        let mut handles = Handles::default();
        let first = handles.acquire();
        handles.generations[0] = NonZeroU32::MAX;
        handles.release(first.index);
        let next = handles.acquire();
        assert_eq!((next.index, next.generation.get()), (1, 1));
        assert!(!handles.revoke(first));
    }

    #[test]
    fn an_index_is_reused_only_when_its_entry_has_left() {
        let mut handles = Handles::default();
        let cancelled = handles.acquire();
        assert!(handles.revoke(cancelled));
        assert_eq!(handles.acquire().index, 1);
        assert!(!handles.keep(cancelled.index), "the entry is dropped");
        let reused = handles.acquire();
        assert_eq!(
            (reused.index, reused.generation.get()),
            (cancelled.index, 2)
        );
        assert!(!handles.revoke(cancelled));
        assert!(handles.is_alive(reused.index));
    }
}
