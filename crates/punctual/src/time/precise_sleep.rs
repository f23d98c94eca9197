//! Sleeps that end within a tenth of a millisecond: one thread, one heap, one condition variable.
//!
//! Tokio's timer rounds to its tick of a millisecond, which would be half of the lateness that
//! this project allows itself. Few sleeps are alive at once: one per worker and engine loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::sync::Lock;

pub(super) fn sleep(span: Duration) -> PreciseSleep {
    PreciseSleep {
        until: Instant::now() + span,
        shared: None,
    }
}

pub(super) struct PreciseSleep {
    until: Instant,
    shared: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Future for PreciseSleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        if let Some(shared) = &self.shared {
            let mut waker = shared.locked();
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let shared = Arc::new(Mutex::new(Some(cx.waker().clone())));
        Timer::get().add(Entry {
            until: self.until,
            waker: shared.clone(),
        });
        self.shared = Some(shared);
        Poll::Pending
    }
}

impl Drop for PreciseSleep {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.locked().take();
        }
    }
}

struct Entry {
    until: Instant,
    waker: Arc<Mutex<Option<Waker>>>,
}

/// Sleeps that no task waits for any more go that much before their time, many at once: most are
/// deadlines of calls that were answered, and each would wake the thread for nothing.
const GONE_EARLY: Duration = Duration::from_millis(10);

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        let gone = || {
            let waker = self.waker.locked();
            waker.is_none()
        };
        self.until <= now || (self.until <= now + GONE_EARLY && gone())
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.until.cmp(&other.until)
    }
}

struct Timer {
    heap: Mutex<BinaryHeap<Reverse<Entry>>>,
    earlier: Condvar,
}

impl Timer {
    fn get() -> &'static Self {
        static TIMER: OnceLock<&'static Timer> = OnceLock::new();
        TIMER.get_or_init(|| {
            let timer: &'static Timer = Box::leak(Box::new(Timer {
                heap: Mutex::new(BinaryHeap::new()),
                earlier: Condvar::new(),
            }));
            std::thread::Builder::new()
                .name("punctual-timer".into())
                .spawn(move || timer.run())
                .expect("the system refuses to start a thread");
            timer
        })
    }

    fn add(&self, entry: Entry) {
        let mut heap = self.heap.locked();
        let earliest = heap
            .peek()
            .is_none_or(|Reverse(first)| entry.until < first.until);
        heap.push(Reverse(entry));
        if earliest {
            self.earlier.notify_one();
        }
    }

    fn run(&self) {
        let mut heap = self.heap.locked();
        loop {
            let now = Instant::now();
            while heap.peek().is_some_and(|Reverse(first)| first.is_over(now)) {
                if let Some(Reverse(entry)) = heap.pop() {
                    let waker = entry.waker.locked().take();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            }
            let left = heap
                .peek()
                .map(|Reverse(first)| first.until.duration_since(now));
            heap = match left {
                Some(left) => {
                    let waited = self.earlier.wait_timeout(heap, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .earlier
                    .wait(heap)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
