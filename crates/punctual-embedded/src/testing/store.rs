//! A store in memory for tests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use punctual::machine::{Base, ScanVisitor};
use punctual::sync::SharedLock;
use punctual::{Error, ErrorKind, Result};

use super::ForgetfulDisk;
use crate::store::{Rows, Store};

/// A store in memory; a checkpoint is one operation of a [`ForgetfulDisk`], whole or not at all.
///
/// Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    disk: ForgetfulDisk,
    state: Arc<RwLock<State>>,
    reads: Arc<AtomicUsize>,
}

#[derive(Clone, Default)]
struct State {
    rows: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    applied: u64,
}

impl MemoryStore {
    /// An empty store whose checkpoints fail as a disk is set to.
    pub fn new(disk: ForgetfulDisk) -> Self {
        Self {
            disk,
            state: Arc::default(),
            reads: Arc::default(),
        }
    }

    /// Another store with the same rows, on another disk: checkpoints are durable.
    #[must_use]
    pub fn copy(&self, disk: ForgetfulDisk) -> Self {
        let state = Arc::new(RwLock::new(self.read().clone()));
        Self {
            disk,
            state,
            reads: Arc::default(),
        }
    }

    /// How many gets and scans there were so far.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.reading()
    }
}

impl Base for MemoryStore {
    fn get(&self, table: u8, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self.read().rows.get(&(table, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: u8,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        visit: ScanVisitor<'_>,
    ) -> Result<()> {
        let (from, to) = ((table, from.to_vec()), (table, to.to_vec()));
        if from >= to {
            return Ok(());
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let state = self.read();
        let mut rows = state.rows.range(from..to);
        while let Some(((_, key), value)) = if reverse {
            rows.next_back()
        } else {
            rows.next()
        } {
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn applied(&self) -> Result<u64> {
        Ok(self.read().applied)
    }

    fn apply(&self, commit: u64, rows: Rows<'_>) -> Result<()> {
        let mut changes = Vec::new();
        rows(&mut |table, key, value| {
            changes.push(((table, key.to_vec()), value.map(<[u8]>::to_vec)));
            Ok(())
        })?;
        assert!(
            changes.is_sorted_by(|(a, _), (b, _)| a < b),
            "rows come in order, each once"
        );
        let failed = |error| Error::new(ErrorKind::Io, "store could not be written").source(error);
        self.disk.operation().map_err(failed)?;
        let mut state = self.state.writing();
        for (key, value) in changes {
            match value {
                Some(value) => state.rows.insert(key, value),
                None => state.rows.remove(&key),
            };
        }
        state.applied = commit;
        Ok(())
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn compact(&self) -> Result<bool> {
        Ok(false)
    }

    fn shrink(&self) -> Result<bool> {
        Ok(false)
    }

    fn disk_bytes(&self) -> u64 {
        let size = |((_, key), value): (&(u8, Vec<u8>), &Vec<u8>)| (key.len() + value.len()) as u64;
        self.read().rows.iter().map(size).sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.disk_bytes()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}
