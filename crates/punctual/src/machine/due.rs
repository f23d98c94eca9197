//! The index of jobs that are to become due: a timing wheel in memory, a sorted table over a base.

use std::ops::Bound;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rows::DueKey;
use super::table::{Base, Journal, Table};
use crate::error::Result;
use crate::job::JobId;
use crate::memory::wheel::{Handle, Wheel};
use crate::time::Timestamp;

#[derive(Debug)]
pub(super) enum DueIndex {
    Wheels(FxHashMap<u32, QueueWheel>),
    Rows(DueRows),
}

#[derive(Debug)]
pub(super) struct QueueWheel {
    wheel: Wheel<JobId>,
    handles: FxHashMap<u64, Handle>,
}

#[derive(Debug)]
pub(super) struct DueRows {
    pub(super) table: Table<DueKey, JobId>,
    /// Per queue, a key that every live row is at or after.
    lows: FxHashMap<u32, DueKey>,
}

impl DueIndex {
    pub(super) fn new(table: u8, base: Option<Arc<dyn Base>>) -> Self {
        match base {
            None => Self::Wheels(FxHashMap::default()),
            Some(base) => Self::Rows(DueRows {
                table: Table::new(table, Some(base)),
                lows: FxHashMap::default(),
            }),
        }
    }

    pub(super) fn insert(&mut self, journal: &mut Journal, key: DueKey, id: JobId) {
        match self {
            Self::Wheels(wheels) => {
                let queue = wheels.entry(key.queue).or_insert_with(|| QueueWheel {
                    wheel: Wheel::new(0),
                    handles: FxHashMap::default(),
                });
                let handle = queue.wheel.insert(key.due.as_micros(), key.seq, id);
                queue.handles.insert(key.seq, handle);
            }
            Self::Rows(rows) => {
                if let Some(low) = rows.lows.get_mut(&key.queue).filter(|low| **low > key) {
                    *low = key.clone();
                }
                rows.table.insert(journal, key, id);
            }
        }
    }

    /// Reads ahead what [`DueIndex::remove`] will ask of these jobs.
    pub(super) fn read_ahead(&self, keys: &[DueKey]) -> Result<()> {
        match self {
            Self::Wheels(_) => Ok(()),
            Self::Rows(rows) => rows.table.read_ahead(keys.iter()),
        }
    }

    /// Removes a job; whether it was here.
    pub(super) fn remove(&mut self, journal: &mut Journal, key: &DueKey) -> Result<bool> {
        match self {
            Self::Wheels(wheels) => {
                let Some(queue) = wheels.get_mut(&key.queue) else {
                    return Ok(false);
                };
                let Some(handle) = queue.handles.remove(&key.seq) else {
                    return Ok(false);
                };
                queue.wheel.cancel(handle);
                Ok(true)
            }
            Self::Rows(rows) => {
                let found = rows.table.get(key)?.is_some();
                if found {
                    rows.table.remove(journal, key);
                }
                Ok(found)
            }
        }
    }

    /// Takes out at most `limit` jobs that are due, by due and then by seq.
    pub(super) fn pop(
        &mut self,
        journal: &mut Journal,
        queue: u32,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(DueKey, JobId)>> {
        match self {
            Self::Wheels(wheels) => {
                let Some(wheel) = wheels.get_mut(&queue) else {
                    return Ok(Vec::new());
                };
                let mut fired = Vec::new();
                wheel.wheel.pop_due(now.as_micros(), limit, &mut fired);
                let key = |due, seq| DueKey {
                    queue,
                    due: Timestamp::from_micros(due),
                    seq,
                };
                for (_, seq, _) in &fired {
                    wheel.handles.remove(seq);
                }
                Ok(fired
                    .into_iter()
                    .map(|(due, seq, id)| (key(due, seq), id))
                    .collect())
            }
            Self::Rows(rows) => {
                let end = DueKey {
                    queue,
                    due: now,
                    seq: u64::MAX,
                };
                let popped = rows.scan(queue, Bound::Included(&end), limit)?;
                for (key, _) in &popped {
                    rows.table.remove(journal, key);
                }
                if let Some((last, _)) = popped.last() {
                    rows.lows.insert(queue, last.clone());
                }
                Ok(popped)
            }
        }
    }

    /// The earliest due of a queue.
    pub(super) fn next(&mut self, queue: u32) -> Result<Option<Timestamp>> {
        match self {
            Self::Wheels(wheels) => {
                let next = wheels
                    .get_mut(&queue)
                    .and_then(|queue| queue.wheel.next_due());
                Ok(next.map(Timestamp::from_micros))
            }
            Self::Rows(rows) => {
                let end = DueKey::start_of(queue + 1);
                let first = rows.scan(queue, Bound::Excluded(&end), 1)?.pop();
                let low = first.as_ref().map_or(end, |(key, _)| key.clone());
                rows.lows.insert(queue, low);
                Ok(first.map(|(key, _)| key.due))
            }
        }
    }

    /// Jobs after a place, by due and then by seq.
    pub(super) fn page(
        &mut self,
        queue: u32,
        after: Option<(Timestamp, u64)>,
        limit: usize,
    ) -> Result<Vec<(DueKey, JobId)>> {
        match self {
            Self::Wheels(wheels) => {
                let Some(wheel) = wheels.get_mut(&queue) else {
                    return Ok(Vec::new());
                };
                let after = after.map(|(due, seq)| (due.as_micros(), seq));
                let page = wheel.wheel.page(after, limit);
                let key = |due, seq| DueKey {
                    queue,
                    due: Timestamp::from_micros(due),
                    seq,
                };
                Ok(page
                    .into_iter()
                    .map(|(due, seq, id)| (key(due, seq), id))
                    .collect())
            }
            Self::Rows(rows) => {
                let end = DueKey::start_of(queue + 1);
                match after {
                    None => rows.scan(queue, Bound::Excluded(&end), limit),
                    Some((due, seq)) => {
                        let from = DueKey { queue, due, seq };
                        rows.table
                            .scan(Bound::Excluded(&from), Bound::Excluded(&end), false, limit)
                    }
                }
            }
        }
    }

    pub(super) fn rows(&mut self) -> Option<&mut Table<DueKey, JobId>> {
        match self {
            Self::Wheels(_) => None,
            Self::Rows(rows) => Some(&mut rows.table),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Wheels(wheels) => {
                let of =
                    |queue: &QueueWheel| queue.wheel.heap_bytes() + queue.handles.capacity() * 24;
                wheels.values().map(of).sum()
            }
            Self::Rows(rows) => rows.table.recent_bytes(),
        }
    }
}

impl DueRows {
    fn scan(&self, queue: u32, end: Bound<&DueKey>, limit: usize) -> Result<Vec<(DueKey, JobId)>> {
        let start = DueKey::start_of(queue);
        let low = self.lows.get(&queue).unwrap_or(&start);
        self.table.scan(Bound::Included(low), end, false, limit)
    }
}
