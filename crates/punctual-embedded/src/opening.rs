//! From a directory to an engine: what is there, whether it may be opened, what has to be replayed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use punctual::machine::{Base, Machine, Recovered};
use punctual::{Error, ErrorKind, Result};

use crate::disk::{Disk, FailStop, create_directory, is_full};
use crate::lock::Lock;
use crate::log::{self, Flaw, Log, LogOptions};
use crate::marker::Marker;
use crate::options::Options;
use crate::repair;
use crate::space::Space;
use crate::store::Store;

/// What an opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// Commits of the log that the store did not have yet.
    pub replayed: u64,
    /// Bytes at the end of the log that were never written whole, and were cut.
    pub torn_bytes: u64,
    /// Whether the last process closed the directory in good order (or there was none).
    pub closed: bool,
    /// Jobs that ran in the last process: crashes.
    pub crashed: usize,
}

/// The parts of an engine, at rest.
pub(crate) struct Parts {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) machine: Machine,
    pub(crate) log: Log,
    pub(crate) recovered: Recovered,
    pub(crate) opened: Opened,
}

/// Makes the store of a directory; it `must_exist` if the log begins after it.
pub(crate) type OpenStore<'a> = &'a dyn Fn(bool) -> Result<Arc<dyn Store>>;

/// The directory of the store in a data directory.
pub(crate) const STORE: &str = "base";

/// Reads what a disk and a store keep, or makes an empty engine where there is nothing.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    open_store: OpenStore<'_>,
    options: &Options,
) -> Result<Parts> {
    options.check()?;
    let disk = FailStop::over(disk);
    match open_once(disk.clone(), open_store, options) {
        // What was set aside for this day lets the jobs that are there be done.
        Err(error) if error.kind() == ErrorKind::EngineFull && Space::give_back(&*disk) => {
            tracing::warn!(%error, "the reserve is given back to open a full disk");
            open_once(disk, open_store, options)
        }
        opened => opened,
    }
}

fn open_once(disk: Arc<dyn Disk>, open_store: OpenStore<'_>, options: &Options) -> Result<Parts> {
    match Marker::read(&*disk)? {
        Some(marker) => reopen(disk, marker, open_store, options),
        None => create(disk, open_store, options),
    }
}

fn create(disk: Arc<dyn Disk>, open_store: OpenStore<'_>, options: &Options) -> Result<Parts> {
    if log::has_commits(&*disk).map_err(failed)? {
        return Err(no_marker(&*disk));
    }
    let store = open_store(false)?;
    if store.applied()? > 0 {
        return Err(no_marker(&*disk));
    }
    let instance = uuid::Uuid::new_v4().as_u128();
    let log = Log::begin(disk.clone(), log_options(options), instance, 0).map_err(failed)?;
    Marker::new(instance).write(&*disk).map_err(failed)?;
    let machine = Machine::over(options.limits, as_base(&store));
    ready(disk, store, machine, log, 0, None, options)
}

fn reopen(
    disk: Arc<dyn Disk>,
    marker: Marker,
    open_store: OpenStore<'_>,
    options: &Options,
) -> Result<Parts> {
    let begins_late = log::first(&*disk)
        .map_err(failed)?
        .is_some_and(|first| first > 1);
    let store = open_store(begins_late)?;
    let applied = store.applied()?;
    let mut machine = Machine::over(options.limits, as_base(&store));
    let mut replayed = 0;
    let (log, cut) = Log::open(
        disk.clone(),
        log_options(options),
        marker.instance,
        applied,
        &mut |step| {
            replayed += 1;
            machine.replay(step)
        },
    )?;
    ready(disk, store, machine, log, replayed, cut, options)
}

fn ready(
    disk: Arc<dyn Disk>,
    store: Arc<dyn Store>,
    mut machine: Machine,
    log: Log,
    replayed: u64,
    cut: Option<Flaw>,
    options: &Options,
) -> Result<Parts> {
    let recovered = machine.recover(options.clock.now())?;
    let torn_bytes = cut.as_ref().map_or(0, |flaw| flaw.torn as u64);
    if let Some(flaw) = &cut {
        let Flaw {
            segment,
            offset,
            torn,
            whole,
            ..
        } = flaw;
        tracing::warn!(segment, offset, torn, whole, "torn end of the log was cut");
    }
    let opened = Opened {
        replayed,
        torn_bytes,
        closed: recovered.closed || log.number() == 0,
        crashed: recovered.crashed,
    };
    tracing::info!(commit = log.number(), ?opened, "data directory opened");
    Ok(Parts {
        disk,
        store,
        machine,
        log,
        recovered,
        opened,
    })
}

