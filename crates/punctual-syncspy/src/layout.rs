//! What the preloaded library and this crate write for each other; both compile this file.
//!
//! Below the control directory: `control`, a page of words and the last syncs, which the library
//! maps; `boot_id`, read by watched processes in place of the system's; `files/`, a journal for
//! each file that was written, named by the file's inode and birth, so that it follows the file
//! through renames and no other file ever takes it over.

#![allow(dead_code, reason = "each side uses its half")]

/// Names the control directory, in the environment of a watched process.
pub(crate) const CONTROL_DIRECTORY: &str = "SYNCSPY_CONTROL";
/// Names the directory below which files are watched.
pub(crate) const WATCHED_DIRECTORY: &str = "SYNCSPY_WATCH";

pub(crate) const CONTROL: &str = "control";
pub(crate) const BOOT_ID: &str = "boot_id";
pub(crate) const JOURNALS: &str = "files";

/// What the system calls the file that [`BOOT_ID`] stands in for.
pub(crate) const SYSTEM_BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Bytes of what is mapped: a page of words, and a slot for each of the last syncs.
pub(crate) const CONTROL_BYTES: usize = PAGE_BYTES + SYNC_SLOTS * SyncSlot::WORDS * 8;
pub(crate) const PAGE_BYTES: usize = 4096;

/// As many syncs are known, the last ones; each is in the slot of its number modulo this.
pub(crate) const SYNC_SLOTS: usize = 1024;

/// Words of the control page, by their place. 0 switches a fault off.
pub(crate) mod word {
    /// Every sync takes so many microseconds longer.
    pub(crate) const SLOW_MICROS: usize = 0;
    /// Counts down by each sync; that which finds 1 fails.
    pub(crate) const FAIL_SYNC: usize = 1;
    /// Counts down by each write; those that find 1 find the disk full.
    pub(crate) const FULL: usize = 2;
    pub(crate) const WRITES: usize = 3;
    pub(crate) const REFUSED_WRITES: usize = 4;
    pub(crate) const SYNCS: usize = 5;
    pub(crate) const FAILED_SYNCS: usize = 6;
    /// So many microseconds are added to the wall clock, as a signed number.
    pub(crate) const CLOCK_MICROS: usize = 7;
}

/// A sync of a file or directory, in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncSlot {
    /// From 1 on, in the order in which they begin; 0 in a slot that is empty.
    pub(crate) number: u64,
    /// Microseconds of the monotonic clock.
    pub(crate) began: u64,
    /// The same; 0 until it is over.
    pub(crate) ended: u64,
    /// The last part of the path, cut, with zeros behind.
    pub(crate) name: [u8; NAME_BYTES],
}

pub(crate) const NAME_BYTES: usize = 40;

impl SyncSlot {
    /// Words of a slot: three, and the name.
    pub(crate) const WORDS: usize = 3 + NAME_BYTES / 8;
    /// The place of `ended` among them.
    pub(crate) const ENDED: usize = 2;

    /// Of a path that is synced from now on.
    pub(crate) fn begun(number: u64, began: u64, path: &[u8]) -> Self {
        let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut name = [0; NAME_BYTES];
        let len = last.len().min(NAME_BYTES);
        name[..len].copy_from_slice(&last[..len]);
        Self {
            number,
            began,
            ended: 0,
            name,
        }
    }

    /// The word of the control file at which the slot of a number begins.
    pub(crate) fn place(number: u64) -> usize {
        let slot = number % SYNC_SLOTS as u64;
        PAGE_BYTES / 8 + slot as usize * Self::WORDS
    }

    pub(crate) fn words(&self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        [words[0], words[1], words[2]] = [self.number, self.began, self.ended];
        for (word, bytes) in words[3..].iter_mut().zip(self.name.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *word = u64::from_ne_bytes(eight);
        }
        words
    }

    pub(crate) fn of(words: [u64; Self::WORDS]) -> Self {
        let mut name = [0; NAME_BYTES];
        for (bytes, word) in name.chunks_exact_mut(8).zip(&words[3..]) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let [number, began, ended] = [words[0], words[1], words[2]];
        Self {
            number,
            began,
            ended,
            name,
        }
    }
}

/// What identifies a file as long as it lives: its inode and the nanosecond of its birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileKey {
    pub(crate) inode: u64,
    pub(crate) born: u64,
}

impl FileKey {
    /// The name of its journal.
    pub(crate) fn journal(self) -> String {
        format!("{:016x}-{:016x}", self.inode, self.born)
    }
}

/// The beginning of a journal. Positions count from the journal's first entry ever; what was synced
/// is dropped in front, and then `base` says where the first entry that is left begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    pub(crate) base: u64,
    /// What lies before was synced.
    pub(crate) synced: u64,
    pub(crate) end: u64,
    /// 1 if a sync failed: from then on nothing counts as synced, until the file is emptied.
    pub(crate) broken: u64,
    /// Length of the file when it was last synced, and where the last write seen ends: bytes behind
    /// both came by a way that is not seen.
    pub(crate) synced_len: u64,
    pub(crate) seen_end: u64,
}

pub(crate) const HEADER_BYTES: usize = 48;

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let words = [
            self.base,
            self.synced,
            self.end,
            self.broken,
            self.synced_len,
            self.seen_end,
        ];
        encode(words)
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [base, synced, end, broken, synced_len, seen_end] = decode(bytes);
        Self {
            base,
            synced,
            end,
            broken,
            synced_len,
            seen_end,
        }
    }

    /// Where in the journal's file a position is.
    pub(crate) fn place(&self, position: u64) -> u64 {
        HEADER_BYTES as u64 + position - self.base
    }
}

/// A write, or a cut if `len` is 0; followed by the `before_len` bytes that stood at `offset`
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Length of the file before.
    pub(crate) old_len: u64,
    pub(crate) before_len: u64,
}

pub(crate) const ENTRY_BYTES: usize = 32;

impl Entry {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        encode([self.offset, self.len, self.old_len, self.before_len])
    }

    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let [offset, len, old_len, before_len] = decode(bytes);
        Self {
            offset,
            len,
            old_len,
            before_len,
        }
    }

    /// Bytes that it takes in the journal.
    pub(crate) fn size(&self) -> u64 {
        ENTRY_BYTES as u64 + self.before_len
    }
}

fn encode<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn decode<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(place);
        *word = u64::from_le_bytes(eight);
    }
    words
}
