//! What a journal says of one file: the changes since its last sync, each with what stood there
//! before.

use std::io;

use crate::layout::{ENTRY_BYTES, Entry, HEADER_BYTES, Header};

/// The changes that no sync covers, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Unsynced {
    changes: Vec<Change>,
    /// Bytes of the file from here on came by a way that is not seen, and no sync covers them.
    tail_from: u64,
}

#[derive(Debug)]
struct Change {
    entry: Entry,
    before: Vec<u8>,
}

impl Unsynced {
    pub(crate) fn read(journal: &[u8]) -> io::Result<Self> {
        let cut = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "journal of the sync spy is cut short",
            )
        };
        let Some(header) = journal.first_chunk::<HEADER_BYTES>() else {
            // Killed while the file was opened: nothing was written to it yet.
            return Ok(Self {
                changes: Vec::new(),
                tail_from: u64::MAX,
            });
        };
        let header = Header::decode(header);
        let mut changes = Vec::new();
        let mut at = header.synced;
        while at < header.end {
            let place = usize::try_from(header.place(at)).map_err(io::Error::other)?;
            let bytes = journal.get(place..).ok_or_else(cut)?;
            let entry = Entry::decode(bytes.first_chunk::<ENTRY_BYTES>().ok_or_else(cut)?);
            let len = usize::try_from(entry.before_len).map_err(io::Error::other)?;
            let before = bytes.get(ENTRY_BYTES..ENTRY_BYTES + len).ok_or_else(cut)?;
            changes.push(Change {
                entry,
                before: before.to_vec(),
            });
            at += entry.size();
        }
        Ok(Self {
            changes,
            tail_from: header.synced_len.max(header.seen_end),
        })
    }

    /// How many bytes no sync covers; a change of length alone counts as one.
    pub(crate) fn bytes(&self, file: &[u8]) -> u64 {
        let seen: u64 = self.changes.iter().map(Change::weight).sum();
        seen + self.tail(file)
    }

    fn tail(&self, file: &[u8]) -> u64 {
        (file.len() as u64).saturating_sub(self.tail_from)
    }

    /// Takes back all but the first bytes that no sync covers.
    pub(crate) fn keep(&self, file: &mut Vec<u8>, bytes: u64) {
        let tail = self.tail(file);
        let mut lose = self.bytes(file).saturating_sub(bytes);
        let of_tail = lose.min(tail);
        file.truncate(file.len() - index(of_tail));
        lose -= of_tail;
        for change in self.changes.iter().rev() {
            if lose == 0 {
                return;
            }
            let of_change = lose.min(change.weight());
            change.take_back(file, change.weight() - of_change);
            lose -= of_change;
        }
    }
}

impl Change {
    fn weight(&self) -> u64 {
        self.entry.len.max(1)
    }

    /// Restores what stood there before, all but the first bytes of the change.
    fn take_back(&self, file: &mut Vec<u8>, keep: u64) {
        let Entry {
            offset, old_len, ..
        } = self.entry;
        let from = index(keep);
        if let Some(before) = self.before.get(from..) {
            let place = index(offset) + from;
            if file.len() < place + before.len() {
                file.resize(place + before.len(), 0);
            }
            file[place..place + before.len()].copy_from_slice(before);
        }
        let kept_end = if keep > 0 { offset + keep } else { 0 };
        let len = index(old_len.max(kept_end));
        file.resize(len, 0);
    }
}

/// A place in a file that is held in memory.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("files under test fit in memory")
}
