//! Two Rust processes on one data directory: the first opens it, the second joins it.
//!
//! Run it in two shells: `cargo run -p punctual-directory --example shared_directory`.

use std::sync::Arc;

use punctual::time::seconds;
use punctual::{Job, Queue, Result, Worker, shutdown_signal};
use punctual_directory::OpenOrJoin;
use punctual_embedded::{EmbeddedEngine, Options};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greet {
    text: String,
}
impl Job for Greet {
    const KIND: &str = "greet";
    const QUEUE: &str = "greetings";
}

async fn greet(job: Greet) -> std::io::Result<()> {
    println!("process {} runs a job {}", std::process::id(), job.text);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1);
    let directory = directory.unwrap_or_else(|| "./punctual-data".into());
    let engine = EmbeddedEngine::open_or_join(&directory, Options::default()).await?;
    let engine = Arc::new(engine);
    let pid = std::process::id();
    match engine.is_holder() {
        true => println!("process {pid} opened the directory"),
        false => println!("process {pid} joined the process that holds the directory"),
    }

    // Each process stores a job, and runs its own jobs and those of the other process.
    let text = format!("stored by process {pid}");
    let queue = Queue::new(&engine);
    queue.enqueue(Greet { text }).delay(seconds(1)).await?;
    let worker = Worker::new(&engine).handle(greet);
    worker.run_until(shutdown_signal()).await?;
    engine.close().await
}
