//! One process per directory, and by whom a directory is held.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use punctual::time::{Clock, SystemClock};
use punctual::{Error, ErrorKind, Result};

use crate::disk::is_full;

/// Holds a directory until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

const NAME: &str = "lock";

impl Lock {
    /// Takes the directory, or reports which process has it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| {
            let message = match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "data directory cannot be written; give this user the right to, or name another"
                }
                _ if is_full(&error) => {
                    "disk is full: the data directory cannot be locked; free some space"
                }
                _ => "data directory cannot be locked",
            };
            let kind = if is_full(&error) {
                ErrorKind::EngineFull
            } else {
                ErrorKind::Io
            };
            let error = Error::new(kind, message).source(error);
            error.with("directory", path.display())
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(NAME));
        let mut file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        write_holder(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Whether a file of a directory is the lock, by its name.
    pub(crate) fn is_name(name: &str) -> bool {
        name == NAME
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (pid, since) = (std::process::id(), SystemClock.now());
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "process {pid} on {} since {since}", host.trim())
}

fn held(path: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    // The process that has it may be about to write who it is.
    let is_reported = file.read_to_string(&mut holder).is_ok() && !holder.is_empty();
    let holder = if is_reported {
        &holder
    } else {
        "another process"
    };
    let message = "data directory is held by another process; end that one, name another directory, \
                   or join it with EmbeddedEngine::open_or_join of the crate punctual-directory";
    Error::new(ErrorKind::DataLocked, message)
        .with("directory", path.display())
        .with("holder", holder)
}
