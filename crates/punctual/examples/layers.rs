//! Layers: code around every handler, here one that measures and one that guards.

use std::sync::Arc;

use punctual::time::{Stopwatch, minutes};
use punctual::worker::{Next, Verdict};
use punctual::{Context, Job, MemoryEngine, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const KIND: &str = "mail";
}

async fn send(job: Mail) {
    println!("mail to {}", job.to);
}

async fn measured(ctx: Context, next: Next) -> Verdict {
    let watch = Stopwatch::start();
    let kind = ctx.job().kind.clone();
    let verdict = next.run(ctx).await;
    println!("{kind} took {:?}: {:?}", watch.elapsed(), verdict.outcome);
    verdict
}

/// Delays what is not allowed now, without calling the handler.
async fn by_day_only(ctx: Context, next: Next) -> Verdict {
    if ctx.header("when") == Some("night") {
        let after = minutes(480);
        return Verdict::new(Outcome::Snooze { after });
    }
    next.run(ctx).await
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let mail = |to: &str| queue.enqueue(Mail { to: to.into() });
    mail("alice@example.org").await?;
    mail("bob@example.org").header("when", "night").await?;

    Worker::new(&engine)
        .handle(send)
        .layer(measured)
        .layer(by_day_only)
        .run_until_idle()
        .await?;
    Ok(())
}
