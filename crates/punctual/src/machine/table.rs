//! Ordered tables: what is recent in memory, what is older in an optional [`Base`] below.
//!
//! A table without a base is a plain sorted map. Over a base it is the upper level of a log
//! structured store: rows put and removed again between two checkpoints never reach the base.

mod ahead;
mod cleared;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use self::ahead::Ahead;
use self::cleared::Cleared;
use super::codec::{Reader, Writer, damaged};
use crate::error::Result;

/// A visitor of a scan: key and value; `false` ends it.
pub type ScanVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// A sorted store of bytes below the tables: what the last checkpoint left.
pub trait Base: Send + Sync + fmt::Debug {
    /// The value of a key of a table.
    fn get(&self, table: u8, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Visits the rows of a table from `from` on (included) to `to` (excluded) in order, or the
    /// other way round, until the visitor answers `false`.
    fn scan(
        &self,
        table: u8,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        visit: ScanVisitor<'_>,
    ) -> Result<()>;
}

/// A key whose bytes sort as it does.
pub(crate) trait Key: Ord + Clone + Send + Sync + 'static {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self>;
    /// Bytes it takes in memory, about.
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

pub(crate) trait Value: Clone + Send + Sync + 'static {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self>;
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// The mutations of one step, in the form that the log keeps.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Whether an engine keeps them.
    pub(crate) on: bool,
    pub(crate) rows: Writer,
    scratch: Writer,
}

impl Journal {
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }
}

const REMOVE: u8 = 0;
const PUT: u8 = 1;
/// A put whose key was nowhere.
const INSERT: u8 = 2;

impl Journal {
    fn put<K: Key, V: Value>(&mut self, table: u8, key: &K, value: &V, operation: u8) {
        if self.on {
            self.head(table, key, operation);
            self.scratch.0.clear();
            value.write(&mut self.scratch);
            self.rows.bytes(&self.scratch.0);
        }
    }

    fn remove<K: Key>(&mut self, table: u8, key: &K) {
        if self.on {
            self.head(table, key, REMOVE);
        }
    }

    fn head<K: Key>(&mut self, table: u8, key: &K, operation: u8) {
        self.rows.u8(table << 2 | operation);
        self.scratch.0.clear();
        key.write(&mut self.scratch);
        self.rows.bytes(&self.scratch.0);
    }
}

/// One mutation read back from a log.
pub(crate) struct Mutation<'a> {
    pub(crate) table: u8,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    /// Its key was nowhere.
    fresh: bool,
}

impl<'a> Mutation<'a> {
    pub(crate) fn read(from: &mut Reader<'a>) -> Result<Self> {
        let head = from.u8()?;
        let key = Self::slice(from)?;
        let value = match head & 3 {
            REMOVE => None,
            PUT | INSERT => Some(Self::slice(from)?),
            _ => return Err(damaged("step")),
        };
        Ok(Self {
            table: head >> 2,
            key,
            value,
            fresh: head & 3 == INSERT,
        })
    }

    fn slice(from: &mut Reader<'a>) -> Result<&'a [u8]> {
        let len = usize::try_from(from.varint()?).unwrap_or(usize::MAX);
        from.take(len)
    }
}

#[derive(Debug, Clone)]
struct Slot<V> {
    /// `None` hides a row below.
    value: Option<V>,
    /// Nothing below has this key, so removing it leaves nothing to hide.
    fresh: bool,
}

type Rows<K, V> = BTreeMap<K, Slot<V>>;

/// One sorted table.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    number: u8,
    recent: Rows<K, V>,
    frozen: Option<Arc<Rows<K, V>>>,
    base: Option<Arc<dyn Base>>,
    bytes: usize,
    gaps: RefCell<Gaps>,
    cleared: RefCell<Cleared<K>>,
    /// Holds until the base changes, as the gaps do.
    ahead: RefCell<Ahead<K, V>>,
}

/// Ranges without a row in the base, from a start to the end it is filed under: what a scan learned
/// stays true until the next checkpoint, and the next scan leaves the base alone.
#[derive(Debug, Default)]
struct Gaps(BTreeMap<Vec<u8>, Vec<u8>>);

/// Gaps remembered per table.
const GAPS_MAX: usize = 4_096;
/// Removed rows that a scan steps over before the range is worth a note; tests note each.
const STEPS_MIN: usize = if cfg!(test) { 1 } else { 16 };

impl Gaps {
    fn cover(&self, start: &[u8], end: &[u8]) -> bool {
        let from = Bound::Included(end);
        let next = self.0.range::<[u8], _>((from, Bound::Unbounded)).next();
        next.is_some_and(|(_, gap_start)| gap_start.as_slice() <= start)
    }

