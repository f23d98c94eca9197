//! Which descriptors lead to files that are watched.

use std::ffi::CStr;
use std::os::raw::c_int;

use crate::control::{Control, control};
use crate::layout::FileKey;
use crate::system_calls;

/// A regular file below the watched directory.
pub(crate) struct Watched {
    pub(crate) control: &'static Control,
    pub(crate) fd: c_int,
    pub(crate) key: FileKey,
    pub(crate) len: u64,
}

impl Watched {
    /// Found anew at each call: descriptors are closed and passed on in more ways than are seen.
    pub(crate) fn of(fd: c_int) -> Option<Self> {
        let control = control()?;
        let found = system_calls::about(fd, c"", libc::AT_EMPTY_PATH)?;
        let is_file = mode(&found) == libc::S_IFREG;
        (is_file && control.watches(&system_calls::path_of(fd)?)).then(|| Self {
            control,
            fd,
            key: key(&found),
            len: found.stx_size,
        })
    }

    /// Its length at this moment.
    pub(crate) fn len_now(&self) -> u64 {
        system_calls::about(self.fd, c"", libc::AT_EMPTY_PATH)
            .map_or(self.len, |found| found.stx_size)
    }
}

/// Whether a descriptor is the watched directory or one below it.
pub(crate) fn is_directory(fd: c_int) -> Option<&'static Control> {
    let control = control()?;
    let found = system_calls::about(fd, c"", libc::AT_EMPTY_PATH)?;
    let is_directory = mode(&found) == libc::S_IFDIR;
    (is_directory && control.watches(&system_calls::path_of(fd)?)).then_some(control)
}

/// The file at a path if that is its only name, so that it is gone with it.
pub(crate) fn only_name(directory: c_int, path: &CStr) -> Option<FileKey> {
    control()?;
    let found = system_calls::about(directory, path, libc::AT_SYMLINK_NOFOLLOW)?;
    let is_gone = mode(&found) == libc::S_IFREG && found.stx_nlink == 1;
    is_gone.then(|| key(&found))
}

fn mode(found: &libc::statx) -> libc::mode_t {
    libc::mode_t::from(found.stx_mode) & libc::S_IFMT
}

fn key(found: &libc::statx) -> FileKey {
    let born = found.stx_btime;
    FileKey {
        inode: found.stx_ino,
        born: born.tv_sec.cast_unsigned() * 1_000_000_000 + u64::from(born.tv_nsec),
    }
}
