//! A hierarchical timing wheel in plain integers: no clock, no async, no lock.
//!
//! It answers one question, what is due next, several times faster than a heap or a tree. Its owner
//! passes the time in, so a test moves a month in a microsecond.
//!
//! # Units and bounds
//!
//! A tick is whatever the owner counts in; the memory engine passes microseconds. Every `u64` is a
//! valid due, in microseconds more than half a million years. Timers of one due fire in the order
//! of a second number, the *order*, which the owner counts up as timers are enqueued. A wheel holds
//! at most 2^32 timers. Each costs its value, 24 bytes (28 if the value is aligned to 8) and a
//! little slack. A cancelled one stays until such outnumber a quarter of the pending, and is then
//! swept out. The table behind the handles, 4 to 8 of those bytes, keeps its largest size.
//!
//! # The idea
//!
//! Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987): write the due as
//! digits, here eleven digits of six bits. File a timer under the highest digit in which its due
//! differs from the current time, as one would file a date under this year's months, this month's
//! days or this day's hours. Filing is one XOR and a count of leading zeros. When time enters a
//! slot, its timers are filed again, now one digit finer; so a timer moves at most once per
//! digit, no matter how many others there are.
//!
//! Three things differ from the paper, all for the sake of the memory bus:
//!
//! * **Slots hold whole timers, not pointers to them.** Refiling a slot then reads and writes
//!   memory in sequence, like one pass of a radix sort, where a list would take a cache miss per
//!   timer. The price: a cancelled timer cannot be unlinked. Cancelling clears one bit, and the
//!   entry is dropped when its slot is next emptied.
//! * **A small slot is sorted, not refiled.** Up to a few thousand timers, sorting them in the
//!   cache is cheaper than spreading them over ever finer slots. The sorted run is the *front*,
//!   from which timers fire.
//! * **The wheel turns by its contents, not by the clock.** Its *cursor* jumps to the next slot
//!   that has something due. So an idle wheel does nothing, however long, and
//!   [`next_due`](Wheel::next_due) is exact without looking into far slots: each remembers its
//!   earliest due.
//!
//! The one invariant: *what is due up to the cursor is in the front, everything else in the slot
//! that `Place::of` names*. A timer inserted before the cursor therefore goes to the front, whose
//! heap takes it in any order; and when too many do, the cursor goes back.
//!
//! # Example
//!
//! ```
//! use punctual::memory::wheel::Wheel;
//!
//! let mut wheel = Wheel::new(0);
//! let unpaid = wheel.insert(1_800_000_000, 0, "cancel the order");
//! wheel.insert(600_000_000, 1, "remind the rider");
//! wheel.insert(600_000_000, 2, "call the kitchen");
//! assert_eq!(wheel.next_due(), Some(600_000_000));
//!
//! let mut due = Vec::new();
//! wheel.pop_due(600_000_000, 100, &mut due);
//! assert_eq!(due, [(600_000_000, 1, "remind the rider"), (600_000_000, 2, "call the kitchen")]);
//!
//! assert!(wheel.cancel(unpaid));
//! assert_eq!(wheel.next_due(), None);
//! ```

mod entry;
mod front;
mod handles;
mod page;
mod slots;
#[cfg(test)]
mod tests;

use std::mem;

use entry::Entry;
use front::Front;
pub use handles::Handle;
use handles::Handles;
use page::Page;
use slots::{Place, Slot, Slots};

// Under test the bounds are tiny, so that short histories come past all of them.

/// Slots up to this size are sorted at once instead of being spread over finer ones.
const SORTED_AT_ONCE_MAX: usize = if cfg!(test) { 4 } else { 2048 };
/// Late arrivals that the front takes before the cursor is moved back for them.
const LATE_MAX: usize = if cfg!(test) { 4 } else { 1024 };
/// What moving the cursor back may cost, in entries moved per late arrival.
const REWIND_COST_MAX: usize = if cfg!(test) { 3 } else { 8 };
/// Cancelled entries may be this many, and a quarter of the pending ones.
const STALE_MAX: usize = if cfg!(test) { 2 } else { 32 };

