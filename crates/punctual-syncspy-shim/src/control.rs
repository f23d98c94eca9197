//! The page of words by which a run is controlled and counted, shared with other processes.

use std::ffi::CString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{BOOT_ID, CONTROL, CONTROL_BYTES, CONTROL_DIRECTORY, JOURNALS};
use crate::layout::{SyncSlot, WATCHED_DIRECTORY, word};
use crate::system_calls;

/// All that is mapped.
type Words = [AtomicU64; CONTROL_BYTES / 8];

/// Where this process is controlled, and what it watches.
pub(crate) struct Control {
    words: &'static Words,
    journals: PathBuf,
    pub(crate) boot_id: CString,
    /// Paths below which files are watched, with a slash at the end.
    watched: Vec<u8>,
}

/// None in a process that is not watched, or has no control directory.
pub(crate) fn control() -> Option<&'static Control> {
    static CONTROL: OnceLock<Option<Control>> = OnceLock::new();
    CONTROL.get_or_init(Control::find).as_ref()
}

impl Control {
    fn find() -> Option<Self> {
        let directory = PathBuf::from(std::env::var_os(CONTROL_DIRECTORY)?);
        let mut watched = std::env::var_os(WATCHED_DIRECTORY)?.into_vec();
        watched.push(b'/');
        Some(Self {
            words: map(&c_string(&directory.join(CONTROL))?)?,
            journals: directory.join(JOURNALS),
            boot_id: c_string(&directory.join(BOOT_ID))?,
            watched,
        })
    }

    pub(crate) fn word(&self, place: usize) -> u64 {
        self.words[place].load(Ordering::Relaxed)
    }

    /// Counts one more; answers the number of that one, from 1 on.
    pub(crate) fn count(&self, place: usize) -> u64 {
        self.words[place].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that a sync of a path begins; answers its number.
    pub(crate) fn sync_begins(&self, path: &[u8]) -> u64 {
        let number = self.count(word::SYNCS);
        let slot = SyncSlot::begun(number, system_calls::monotonic_micros(), path);
        let place = SyncSlot::place(number);
        for (word, value) in self.words[place..].iter().zip(slot.words()) {
            word.store(value, Ordering::Relaxed);
        }
        number
    }

    /// Notes that a sync is over, unless so many have begun since that its slot is another one's.
    pub(crate) fn sync_ends(&self, number: u64) {
        let place = SyncSlot::place(number);
        if self.word(place) == number {
            self.words[place + SyncSlot::ENDED]
                .store(system_calls::monotonic_micros(), Ordering::Relaxed);
        }
    }

    /// Counts a word down, to 0 or only to 1; answers whether it was 1.
    pub(crate) fn count_down(&self, place: usize, to: u64) -> bool {
        let next = |now: u64| (now > to).then(|| now - 1);
        match self.words[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(was) | Err(was) => was == 1,
        }
    }

    pub(crate) fn watches(&self, path: &[u8]) -> bool {
        path.starts_with(&self.watched) || path == &self.watched[..self.watched.len() - 1]
    }

    /// The path of the journal of that name.
    pub(crate) fn journal(&self, name: &str) -> Option<CString> {
        c_string(&self.journals.join(name))
    }
}

fn c_string(path: &std::path::Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

fn map(path: &CString) -> Option<&'static Words> {
    let fd = system_calls::open(path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that its maker gave this length.
    let page = unsafe {
        let none = std::ptr::null_mut();
        libc::mmap(none, CONTROL_BYTES, protection, libc::MAP_SHARED, fd, 0)
    };
    system_calls::close(fd);
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page is never unmapped, is aligned, and all that share it use it atomically.
    Some(unsafe { &*page.cast::<Words>() })
}
