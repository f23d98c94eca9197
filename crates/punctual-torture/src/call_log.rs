//! Histories: a file of lines per process, appended with one write each, so that a kill cuts at
//! most the last line.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
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

    /// How many calls that send jobs were answered so far, by what all processes of the round
    /// wrote.
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

/// Reads every history of a round. A last line that a kill cut is left out; any other flaw is an
/// error.
pub(crate) fn read(round: &Path) -> io::Result<Vec<Account>> {
    files(round)?.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> io::Result<Account> {
    let mut text = Vec::new();
    open(path)?.read_to_end(&mut text)?;
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let lines = text[..whole].split_inclusive(|byte| *byte == b'\n');
    let lines: Result<Vec<Line>, _> = (lines.map(serde_json::from_slice)).collect();
    let process = name(path).trim_end_matches(".jsonl").to_owned();
    Ok(Account {
        process,
        lines: lines?,
    })
}

/// Packs the histories of a round, which can be read as before, and have the same hash; answers
/// their bytes. Killed anywhere in it leaves each history whole: as it was, packed, or both.
pub(crate) fn pack(round: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for path in files(round)? {
        let packed = path.with_file_name(format!("{}{PACKED}", name(&path)));
        if packed == path {
            continue;
        }
        let begun = path.with_file_name(format!("{}{BEGUN}", name(&path)));
        let mut packer = GzEncoder::new(File::create(&begun)?, Compression::default());
        io::copy(&mut File::open(&path)?, &mut packer)?;
        bytes += packer.finish()?.metadata()?.len();
        fs::rename(begun, packed)?;
        fs::remove_file(path)?;
    }
    Ok(bytes)
}

/// Removes the histories of a round, all of them or, killed before, none.
pub(crate) fn remove(round: &Path) -> io::Result<()> {
    let removed = round.join(format!("{FOLDER}{BEGUN}"));
    fs::rename(round.join(FOLDER), &removed)?;
    fs::remove_dir_all(removed)
}

/// How the name of a packed history ends.
const PACKED: &str = ".gz";
/// How names end of what is not done yet, and counts for nothing.
const BEGUN: &str = ".begun";

/// The name of a history, packed or not.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(PACKED).to_owned()
}

/// The lines of a history, packed or not.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    let is_packed = path.to_string_lossy().ends_with(PACKED);
    Ok(match is_packed {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(file),
    })
}

/// The hash of all histories of a round, names included, and of files beside them; packed or not.
pub(crate) fn hash(round: &Path, beside: &[&str]) -> io::Result<String> {
    let mut sum = Sha256::new();
    let beside = beside.iter().map(|name| round.join(name));
    for path in files(round)?.into_iter().chain(beside) {
        sum.update(name(&path));
        sum.update([0]);
        io::copy(&mut open(&path)?, &mut sum)?;
    }
    Ok(sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The histories of a round, one file for each; one that was being packed when that was killed is
/// the file it was packed from.
fn files(round: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(round.join(FOLDER))? {
        let path = entry?.path();
        let file = path.to_string_lossy();
        if file.ends_with(BEGUN) {
            continue;
        }
        let is_packed = file.ends_with(PACKED);
        let place = files.entry(name(&path));
        place
            .and_modify(|known: &mut PathBuf| {
                if !is_packed {
                    known.clone_from(&path);
                }
            })
            .or_insert_with(|| path.clone());
    }
    Ok(files.into_values().collect())
}

#[cfg(test)]
mod tests;
