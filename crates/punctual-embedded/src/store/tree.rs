//! The store of production: a log-structured tree, written by checkpoints.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use lsm_tree::compaction::Leveled;
use lsm_tree::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Guard,
    SequenceNumberCounter,
};
use punctual::machine::{Base, ScanVisitor};
use punctual::sync::SharedLock;
use punctual::{Error, ErrorKind, Result};

use super::{Rows, Store, pointer};
use crate::disk::create_directory;

/// A log-structured tree of sorted tables that is fed by checkpoints only.
///
/// One tree: the first byte of a key names the table, so one ingestion is one atomic step over all
/// of them. Nothing ever enters its memtable, so there is nothing that it could lose.
pub struct TreeStore {
    tree: AnyTree,
    path: PathBuf,
    /// Reads see everything before it. Locked for reading while a version is read, and for writing
    /// while one is chosen to be forgotten: a reader never reads a forgotten one.
    visible: RwLock<SequenceNumberCounter>,
    strategy: Arc<Leveled>,
}

const TABLE_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 32 << 20;
const OPEN_FILES: usize = 64;
const BLOOM_BITS: f32 = 10.0;
/// So many layers to be merged make reads slow: let compaction catch up.
const LAYERS_MAX: usize = 8;
/// The row that says which commit the tree has; no table has the number 0.
const APPLIED: &[u8] = b"\0applied";

impl TreeStore {
    /// Opens the tree in a directory, or makes one unless it `must_exist`.
    pub fn open(path: &Path, must_exist: bool) -> Result<Self> {
        let is_there = pointer::check(path)?;
        if !is_there && must_exist {
            let message = "store is missing and the log begins after it; restore the data directory from a backup";
            return Err(Error::new(ErrorKind::DataDamaged, message).with("file", path.display()));
        }
        let failed = |error| failed("store", path, error);
        if !is_there {
            // The tree makes files that all may read: no other user comes near them.
            match create_directory(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(error.into()));
                }
                _ => {}
            }
        }
        let (written, visible) = Default::default();
        let tree = Self::config(path, &written, &visible).open();
        let tree = tree.map_err(failed)?;
        // The counters are ours to restore: forgotten, new tables would sort below old ones.
        if let Some(highest) = tree.get_highest_seqno() {
            written.fetch_max(highest + 1);
            visible.fetch_max(highest + 1);
        }
        Ok(Self {
            tree,
            path: path.into(),
            visible: RwLock::new(visible),
            strategy: Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES)),
        })
    }

    fn config(
        path: &Path,
        written: &SequenceNumberCounter,
        visible: &SequenceNumberCounter,
    ) -> Config {
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS));
        Config::new(path, written.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE_BYTES)))
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(OPEN_FILES))))
            .filter_policy(FilterPolicy::all(bloom))
            .filter_block_pinning_policy(PinningPolicy::all(false))
            .filter_block_partitioning_policy(PartitioningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(false))
            .index_block_partitioning_policy(PartitioningPolicy::all(true))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
    }

    /// Reads every row of every table: what is damaged is found by its checksum, and its file
    /// named.
    pub(crate) fn verify(&self) -> Result<()> {
        for table in self.tree.current_version().iter_tables() {
            for row in table.iter() {
                row.map_err(|error| failed("file", &table.path, error))?;
            }
        }
        Ok(())
    }

    /// Reads the newest version.
    fn read<T>(&self, read: impl FnOnce(u64) -> T) -> T {
        let visible = self.visible.reading();
        read(visible.get())
    }

    /// The version before which no reader reads any more.
    fn watermark(&self) -> u64 {
        let visible = self.visible.write();
        visible.unwrap_or_else(PoisonError::into_inner).get()
    }

    /// Lets the files of superseded versions go: they are kept until a watermark passes them.
    fn forget_superseded(&self) -> Result<()> {
        let watermark = self.watermark();
        let mut versions = self.tree.get_version_history_lock();
        let done = versions.maintenance(&self.path, watermark);
        done.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: lsm_tree::Error) -> Error {
        failed("store", &self.path, error)
    }
}