/// Pending timers in the order of their dues, each with a small value of type `T`.
///
/// Inserting, cancelling and firing cost a constant amount each, amortised; the longest single
/// step is emptying one slot, at worst a pass over all timers. See the [module](self) for how.
///
/// ```
/// let mut wheel = punctual::memory::wheel::Wheel::new(0);
/// wheel.insert(7, 0, "a small value, such as an index or an id");
/// assert_eq!(wheel.next_due(), Some(7));
/// ```
#[derive(Debug)]
pub struct Wheel<T> {
    /// Up to this tick everything is in the front, and nothing in the slots.
    cursor: u64,
    front: Front<T>,
    slots: Slots<T>,
    handles: Handles,
    /// The latest time the owner has named.
    now: u64,
    /// Late arrivals in the front at which moving the cursor back is considered.
    rewind_at: usize,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel at the time `now`.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let wheel = Wheel::<u32>::new(1_000);
    /// assert!(wheel.is_empty());
    /// ```
    pub fn new(now: u64) -> Self {
        Wheel {
            cursor: now,
            front: Front::new(),
            slots: Slots::new(),
            handles: Handles::default(),
            now,
            rewind_at: LATE_MAX,
        }
    }

    /// Adds a timer. A due in the past is popped next, in its order among what is due.
    ///
    /// `order` decides between equal dues; timers equal in both fire in any order.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(1_000);
    /// wheel.insert(1_005, 0, 'b');
    /// wheel.insert(3, 1, 'a');
    /// assert_eq!(wheel.next_due(), Some(3));
    /// ```
    pub fn insert(&mut self, due: u64, order: u64, value: T) -> Handle {
        let handle = self.handles.acquire();
        self.file(Entry {
            due,
            order,
            index: handle.index(),
            value,
        });
        if self.front.late_len() >= self.rewind_at {
            self.rewind();
        }
        handle
    }

    /// Takes a timer out; false if it has fired or has been cancelled before.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// let handle = wheel.insert(5, 0, 'a');
    /// assert!(wheel.cancel(handle));
    /// assert!(!wheel.cancel(handle));
    /// ```
    pub fn cancel(&mut self, handle: Handle) -> bool {
        let cancelled = self.handles.revoke(handle);
        if self.handles.stale() > STALE_MAX + self.handles.pending() / 4 {
            self.sweep();
        }
        cancelled
    }

    /// Moves up to `limit` timers that are due at `now` to the end of `due`, in order, each as its
    /// due, its order and its value. Time never goes back: an earlier `now` counts as the latest.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// for due in [30, 10, 20] {
    ///     wheel.insert(due, 0, ());
    /// }
    /// let mut due = Vec::new();
    /// wheel.pop_due(25, 100, &mut due);
    /// assert_eq!(due, [(10, 0, ()), (20, 0, ())]);
    /// ```
    pub fn pop_due(&mut self, now: u64, limit: usize, due: &mut Vec<(u64, u64, T)>) {
        self.now = self.now.max(now);
        let full = due.len().saturating_add(limit);
        while due.len() < full {
            match self.front.first() {
                Some(first) if first.due > self.now => return,
                Some(_) => due.extend(self.pop_first()),
                None => match self.slots.first() {
                    Some(place) if self.slots.get(place).earliest().0 <= self.now => {
                        self.open(place);
                    }
                    next => return self.idle_until(next),
                },
            }
        }
    }

    /// The due of the timer that fires next, exactly; a cancelled timer never shows.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// let soon = wheel.insert(5, 0, ());
    /// wheel.insert(1 << 55, 1, ());
    /// wheel.cancel(soon);
    /// assert_eq!(wheel.next_due(), Some(1 << 55));
    /// ```
    pub fn next_due(&mut self) -> Option<u64> {
        loop {
            while let Some(&Entry { due, index, .. }) = self.front.first() {
                if self.handles.is_alive(index) {
                    return Some(due);
                }
                self.pop_first();
            }
            let place = self.slots.first()?;
            let (due, index) = self.slots.get(place).earliest();
            if self.handles.is_alive(index) {
                return Some(due);
            }
            self.open(place);
        }
    }

