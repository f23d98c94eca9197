//! Keeps queues with limits full, and runs their jobs. The recorder knows nothing of them: they
//! have words of their own in the history.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use punctual::backoff::Backoff;
use punctual::engine::{Rate, StatsRequest};
use punctual::time::{Stopwatch, Timestamp, millis, pause, seconds};
use punctual::worker::Verdict;
use punctual::{Context, Engine, JobId, JobRecord, JobState, Namespace, NewJob, Queue, Worker};

use super::Begun;
use crate::call_log::History;
use crate::event::Event;
use crate::limits::*;
use crate::stamp::wall;

/// A call without an answer is repeated for so long.
const GIVES_UP_AFTER: Duration = seconds(12);
/// Between two turns of a producer, at least.
const TURN: Duration = millis(100);
/// Jobs that stand ready in a queue before a producer sends it no more.
const AHEAD: u64 = 25;
/// The same of the queue with the flood.
const FLOOD_AHEAD: u64 = 80;

/// Sets the limits, then sends jobs until there are enough.
pub(super) async fn produce(begun: Begun, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0x11f);
    let queue = Queue::new(&begun.direct);
    // A job without its limit would break it. A failover may take longer than one call waits.
    while let Err(error) = until_answered(|| set(&queue)).await {
        eprintln!("limits were not set: {error}");
        if !error.is_retryable() || begun.setting.is_enough() {
            return;
        }
    }
    while !begun.setting.is_enough() {
        let ready = ready(&*begun.direct).await;
        let mut jobs = Vec::new();
        if ready[0] < AHEAD {
            jobs.extend((0..6).map(|_| capped(&mut random)));
        }
        if ready[1] < AHEAD {
            jobs.extend((0..6).map(|_| job(RATED, 5..20, &mut random)));
        }
        if ready[2] < FLOOD_AHEAD {
            jobs.extend((0..25).map(|_| shared(FLOOD.into(), &mut random)));
        }
        // After the flood: it would be first without turns, else.
        for _ in 0..1 + usize::from(random.bool()) {
            let share = format!("small-{:x}", random.u64(..));
            jobs.push(shared(share, &mut random));
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        begun.history.note(Event::LimitSend { ids });
        // A call that is given up may have stored them all the same.
        let _ = until_answered(|| queue.enqueue_many(jobs.clone())).await;
        pause(TURN + millis(random.u64(0..60))).await;
    }
}

async fn set(queue: &Queue) -> punctual::Result<()> {
    let capped = |name| queue.limits(name).concurrency(ACTIVE_MAX as u64);
    capped(CAPPED).set().await?;
    let shared = capped(SHARED).weight(FLOOD, FLOOD_WEIGHT as u32);
    shared.set().await?;
    let rate = Rate::window(STARTS_MAX as u64, WINDOW);
    queue.limits(RATED).rate(rate).set().await?;
    for (name, most) in [NARROW, WIDE] {
        queue.limit(name).concurrency(most as u64).set().await?;
    }
    Ok(())
}

/// Jobs that stand ready in each queue; none, of an engine that does not say.
async fn ready(engine: &dyn Engine) -> [u64; 3] {
    let request = StatsRequest::default().queues(QUEUES.map(str::to_owned).to_vec());
    let stats = engine.stats(&Namespace::default(), request).await;
    QUEUES.map(|name| {
        let queues = stats.iter().flat_map(|stats| &stats.queues);
        let mut named = queues.filter(|queue| queue.queue == name);
        named.next().map_or(0, |it| it.counts.of(JobState::Ready))
    })
}

fn job(queue: &str, takes: std::ops::Range<u64>, random: &mut Rng) -> NewJob {
    let mut job = NewJob::new(queue, random.u64(takes).to_string());
    // A kill of its worker is no end of it.
    job.max_crashes = Some(100);
    job
}

fn capped(random: &mut Rng) -> NewJob {
    let mut job = job(CAPPED, 40..100, random);
    if random.bool() {
        job.limits = [NARROW, WIDE].map(|(name, _)| name.to_owned()).to_vec();
    }
    job
}

fn shared(share: String, random: &mut Rng) -> NewJob {
    let mut job = job(SHARED, 20..60, random);
    job.share = Some(share);
    job
}

/// The last error, of a call that is refused or not answered in time.
pub(super) async fn until_answered<T, F>(call: impl Fn() -> F) -> punctual::Result<T>
where
    F: Future<Output = punctual::Result<T>>,
{
    let mut backoff = Backoff::new(millis(10), millis(300));
    let watch = Stopwatch::start();
    loop {
        match call().await {
            Err(error) if error.is_retryable() && watch.elapsed() <= GIVES_UP_AFTER => {
                pause(backoff.pause()).await;
            }
            answer => return answer,
        }
    }
}

/// A worker for queues with limits.
pub(super) fn worker(begun: &Begun) -> Worker {
    let history = begun.history.clone();
    let run = move |job: JobRecord, _: Context| run(history.clone(), job);
    let worker = Worker::new(&begun.direct)
        .queues(QUEUES)
        .handle_any(run)
        .concurrency(12);
    super::hasty(worker)
}

/// An attempt that runs. However its handler ends, aborted too, its end is noted before its worker
/// can settle it; a kill of the process notes nothing.
struct Running(Arc<History>, JobId, u32);

impl Drop for Running {
    fn drop(&mut self) {
        let Self(history, id, attempt) = self;
        history.note(Event::LimitFinish {
            id: *id,
            attempt: *attempt,
            wall: wall(),
        });
    }
}

async fn run(history: Arc<History>, job: JobRecord) -> Verdict {
    let takes = std::str::from_utf8(&job.payload).ok();
    let Some(takes) = takes.and_then(|takes| takes.parse().ok()) else {
        return Verdict::dead("payload is not of this run");
    };
    let running = Running(history, job.id, job.attempt);
    running.0.note(Event::LimitStart {
        id: job.id,
        attempt: job.attempt,
        queue: job.queue,
        share: job.share,
        is_narrow: job.limits.iter().any(|name| name == NARROW.0),
        due: job.due.as_micros(),
        started: job.started_at.map_or(0, Timestamp::as_micros),
        wall: wall(),
    });
    pause(millis(takes)).await;
    Verdict::completed()
}
