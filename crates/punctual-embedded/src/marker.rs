//! The file `format`: says that a directory is punctual's, in which format, and which one it is.

use std::io;

use punctual::{Error, ErrorKind, Result};

use crate::disk::{Disk, create_anew};
use crate::log::FORMAT;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Made when the directory was; the log says it too.
    pub(crate) instance: u128,
    /// The format of the program that opened the directory last.
    pub(crate) format: u32,
}

const BEGUN: &str = "format-begun";
const FIRST_LINE: &str = "punctual embedded engine";

impl Marker {
    /// The marker of a directory that this program writes.
    pub(crate) fn new(instance: u128) -> Self {
        let format = FORMAT;
        Self { instance, format }
    }

    /// The file.
    pub(crate) const NAME: &str = "format";

    /// The marker of a directory, if it has one.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        match disk.read(Self::NAME) {
            Ok(bytes) => Self::parse(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let error =
                    Error::new(ErrorKind::Io, "data directory could not be read").source(error);
                Err(error.with("file", Self::NAME))
            }
        }
    }

    /// Makes a directory punctual's, in one step, after everything else that it needs.
    pub(crate) fn write(self, disk: &dyn Disk) -> io::Result<()> {
        let text = format!(
            "{FIRST_LINE}\nformat {}\ninstance {:032x}\n",
            self.format, self.instance
        );
        let file = create_anew(disk, BEGUN)?;
        file.write_at(0, text.as_bytes())?;
        file.sync()?;
        disk.rename(BEGUN, Self::NAME)?;
        disk.sync_names()
    }

    /// Whether a file of a directory is one of ours, by its name.
    pub(crate) fn is_name(name: &str) -> bool {
        name == Self::NAME || name == BEGUN
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(damaged());
        }
        let format = lines.next().and_then(|line| line.strip_prefix("format "));
        let format = match format.and_then(|format| format.parse().ok()) {
            Some(version @ 1..=FORMAT) => version,
            Some(version) if version > FORMAT => return Err(newer(version)),
            _ => return Err(damaged()),
        };
        let instance = lines.next().and_then(|line| line.strip_prefix("instance "));
        let instance = instance.filter(|hex| hex.len() == 32);
        let instance = instance.and_then(|hex| u128::from_str_radix(hex, 16).ok());
        let is_whole = text.ends_with('\n') && lines.next().is_none();
        match instance.filter(|_| is_whole) {
            Some(instance) => Ok(Self { instance, format }),
            None => Err(damaged()),
        }
    }
}

fn damaged() -> Error {
    let message = "file that names the format is damaged; `punctual repair` writes it anew";
    Error::new(ErrorKind::DataDamaged, message).with("file", Marker::NAME)
}

fn newer(version: u32) -> Error {
    let message =
        "data directory was written by a newer version of punctual; open it with that version";
    Error::new(ErrorKind::DataNewer, message)
        .with("format", version)
        .with("known", FORMAT)
}
