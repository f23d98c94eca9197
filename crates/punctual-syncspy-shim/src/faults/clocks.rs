//! The wall clock: a test may shift it. The monotonic one is left alone.

use std::os::raw::{c_int, c_void};

use crate::control::control;
use crate::layout::word;
use crate::system_calls::narrow;

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, into: *mut libc::timespec) -> c_int {
    // SAFETY: as the caller says.
    let answer = narrow(unsafe { libc::syscall(libc::SYS_clock_gettime, clock, into) });
    let is_wall = clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE;
    if is_wall && answer == 0 && !into.is_null() {
        // SAFETY: the system has just written there.
        let now = unsafe { &mut *into };
        let micros = shifted(now.tv_sec, now.tv_nsec / 1_000);
        (now.tv_sec, now.tv_nsec) = (micros.div_euclid(SECOND), micros.rem_euclid(SECOND) * 1_000);
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(into: *mut libc::timeval, zone: *mut c_void) -> c_int {
    // SAFETY: as the caller says.
    let answer = narrow(unsafe { libc::syscall(libc::SYS_gettimeofday, into, zone) });
    if answer == 0 && !into.is_null() {
        // SAFETY: the system has just written there.
        let now = unsafe { &mut *into };
        let micros = shifted(now.tv_sec, now.tv_usec);
        (now.tv_sec, now.tv_usec) = (micros.div_euclid(SECOND), micros.rem_euclid(SECOND));
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn time(into: *mut libc::time_t) -> libc::time_t {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a value of the right type.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    if !into.is_null() {
        // SAFETY: as the caller says.
        unsafe { *into = now.tv_sec };
    }
    now.tv_sec
}

const SECOND: i64 = 1_000_000;

fn shifted(seconds: i64, micros: i64) -> i64 {
    let by = control().map_or(0, |control| control.word(word::CLOCK_MICROS).cast_signed());
    seconds * SECOND + micros + by
}
