//! Failures: `?` on any error retries by the job's policy, a permanent error does not.

use std::sync::Arc;

use punctual::time::{millis, seconds};
use punctual::worker::HandlerResult;
use punctual::{Context, Error, Job, JobState, MemoryEngine, Outcome, Queue, RetryPolicy, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Charge {
    card: String,
}

impl Job for Charge {
    const KIND: &str = "charge";
}

async fn charge(job: Charge, ctx: Context) -> HandlerResult {
    println!("attempt {} to charge {}", ctx.attempt(), job.card);
    if job.card == "expired" {
        // No retry can mend it: the job is dead at once, and kept for a person.
        return Err(Error::permanent("card has expired").into());
    }
    let _receipt = call_bank(ctx.failures())?;
    Ok(Outcome::Completed)
}

/// The bank is down for the first two calls.
fn call_bank(calls_before: u32) -> std::io::Result<String> {
    match calls_before {
        0 | 1 => Err(std::io::Error::other("bank is down")),
        _ => Ok("charged".into()),
    }
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let policy = RetryPolicy::exponential(millis(50), seconds(1));
    let send = |card: &str| {
        let card = card.to_owned();
        queue.enqueue(Charge { card }).retry(policy.clone())
    };
    let good = send("visa").await?.id;
    let bad = send("expired").max_attempts(5).await?.id;

    let done = {
        let queue = queue.clone();
        async move {
            let _ = queue.wait_settled(good, seconds(10)).await;
        }
    };
    Worker::new(&engine).handle(charge).run_until(done).await?;

    let dead = queue.get(bad).await?.expect("dead jobs are kept");
    let job = dead.job().expect("with all their fields");
    assert_eq!((job.state, job.attempt), (JobState::Dead, 1));
    let error = job.last_error.as_deref().unwrap_or("no error");
    println!("the other one is dead: {error}");
    Ok(())
}