    fn add(&mut self, start: Vec<u8>, end: Vec<u8>) {
        if self.0.len() == GAPS_MAX {
            self.0.clear();
        }
        self.0.insert(end, start);
    }
}

impl<K: Key, V: Value> Table<K, V> {
    pub(crate) fn new(number: u8, base: Option<Arc<dyn Base>>) -> Self {
        Self {
            number,
            recent: BTreeMap::new(),
            frozen: None,
            base,
            bytes: 0,
            gaps: RefCell::default(),
            cleared: RefCell::default(),
            ahead: RefCell::default(),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Result<Option<V>> {
        if let Some(slot) = self.slot(key) {
            return Ok(slot.value.clone());
        }
        let Some(base) = &self.base else {
            return Ok(None);
        };
        if let Some(known) = self.ahead.borrow().get(key) {
            return Ok(known.clone());
        }
        let found = base.get(self.number, &bytes_of(key))?;
        found.map(|bytes| V::read(&mut Reader(&bytes))).transpose()
    }

    /// The row in memory, if the key has one there.
    fn slot(&self, key: &K) -> Option<&Slot<V>> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key));
        self.recent.get(key).or_else(frozen)
    }

    /// Reads in one pass what the base has of keys that are about to be asked for.
    pub(crate) fn read_ahead<'a>(&self, keys: impl Iterator<Item = &'a K>) -> Result<()> {
        let Some(base) = &self.base else {
            return Ok(());
        };
        let mut asked: Vec<K> = keys
            .filter(|key| self.slot(key).is_none())
            .cloned()
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let found = if asked.len() < ahead::KEYS_MIN {
            Ahead::default()
        } else {
            Ahead::read(&**base, self.number, asked)?
        };
        self.ahead.replace(found);
        Ok(())
    }

    /// Puts a row whose key is nowhere in the table.
    pub(crate) fn insert(&mut self, journal: &mut Journal, key: K, value: V) {
        journal.put(self.number, &key, &value, INSERT);
        self.store(key, Some(value), true);
    }

    /// Puts a row whose key is nowhere in the table, and that may be [forgotten](Self::forget):
    /// what is below after a crash may then be an older one.
    pub(crate) fn insert_forgettable(&mut self, journal: &mut Journal, key: K, value: V) {
        journal.put(self.number, &key, &value, PUT);
        self.store(key, Some(value), true);
    }

    /// Puts a row whether its key is there or not.
    pub(crate) fn put(&mut self, journal: &mut Journal, key: K, value: V) {
        journal.put(self.number, &key, &value, PUT);
        self.store(key, Some(value), false);
    }

    pub(crate) fn remove(&mut self, journal: &mut Journal, key: &K) {
        journal.remove(self.number, key);
        self.erase(key);
    }

    /// Removes a row that recovery would remove again by itself.
    pub(crate) fn forget(&mut self, key: &K) {
        self.erase(key);
    }

    /// Applies a mutation that a log kept.
    pub(crate) fn replay(&mut self, mutation: &Mutation<'_>) -> Result<()> {
        let key = K::read(&mut Reader(mutation.key))?;
        match mutation.value {
            // What was inserted after the base was written is not in the base.
            Some(value) => self.store(key, Some(V::read(&mut Reader(value))?), mutation.fresh),
            None => self.erase(&key),
        }
        Ok(())
    }

    fn store(&mut self, key: K, value: Option<V>, fresh: bool) {
        if value.is_some() {
            self.cleared.get_mut().put(&key);
        }
        let weight = key.weight() + value.as_ref().map_or(0, V::weight) + 16;
        self.bytes += weight;
        match self.recent.get_mut(&key) {
            Some(slot) => {
                self.bytes -= slot.value.as_ref().map_or(0, V::weight) + key.weight() + 16;
                slot.value = value;
            }
            None => {
                let fresh = fresh || self.base.is_none();
                self.recent.insert(key, Slot { value, fresh });
            }
        }
    }

    fn erase(&mut self, key: &K) {
        match self.recent.get(key) {
            Some(slot) if slot.fresh => {
                self.bytes -= slot.value.as_ref().map_or(0, V::weight) + key.weight() + 16;
                self.recent.remove(key);
            }
            Some(_) => self.store(key.clone(), None, false),
            None if self.base.is_some() => self.store(key.clone(), None, false),
            None => {}
        }
    }

    /// Rows between two bounds in order (or in reverse), at most `limit`.
    pub(crate) fn scan(
        &self,
        from: Bound<&K>,
        to: Bound<&K>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let mut found = Vec::new();
        if limit == 0 || is_empty_range(from, to) {
            return Ok(found);
        }
        if self.base.is_none() && self.frozen.is_none() {
            let live =
                |(key, slot): (&K, &Slot<V>)| slot.value.clone().map(|value| (key.clone(), value));
            let range = self.recent.range::<K, _>((from, to));
            if reverse {
                found.extend(range.rev().filter_map(live).take(limit));
            } else {
                found.extend(range.filter_map(live).take(limit));
            }
            return Ok(found);
        }
        let cleared = match from {
            Bound::Included(key) => self.cleared.borrow().end_after(key).cloned(),
            _ => None,
        };
        let begin = cleared.as_ref().map_or(from, Bound::Included);
        if is_empty_range(begin, to) {
            return Ok(found);
        }
        let stepped_over = self.merge(begin, to, reverse, limit, &mut found)?;
        if stepped_over >= STEPS_MIN && !reverse {
            self.note_cleared(from, to, found.first().map(|(key, _)| key));
        }
        Ok(found)
    }

    /// Notes that a scan met no row before the first that it found.
    fn note_cleared(&self, from: Bound<&K>, to: Bound<&K>, first: Option<&K>) {
        let end = match to {
            Bound::Excluded(to) => first.or(Some(to)),
            _ => first,
        };
        if let (Bound::Included(start), Some(end)) = (from, end) {
            let mut cleared = self.cleared.borrow_mut();
            cleared.add(start.clone(), end.clone());
        }
    }

    pub(crate) fn first(&self, from: Bound<&K>, to: Bound<&K>) -> Result<Option<(K, V)>> {
        Ok(self.scan(from, to, false, 1)?.pop())
    }

    /// Collects the rows of all levels; answers how many removed ones it stepped over.
    fn merge(
        &self,
        from: Bound<&K>,
        to: Bound<&K>,
        reverse: bool,
        limit: usize,
        found: &mut Vec<(K, V)>,
    ) -> Result<usize> {
        let mut upper = Upper::new(&self.recent, self.frozen.as_deref(), from, to, reverse);
        if let Some(base) = &self.base {
            let start = match from {
                Bound::Unbounded => Vec::new(),
                Bound::Included(key) => bytes_of(key),
                Bound::Excluded(key) => [bytes_of(key), vec![0]].concat(),
            };
            let end = match to {
                Bound::Unbounded => vec![0xff; 64],
                Bound::Excluded(key) => bytes_of(key),
                Bound::Included(key) => [bytes_of(key), vec![0]].concat(),
            };
            if !self.gaps.borrow().cover(&start, &end) {
                let mut visited = false;
                base.scan(self.number, &start, &end, reverse, &mut |key, value| {
                    visited = true;
                    let key = K::read(&mut Reader(key))?;
                    upper.before(&key, limit, found);
                    if found.len() < limit && !upper.covers(&key) {
                        found.push((key, V::read(&mut Reader(value))?));
                    }
                    Ok(found.len() < limit)
                })?;
                if !visited {
                    self.gaps.borrow_mut().add(start, end);
                }
            }
        }
        upper.rest(limit, found);
        Ok(upper.removed)
    }

    pub(crate) fn recent_bytes(&self) -> usize {
        self.bytes
    }

    /// Sets what is recent aside for a checkpoint.
    pub(crate) fn freeze(&mut self) -> Box<dyn FrozenTable> {
        debug_assert!(self.frozen.is_none(), "one checkpoint at a time");
        let frozen = Arc::new(std::mem::take(&mut self.recent));
        self.bytes = 0;
        self.frozen = Some(frozen.clone());
        Box::new(FrozenRows {
            number: self.number,
            rows: frozen,
        })
    }

    /// Drops what was set aside: the base has it now.
    pub(crate) fn thaw(&mut self) {
        self.frozen = None;
        self.gaps.take();
        self.ahead.take();
    }
}

