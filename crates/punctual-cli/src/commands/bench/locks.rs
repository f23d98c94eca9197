//! `punctual bench locks`: how long a lock takes from one holder to the next, and a free one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::Queue;
use punctual::sync::Lock as _;
use punctual::time::{Stopwatch, minutes, pause};

use super::{Place, in_tasks, leftovers};
use crate::args::span_of;
use crate::failure::Result;
use crate::output::{count, object};

/// How long a lock takes from one holder to the next, and how long a free one takes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench locks --engine $REDIS
  punctual bench locks --takers 32 --handovers 5000

Each taker waits for the lock, holds it, and releases it. A handover is from the begin of a release to
the instant at which another taker has the lock. A wait is what a taker waits for the lock, through the
turns of others. `free` is a lock and a release that meet nothing.
bench/rivals/python/lock_side.py measures the lock of redis-py beside it, on the same server.")]
pub(crate) struct Args {
    /// Takers that want the lock at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=1_000))]
    takers: u64,

    /// Handovers to measure
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    handovers: u64,

    /// How long each taker holds the lock
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "1ms")]
    hold: Duration,
}

const NAME: &str = "bench";
/// Locks of a free lock that are measured.
const FREE: u32 = 500;

/// What takers share.
struct Shared {
    queue: Queue,
    left: AtomicU64,
    /// The taker that released last, and when it began to.
    released: Mutex<Option<(u64, Stopwatch)>>,
    spans: Mutex<Vec<Duration>>,
    waits: Mutex<Vec<Duration>>,
}

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let watch = Stopwatch::start();
        for _ in 0..FREE {
            queue.lock(NAME).try_now().await?.release().await?;
        }
        let free = watch.elapsed() / FREE;
        let shared = Arc::new(Shared {
            queue,
            left: AtomicU64::new(self.handovers),
            released: Mutex::default(),
            spans: Mutex::default(),
            waits: Mutex::default(),
        });
        let (number, hold) = (AtomicU64::new(0), self.hold);
        let taken = in_tasks(self.takers, || {
            let me = number.fetch_add(1, Ordering::Relaxed);
            take(shared.clone(), me, hold)
        });
        taken.await?;
        leftovers::remove(session, &[format!("lock:{NAME}")]).await?;
        let sorted = |spans: &Mutex<Vec<Duration>>| {
            let mut spans = std::mem::take(&mut *spans.locked());
            spans.sort_unstable();
            spans
        };
        let (spans, waits) = (sorted(&shared.spans), sorted(&shared.waits));
        let ms = |span: Duration| (span.as_secs_f64() * 1e5).round() / 100.0;
        let part = |spans: &[Duration], hundredths: usize| {
            let at = spans.get(spans.len() * hundredths / 100);
            ms(at.copied().unwrap_or_default())
        };
        let (p50, p99) = (part(&spans, 50), part(&spans, 99));
        let wait = part(&waits, 99);
        if session.out.is_json() {
            return session.out.json(&object!({
                "library": "punctual", "takers": self.takers, "handovers": spans.len(),
                "handover_p50_ms": p50, "handover_p99_ms": p99, "wait_p99_ms": wait, "free_ms": ms(free),
            }));
        }
        session.out.card(&[
            ("engine", place.engine.clone()),
            ("takers", count(self.takers)),
            ("handovers", count(spans.len() as u64)),
            ("handover p50", format!("{p50} ms")),
            ("handover p99", format!("{p99} ms")),
            ("wait p99", format!("{wait} ms")),
            ("free, both calls", format!("{} ms", ms(free))),
        ])
    }
}

async fn take(shared: Arc<Shared>, me: u64, hold: Duration) -> punctual::Result<()> {
    loop {
        let began = Stopwatch::start();
        let guard = shared.queue.lock(NAME).wait(minutes(5)).await?;
        shared.waits.locked().push(began.elapsed());
        let released = shared.released.locked().take();
        if let Some((_, watch)) = released.filter(|(other, _)| *other != me) {
            shared.spans.locked().push(watch.elapsed());
            let less = |left: u64| Some(left.saturating_sub(1));
            let _ = (shared.left).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        pause(hold).await;
        *shared.released.locked() = Some((me, Stopwatch::start()));
        guard.release().await?;
        if shared.left.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
    }
}
