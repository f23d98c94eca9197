//! Virtual time: "remind after 30 days, retry five times" in milliseconds, by the code that
//! production runs.

use std::sync::Arc;

use punctual::testing::{TestClock, advance, assert_enqueued};
use punctual::time::{Clock, Stopwatch, days, hours};
use punctual::worker::{HandlerResult, State};
use punctual::{Context, Job, MemoryEngine, Outcome, Queue, RetryPolicy, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Remind {
    rider: u64,
}

impl Job for Remind {
    const KIND: &str = "remind";
}

async fn remind(job: Remind, ctx: Context, State(clock): State<TestClock>) -> HandlerResult {
    println!("{} attempt {}", clock.now(), ctx.attempt());
    if ctx.failures() < 5 {
        return Err("mail server is down".into());
    }
    println!("rider {} is reminded", job.rider);
    Ok(Outcome::Completed)
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let real_time = Stopwatch::start();
    let clock = TestClock::new("2026-11-21T10:00:00Z".parse()?);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    Queue::new(&engine)
        .enqueue(Remind { rider: 7 })
        .delay(days(30))
        .retry(RetryPolicy::fixed(hours(1)))
        .await?;
    let job = assert_enqueued::<Remind>(&engine, |job| job.rider == 7).await;
    println!("due {}", job.due);

    let worker = Worker::new(&engine).state(clock.clone()).handle(remind);
    advance(&clock, &worker, days(31)).await?;
    println!("31 days took {:?}", real_time.elapsed());
    Ok(())
}
