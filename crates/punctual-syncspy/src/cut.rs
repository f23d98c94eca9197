//! What a power cut leaves of files.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use fastrand::Rng;

use crate::control;
use crate::layout::{FileKey, JOURNALS};
use crate::undo::Unsynced;

/// How what was not synced is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tear {
    /// Of each file the first unsynced bytes stay, as many as the seed says, and the rest is lost:
    /// what a file that only grows is like on most file systems.
    Prefix,
    /// Each unsynced sector of 512 bytes stays or is lost by itself, as disks may write in any
    /// order. Holes among what was written are the rule then; not every server reads on after them.
    Sectors,
}

/// What a power cut did.
#[derive(Debug)]
pub struct Cut {
    /// Processes that it killed.
    pub killed: Vec<u32>,
    /// Files of which something was not synced.
    pub files: Vec<CutFile>,
    /// Files that no watched process was seen to write, left as they are.
    pub unseen: usize,
}

/// What a power cut did to one file.
#[derive(Debug)]
pub struct CutFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that were written and not synced. Bytes that were written twice count twice.
    pub unsynced: u64,
    /// Of those, how many are lost; of sectors, those that changed by it.
    pub lost: u64,
    /// Its length before and now.
    pub written_len: u64,
    /// Its length now.
    pub len: u64,
}

impl Cut {
    /// Bytes lost over all files.
    pub fn lost(&self) -> u64 {
        self.files.iter().map(|file| file.lost).sum()
    }
}

/// Cuts every file below a directory that has a journal, and forgets the journals.
pub(crate) fn cut(control: &Path, watched: &Path, seed: u64, tear: Tear) -> io::Result<Cut> {
    let mut cut = Cut {
        killed: Vec::new(),
        files: Vec::new(),
        unseen: 0,
    };
    let journals = control.join(JOURNALS);
    for path in files_below(watched)? {
        let about = fs::metadata(&path)?;
        match fs::read(journals.join(key(&about)?.journal())) {
            Ok(journal) => {
                let unsynced = Unsynced::read(&journal)?;
                let name = path.strip_prefix(watched).unwrap_or(&path);
                let random = Rng::with_seed(seed_of(seed, name));
                cut.files.extend(cut_file(&path, &unsynced, random, tear)?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => cut.unseen += 1,
            Err(error) => return Err(error),
        }
    }
    // What is there now is on disk.
    fs::remove_dir_all(&journals)?;
    fs::create_dir(&journals)?;
    control::name_run(control, seed)?;
    Ok(cut)
}

fn cut_file(
    path: &Path,
    unsynced: &Unsynced,
    mut random: Rng,
    tear: Tear,
) -> io::Result<Option<CutFile>> {
    let written = fs::read(path)?;
    let bytes = unsynced.bytes(&written);
    if bytes == 0 {
        return Ok(None);
    }
    let mut left = written.clone();
    let lost = match tear {
        Tear::Prefix => {
            let keep = kept(&mut random, bytes);
            unsynced.keep(&mut left, keep);
            bytes - keep
        }
        Tear::Sectors => {
            unsynced.keep(&mut left, 0);
            scatter(&mut left, &written, &mut random)
        }
    };
    fs::write(path, &left)?;
    Ok(Some(CutFile {
        path: path.to_owned(),
        unsynced: bytes,
        lost,
        written_len: written.len() as u64,
        len: left.len() as u64,
    }))
}

/// How many unsynced bytes stay: any number, and every fourth time none, since that is what most
/// disks do to a process that syncs often.
fn kept(random: &mut Rng, bytes: u64) -> u64 {
    match random.u8(..4) {
        0 => 0,
        _ => random.u64(..=bytes),
    }
}

const SECTOR: usize = 512;

/// Puts sectors of what was written over what was synced, each or not; answers how many bytes of
/// those that differ were left out.
fn scatter(left: &mut Vec<u8>, written: &[u8], random: &mut Rng) -> u64 {
    let (shorter, longer) = (left.len().min(written.len()), left.len().max(written.len()));
    left.resize(random.usize(shorter..=longer), 0);
    let mut lost = longer.abs_diff(left.len()) as u64;
    for (old, new) in left.chunks_mut(SECTOR).zip(written.chunks(SECTOR)) {
        let both = old.len().min(new.len());
        if old[..both] == new[..both] {
            continue;
        }
        if random.bool() {
            old[..both].copy_from_slice(&new[..both]);
        } else {
            lost += both as u64;
        }
    }
    lost
}

/// Regular files, by path; links are not followed.
fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn key(about: &fs::Metadata) -> io::Result<FileKey> {
    let born = about.created()?.duration_since(UNIX_EPOCH);
    let born = born.map_err(io::Error::other)?.as_nanos();
    Ok(FileKey {
        inode: about.ino(),
        born: u64::try_from(born).map_err(io::Error::other)?,
    })
}

/// Another seed for each file, the same for the same name.
fn seed_of(seed: u64, name: &Path) -> u64 {
    let bytes = name.as_os_str().as_encoded_bytes();
    bytes
        .iter()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
