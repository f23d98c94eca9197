//! The slots of the wheel: eleven rows of 64, each row with a bitmap of those in use.

use super::entry::Entry;

/// One digit of a due: a row has a slot for each of its values.
const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Digits of a `u64`, so every due has a slot.
const ROWS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Entries per block of memory: large enough that allocating is rare, small enough that the
/// half-filled last block of each slot weighs little.
const CHUNK: usize = if cfg!(test) { 4 } else { 128 };

/// Where a slot is: its row, and the digit that all its dues have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    row: usize,
    digit: usize,
}

impl Place {
    /// The slot for `due` as seen from `cursor`: the highest digit in which the two differ.
    pub(super) fn of(due: u64, cursor: u64) -> Place {
        debug_assert!(
            due > cursor,
            "what the cursor has reached belongs to the front"
        );
        let row = (due ^ cursor).ilog2() / DIGIT_BITS;
        let digit = (due >> (row * DIGIT_BITS)) as usize % DIGITS;
        Place {
            row: row as usize,
            digit,
        }
    }

    /// The first and the last tick of the slot; above its own digit it agrees with the cursor.
    pub(super) fn span(self, cursor: u64) -> (u64, u64) {
        let shift = self.row as u32 * DIGIT_BITS;
        let above = cursor >> shift >> DIGIT_BITS << DIGIT_BITS;
        let first = (above | self.digit as u64) << shift;
        (first, first | ((1 << shift) - 1))
    }

    /// True if the slot cannot be spread over a finer row.
    pub(super) fn is_finest(self) -> bool {
        self.row == 0
    }
}

#[derive(Debug)]
pub(super) struct Slots<T> {
    rows: [Vec<Slot<T>>; ROWS],
    occupied: [u64; ROWS],
}

impl<T: Copy> Slots<T> {
    pub(super) fn new() -> Self {
        Slots {
            rows: [const { Vec::new() }; ROWS],
            occupied: [0; ROWS],
        }
    }

    pub(super) fn push(&mut self, place: Place, entry: Entry<T>) {
        let row = &mut self.rows[place.row];
        if row.is_empty() {
            row.resize_with(DIGITS, Slot::new);
        }
        self.occupied[place.row] |= 1 << place.digit;
        row[place.digit].push(entry);
    }

    /// The slot that comes before all others. Lower rows come before higher ones, because their
    /// dues agree with the cursor in one digit more.
    pub(super) fn first(&self) -> Option<Place> {
        self.places().next()
    }

    /// The slots in use, in the order of their dues.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<T> {
        let occupied = self.occupied;
        (0..ROWS).flat_map(move |row| digits(occupied[row]).map(move |digit| Place { row, digit }))
    }

    /// The slots in rows finer than `place`'s, in order.
    pub(super) fn places_below(&self, place: Place) -> impl Iterator<Item = Place> + use<T> {
        self.places().take_while(move |below| below.row < place.row)
    }

    pub(super) fn get(&self, place: Place) -> &Slot<T> {
        &self.rows[place.row][place.digit]
    }

    /// Empties a slot.
    pub(super) fn take(&mut self, place: Place) -> Slot<T> {
        self.occupied[place.row] &= !(1 << place.digit);
        std::mem::replace(&mut self.rows[place.row][place.digit], Slot::new())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let slots = self
            .rows
            .iter()
            .flatten()
            .map(Slot::heap_bytes)
            .sum::<usize>();
        slots
            + self
                .rows
                .iter()
                .map(|row| row.capacity() * size_of::<Slot<T>>())
                .sum::<usize>()
    }
}

/// The set bits of a word, lowest first.
fn digits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let digit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(digit)
    })
}

/// Entries in the order they came, in blocks, so that filling and emptying a slot runs through
/// memory and never copies what is already there.
#[derive(Debug)]
pub(super) struct Slot<T> {
    full: Vec<Vec<Entry<T>>>,
    last: Vec<Entry<T>>,
    /// Due and index of the entry that comes first, dead or alive.
    earliest: (u64, u32),
}

impl<T: Copy> Slot<T> {
    fn new() -> Self {
        Slot {
            full: Vec::new(),
            last: Vec::new(),
            earliest: (u64::MAX, u32::MAX),
        }
    }

    fn push(&mut self, entry: Entry<T>) {
        if entry.due < self.earliest.0 || self.last.is_empty() {
            self.earliest = (entry.due, entry.index);
        }
        if self.last.len() == CHUNK {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK));
            self.full.push(full);
        }
        self.last.push(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.last.len()
    }

    /// The due that no entry here comes before, and the index of an entry that has it.
    pub(super) fn earliest(&self) -> (u64, u32) {
        debug_assert_ne!(self.len(), 0, "an empty slot has no earliest entry");
        self.earliest
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Hands out the entries, giving each block back as soon as it is empty.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry<T>> {
        self.full.into_iter().flatten().chain(self.last)
    }

    fn heap_bytes(&self) -> usize {
        (self.full.len() * CHUNK + self.last.capacity()) * size_of::<Entry<T>>()
            + self.full.capacity() * size_of::<Vec<Entry<T>>>()
    }
}
