//! Goal: a table over a base reads like a plain sorted map, whatever was frozen, checkpointed or
//! replayed meanwhile. Method: random operations on both, compared after each.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::machine::codec::Reader;
use crate::machine::rows::SeqKey;

type Stored = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

#[derive(Debug, Default)]
struct MapBase {
    rows: Mutex<Stored>,
    gets: AtomicUsize,
    /// Rows that scans visited.
    visits: AtomicUsize,
}

impl Base for MapBase {
    fn get(&self, table: u8, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        Ok(self
            .rows
            .lock()
            .unwrap()
            .get(&(table, key.to_vec()))
            .cloned())
    }

    fn scan(
        &self,
        table: u8,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        visit: ScanVisitor<'_>,
    ) -> Result<()> {
        let rows = self.rows.lock().unwrap();
        let range = rows.range((table, from.to_vec())..(table, to.to_vec()));
        let mut ordered: Vec<_> = range.collect();
        if reverse {
            ordered.reverse();
        }
        for ((_, key), value) in ordered {
            self.visits.fetch_add(1, Ordering::Relaxed);
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl MapBase {
    fn apply(&self, frozen: &dyn FrozenTable) {
        let mut rows = self.rows.lock().unwrap();
        let mut last: Option<Vec<u8>> = None;
        frozen
            .rows(&mut |table, key, value| {
                assert!(
                    last.as_deref() < Some(key),
                    "a checkpoint visits keys in order, once"
                );
                last = Some(key.to_vec());
                match value {
                    Some(value) => rows.insert((table, key.to_vec()), value.to_vec()),
                    None => rows.remove(&(table, key.to_vec())),
                };
                Ok(())
            })
            .unwrap();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u64, u32),
    Remove(u64),
    Freeze,
    Thaw,
    /// What is in memory is lost, and read back from the log.
    Crash,
    /// Reads ahead every `stride`th key of a range.
    ReadAhead {
        from: u64,
        to: u64,
        stride: usize,
    },
    Scan {
        from: u64,
        to: u64,
        open: bool,
        reverse: bool,
        limit: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..24_u64;
    let step = prop_oneof![
        4 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key.clone().prop_map(Step::Remove),
        1 => Just(Step::Freeze),
        1 => Just(Step::Thaw),
        1 => Just(Step::Crash),
        2 => (key.clone(), key.clone(), 1..3_usize)
            .prop_map(|(from, to, stride)| Step::ReadAhead { from, to, stride }),
        3 => (key.clone(), key, any::<bool>(), any::<bool>(), 0..9_usize)
            .prop_map(|(from, to, open, reverse, limit)| Step::Scan { from, to, open, reverse, limit }),
    ];
    proptest::collection::vec(step, 1..120)
}

fn key(seq: u64) -> SeqKey {
    SeqKey { queue: 7, seq }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn a_table_over_a_base_reads_like_a_sorted_map(steps in steps()) {
        let base = Arc::new(MapBase::default());
        let mut table: Table<SeqKey, u32> = Table::new(3, Some(base.clone()));
        let mut journal = Journal::new(true);
        let mut model = BTreeMap::new();
        let mut frozen: Option<(Box<dyn FrozenTable>, usize)> = None;
        let mut applied = 0;
        for step in steps {
            match step {
                Step::Put(seq, value) => {
                    if model.insert(seq, value).is_none() {
                        table.insert(&mut journal, key(seq), value);
                    } else {
                        table.put(&mut journal, key(seq), value);
                    }
                }
                Step::Remove(seq) => {
                    model.remove(&seq);
                    table.remove(&mut journal, &key(seq));
                }
                Step::Freeze if frozen.is_none() => {
                    frozen = Some((table.freeze(), journal.rows.0.len()));
                }
                Step::Thaw => {
                    if let Some((frozen, end)) = frozen.take() {
                        base.apply(&*frozen);
                        table.thaw();
                        applied = end;
                    }
                }
                Step::Crash => {
                    frozen = None;
                    table = Table::new(3, Some(base.clone()));
                    replay(&mut table, &journal.rows.0[applied..]);
                }
                Step::Freeze => {}
                Step::ReadAhead { from, to, stride } => {
                    let keys: Vec<_> = (from..to).step_by(stride).map(key).collect();
                    table.read_ahead(keys.iter()).unwrap();
                }
                Step::Scan { from, to, open, reverse, limit } => {
                    let (first, last) = (key(from), key(to));
                    let from_bound = if open { Bound::Excluded(&first) } else { Bound::Included(&first) };
                    let found = table.scan(from_bound, Bound::Excluded(&last), reverse, limit).unwrap();
                    let inside = |seq: &u64| if open { *seq > from } else { *seq >= from } && *seq < to;
                    let mut expected: Vec<_> =
                        model.iter().filter(|(seq, _)| inside(seq)).map(|(seq, value)| (key(*seq), *value)).collect();
                    if reverse {
                        expected.reverse();
                    }
                    expected.truncate(limit);
                    prop_assert_eq!(found, expected);
                }
            }
            for seq in 0..24 {
                prop_assert_eq!(table.get(&key(seq)).unwrap(), model.get(&seq).copied());
            }
        }
        // The log alone brings back the same rows.
        let mut again: Table<SeqKey, u32> = Table::new(3, Some(Arc::new(MapBase::default())));
        replay(&mut again, &journal.rows.0);
        let all = again.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX).unwrap();
        prop_assert_eq!(all, model.into_iter().map(|(seq, value)| (key(seq), value)).collect::<Vec<_>>());
    }
}

fn replay(table: &mut Table<SeqKey, u32>, log: &[u8]) {
    let mut reader = Reader(log);
    while !reader.0.is_empty() {
        table.replay(&Mutation::read(&mut reader).unwrap()).unwrap();
    }
}

#[test]
fn what_came_and_went_within_a_log_leaves_nothing_after_replay() {
    let mut journal = Journal::new(true);
    let mut table: Table<SeqKey, u32> = Table::new(3, Some(Arc::new(MapBase::default())));
    for seq in 0..100 {
        table.insert(&mut journal, key(seq), 1);
        table.put(&mut journal, key(seq), 2);
        table.remove(&mut journal, &key(seq));
    }
    let mut again: Table<SeqKey, u32> = Table::new(3, Some(Arc::new(MapBase::default())));
    replay(&mut again, &journal.rows.0);
    assert_eq!(again.recent_bytes(), 0);
    let mut left = 0;
    let mut count = |_, _: &[u8], _: Option<&[u8]>| {
        left += 1;
        Ok(())
    };
    again.freeze().rows(&mut count).unwrap();
    assert_eq!(left, 0);
}

/// A table whose base has every second of 2,000 rows, and its base.
fn stored() -> (Table<SeqKey, u32>, Arc<MapBase>) {
    let base = Arc::new(MapBase::default());
    let mut table: Table<SeqKey, u32> = Table::new(3, Some(base.clone()));
    for seq in (0..2_000).step_by(2) {
        table.insert(&mut Journal::new(false), key(seq), seq as u32);
    }
    base.apply(&*table.freeze());
    table.thaw();
    (table, base)
}

#[test]
fn neighbours_are_read_ahead_in_one_pass() {
    let (table, base) = stored();
    let page: Vec<_> = (500..700).map(key).collect();
    table.read_ahead(page.iter()).unwrap();
    for key in &page {
        let there = key.seq.is_multiple_of(2).then_some(key.seq as u32);
        assert_eq!(table.get(key).unwrap(), there);
    }
    assert_eq!(base.gets.load(Ordering::Relaxed), 0);
    assert_eq!(base.visits.load(Ordering::Relaxed), 100);
    table.get(&key(400)).unwrap();
    assert_eq!(base.gets.load(Ordering::Relaxed), 1);
}

#[test]
fn keys_far_apart_are_not_read_ahead() {
    let (table, base) = stored();
    let page: Vec<_> = (0..2_000).step_by(100).map(key).collect();
    table.read_ahead(page.iter()).unwrap();
    assert!(base.visits.load(Ordering::Relaxed) < 25);
    for key in &page {
        assert_eq!(table.get(key).unwrap(), Some(key.seq as u32));
    }
}

#[test]
fn what_was_taken_from_the_front_is_not_stepped_over_again() {
    let (mut table, base) = stored();
    let (start, end) = (key(0), key(2_000));
    let first = |table: &Table<SeqKey, u32>| {
        let found = table.first(Bound::Included(&start), Bound::Excluded(&end));
        found.unwrap().map(|(key, _)| key.seq)
    };
    for seq in (0..2_000).step_by(2) {
        assert_eq!(first(&table), Some(seq));
        table.remove(&mut Journal::new(false), &key(seq));
        if seq == 1_000 {
            base.apply(&*table.freeze());
            table.thaw();
        }
    }
    assert_eq!(first(&table), None);
    let visits = base.visits.load(Ordering::Relaxed);
    assert!(visits < 20 * 1_000, "{visits} rows for 1,000 firsts");
    // What comes to lie before is found, and what was before it is not asked for again.
    table.insert(&mut Journal::new(false), key(7), 7);
    assert_eq!(first(&table), Some(7));
    table.remove(&mut Journal::new(false), &key(7));
    table.insert(&mut Journal::new(false), key(3), 3);
    table.insert(&mut Journal::new(false), key(9), 9);
    assert_eq!(first(&table), Some(3));
}
