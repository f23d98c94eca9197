//! What every side of the bench does alike: it takes an order and reports what it has seen.
//!
//! The orders and the lines are in `bench/redis.md`; the sides in other languages keep them too.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The same for all: jobs are made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Dues lie at least that far ahead of their enqueue.
pub const AHEAD: Duration = Duration::from_millis(1_300);
const SLICES_PER_SECOND: u64 = 5;

/// What the bench orders a side to do.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Enqueue that many jobs, due at once.
    Enqueue { jobs: u64, batch: u64, callers: u64 },
    /// Enqueue jobs that fall due at that rate, at random microseconds.
    Schedule { rate: u64, seconds: u64 },
    /// Enqueue jobs that no worker will run: half of them ready, half due within 30 days.
    Fill { jobs: u64 },
    /// Run jobs until the input ends.
    Work,
    /// Enqueue, claim and settle each job by calls of its own, that many lives at a time.
    Lives { jobs: u64, flight: u64 },
}

/// The order on the command line.
pub fn order() -> Order {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize| words[nth].parse().expect("a number");
    match words[0].as_str() {
        "enqueue" => Order::Enqueue {
            jobs: number(1),
            batch: number(2),
            callers: number(3),
        },
        "schedule" => Order::Schedule {
            rate: number(1),
            seconds: number(2),
        },
        "fill" => Order::Fill { jobs: number(1) },
        "work" => Order::Work,
        "lives" => Order::Lives {
            jobs: number(1),
            flight: number(2),
        },
        other => panic!("no order is called {other}"),
    }
}

/// The server that this run is about.
pub fn address() -> String {
    format!("redis://127.0.0.1:{}", port())
}

/// Its port; it is on the loopback.
pub fn port() -> u16 {
    let port = std::env::var("REDIS_PORT").expect("REDIS_PORT names the server's port");
    port.parse().expect("a port")
}

/// Microseconds of the wall clock.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("it is after 1970").as_micros() as u64
}

/// 100 bytes, as every job has them.
pub fn payload() -> String {
    "x".repeat(100)
}

/// Reports how long an order took.
pub fn announce(started: u64) {
    let seconds = (now() - started) as f64 / 1e6;
    println!("{{\"seconds\":{seconds}}}");
}

/// Hands `jobs` out in batches to callers that run at the same time, and reports how long all took.
pub async fn enqueue<F, Fut>(jobs: u64, batch: u64, callers: u64, call: F)
where
    F: Fn(u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let left = Arc::new(AtomicU64::new(jobs));
    let started = now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (left, call) = (left.clone(), call.clone());
            tokio::spawn(async move {
                loop {
                    let before = left
                        .fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(batch)))
                        .unwrap_or(0);
                    match before.min(batch) {
                        0 => return,
                        size => call(size).await,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("every call succeeds");
    }
    announce(started);
}

/// Calls with the dues of slice after slice, each while those before it fall due.
pub async fn schedule(rate: u64, seconds: u64, mut call: impl AsyncFnMut(Vec<u64>)) {
    let started = now();
    let mut dice = Dice(started | 1);
    let (slice, ahead) = (1_000_000 / SLICES_PER_SECOND, AHEAD.as_micros() as u64);
    let mut sent = 0;
    for nth in 0..seconds * SLICES_PER_SECOND {
        let send_at = started + nth * slice;
        tokio::time::sleep(Duration::from_micros(send_at.saturating_sub(now()))).await;
        let until = rate * (nth + 1) / SLICES_PER_SECOND;
        let due = |_| send_at + ahead + dice.below(slice);
        let dues: Vec<u64> = (sent..until).map(due).collect();
        sent = until;
        if !dues.is_empty() {
            call(dues).await;
        }
    }
    announce(started);
}

/// The span from now to a due, for those who take no instants.
pub fn until(due: u64) -> Duration {
    Duration::from_micros(due.saturating_sub(now()))
}

/// Calls with batches of 1,000 delays in microseconds, `None` for a job that is ready.
pub async fn fill(jobs: u64, mut call: impl AsyncFnMut(Vec<Option<u64>>)) {
    let started = now();
    let mut dice = Dice(started | 1);
    let month = 30 * 24 * 3_600 * 1_000_000;
    for from in (0..jobs).step_by(1_000) {
        let delay = |nth: u64| (nth % 2 == 1).then(|| dice.below(month));
        call((from..jobs.min(from + 1_000)).map(delay).collect()).await;
    }
    announce(started);
}

/// Marsaglia's xorshift generator.
pub struct Dice(pub u64);

impl Dice {
    /// At least 0, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// What handlers saw, printed in lines until the input ends, and this process with it.
#[derive(Clone, Default)]
pub struct Report(Arc<Seen>);

#[derive(Default)]
struct Seen {
    done: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    late: Mutex<Vec<i64>>,
}

impl Report {
    /// Starts telling; to be called once the worker runs.
    pub fn start() -> Self {
        let report = Self::default();
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        let seen = report.0.clone();
        std::thread::spawn(move || {
            println!("{{\"ready\":true}}");
            let mut reported = 0;
            loop {
                std::thread::sleep(Duration::from_millis(20));
                let done = seen.done.load(Relaxed);
                let more = done - reported;
                if more == 0 {
                    continue;
                }
                reported = done;
                let late = std::mem::take(&mut *seen.late.lock().expect("no handler panics"));
                let (first, last) = (seen.first.load(Relaxed), seen.last.load(Relaxed));
                let line = format!(
                    "{{\"done\":{more},\"first\":{first},\"last\":{last},\"late\":{late:?}}}\n"
                );
                let _ = std::io::stdout().write_all(line.as_bytes());
            }
        });
        report
    }

    /// A handler has started, with a payload that may be the job's due.
    pub fn started(&self, payload: &str) {
        let now = now();
        if let Ok(due) = payload.parse::<u64>() {
            self.late(now as i64 - due as i64);
        }
        self.count(now);
    }

    /// A handler has started so many microseconds after its due.
    pub fn started_late(&self, late: i64) {
        self.late(late);
        self.count(now());
    }

    fn late(&self, late: i64) {
        self.0.late.lock().expect("no handler panics").push(late);
    }

    fn count(&self, now: u64) {
        if self.0.first.load(Relaxed) == 0 {
            let _ = self.0.first.compare_exchange(0, now, Relaxed, Relaxed);
        }
        self.0.last.store(now, Relaxed);
        self.0.done.fetch_add(1, Relaxed);
    }
}
