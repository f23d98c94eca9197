//! Syncing: what it covers is safe once the system says so.

use std::os::raw::{c_int, c_long};

use crate::control::Control;
use crate::journal::Journal;
use crate::layout::word;
use crate::lock::alone;
use crate::system_calls;
use crate::watched::{Watched, is_directory};

/// Makes a file durable, as the system's does.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fsync)
}

/// Makes a file's content durable, as the system's does.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fdatasync)
}

fn synced(fd: c_int, call: c_long) -> c_int {
    // SAFETY: integers only.
    let real = || system_calls::narrow(unsafe { libc::syscall(call, fd) });
    let file = Watched::of(fd);
    let directory = || is_directory(fd);
    let control = file.as_ref().map(|file| file.control);
    let Some(control) = control.or_else(directory) else {
        return real();
    };
    // Counted first: a reader that sees it counted knows that what comes now is not covered by it.
    let number = control.sync_begins(&system_calls::path_of(fd).unwrap_or_default());
    let answer = match file {
        Some(file) => synced_file(&file, real),
        None if fails(control) => refused(),
        None => real(),
    };
    control.sync_ends(number);
    answer
}

fn synced_file(file: &Watched, real: impl FnOnce() -> c_int) -> c_int {
    // Writes of other threads from here on are not promised by this sync.
    let covered = alone(|| Journal::of(file).map(|journal| journal.covered(file)));
    let answer = if fails(file.control) {
        refused()
    } else {
        real()
    };
    let errno = system_calls::errno();
    alone(|| {
        let journal = Journal::of(file);
        match (journal, covered) {
            (Some(mut journal), Some(covered)) if answer == 0 => journal.is_synced(&covered),
            (Some(mut journal), _) => journal.is_broken(),
            (None, _) => {}
        }
    });
    system_calls::set_errno(errno);
    answer
}

/// Takes the time that it is to take; answers whether it is to fail.
fn fails(control: &Control) -> bool {
    match control.word(word::SLOW_MICROS) {
        0 => {}
        micros => system_calls::sleep(micros),
    }
    let fails = control.count_down(word::FAIL_SYNC, 0);
    if fails {
        control.count(word::FAILED_SYNCS);
    }
    fails
}

fn refused() -> c_int {
    system_calls::set_errno(libc::EIO);
    -1
}
