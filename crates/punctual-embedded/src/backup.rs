//! Backup of a directory, in use or not, and back.
//!
//! It needs no call to the engine: what a backup needs is opened, which keeps it alive, in an order
//! in which nothing can be missing. The log first, then the store: what the store has taken
//! meanwhile is simply in both. Tables never change; the log's end is cut after its last whole
//! record.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use punctual::{Error, ErrorKind, Result};

use crate::disk::{Folder, create_directory, sync_directory};
use crate::log::{self, Found};
use crate::marker::Marker;
use crate::opening::STORE;
use crate::store::{Store, TreeStore};

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Files.
    pub files: usize,
    /// Bytes of them.
    pub bytes: u64,
}

/// Copies a data directory to a new one; everything that was acknowledged before is in it.
///
/// The directory may be in use, by this process or another. The copy is read back; one that fails
/// is removed again, so that no unreadable copy is left.
///
/// ```
/// # async fn example() -> punctual::Result<()> {
/// use punctual_embedded::{EmbeddedEngine, Options, backup, restore};
///
/// # let parent = tempfile::tempdir().unwrap();
/// # let (data, kept, again) = (parent.path().join("data"), parent.path().join("kept"), parent.path().join("again"));
/// let engine = EmbeddedEngine::open(&data, Options::default())?;
/// backup(&data, &kept)?;
/// engine.close().await?;
/// restore(&kept, &again)?;
/// EmbeddedEngine::open(&again, Options::default())?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn backup(directory: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Copied> {
    copy(directory.as_ref(), to.as_ref()).map_err(|error| error.operation("backup"))
}

/// Makes a data directory of a backup, which stays as it is.
pub fn restore(backup: impl AsRef<Path>, directory: impl AsRef<Path>) -> Result<Copied> {
    copy(backup.as_ref(), directory.as_ref()).map_err(|error| error.operation("restore"))
}

/// Attempts while a directory in use changes under the hand.
const ATTEMPTS: usize = 1_000;
const POINTER: &str = "base/current";
const TABLES: &str = "base/tables";

fn copy(from: &Path, to: &Path) -> Result<Copied> {
    let disk = Folder::new(from);
    let Some(marker) = Marker::read(&disk).map_err(|error| in_directory(error, from))? else {
        let message = "directory holds no data of punctual; name a data directory or a backup";
        return Err(in_directory(Error::new(ErrorKind::NotFound, message), from));
    };
    let opened = open_all(from).map_err(|error| failed(error, from))?;
    let log = read_log(marker, opened.log).map_err(|error| failed(error, from))?;
    let is_made = make_empty(to)?;
    let copied = write_and_check(from, to, marker, log, opened.store, &opened.format);
    if copied.is_err() {
        // What is left would look like a copy.
        clear(to, is_made);
    }
    copied
}

/// Writes everything, reads it back, and only then the file that makes it a data directory.
fn write_and_check(
    from: &Path,
    to: &Path,
    marker: Marker,
    log: Vec<(String, Vec<u8>)>,
    store: Vec<(String, File)>,
    format: &[u8],
) -> Result<Copied> {
    let mut copied = write_all(to, log, store).map_err(|error| failed(error, to))?;
    check(to, marker).map_err(|error| in_original(error, from, to))?;
    let written = copied.one(to.join(Marker::NAME), &mut &*format);
    let written = written.and_then(|()| sync_directory(to));
    written.map_err(|error| failed(error, to))?;
    Ok(copied)
}

/// Removes what was written to a directory that was empty, and the directory if it was not there.
fn clear(to: &Path, is_made: bool) {
    let cleared = if is_made {
        fs::remove_dir_all(to)
    } else {
        fs::read_dir(to).and_then(|mut entries| {
            entries.try_for_each(|entry| {
                let path = entry?.path();
                if path.is_dir() {
                    fs::remove_dir_all(path)
                } else {
                    fs::remove_file(path)
                }
            })
        })
    };
    if let Err(error) = cleared {
        tracing::warn!(%error, directory = %to.display(), "copy that failed could not be removed");
    }
}

/// Files that are kept alive by being open.
struct Opened {
    format: Vec<u8>,
    log: Vec<(String, File)>,
    store: Vec<(String, File)>,
}

/// Opens everything at one moment: no file may go meanwhile.
fn open_all(from: &Path) -> io::Result<Opened> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_open_all(from) {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) if attempt == ATTEMPTS => {
                return Err(io::Error::other(
                    "the store changes faster than it can be copied",
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound || attempt == ATTEMPTS => {
                return Err(error);
            }
            // A checkpoint or a compaction came between.
            _ => {}
        }
    }
}

