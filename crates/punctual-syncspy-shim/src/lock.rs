//! One lock for all that is noted, so that the order of the notes is the order of the writes.

use std::cell::UnsafeCell;
use std::sync::Once;

struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is only ever handed to the pthread functions, which are made for many threads.
unsafe impl Sync for Mutex {}

static MUTEX: Mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// Runs alone among the threads of this process. A lock of the C library and not of Rust: held over
/// a fork by any thread, it can be released in the child.
pub(crate) fn alone<T>(run: impl FnOnce() -> T) -> T {
    static FORKS: Once = Once::new();
    // SAFETY: the three functions are as pthread_atfork wants them.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(Some(take), Some(release), Some(release));
    });
    let held = Held::take();
    let ran = run();
    drop(held);
    ran
}

struct Held;

impl Held {
    fn take() -> Self {
        take_it();
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        release_it();
    }
}

unsafe extern "C" fn take() {
    take_it();
}

unsafe extern "C" fn release() {
    release_it();
}

fn take_it() {
    // SAFETY: a static mutex, initialised as the C library says.
    unsafe { libc::pthread_mutex_lock(MUTEX.0.get()) };
}

fn release_it() {
    // SAFETY: as above; only who took it releases it.
    unsafe { libc::pthread_mutex_unlock(MUTEX.0.get()) };
}
