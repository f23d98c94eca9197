//! Repair of a damaged directory: what can be read is kept, what cannot is set aside and reported.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual::{Error, ErrorKind, Result};

use crate::disk::{Folder, create_directory, sync_directory};
use crate::log::{self, Flaw, Found};
use crate::marker::Marker;
use crate::opening::{self, STORE};
use crate::store::{Store, TreeStore};

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Repaired {
    /// Whether the file that names the format was written anew.
    pub format: bool,
    /// Where the log was cut.
    pub log: Option<Cut>,
    /// Where the damaged original is now, if anything was damaged.
    pub aside: Option<PathBuf>,
}

/// What a log lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// The file.
    pub file: String,
    /// The place in it after which nothing was kept.
    pub offset: u64,
    /// The first commit that is lost.
    pub commit: u64,
    /// Commits after the damage that were whole, and are lost with it: each rests on those before.
    pub whole_commits: u64,
}

/// What the directories of damaged originals are called, before their number.
const ASIDE: &str = "damaged-";

/// Whether a name in a directory is one that repairs give.
pub(crate) fn is_name(name: &str) -> bool {
    let number = name.strip_prefix(ASIDE);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Makes a damaged directory one that opens: the log is cut after the last commit before the
/// damage. The original is kept in a directory of its own beside the data. A directory without
/// damage stays as it is.
///
/// Damage in the store itself is reported, not mended: restore a backup.
pub fn repair(directory: impl AsRef<Path>) -> Result<Repaired> {
    let path = directory.as_ref();
    repair_in(path).map_err(|error| error.operation("repair").with("directory", path.display()))
}

/// Reads every row of a directory's store, which an opening does not; damage in it is an error.
///
/// The log is read by every opening.
pub fn verify(directory: impl AsRef<Path>) -> Result<()> {
    let path = directory.as_ref();
    let _lock = opening::take_any(path)?;
    TreeStore::open(&path.join(STORE), false)?.verify()
}

fn repair_in(path: &Path) -> Result<Repaired> {
    let _lock = opening::take_any(path)?;
    let disk = Folder::new(path);
    let mut repair = Repair {
        path,
        done: Repaired::default(),
    };
    let marker = repair.marker(&disk)?;
    let begins_late = log::first(&disk)
        .map_err(failed)?
        .is_some_and(|first| first > 1);
    let store = TreeStore::open(&path.join(STORE), begins_late)?;
    let found = Found::read(&disk, marker.instance, store.applied()?, &mut |_| Ok(()))?;
    if let Some(flaw) = found.recovery.cut().cut {
        repair.cut(&disk, &flaw).map_err(failed)?;
    }
    if repair.done == Repaired::default() {
        // Nothing that can be mended: is there anything that cannot?
        store.verify()?;
    }
    Ok(repair.done)
}

struct Repair<'a> {
    path: &'a Path,
    done: Repaired,
}

impl Repair<'_> {
    /// The marker, written anew from what the log says if it is missing or damaged.
    fn marker(&mut self, disk: &Folder) -> Result<Marker> {
        match Marker::read(disk) {
            Ok(Some(marker)) => return Ok(marker),
            Err(error) if error.kind() != ErrorKind::DataDamaged => return Err(error),
            Err(_) => self.set_aside(Marker::NAME).map_err(failed)?,
            Ok(None) => {}
        }
        let Some(instance) = log::instance_of(disk).map_err(failed)? else {
            let message =
                "directory has neither a marker nor a log that says what it is; restore a backup";
            return Err(Error::new(ErrorKind::DataDamaged, message));
        };
        let marker = Marker::new(instance);
        marker.write(disk).map_err(failed)?;
        self.done.format = true;
        Ok(marker)
    }

    /// Cuts the log at a flaw, once the original is aside.
    fn cut(&mut self, disk: &Folder, flaw: &Flaw) -> io::Result<()> {
        for name in std::iter::once(&flaw.segment).chain(&flaw.later) {
            self.set_aside(name)?;
        }
        log::cut_at(disk, flaw)?;
        self.done.log = Some(Cut {
            file: flaw.segment.clone(),
            offset: flaw.offset as u64,
            commit: flaw.number,
            whole_commits: flaw.whole,
        });
        Ok(())
    }

    /// Copies a file to where the damaged originals are.
    fn set_aside(&mut self, name: &str) -> io::Result<()> {
        let aside = match &self.done.aside {
            Some(aside) => aside.clone(),
            None => self.make_aside()?,
        };
        fs::copy(self.path.join(name), aside.join(name))?;
        fs::File::open(aside.join(name))?.sync_all()?;
        sync_directory(&aside)
    }

    fn make_aside(&mut self) -> io::Result<PathBuf> {
        let aside = (1..).map(|n| self.path.join(format!("{ASIDE}{n}")));
        for aside in aside {
            match create_directory(&aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    sync_directory(self.path)?;
                    self.done.aside = Some(aside.clone());
                    return Ok(aside);
                }
            }
        }
        unreachable!("numbers do not end")
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, "data directory could not be read or written").source(error)
}
