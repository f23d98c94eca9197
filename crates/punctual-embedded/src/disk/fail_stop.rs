//! A disk that stops at the first failed sync.

use std::io;
use std::sync::{Arc, Mutex};

use super::{Disk, DiskFile};
use punctual::sync::Lock;

/// A disk on which nothing is synced again once a sync of it has failed: a system may drop what it
/// could not write, and call the next sync a success.
#[derive(Debug)]
pub(crate) struct FailStop {
    disk: Arc<dyn Disk>,
    names: Gate,
}

#[derive(Debug)]
struct FailStopFile {
    file: Arc<dyn DiskFile>,
    content: Gate,
}

/// Lets one sync pass at a time, as the system may report a failure to only one of two; and none
/// after that.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
}

impl FailStop {
    pub(crate) fn over(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        let names = Gate::default();
        Arc::new(Self { disk, names })
    }
}

impl Gate {
    fn pass(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut is_shut = self.is_shut.locked();
        if *is_shut {
            return Err(io::Error::other("an earlier sync failed"));
        }
        let synced = sync();
        *is_shut = synced.is_err();
        synced
    }
}

fn fail_stop(file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
    let content = Gate::default();
    Arc::new(FailStopFile { file, content })
}

impl Disk for FailStop {
    fn names(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.names()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk.read(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(fail_stop)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(fail_stop)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.names.pass(|| self.disk.sync_names())
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.disk.reserve(name, bytes)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn boot(&self) -> u128 {
        self.disk.boot()
    }
}

impl DiskFile for FailStopFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.content.pass(|| self.file.sync())
    }
}

#[cfg(test)]
mod tests;