impl Base for TreeStore {
    fn get(&self, table: u8, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = in_table(table, key);
        let found = self.read(|visible| self.tree.get(key, visible));
        let found = found.map_err(|error| self.failed(error))?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: u8,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        visit: ScanVisitor<'_>,
    ) -> Result<()> {
        let range = in_table(table, from)..in_table(table, to);
        let mut rows = self.read(|visible| self.tree.range(range, visible, None));
        while let Some(row) = if reverse {
            rows.next_back()
        } else {
            rows.next()
        } {
            let (key, value) = row.into_inner().map_err(|error| self.failed(error))?;
            if !visit(&key[1..], &value)? {
                break;
            }
        }
        Ok(())
    }
}

impl Store for TreeStore {
    fn applied(&self) -> Result<u64> {
        let found = self.read(|visible| self.tree.get(APPLIED, visible));
        let Some(value) = found.map_err(|error| self.failed(error))? else {
            return Ok(0);
        };
        let number = <[u8; 8]>::try_from(&value[..]);
        let number = number.map_err(|_| self.failed(lsm_tree::Error::Unrecoverable))?;
        Ok(u64::from_be_bytes(number))
    }

    fn apply(&self, commit: u64, rows: Rows<'_>) -> Result<()> {
        let failed = |error| self.failed(error);
        let mut step = self.tree.ingestion().map_err(failed)?;
        step.write(APPLIED, commit.to_be_bytes()).map_err(failed)?;
        rows(&mut |table, key, value| {
            let key = in_table(table, key);
            match value {
                Some(value) => step.write(key, value),
                None => step.write_tombstone(key),
            }
            .map_err(failed)
        })?;
        step.finish().map_err(failed)?;
        self.forget_superseded()
    }

    fn is_behind(&self) -> bool {
        self.tree.l0_run_count() >= LAYERS_MAX
    }

    fn compact(&self) -> Result<bool> {
        let watermark = self.watermark();
        let done = self.tree.compact(self.strategy.clone(), watermark);
        done.map_err(|error| self.failed(error))?;
        // A step that did something made a version of its own.
        let has_done = self.watermark() != watermark;
        if has_done {
            self.forget_superseded()?;
        }
        Ok(has_done)
    }

    fn shrink(&self) -> Result<bool> {
        // What fits in one table is written anew in a moment: there a fortieth is worth it, else a
        // quarter.
        let is_small = self.tree.disk_space() <= TABLE_BYTES;
        let dead = self.tree.tombstone_count();
        if dead.saturating_mul(if is_small { 40 } else { 4 }) <= self.tree.approximate_len() as u64
        {
            return Ok(false);
        }
        let done = self.tree.major_compact(TABLE_BYTES, self.watermark());
        done.map_err(|error| self.failed(error))?;
        self.forget_superseded()?;
        Ok(true)
    }

    fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    fn memory_bytes(&self) -> u64 {
        self.tree.disk_space().min(CACHE_BYTES)
    }
}

impl fmt::Debug for TreeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreeStore({})", self.path.display())
    }
}

fn in_table(table: u8, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(table);
    bytes.extend_from_slice(key);
    bytes
}

/// An error of the tree, in our words; `what` is at that path.
fn failed(what: &'static str, path: &Path, error: lsm_tree::Error) -> Error {
    use std::io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    let is_damage = match &error {
        // A length or a place that no file has.
        lsm_tree::Error::Io(error) => {
            matches!(
                error.kind(),
                InvalidData | InvalidInput | NotFound | UnexpectedEof
            )
        }
        _ => true,
    };
    let described = if is_damage {
        let message = "store is damaged; restore the data directory from a backup";
        Error::new(ErrorKind::DataDamaged, message)
    } else {
        Error::new(ErrorKind::Io, "store could not be read or written")
    };
    let described = described.with(what, path.display());
    let found = match error {
        lsm_tree::Error::Io(error) => return described.source(error),
        lsm_tree::Error::ChecksumMismatch { .. } => "a block does not match its checksum",
        lsm_tree::Error::Decompress(_) => "a block cannot be decompressed",
        lsm_tree::Error::InvalidVersion(_) => "a file is of an unknown format",
        lsm_tree::Error::Unrecoverable => "a file is missing or cannot be read back",
        _ => "a block is malformed",
    };
    described.with("found", found)
}
