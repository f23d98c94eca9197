//! Effects: the next job is enqueued in the step that completes this one, so that a crash between
//! the two cannot lose it or send it twice.

use std::sync::Arc;

use punctual::{Context, Job, MemoryEngine, NewJob, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Pack {
    order: u64,
}
impl Job for Pack {
    const KIND: &str = "pack";
}

#[derive(Serialize, Deserialize)]
struct Ship {
    order: u64,
}
impl Job for Ship {
    const KIND: &str = "ship";
}

async fn pack(job: Pack, ctx: Context) -> punctual::Result<()> {
    println!("order {} is packed", job.order);
    ctx.then(NewJob::of(&Ship { order: job.order })?.priority(2))
}

async fn ship(job: Ship) {
    println!("order {} is shipped", job.order);
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    Queue::new(&engine).enqueue(Pack { order: 7 }).await?;
    let worker = Worker::new(&engine).handle(pack).handle(ship);
    // Works off what is due, and ends.
    worker.run_until_idle().await?;
    Ok(())
}
