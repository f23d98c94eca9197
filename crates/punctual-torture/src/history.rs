//! Histories: a file of lines per process, appended with one write each, so that a kill cuts at most
//! the last line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::event::{Event, Line};
use crate::stamp::stamp;

/// The folder of a round's histories.
pub(crate) const FOLDER: &str = "history";

/// What stands in a line that says that jobs are stored.
const ACKNOWLEDGED: &str = r#""e":"enqueue_ok""#;

/// Where one process writes what it does.
#[derive(Debug)]
pub(crate) struct History {
    file: File,
    /// Beside those of the other processes.
    folder: PathBuf,
}

impl History {
    /// The history of a process of that name; a name is used once per round.
    pub(crate) fn create(round: &Path, process: &str) -> io::Result<Self> {
        let folder = round.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{process}.jsonl"));
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file, folder })
    }

    /// How many calls that send jobs were answered so far, by what all processes of the round wrote.
    ///
    /// # Panics
    /// If the histories cannot be read.
    pub(crate) fn acknowledged(&self) -> usize {
        let entries = fs::read_dir(&self.folder).expect("the histories are there");
        let texts = entries.map(|entry| fs::read_to_string(entry?.path()));
        let texts = texts.map(|text| text.expect("a history can be read"));
        texts.map(|text| text.matches(ACKNOWLEDGED).count()).sum()
    }

    /// Appends what happened now.
    ///
    /// # Panics
    /// If the disk does not take it: a history with gaps proves nothing.
    pub(crate) fn note(&self, event: Event) {
        let line = Line { at: stamp(), event };
        let mut bytes = serde_json::to_vec(&line).expect("an event is JSON");
        bytes.push(b'\n');
        (&self.file)
            .write_all(&bytes)
            .expect("the disk takes a line of history");
    }
}

/// What a process of a round wrote.
#[derive(Debug)]
pub(crate) struct Account {
    /// Its name.
    pub(crate) process: String,
    /// Its lines in order.
    pub(crate) lines: Vec<Line>,
}

/// Reads every history of a round. A last line that a kill cut is left out; any other flaw is an error.
pub(crate) fn read(round: &Path) -> io::Result<Vec<Account>> {
    files(round)?.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> io::Result<Account> {
    let text = fs::read(path)?;
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let lines = text[..whole].split_inclusive(|byte| *byte == b'\n');
    let lines: Result<Vec<Line>, _> = (lines.map(serde_json::from_slice)).collect();
    let process = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(Account {
        process,
        lines: lines?,
    })
}

/// The hash of all histories of a round, names included, and of a file beside them.
pub(crate) fn hash(round: &Path, beside: &str) -> io::Result<String> {
    let mut sum = Sha256::new();
    for path in files(round)?.into_iter().chain([round.join(beside)]) {
        sum.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        sum.update([0]);
        io::copy(&mut File::open(path)?, &mut sum)?;
    }
    Ok(sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn files(round: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(round.join(FOLDER))?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    files.sort();
    Ok(files)
}
