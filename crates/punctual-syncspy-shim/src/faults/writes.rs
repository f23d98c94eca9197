//! Writing and cutting: noted before it is done, refused while the disk is to be full.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_long, c_void};

use libc::{SYS_pwrite64, SYS_pwritev, SYS_write, SYS_writev, off_t, size_t, ssize_t};

use crate::journal::Journal;
use crate::layout::word;
use crate::lock::alone;
use crate::system_calls;
use crate::watched::Watched;

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller says.
    noted(fd, None, len as u64, || unsafe {
        libc::syscall(SYS_write, fd, bytes, len)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: as the caller says.
    noted(fd, Some(at), len as u64, || unsafe {
        libc::syscall(SYS_pwrite64, fd, bytes, len, at)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: as the caller says.
    unsafe { pwrite(fd, bytes, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller says.
    noted(fd, None, unsafe { bytes_of(parts, count) }, || unsafe {
        libc::syscall(SYS_writev, fd, parts, count)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    // SAFETY: as the caller says.
    let len = unsafe { bytes_of(parts, count) };
    // The system takes the place in two halves; where a word holds it, the second is nothing.
    // SAFETY: as the caller says.
    noted(fd, Some(at), len, || unsafe {
        libc::syscall(SYS_pwritev, fd, parts, count, at, 0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(
    fd: c_int,
    parts: *const libc::iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    // SAFETY: as the caller says.
    unsafe { pwritev(fd, parts, count, at) }
}

/// Changes the length of an open file, as the system's does.
#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    alone(|| {
        let new_len = len.cast_unsigned();
        if let Some(file) = Watched::of(fd).filter(|_| len >= 0)
            && let Some(mut journal) = Journal::of(&file)
        {
            journal.cuts(&file, new_len);
        }
        system_calls::truncate(fd, new_len)
    })
}

/// Changes the length of an open file, as the system's does.
#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    ftruncate(fd, len)
}

/// Changes the length of a file that is not open, as the system's does: redis-server cuts a torn
/// log so before it goes on behind it.
///
/// # Safety
/// The path ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, len: off_t) -> c_int {
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) };
    let fd = system_calls::open(path, libc::O_WRONLY | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return fd;
    }
    let cut = ftruncate(fd, len);
    let errno = system_calls::errno();
    system_calls::close(fd);
    system_calls::set_errno(errno);
    cut
}

/// Changes the length of a file that is not open, as the system's does.
///
/// # Safety
/// As [`truncate`].
#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, len: off_t) -> c_int {
    // SAFETY: as the caller says.
    unsafe { truncate(path, len) }
}

fn noted(fd: c_int, at: Option<off_t>, len: u64, write: impl FnOnce() -> c_long) -> ssize_t {
    let errno = system_calls::errno();
    let Some(file) = Watched::of(fd) else {
        system_calls::set_errno(errno);
        return write() as ssize_t;
    };
    file.control.count(word::WRITES);
    if file.control.count_down(word::FULL, 1) {
        file.control.count(word::REFUSED_WRITES);
        system_calls::set_errno(libc::ENOSPC);
        return -1;
    }
    alone(|| {
        if let Some(mut journal) = Journal::of(&file).filter(|_| len > 0) {
            journal.writes(&file, place(&file, at), len);
        }
        system_calls::set_errno(errno);
        write() as ssize_t
    })
}

/// Where a write will begin.
fn place(file: &Watched, at: Option<off_t>) -> u64 {
    // SAFETY: integers only.
    let flags = unsafe { libc::fcntl(file.fd, libc::F_GETFL) };
    if flags & libc::O_APPEND != 0 {
        return file.len_now();
    }
    // SAFETY: integers only.
    let at = at.unwrap_or_else(|| unsafe { libc::lseek(file.fd, 0, libc::SEEK_CUR) });
    at.max(0).cast_unsigned()
}

unsafe fn bytes_of(parts: *const libc::iovec, count: c_int) -> u64 {
    let Ok(count @ 1..) = usize::try_from(count) else {
        return 0;
    };
    // SAFETY: as the caller says, there are so many.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    parts.iter().map(|part| part.iov_len as u64).sum()
}