fn try_open_all(from: &Path) -> io::Result<Option<Opened>> {
    let open = |name: String| File::open(from.join(&name)).map(|file| (name, file));
    let format = fs::read(from.join(Marker::NAME))?;
    let names = names_in(from)?
        .into_iter()
        .filter(|name| log::first_of(name).is_some());
    let mut log = names.map(open).collect::<io::Result<Vec<_>>>()?;
    log.sort_by(|(a, _), (b, _)| a.cmp(b));
    let pointer = fs::read(from.join(POINTER))?;
    let mut store = Vec::new();
    for name in names_in(&from.join(STORE))? {
        if name.starts_with('v') || name == "current" {
            store.push(open(format!("{STORE}/{name}"))?);
        }
    }
    for name in names_in(&from.join(TABLES))? {
        store.push(open(format!("{TABLES}/{name}"))?);
    }
    // While a version is the current one, none of its tables goes.
    let is_still_so = fs::read(from.join(POINTER))? == pointer;
    Ok(is_still_so.then_some(Opened { format, log, store }))
}

fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let (true, Ok(name)) = (
            entry.file_type()?.is_file(),
            entry.file_name().into_string(),
        ) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The segments, the last one up to its last whole record: more of it may be half written.
fn read_log(marker: Marker, log: Vec<(String, File)>) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut segments = Vec::new();
    for (name, mut file) in log {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        segments.push((name, bytes));
    }
    if let Some((_, last)) = segments.last_mut() {
        last.truncate(log::whole_bytes(marker.instance, last));
    }
    Ok(segments)
}

/// Reads the whole copy: a backup that cannot be opened and read is none.
fn check(to: &Path, marker: Marker) -> Result<()> {
    let disk = Folder::new(to);
    let begins_late = log::first(&disk)
        .map_err(|error| failed(error, to))?
        .is_some_and(|first| first > 1);
    let store = TreeStore::open(&to.join(STORE), begins_late)?;
    store.verify()?;
    let found = Found::read(&disk, marker.instance, store.applied()?, &mut |_| Ok(()))?;
    found.recovery.finish().map(drop)
}

/// Makes a directory, or finds it empty; whether it was made.
fn make_empty(to: &Path) -> Result<bool> {
    let is_made = match create_directory(to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(|error| failed(error, to))?,
    };
    let entries = fs::read_dir(to);
    if entries.map_err(|error| failed(error, to))?.next().is_some() {
        let message = "directory to copy to is not empty; name a new one";
        return Err(in_directory(
            Error::new(ErrorKind::InvalidInput, message),
            to,
        ));
    }
    Ok(is_made)
}

/// Writes and syncs everything but the file that makes it a data directory.
fn write_all(
    to: &Path,
    log: Vec<(String, Vec<u8>)>,
    store: Vec<(String, File)>,
) -> io::Result<Copied> {
    create_directory(&to.join(STORE))?;
    create_directory(&to.join(TABLES))?;
    let mut copied = Copied { files: 0, bytes: 0 };
    for (name, mut file) in store {
        copied.one(to.join(name), &mut file)?;
    }
    for (name, bytes) in log {
        copied.one(to.join(name), &mut &bytes[..])?;
    }
    for path in [to.join(TABLES), to.join(STORE), to.into()] {
        sync_directory(&path)?;
    }
    Ok(copied)
}

impl Copied {
    fn one(&mut self, to: PathBuf, from: &mut impl Read) -> io::Result<()> {
        let mut new = File::options();
        let mut file = new.write(true).create_new(true).mode(0o600).open(to)?;
        self.bytes += io::copy(from, &mut file)?;
        self.files += 1;
        file.sync_all()
    }
}

fn failed(error: io::Error, path: &Path) -> Error {
    let error = Error::new(ErrorKind::Io, "data directory could not be copied").source(error);
    in_directory(error, path)
}

/// Damage that a copy shows is in what was copied; the copy goes.
fn in_original(error: Error, from: &Path, to: &Path) -> Error {
    if error.kind() != ErrorKind::DataDamaged {
        return in_directory(error, to);
    }
    let (to, original) = (to.display().to_string(), from.display().to_string());
    let named = Error::new(error.kind(), error.message());
    let named = error.context().fold(named, |named, (name, value)| {
        named.with(name, value.replacen(&to, &original, 1))
    });
    in_directory(named, from)
}

fn in_directory(error: Error, path: &Path) -> Error {
    error.with("directory", path.display())
}
