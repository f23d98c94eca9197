//! The control directory: the page of words, what is watched, the name of the machine's run.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::layout::{BOOT_ID, CONTROL, CONTROL_BYTES, PAGE_BYTES, SyncSlot};

/// Beside the page: the path of the watched directory.
const WATCHED: &str = "watched";

/// The words that the watched processes read and count in. They map the page; here it is read and
/// written as a file, which on Linux is the same memory.
#[derive(Debug)]
pub(crate) struct Page(File);

impl Page {
    pub(crate) fn get(&self, word: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, word as u64 * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    pub(crate) fn set(&self, word: usize, value: u64) -> io::Result<()> {
        self.0.write_all_at(&value.to_ne_bytes(), word as u64 * 8)
    }

    /// The last syncs, in the order in which they began.
    pub(crate) fn syncs(&self) -> io::Result<Vec<SyncSlot>> {
        let mut bytes = vec![0; CONTROL_BYTES - PAGE_BYTES];
        self.0.read_exact_at(&mut bytes, PAGE_BYTES as u64)?;
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let (slots, _) = words.as_chunks::<{ SyncSlot::WORDS }>();
        let slots = slots.iter().map(|words| SyncSlot::of(*words));
        let mut slots: Vec<_> = slots.filter(|slot| slot.number > 0).collect();
        slots.sort_by_key(|slot| slot.number);
        Ok(slots)
    }

    /// Forgets every sync; their count goes on.
    pub(crate) fn forget_syncs(&self) -> io::Result<()> {
        let nothing = vec![0; CONTROL_BYTES - PAGE_BYTES];
        self.0.write_all_at(&nothing, PAGE_BYTES as u64)
    }
}

/// Makes what a control directory holds besides journals.
pub(crate) fn make(directory: &Path, watched: &Path) -> io::Result<()> {
    let page = File::create_new(directory.join(CONTROL)).map_err(|error| {
        let message = format!(
            "{} cannot be a control directory: {error}",
            directory.display()
        );
        io::Error::new(error.kind(), message)
    })?;
    page.set_len(CONTROL_BYTES as u64)?;
    fs::write(directory.join(WATCHED), watched.as_os_str().as_bytes())?;
    name_run(directory, 0)
}

pub(crate) fn open(directory: &Path) -> io::Result<(Page, PathBuf)> {
    let page = OpenOptions::new()
        .read(true)
        .write(true)
        .open(directory.join(CONTROL));
    let page = page.map_err(|error| {
        let message = format!("no spy in {}: {error}", directory.display());
        io::Error::new(error.kind(), message)
    })?;
    let watched = OsString::from_vec(fs::read(directory.join(WATCHED))?);
    Ok((Page(page), watched.into()))
}

/// Gives the machine's run a name, another one after each power cut.
pub(crate) fn name_run(directory: &Path, seed: u64) -> io::Result<()> {
    let before = fs::read_to_string(directory.join(BOOT_ID)).unwrap_or_default();
    let counted = before
        .get(..8)
        .and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let run = counted.unwrap_or_default() + 1;
    let tail = seed & 0xffff_ffff_ffff;
    let mut file = File::create(directory.join(BOOT_ID))?;
    writeln!(file, "{run:08x}-5b1f-4000-8000-{tail:012x}")
}
