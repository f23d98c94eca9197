//! Writes schedules, skips some of their runs by hand, and runs them. The recorder knows nothing of
//! them: they have words of their own in the history.

use std::sync::Arc;

use fastrand::Rng;
use punctual::schedule::{Form, Missed, Overlap};
use punctual::time::{millis, pause, seconds};
use punctual::worker::Verdict;
use punctual::{Context, JobRecord, NewJob, Queue, Worker};

use super::Begun;
use super::limits::until_answered;
use crate::call_log::History;
use crate::event::Event;
use crate::schedules::*;
use crate::stamp::wall;

/// Longer than a round.
const KEPT: std::time::Duration = seconds(1_800);

/// Writes the schedules, skips a run now and then, and removes them once there are enough jobs.
pub(super) async fn produce(begun: Begun, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0x5c4ed);
    let queue = Queue::new(&begun.direct);
    for name in QUEUES {
        // A failover may take longer than one call waits.
        while !begun.setting.is_enough() {
            match until_answered(|| set(&queue, name)).await {
                Ok(()) => {
                    let (name, wall) = (name.to_owned(), wall());
                    begun.history.note(Event::ScheduleSet { name, wall });
                    break;
                }
                Err(error) => eprintln!("schedule {name} was not set: {error}"),
            }
        }
    }
    while !begun.setting.is_enough() {
        pause(millis(random.u64(150..900))).await;
        let _ = queue.schedules().skip_next(BEATS).await;
    }
    for name in QUEUES {
        let asked = wall();
        let removed = until_answered(|| async { queue.schedules().remove(name).await }).await;
        // Of two producers the first one removes it.
        if matches!(removed, Ok(true)) {
            let (name, wall) = (name.to_owned(), asked);
            begun.history.note(Event::ScheduleRemove { name, wall });
        }
    }
}

async fn set(queue: &Queue, name: &str) -> punctual::Result<()> {
    let mut job = NewJob::new(name, "{}");
    // A kill of its worker is no end of it, and how it ended is read at the end of the round.
    (job.max_crashes, job.max_attempts, job.retention) = (Some(100), 100, KEPT);
    let all = Missed::All { max: 100 };
    let schedule = queue.schedule(name).missed(all);
    let schedule = match name {
        BEATS => schedule.every(interval(name)).overlap(Overlap::Allow),
        _ => schedule
            .pattern(Form::CronWithSeconds, "* * * * * *")
            .overlap(Overlap::Skip),
    };
    schedule.enqueue_job(job).await.map(drop)
}

/// A worker for runs of schedules.
pub(super) fn worker(begun: &Begun) -> Worker {
    let history = begun.history.clone();
    let run = move |job: JobRecord, _: Context| run(history.clone(), job);
    let worker = Worker::new(&begun.direct)
        .queues(QUEUES)
        .handle_any(run)
        .concurrency(12);
    super::hasty(worker)
}

async fn run(history: Arc<History>, job: JobRecord) -> Verdict {
    let Some(of) = job.schedule else {
        return Verdict::dead("job is no run of a schedule");
    };
    history.note(Event::ScheduleRun {
        id: job.id,
        name: of.name.clone(),
        instant: of.at.as_micros(),
        attempt: job.attempt,
        wall: wall(),
    });
    // Some ticks take longer than to the next one.
    let takes = match (of.name.as_str(), of.at.as_micros() / 1_000_000 % 3) {
        (TICKS, 0) => 1_400,
        (TICKS, _) => 100,
        _ => 20,
    };
    pause(millis(takes)).await;
    Verdict::completed()
}