/// Checks a path of the operating system before anything in it is changed, and takes it.
pub(crate) fn take(path: &Path, create: bool) -> Result<Lock> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => make(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = "data directory does not exist; name one that does";
            return Err(in_directory(Error::new(ErrorKind::NotFound, message), path));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let message = "data directory lies in a file; name a path of directories";
            let error = Error::new(ErrorKind::InvalidInput, message).source(error);
            return Err(in_directory(error, path));
        }
        Err(error) => return Err(in_directory(failed(error), path)),
    };
    if !about.is_dir() {
        let message = "data directory is a file; name a directory";
        return Err(in_directory(
            Error::new(ErrorKind::InvalidInput, message),
            path,
        ));
    }
    refuse_foreign(path)?;
    Lock::take(path)
}

/// Takes a directory that may be damaged in any way, even without its marker.
pub(crate) fn take_any(path: &Path) -> Result<Lock> {
    std::fs::read_dir(path).map_err(failed)?;
    Lock::take(path)
}

fn make(path: &Path) -> Result<std::fs::Metadata> {
    let made = match create_directory(path) {
        // Another process that starts now was first; which of the two has it is the lock's to say.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let about = made.and_then(|()| std::fs::metadata(path));
    about.map_err(|error| {
        let (kind, message) = match error.kind() {
            io::ErrorKind::NotFound => (
                ErrorKind::NotFound,
                "parent of the data directory does not exist; make it first",
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
                ErrorKind::Io,
                "data directory cannot be made; give this user the right to, or name another",
            ),
            _ if is_full(&error) => (
                ErrorKind::EngineFull,
                "disk is full: the data directory cannot be made; free some space",
            ),
            _ => (ErrorKind::Io, "data directory cannot be made"),
        };
        in_directory(Error::new(kind, message).source(error), path)
    })
}

/// A directory with files of others and none of ours is most likely not the one that was meant.
fn refuse_foreign(path: &Path) -> Result<()> {
    let names = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = names.map_err(|error| in_directory(failed(error), path))?;
    let names: Vec<_> = names
        .iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let is_ours = |name: &String| {
        name == STORE
            || Marker::is_name(name)
            || Lock::is_name(name)
            || Space::is_name(name)
            || log::is_name(name)
            || repair::is_name(name)
    };
    match names.iter().find(|name| !is_ours(name)) {
        Some(foreign) if !names.iter().any(|name| Marker::is_name(name)) => {
            let message =
                "directory holds other files and no data of punctual; name an empty or new one";
            let error = Error::new(ErrorKind::InvalidInput, message).with("file", foreign);
            Err(in_directory(error, path))
        }
        _ => Ok(()),
    }
}

fn as_base(store: &Arc<dyn Store>) -> Arc<dyn Base> {
    store.clone()
}

fn log_options(options: &Options) -> LogOptions {
    LogOptions {
        segment_bytes: options.segment_bytes,
        write_ahead: options.durability == punctual::engine::Durability::Fsync,
    }
}

fn no_marker(disk: &dyn Disk) -> Error {
    let is_logged = log::instance_of(disk).is_ok_and(|instance| instance.is_some());
    let message = if is_logged {
        "file `format` is missing beside data; `punctual repair` writes it anew"
    } else {
        "file `format` is missing beside data; restore it, or the directory from a backup"
    };
    Error::new(ErrorKind::DataDamaged, message)
}

fn in_directory(error: Error, path: &Path) -> Error {
    error.with("directory", path.display())
}

fn failed(error: io::Error) -> Error {
    if is_full(&error) {
        let message = "disk is full: the data directory cannot be opened; free some space";
        return Error::new(ErrorKind::EngineFull, message).source(error);
    }
    let message = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "data directory cannot be read and written; give this user the right to, or name another"
        }
        _ => "data directory could not be read or written",
    };
    Error::new(ErrorKind::Io, message).source(error)
}
