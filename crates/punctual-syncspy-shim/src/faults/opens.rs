//! Opening: the first sight of a file, and what it held is taken for synced.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

use crate::control::control;
use crate::journal::Journal;
use crate::layout::SYSTEM_BOOT_ID;
use crate::lock::alone;
use crate::system_calls;
use crate::watched::Watched;

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(directory, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(directory, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: libc::mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: as the caller says.
    unsafe { opened(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: as the caller says.
    unsafe { creat(path, mode) }
}

/// What compilers make of an open that makes no file.
#[unsafe(no_mangle)]
unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(libc::AT_FDCWD, path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe { opened(libc::AT_FDCWD, path, flags, 0) }
}

/// What is written to a stream is not seen; only that the file is there.
#[unsafe(no_mangle)]
unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: as the caller says.
    unsafe { stream(c"fopen", path, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: as the caller says.
    unsafe { stream(c"fopen64", path, mode) }
}

unsafe fn opened(directory: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        // SAFETY: as the caller says.
        return unsafe { system_calls::open_at(directory, stand_in(path), flags, mode) };
    }
    // Content that is cut by opening is to come back, so it is noted first and cut then.
    // SAFETY: as the caller says.
    let fd = unsafe { system_calls::open_at(directory, path, flags & !libc::O_TRUNC, mode) };
    if fd < 0 {
        return fd;
    }
    alone(|| {
        let file = Watched::of(fd);
        let mut journal = file.as_ref().and_then(Journal::of);
        if flags & libc::O_TRUNC != 0 {
            if let (Some(journal), Some(file)) = (&mut journal, &file) {
                journal.cuts(file, 0);
            }
            let errno = system_calls::errno();
            // No regular file: nothing to cut.
            system_calls::truncate(fd, 0);
            system_calls::set_errno(errno);
        }
    });
    fd
}

/// The machine's run has another name after each power cut.
unsafe fn stand_in(path: *const c_char) -> *const c_char {
    // SAFETY: as the caller says.
    let is_boot_id =
        !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes() == SYSTEM_BOOT_ID.as_bytes();
    match control().filter(|_| is_boot_id) {
        Some(control) => control.boot_id.as_ptr(),
        None => path,
    }
}

type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;

unsafe fn stream(name: &CStr, path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the name is one of the C library, which is loaded behind this library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() {
        system_calls::set_errno(libc::ENOSYS);
        return std::ptr::null_mut();
    }
    // SAFETY: that is its type.
    let next: Open = unsafe { std::mem::transmute(next) };
    // SAFETY: as the caller says.
    let file = unsafe { next(path, mode) };
    // SAFETY: as the caller says.
    let writes = unsafe { CStr::from_ptr(mode) }
        .to_bytes()
        .iter()
        .any(|letter| b"wa+".contains(letter));
    if !file.is_null() && writes {
        // SAFETY: a stream that is open.
        let fd = unsafe { libc::fileno(file) };
        alone(|| Watched::of(fd).as_ref().and_then(Journal::of));
    }
    file
}