fn is_empty_range<K: Ord>(from: Bound<&K>, to: Bound<&K>) -> bool {
    match (from, to) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b))
        | (Bound::Excluded(a), Bound::Included(b)) => a >= b,
        _ => false,
    }
}

fn bytes_of<K: Key>(key: &K) -> Vec<u8> {
    let mut writer = Writer::default();
    key.write(&mut writer);
    writer.0
}

/// The two levels in memory, merged, while a scan goes through the base below.
struct Upper<'a, K, V> {
    recent: Level<'a, K, V>,
    frozen: Option<Level<'a, K, V>>,
    reverse: bool,
    last: Option<K>,
    /// Removed rows that were met.
    removed: usize,
}

type Level<'a, K, V> = std::iter::Peekable<Box<dyn Iterator<Item = (&'a K, &'a Slot<V>)> + 'a>>;

impl<'a, K: Key, V: Value> Upper<'a, K, V> {
    fn new(
        recent: &'a Rows<K, V>,
        frozen: Option<&'a Rows<K, V>>,
        from: Bound<&K>,
        to: Bound<&K>,
        reverse: bool,
    ) -> Self {
        let level = |rows: &'a Rows<K, V>| -> Level<'a, K, V> {
            let range = rows.range::<K, _>((from, to));
            let boxed: Box<dyn Iterator<Item = _>> = if reverse {
                Box::new(range.rev())
            } else {
                Box::new(range)
            };
            boxed.peekable()
        };
        Self {
            recent: level(recent),
            frozen: frozen.map(level),
            reverse,
            last: None,
            removed: 0,
        }
    }

