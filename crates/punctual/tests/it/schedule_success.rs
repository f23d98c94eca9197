//! What a run of a schedule finds of the last one that completed.

use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::minutes;
use punctual::{Context, ErrorKind, Job, JobRecord, MemoryEngine, NewJob, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CountRows;

impl Job for CountRows {
    const KIND: &str = "rows";
    const QUEUE: &str = "rows";
}

#[tokio::test]
async fn a_handler_finds_the_last_success_and_its_result() {
    let clock = TestClock::new("2026-12-01T06:00:30Z".parse().unwrap());
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let beat = queue.schedule("beat").every(minutes(1));
    beat.enqueue(CountRows).await.unwrap();
    let found = Arc::new(Mutex::new(Vec::new()));
    let seen = found.clone();
    let worker =
        Worker::new(&engine)
            .queues(["rows"])
            .handle_any(move |job: JobRecord, ctx: Context| {
                let seen = seen.clone();
                async move {
                    let at = job.schedule.expect("a run").at;
                    let last = ctx.last_success().await?;
                    let last = last.map(|it| (it.at, it.result.expect("a result")));
                    seen.lock().unwrap().push((at, last));
                    ctx.result(at.to_string())?;
                    Ok::<_, punctual::Error>(Outcome::Completed)
                }
            });
    advance(&clock, &worker, minutes(3)).await.unwrap();
    let found = found.lock().unwrap().clone();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].1, None);
    for pair in found.windows(2) {
        let before = pair[0].0;
        assert_eq!(pair[1].1, Some((before, before.to_string().into())));
    }
}

#[tokio::test]
async fn a_job_of_no_schedule_has_no_last_success() {
    let clock = TestClock::new("2026-12-01T06:00:00Z".parse().unwrap());
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    queue.enqueue_job(NewJob::new("rows", "{}")).await.unwrap();
    let found = Arc::new(Mutex::new(None));
    let seen = found.clone();
    let worker =
        Worker::new(&engine)
            .queues(["rows"])
            .handle_any(move |_: JobRecord, ctx: Context| {
                let seen = seen.clone();
                async move {
                    let error = ctx.last_success().await.expect_err("it is of no schedule");
                    *seen.lock().unwrap() = Some(error.kind());
                    Outcome::Completed
                }
            });
    advance(&clock, &worker, minutes(1)).await.unwrap();
    assert_eq!(*found.lock().unwrap(), Some(ErrorKind::Conflict));
}
