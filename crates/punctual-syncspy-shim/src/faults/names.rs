//! Names: they are taken for durable at once; only what is known of files that are gone is dropped.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

use crate::journal::forget;
use crate::system_calls::narrow;
use crate::watched::only_name;

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as the caller says.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        replaced(directory, path, || {
            narrow(libc::syscall(libc::SYS_unlinkat, directory, path, flags))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let here = libc::AT_FDCWD;
    // SAFETY: as the caller says.
    unsafe { renameat(here, from, here, to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        replaced(to_directory, to, || {
            let call = libc::SYS_renameat2;
            narrow(libc::syscall(
                call,
                from_directory,
                from,
                to_directory,
                to,
                0,
            ))
        })
    }
}

/// Does what takes a name from the file that has it, and forgets that file if the name was its
/// last.
unsafe fn replaced(directory: c_int, path: *const c_char, act: impl FnOnce() -> c_int) -> c_int {
    let gone = (!path.is_null())
        // SAFETY: as the caller says.
        .then(|| unsafe { CStr::from_ptr(path) })
        .and_then(|path| only_name(directory, path));
    let answer = act();
    if let Some(gone) = gone.filter(|_| answer == 0) {
        forget(gone);
    }
    answer
}
