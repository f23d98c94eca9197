//! The wheel and its rivals, each used as one really would, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;

use punctual::memory::wheel::{Handle, Wheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Duration, Instant};
use tokio_util::time::{DelayQueue, delay_queue::Key};

/// Something that keeps timers. A timer is known by its place in `dues`, as jobs are by the
/// place of their record; what a structure hands out for cancelling is part of that record.
pub(crate) trait Timers {
    /// Inserts all, in the order given.
    fn insert(&mut self, dues: &[u64]);
    /// Cancels these.
    fn cancel(&mut self, dues: &[u64], timers: &[u32]);
    /// At each of these instants, fires what is due, and asks when to wake next.
    fn fire(&mut self, wakes: &[u64], fired: &mut Vec<u32>);
    /// Bytes allocated, by the structure's own account.
    fn heap_bytes(&self) -> Option<usize> {
        None
    }
}

/// Room for one record per timer, already touched, so that it is not counted to the structure.
fn records<T: Clone>(len: usize, blank: T) -> Vec<T> {
    let mut records = vec![blank.clone(); len];
    records.fill(blank);
    black_box(records)
}

pub(crate) struct PunctualWheel {
    wheel: Wheel<u32>,
    handles: Vec<Option<Handle>>,
    page: Vec<(u64, u64, u32)>,
}

impl PunctualWheel {
    pub(crate) fn new(timers: usize) -> Self {
        let filler = Wheel::new(0).insert(1, 0, 0);
        let handles = records(timers, Some(filler));
        PunctualWheel {
            wheel: Wheel::new(0),
            handles,
            page: Vec::new(),
        }
    }
}

impl Timers for PunctualWheel {
    fn insert(&mut self, dues: &[u64]) {
        for (timer, (&due, handle)) in (0..).zip(dues.iter().zip(&mut self.handles)) {
            *handle = Some(self.wheel.insert(due, timer, timer as u32));
        }
    }

    fn cancel(&mut self, _: &[u64], timers: &[u32]) {
        for &timer in timers {
            if let Some(handle) = self.handles[timer as usize] {
                assert!(self.wheel.cancel(handle));
            }
        }
    }

    fn fire(&mut self, wakes: &[u64], fired: &mut Vec<u32>) {
        for &now in wakes {
            self.wheel.pop_due(now, usize::MAX, &mut self.page);
            fired.extend(self.page.drain(..).map(|(_, _, timer)| timer));
            black_box(self.wheel.next_due());
        }
    }

    fn heap_bytes(&self) -> Option<usize> {
        Some(self.wheel.heap_bytes())
    }
}

/// Cancels lazily, by a bit per timer, as a heap cannot remove from its middle.
pub(crate) struct Heap {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    cancelled: Vec<u64>,
}

impl Heap {
    pub(crate) fn new(timers: usize) -> Self {
        Heap {
            heap: BinaryHeap::new(),
            cancelled: vec![0; timers.div_ceil(64)],
        }
    }

    fn is_cancelled(&self, timer: u32) -> bool {
        self.cancelled[timer as usize / 64] & (1 << (timer % 64)) != 0
    }
}

impl Timers for Heap {
    fn insert(&mut self, dues: &[u64]) {
        for (timer, &due) in (0..).zip(dues) {
            self.heap.push(Reverse((due, timer)));
        }
    }

    fn cancel(&mut self, _: &[u64], timers: &[u32]) {
        for &timer in timers {
            self.cancelled[timer as usize / 64] |= 1 << (timer % 64);
        }
    }

    fn fire(&mut self, wakes: &[u64], fired: &mut Vec<u32>) {
        for &now in wakes {
            while let Some(&Reverse((due, timer))) = self.heap.peek() {
                let cancelled = self.is_cancelled(timer);
                if due > now && !cancelled {
                    break;
                }
                self.heap.pop();
                if !cancelled {
                    fired.push(timer);
                }
            }
            black_box(self.heap.peek());
        }
    }
}

pub(crate) struct Tree(BTreeMap<(u64, u32), u32>);

impl Tree {
    pub(crate) fn new() -> Self {
        Tree(BTreeMap::new())
    }
}

impl Timers for Tree {
    fn insert(&mut self, dues: &[u64]) {
        for (timer, &due) in (0..).zip(dues) {
            self.0.insert((due, timer), timer);
        }
    }

    fn cancel(&mut self, dues: &[u64], timers: &[u32]) {
        for &timer in timers {
            assert!(self.0.remove(&(dues[timer as usize], timer)).is_some());
        }
    }

    fn fire(&mut self, wakes: &[u64], fired: &mut Vec<u32>) {
        for &now in wakes {
            while let Some(first) = self.0.first_entry().filter(|first| first.key().0 <= now) {
                fired.push(first.remove());
            }
            black_box(self.0.first_key_value());
        }
    }
}

/// Of tokio-util. It counts in milliseconds, so it does less: within one, it keeps no order.
pub(crate) struct Queue {
    runtime: Runtime,
    start: Instant,
    queue: DelayQueue<u32>,
    keys: Vec<Option<Key>>,
}

impl Queue {
    pub(crate) fn new(timers: usize) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let (start, queue, filler) = runtime.block_on(async {
            let filler = DelayQueue::new().insert(0, Duration::ZERO);
            (now(), DelayQueue::new(), filler)
        });
        let keys = records(timers, Some(filler));
        Queue {
            runtime,
            start,
            queue,
            keys,
        }
    }
}

impl Timers for Queue {
    fn insert(&mut self, dues: &[u64]) {
        self.runtime.block_on(async {
            for (timer, (&due, key)) in (0..).zip(dues.iter().zip(&mut self.keys)) {
                let due = self.start + Duration::from_micros(due);
                *key = Some(self.queue.insert_at(timer, due));
            }
        });
    }

    fn cancel(&mut self, _: &[u64], timers: &[u32]) {
        self.runtime.block_on(async {
            for &timer in timers {
                if let Some(key) = &self.keys[timer as usize] {
                    self.queue.remove(key);
                }
            }
        });
    }

    fn fire(&mut self, wakes: &[u64], fired: &mut Vec<u32>) {
        let queue = &mut self.queue;
        // Without its budget: tokio would make a task pause that fires many timers at once.
        self.runtime.block_on(tokio::task::unconstrained(async {
            for &wake in wakes {
                let wake = self.start + Duration::from_micros(wake);
                tokio::time::advance(wake - now()).await;
                poll_fn(|context| {
                    while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                        fired.push(expired.into_inner());
                    }
                    Poll::Ready(())
                })
                .await;
            }
        }));
    }
}

// The virtual time of tokio's paused clock.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}
