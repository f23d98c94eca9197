//! Reading ahead: what the base has of many keys, in one pass instead of a search for each.

use super::{Base, Key, Value, bytes_of};
use crate::error::Result;
use crate::machine::codec::Reader;

/// Fewer keys are read one by one.
pub(super) const KEYS_MIN: usize = 8;
/// Bytes of values read ahead; what comes after them is read one by one.
const BYTES_MAX: usize = 4 << 20;
/// Rows of other keys that a pass may step over, beside as many as it was asked for.
const OUTSIDERS_MAX: usize = 16;

/// What the base was found to have, or not to have, of some keys, in their order.
#[derive(Debug)]
pub(super) struct Ahead<K, V>(Vec<(K, Option<V>)>);

impl<K, V> Default for Ahead<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Key, V: Value> Ahead<K, V> {
    /// Reads sorted keys of the base, as far as they lie close enough for it to pay.
    pub(super) fn read(base: &dyn Base, table: u8, keys: Vec<K>) -> Result<Self> {
        debug_assert!(keys.is_sorted(), "one pass meets the keys in order");
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Self::default());
        };
        let (start, end) = (bytes_of(first), [bytes_of(last), vec![0]].concat());
        let mut found = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter().peekable();
        let (mut met, mut outsiders, mut bytes, mut pays) = (0, 0, 0, true);
        base.scan(table, &start, &end, false, &mut |key, value| {
            let key = K::read(&mut Reader(key))?;
            while let Some(absent) = keys.next_if(|asked| *asked < key) {
                found.push((absent, None));
            }
            if keys.next_if_eq(&key).is_some() {
                found.push((key, Some(V::read(&mut Reader(value))?)));
                met += 1;
                bytes += value.len();
            } else {
                outsiders += 1;
            }
            pays = bytes < BYTES_MAX && outsiders <= OUTSIDERS_MAX + met;
            Ok(pays)
        })?;
        if pays {
            found.extend(keys.map(|absent| (absent, None)));
        }
        Ok(Self(found))
    }

    /// What the base has of a key, if it was read.
    pub(super) fn get(&self, key: &K) -> Option<&Option<V>> {
        let at = self.0.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some(&self.0[at].1)
    }
}
