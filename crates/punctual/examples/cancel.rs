//! Cancelling: before a job starts by its unique key, and while it runs by asking its handler.

use std::sync::Arc;

use punctual::engine::EditVerdict;
use punctual::time::{days, millis, pause, seconds};
use punctual::{Context, Job, JobState, MemoryEngine, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Export {
    report: String,
}

impl Job for Export {
    const KIND: &str = "export";
    const QUEUE: &str = "exports";
}

async fn export(job: Export, ctx: Context) -> Outcome {
    for page in 1.. {
        tokio::select! {
            () = write_page(&job.report, page) => {}
            why = ctx.cancelled() => {
                println!("stopped after page {page}: {why:?}");
                return Outcome::Cancelled;
            }
        }
    }
    Outcome::Completed
}

async fn write_page(report: &str, page: u32) {
    println!("{report}, page {page}");
    pause(millis(30)).await;
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let export_of = |report: &str| {
        let report = report.to_owned();
        queue.enqueue(Export { report })
    };

    export_of("next week").delay(days(7)).unique("week").await?;
    let verdict = queue.cancel(("exports", "week")).await?;
    assert_eq!(verdict, EditVerdict::Done(JobState::Cancelled));
    println!("the one of next week never starts");

    let id = export_of("today").await?.id;
    let cancelled = {
        let queue = queue.clone();
        async move {
            pause(millis(100)).await;
            queue.cancel(id).await.expect("the engine is there");
            let _ = queue.wait_settled(id, seconds(10)).await;
        }
    };
    // The request comes with the next heartbeat, at a third of the lease.
    Worker::new(&engine)
        .handle(export)
        .lease_duration(millis(300))
        .run_until(cancelled)
        .await?;

    let got = queue.get(id).await?.expect("cancelled jobs are kept a day");
    let stopped = got.job().and_then(|job| job.stopped);
    let stopped = stopped.map_or("it was not", |stopped| stopped.name());
    println!("it says how it was stopped: {stopped}");
    Ok(())
}
