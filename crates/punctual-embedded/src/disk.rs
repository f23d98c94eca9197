//! The seam to the disk: the few operations that the log and the reserve need.
//!
//! Narrow on purpose, so that a test can write a disk that forgets what was not synced, fails at
//! the k-th operation, is full, or tears a write; [`Folder`] is the real one.

mod fail_stop;
mod folder;

use std::fmt;
use std::io;
use std::sync::Arc;

pub(crate) use fail_stop::FailStop;
pub use folder::Folder;
pub(crate) use folder::{create_directory, sync_directory};

/// A flat directory of files.
///
/// Names are durable after [`sync_names`](Disk::sync_names), bytes after [`DiskFile::sync`].
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// The files with their lengths, in any order.
    fn names(&self) -> io::Result<Vec<(String, u64)>>;
    /// The whole content of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Makes a file without content; one of that name loses its content.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// A file that is there, to write and sync it.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name in one step, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Makes a file that takes that many bytes of the disk, so that removing it gives them back.
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()>;
    /// How many bytes may still be written.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Names the run of the machine, another one after each power cut; 0 where that is unknown.
    fn boot(&self) -> u128;
}

/// A file of a [`Disk`].
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes all bytes at a place; beyond the end the file grows.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes what was written durable. After a failure nothing is known of any byte, whatever later
    /// syncs answer.
    fn sync(&self) -> io::Result<()>;
}

/// Makes a file of a name that another may have: a new one, about whose syncs nothing is known yet.
pub(crate) fn create_anew(disk: &dyn Disk, name: &str) -> io::Result<Arc<dyn DiskFile>> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => disk.create(name),
    }
}

/// Whether an error says that the disk, or what we may use of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