    fn precedes(&self, a: &K, b: &K) -> bool {
        if self.reverse { a > b } else { a < b }
    }

    /// The next row of both levels, the recent one hiding the frozen one.
    fn next(&mut self) -> Option<(&'a K, &'a Slot<V>)> {
        let recent = self.recent.peek().map(|(key, _)| *key);
        let frozen = self
            .frozen
            .as_mut()
            .and_then(|level| level.peek().map(|(key, _)| *key));
        match (recent, frozen) {
            (None, None) => None,
            (Some(_), None) => self.recent.next(),
            (Some(a), Some(b)) if a == b => {
                self.frozen.as_mut().and_then(Iterator::next);
                self.recent.next()
            }
            (Some(a), Some(b)) if self.precedes(a, b) => self.recent.next(),
            _ => self.frozen.as_mut().and_then(Iterator::next),
        }
    }

    fn peek_key(&mut self) -> Option<&'a K> {
        let recent = self.recent.peek().map(|(key, _)| *key);
        let frozen = self
            .frozen
            .as_mut()
            .and_then(|level| level.peek().map(|(key, _)| *key));
        match (recent, frozen) {
            (Some(a), Some(b)) => Some(if self.precedes(b, a) { b } else { a }),
            (a, b) => a.or(b),
        }
    }

    /// Emits everything up to and including `key`; remembers whether `key` itself was met.
    fn before(&mut self, key: &K, limit: usize, found: &mut Vec<(K, V)>) {
        while found.len() < limit {
            match self.peek_key() {
                Some(next) if next == key || self.precedes(next, key) => {
                    if let Some((key, slot)) = self.next() {
                        self.last = Some(key.clone());
                        self.removed += usize::from(slot.value.is_none());
                        found.extend(slot.value.clone().map(|value| (key.clone(), value)));
                    }
                }
                _ => return,
            }
        }
    }

    fn covers(&self, key: &K) -> bool {
        self.last.as_ref() == Some(key)
    }

    fn rest(&mut self, limit: usize, found: &mut Vec<(K, V)>) {
        while found.len() < limit {
            let Some((key, slot)) = self.next() else {
                return;
            };
            self.removed += usize::from(slot.value.is_none());
            found.extend(slot.value.clone().map(|value| (key.clone(), value)));
        }
    }
}

/// A visitor of frozen rows: table, key, and value or `None` for a removed row.
pub type RowVisitor<'a> = &'a mut dyn FnMut(u8, &[u8], Option<&[u8]>) -> Result<()>;

/// The rows of one table that a checkpoint writes to the base.
pub(crate) trait FrozenTable: Send + Sync {
    /// Visits the rows in the order of their keys.
    fn rows(&self, visit: RowVisitor<'_>) -> Result<()>;
}

struct FrozenRows<K, V> {
    number: u8,
    rows: Arc<Rows<K, V>>,
}

impl<K: Key, V: Value> FrozenTable for FrozenRows<K, V> {
    fn rows(&self, visit: RowVisitor<'_>) -> Result<()> {
        let (mut key_bytes, mut value_bytes) = (Writer::default(), Writer::default());
        for (key, slot) in self.rows.iter() {
            key_bytes.0.clear();
            key.write(&mut key_bytes);
            match &slot.value {
                Some(value) => {
                    value_bytes.0.clear();
                    value.write(&mut value_bytes);
                    visit(self.number, &key_bytes.0, Some(&value_bytes.0))?;
                }
                None => visit(self.number, &key_bytes.0, None)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
