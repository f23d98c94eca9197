//! The end of a worker: what runs may end, what does not end in time is handed back unharmed.
//!
//! A service passes `punctual::shutdown_signal()`: SIGTERM or Ctrl-C drains, a second one releases.

use std::sync::Arc;

use punctual::time::{millis, pause};
use punctual::{Job, JobState, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
struct Resize {
    name: String,
    millis: u64,
}

impl Job for Resize {
    const KIND: &str = "resize";
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let resize = |name: &str, millis| {
        let name = name.to_owned();
        queue.enqueue(Resize { name, millis })
    };
    let short = resize("thumbnail", 100).await?.id;
    let long = resize("poster", 60_000).await?.id;

    let started = Arc::new(Notify::new());
    let begun = started.clone();
    let worker = Worker::new(&engine)
        .drain_limit(millis(500))
        .handle(move |job: Resize| {
            begun.notify_one();
            async move {
                pause(millis(job.millis)).await;
                println!("{} is done", job.name);
            }
        });
    worker
        .run_until(async move {
            started.notified().await;
            pause(millis(20)).await;
            println!("the shutdown begins");
        })
        .await?;

    let state = async |id| queue.get(id).await.map(|got| got.expect("it is known"));
    assert_eq!(state(short).await?.state(), JobState::Completed);
    let handed_back = state(long).await?;
    let job = handed_back.job().expect("it is not settled");
    println!("the poster is {} for another worker", job.state);
    assert_eq!((job.failures, job.crashes), (0, 0));
    Ok(())
}
