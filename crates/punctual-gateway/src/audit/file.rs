//! The record as lines of JSON, in two files of bounded size.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Entry;

/// Bytes after which a file becomes the older one.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl AuditFile {
    /// Opens it, and answers what is in it and in the older one, the latest last.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<Entry>)> {
        let entries = Self::read(path)?;
        let mut file = append(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 && fs::read(path)?.last() != Some(&b'\n') {
            // One that was torn is not joined to the next.
            file.write_all(b"\n")?;
            bytes += 1;
        }
        let path = path.to_owned();
        Ok((Self { path, file, bytes }, entries))
    }

    /// What is in it and in the older one, the latest last.
    pub(super) fn read(path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for path in [&older(path), path] {
            let text = match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            // A kill may have torn the last line.
            let lines = text.split(|byte| *byte == b'\n');
            entries.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
        }
        Ok(entries)
    }

    pub(super) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        if self.bytes > BYTES_MAX {
            fs::rename(&self.path, older(&self.path))?;
            self.file = append(&self.path)?;
            self.bytes = 0;
        }
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}
