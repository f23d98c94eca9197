//! System calls as they are, past the functions that this library stands in for.

use std::ffi::{CStr, CString};
use std::os::raw::{c_int, c_long};

/// Opens a path; negative if that failed, and then `errno` says why.
pub(crate) fn open(path: &CStr, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the path ends with a zero byte.
    unsafe { open_at(libc::AT_FDCWD, path.as_ptr(), flags, mode) }
}

/// # Safety
/// The path is one that the system may read.
pub(crate) unsafe fn open_at(
    directory: c_int,
    path: *const libc::c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: as the caller says.
    narrow(unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) })
}

pub(crate) fn close(fd: c_int) {
    // SAFETY: a descriptor that this library opened.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Reads up to the length of a buffer at a place; answers how much.
pub(crate) fn read_at(fd: c_int, into: &mut [u8], at: u64) -> usize {
    let mut read = 0;
    while read < into.len() {
        let rest = &mut into[read..];
        // SAFETY: the buffer is as long as said.
        let got = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                fd,
                rest.as_mut_ptr(),
                rest.len(),
                at + read as u64,
            )
        };
        let Ok(got @ 1..) = usize::try_from(got) else {
            break;
        };
        read += got;
    }
    read
}

/// Writes all bytes at a place; answers whether it could.
pub(crate) fn write_at(fd: c_int, mut bytes: &[u8], mut at: u64) -> bool {
    while !bytes.is_empty() {
        // SAFETY: the buffer is as long as said.
        let wrote =
            unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes.as_ptr(), bytes.len(), at) };
        let Ok(wrote @ 1..) = usize::try_from(wrote) else {
            return false;
        };
        bytes = &bytes[wrote..];
        at += wrote as u64;
    }
    true
}

pub(crate) fn truncate(fd: c_int, len: u64) -> c_int {
    // SAFETY: integers only.
    narrow(unsafe { libc::syscall(libc::SYS_ftruncate, fd, len) })
}

/// Gives a file another name, in one step; answers whether it could.
pub(crate) fn rename(from: &CStr, to: &CStr) -> bool {
    let here = libc::AT_FDCWD;
    // SAFETY: both paths end with a zero byte.
    let done = unsafe {
        let call = libc::SYS_renameat2;
        libc::syscall(call, here, from.as_ptr(), here, to.as_ptr(), 0)
    };
    done == 0
}

/// What a path or descriptor leads to; None if that is unknown.
pub(crate) fn about(fd: c_int, path: &CStr, flags: c_int) -> Option<libc::statx> {
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let errno = errno();
    // SAFETY: the path ends with a zero byte, and the result is of the right type.
    let done = unsafe {
        libc::syscall(
            libc::SYS_statx,
            fd,
            path.as_ptr(),
            flags,
            mask,
            found.as_mut_ptr(),
        )
    };
    set_errno(errno);
    // SAFETY: zeros are a value of it, and the system has filled it in.
    (done == 0).then(|| unsafe { found.assume_init() })
}

/// The path of an open descriptor.
pub(crate) fn path_of(fd: c_int) -> Option<Vec<u8>> {
    let link = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut path = vec![0_u8; 4096];
    let errno = errno();
    // SAFETY: the buffer is as long as said.
    let len = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            link.as_ptr(),
            path.as_mut_ptr(),
            path.len(),
        )
    };
    set_errno(errno);
    path.truncate(usize::try_from(len).ok()?);
    Some(path)
}

pub(crate) fn sleep(micros: u64) {
    let mut left = libc::timespec {
        tv_sec: (micros / 1_000_000).cast_signed(),
        tv_nsec: ((micros % 1_000_000) * 1_000).cast_signed(),
    };
    let mut rest = left;
    // SAFETY: both spans are of the right type.
    while unsafe { libc::syscall(libc::SYS_nanosleep, &raw const left, &raw mut rest) } != 0 {
        if errno() != libc::EINTR {
            return;
        }
        left = rest;
    }
}

/// Microseconds of the monotonic clock.
pub(crate) fn monotonic_micros() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: the instant is of the right type.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

pub(crate) fn errno() -> c_int {
    // SAFETY: always there, one for each thread.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The answer of a call whose answers are small.
pub(crate) fn narrow(answer: c_long) -> c_int {
    c_int::try_from(answer).unwrap_or(-1)
}
