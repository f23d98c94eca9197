//! A lock that is held: refuse and retry, wait in the slot, or come again later.

use std::sync::Arc;

use punctual::lock::LockGuard;
use punctual::testing::{TestClock, advance, drain};
use punctual::time::{millis, minutes, seconds};
use punctual::worker::HandlerResult;
use punctual::{
    Context, Job, JobId, JobState, MemoryEngine, Outcome, Queue, Result, RetryPolicy, Worker,
};
use serde::{Deserialize, Serialize};

/// What a handler does that finds the stock locked.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Strategy {
    Refuse,
    Wait,
    ComeAgain,
}

#[derive(Debug, Serialize, Deserialize)]
struct CountStock {
    strategy: Strategy,
}

impl Job for CountStock {
    const KIND: &str = "stock.count";
}

async fn count_stock(job: CountStock, ctx: Context) -> HandlerResult {
    let lock = ctx.lock("stock:7")?;
    let guard = match job.strategy {
        Strategy::Refuse => lock.try_now().await?,
        Strategy::Wait => lock.wait(seconds(5)).await?,
        Strategy::ComeAgain => lock.or_snooze(seconds(2)).await?,
    };
    println!(
        "  {:?}: counted in attempt {}, {} failed, under fence {}",
        job.strategy,
        ctx.attempt(),
        ctx.failures(),
        guard.fence()
    );
    Ok(Outcome::Completed)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let worker = Worker::new(&engine).handle(count_stock);

    for strategy in [Strategy::Refuse, Strategy::ComeAgain] {
        let guard = queue.lock("stock:7").try_now().await?;
        println!(
            "{strategy:?}: the lock is held under fence {}",
            guard.fence()
        );
        let retry = RetryPolicy::fixed(seconds(1));
        let job = queue.enqueue(CountStock { strategy }).retry(retry);
        let id = job.retention(minutes(1)).await?.id;
        drain(&worker).await?;
        guard.release().await?;
        advance(&clock, &worker, seconds(3)).await?;
        // Both ran twice; to come again counts as no failure.
        let failures = u32::from(matches!(strategy, Strategy::Refuse));
        assert_eq!(attempts_of(&queue, id).await?, (2, failures));
    }

    let guard = queue.lock("stock:7").try_now().await?;
    println!("Wait: the lock is held under fence {}", guard.fence());
    let strategy = Strategy::Wait;
    let job = queue.enqueue(CountStock { strategy });
    let id = job.retention(minutes(1)).await?.id;
    let (waited, released) = tokio::join!(drain(&worker), release_soon(guard));
    waited?;
    released?;
    assert_eq!(attempts_of(&queue, id).await?, (1, 0));
    Ok(())
}

/// Attempts of a job that has completed, and how many failed.
async fn attempts_of(queue: &Queue, id: JobId) -> Result<(u32, u32)> {
    let got = queue.get(id).await?.expect("it is kept for a minute");
    assert_eq!(got.state(), JobState::Completed);
    let job = got.job().expect("with its record");
    Ok((job.attempt, job.failures))
}

async fn release_soon(guard: LockGuard) -> Result<()> {
    punctual::time::pause(millis(20)).await;
    guard.release().await
}