    /// How many timers are pending.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// wheel.insert(5, 0, ());
    /// assert_eq!(wheel.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.handles.pending()
    }

    /// True if no timer is pending.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// assert!(Wheel::<u32>::new(0).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `limit` timers after the due and order `after`, in order, for listing.
    ///
    /// Holds no more than `limit` entries at a time, but reads every timer of each slot that it
    /// touches: a page may read the whole wheel.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// for due in 1..=5 {
    ///     wheel.insert(due, 0, ());
    /// }
    /// let page = wheel.page(None, 2);
    /// assert_eq!(page, [(1, 0, ()), (2, 0, ())]);
    /// assert_eq!(wheel.page(Some((2, 0)), 2), [(3, 0, ()), (4, 0, ())]);
    /// ```
    pub fn page(&self, after: Option<(u64, u64)>, limit: usize) -> Vec<(u64, u64, T)> {
        let mut page = Page::new(after, limit);
        let alive = |entry: &&Entry<T>| self.handles.is_alive(entry.index);
        page.offer(self.front.iter().filter(alive));
        for place in self.slots.places() {
            let (_, last) = place.span(self.cursor);
            if page.is_full() {
                break;
            }
            if after.is_none_or(|(due, _)| due <= last) {
                page.offer(self.slots.get(place).iter().filter(alive));
            }
        }
        page.into_timers()
    }

    /// Bytes that the wheel has allocated.
    ///
    /// ```
    /// use punctual::memory::wheel::Wheel;
    ///
    /// let mut wheel = Wheel::new(0);
    /// for due in 0..100_000 {
    ///     wheel.insert(due * due, 0, 0_u32);
    /// }
    /// assert!(wheel.heap_bytes() / wheel.len() < 40);
    /// ```
    pub fn heap_bytes(&self) -> usize {
        self.front.heap_bytes() + self.slots.heap_bytes() + self.handles.heap_bytes()
    }

    /// Puts an entry where it belongs as seen from the cursor.
    fn file(&mut self, entry: Entry<T>) {
        if entry.due <= self.cursor {
            self.front.push(entry);
        } else {
            self.slots.push(Place::of(entry.due, self.cursor), entry);
        }
    }

    /// Takes the first entry out of the front; none if its timer was cancelled.
    fn pop_first(&mut self) -> Option<(u64, u64, T)> {
        let entry = self.front.pop()?;
        self.handles
            .release(entry.index)
            .then(|| entry.into_parts())
    }

    /// Moves the cursor into the first slot: sorts it into the front if it is small, spreads it
    /// over finer slots if not. Drops what was cancelled.
    fn open(&mut self, place: Place) {
        debug_assert_eq!(self.front.len(), 0, "the front comes before every slot");
        debug_assert_eq!(self.slots.first(), Some(place), "slots are opened in order");
        let (first, last) = place.span(self.cursor);
        let slot = self.slots.take(place);
        self.rewind_at = LATE_MAX;
        if slot.len() <= SORTED_AT_ONCE_MAX || place.is_finest() {
            self.cursor = last;
            let entries = slot.into_entries();
            let alive = entries.filter(|entry| self.handles.keep(entry.index));
            self.front.fill(alive);
        } else {
            self.cursor = first;
            for entry in slot.into_entries() {
                if self.handles.keep(entry.index) {
                    self.file(entry);
                }
            }
        }
    }

    /// Lets the cursor follow the time while the front is empty and the first slot lies ahead, so
    /// that timers inserted next are filed as finely as they can be.
    fn idle_until(&mut self, next: Option<Place>) {
        debug_assert_eq!(self.front.len(), 0, "the cursor never passes a timer");
        let ahead = |place: Place| self.now < place.span(self.cursor).0;
        if next.is_none_or(ahead) {
            self.cursor = self.cursor.max(self.now);
        }
    }

    /// Moves the cursor back to where the late arrivals can be filed, if that is worth its cost.
    ///
    /// The cursor is ahead of the time when only far timers were left, and the time ahead of the
    /// dues when a backlog is loaded. Either way what comes then is late.
    fn rewind(&mut self) {
        let late = self.front.late_len();
        let earliest = self.front.first().map_or(0, |first| first.due);
        let target = self.now.min(earliest.saturating_sub(1));
        if target < self.cursor {
            // Seen from the target, these all differ in the same digit, so they share a slot.
            let below = self.slots.places_below(Place::of(self.cursor, target));
            let below: Vec<_> = below.collect();
            let entries = below.iter().map(|&place| self.slots.get(place).len());
            if self.front.len() + entries.sum::<usize>() <= REWIND_COST_MAX * late {
                let below: Vec<_> = below.iter().map(|&place| self.slots.take(place)).collect();
                let front = mem::replace(&mut self.front, Front::new());
                self.cursor = target;
                let slots = below.into_iter().flat_map(Slot::into_entries);
                for entry in front.into_entries().chain(slots) {
                    self.file(entry);
                }
            }
        }
        self.rewind_at = LATE_MAX.max(2 * self.front.late_len());
    }

    /// Drops every cancelled entry.
    fn sweep(&mut self) {
        self.front.retain(|entry| self.handles.keep(entry.index));
        for place in self.slots.places() {
            for entry in self.slots.take(place).into_entries() {
                if self.handles.keep(entry.index) {
                    self.slots.push(place, entry);
                }
            }
        }
        debug_assert_eq!(
            self.handles.stale(),
            0,
            "every entry lies in the front or in a slot"
        );
    }
}
