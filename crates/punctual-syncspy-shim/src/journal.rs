//! What a power cut would take back of one file: what was written since it was last synced.

use std::ffi::CString;
use std::os::raw::c_int;

use crate::control::control;
use crate::layout::{Entry, FileKey, HEADER_BYTES, Header};
use crate::system_calls;
use crate::watched::Watched;

/// So much that was synced may stand in front before it is dropped.
const DROP_BYTES: u64 = 1 << 20;

/// The journal of a file, open; call it [alone](crate::lock::alone).
pub(crate) struct Journal {
    path: CString,
    fd: c_int,
    header: Header,
}

impl Journal {
    /// That of a file, made if there is none: then what the file holds is taken for synced.
    pub(crate) fn of(file: &Watched) -> Option<Self> {
        let path = file.control.journal(&file.key.journal())?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
        let errno = system_calls::errno();
        let fd = system_calls::open(&path, flags, 0o600);
        system_calls::set_errno(errno);
        if fd < 0 {
            return None;
        }
        let mut bytes = [0; HEADER_BYTES];
        if system_calls::read_at(fd, &mut bytes, 0) == HEADER_BYTES {
            let header = Header::decode(&bytes);
            return Some(Self { path, fd, header });
        }
        let header = Header {
            synced_len: file.len,
            seen_end: file.len,
            ..Header::default()
        };
        let journal = Self { path, fd, header };
        journal.save();
        Some(journal)
    }

    /// Notes a write that is about to be done.
    pub(crate) fn writes(&mut self, file: &Watched, offset: u64, len: u64) {
        let old_len = file.len_now();
        let before_len = old_len.saturating_sub(offset).min(len);
        self.note(file, offset, len, old_len, before_len);
        self.header.seen_end = self.header.seen_end.max(offset + len);
        self.save();
    }

    /// Notes a change of length that is about to be done. One that is emptied holds nothing any
    /// more that a sync failed to write: what is written then is written by the next one.
    pub(crate) fn cuts(&mut self, file: &Watched, new_len: u64) {
        let old_len = file.len_now();
        if new_len == 0 {
            self.header.broken = 0;
            self.save();
        }
        if old_len == new_len {
            return;
        }
        let before_len = old_len.saturating_sub(new_len);
        self.note(file, new_len, 0, old_len, before_len);
        self.header.seen_end = new_len;
        self.save();
    }

    /// What a sync that begins now covers.
    pub(crate) fn covered(&self, file: &Watched) -> Covered {
        Covered {
            end: self.header.end,
            len: file.len_now(),
        }
    }

    /// A sync succeeded.
    pub(crate) fn is_synced(&mut self, covered: &Covered) {
        // Of a file that lost its last name meanwhile the journal is another one, and of no use.
        if self.header.broken != 0 || covered.end > self.header.end {
            return;
        }
        self.header.synced = self.header.synced.max(covered.end);
        self.header.synced_len = covered.len;
        self.drop_front();
        self.save();
        if self.header.end == self.header.base {
            system_calls::truncate(self.fd, HEADER_BYTES as u64);
        }
    }

    /// A sync failed: what it should have written is lost for good, whatever later ones answer, and
    /// what stands behind that is of no use.
    pub(crate) fn is_broken(&mut self) {
        self.header.broken = 1;
        self.save();
    }

    /// Appends an entry. It stands before the write is done, so a kill between them undoes nothing.
    fn note(&mut self, file: &Watched, offset: u64, len: u64, old_len: u64, before_len: u64) {
        let entry = Entry {
            offset,
            len,
            old_len,
            before_len,
        };
        let mut bytes = entry.encode().to_vec();
        let head = bytes.len();
        bytes.resize(head + usize::try_from(before_len).unwrap_or(0), 0);
        read_before(file, &mut bytes[head..], offset);
        system_calls::write_at(self.fd, &bytes, self.header.place(self.header.end));
        self.header.end += entry.size();
    }

    /// Drops what was synced: all at once where nothing else is left, else into another file now
    /// and then, which takes this one's name whole.
    fn drop_front(&mut self) {
        let Header {
            base, synced, end, ..
        } = self.header;
        debug_assert!(base <= synced && synced <= end);
        if synced == end {
            self.header.base = synced;
            return;
        }
        let left = end - synced;
        if synced - base <= DROP_BYTES.max(left) {
            return;
        }
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        system_calls::read_at(self.fd, &mut bytes, self.header.place(synced));
        let mut name = self.path.as_bytes().to_vec();
        name.extend(b".new");
        let Ok(name) = CString::new(name) else { return };
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let fd = system_calls::open(&name, flags, 0o600);
        if fd < 0 {
            return;
        }
        let header = Header {
            base: synced,
            ..self.header
        };
        let written = system_calls::write_at(fd, &header.encode(), 0)
            && system_calls::write_at(fd, &bytes, HEADER_BYTES as u64);
        if written && system_calls::rename(&name, &self.path) {
            self.header = header;
            system_calls::close(std::mem::replace(&mut self.fd, fd));
        } else {
            system_calls::close(fd);
        }
    }

    fn save(&self) {
        system_calls::write_at(self.fd, &self.header.encode(), 0);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        system_calls::close(self.fd);
    }
}

/// Up to where a sync covers a file.
pub(crate) struct Covered {
    end: u64,
    len: u64,
}

/// The journal of a file that is gone goes too.
pub(crate) fn forget(key: FileKey) {
    let path = control().and_then(|control| control.journal(&key.journal()));
    if let Some(path) = path {
        let errno = system_calls::errno();
        // SAFETY: the path ends with a zero byte.
        unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), 0) };
        system_calls::set_errno(errno);
    }
}

/// Reads what stands at a place, by a descriptor of our own: the file may be open to write only.
fn read_before(file: &Watched, into: &mut [u8], offset: u64) {
    if into.is_empty() {
        return;
    }
    let errno = system_calls::errno();
    if let Ok(path) = CString::new(format!("/proc/self/fd/{}", file.fd)) {
        let fd = system_calls::open(&path, libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if fd >= 0 {
            system_calls::read_at(fd, into, offset);
            system_calls::close(fd);
        }
    }
    system_calls::set_errno(errno);
}
