//! A lock that is held: refuse and retry, wait in the slot, or come again later.

use std::sync::Arc;

use punctual::lock::LockGuard;
use punctual::testing::{TestClock, advance, drain};
use punctual::time::{millis, seconds};
use punctual::worker::HandlerResult;
use punctual::{Context, Job, MemoryEngine, Outcome, Queue, Result, RetryPolicy, Worker};
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
        queue.enqueue(CountStock { strategy }).retry(retry).await?;
        drain(&worker).await?;
        guard.release().await?;
        advance(&clock, &worker, seconds(3)).await?;
    }

    let guard = queue.lock("stock:7").try_now().await?;
    println!("Wait: the lock is held under fence {}", guard.fence());
    let strategy = Strategy::Wait;
    queue.enqueue(CountStock { strategy }).await?;
    let (waited, released) = tokio::join!(drain(&worker), release_soon(guard));
    waited.and(Ok(()))?;
    released
}

async fn release_soon(guard: LockGuard) -> Result<()> {
    punctual::time::pause(millis(20)).await;
    guard.release().await
}
