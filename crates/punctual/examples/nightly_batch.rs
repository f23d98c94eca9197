//! A nightly batch of 10,000 jobs beside each other, some of which fail, and one report when the
//! last has ended, whatever ended it. A retry runs those that failed, and nothing else.
//!
//! ```sh
//! cargo run --example nightly_batch
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::testing::{TestClock, advance};
use punctual::time::{Stopwatch, minutes};
use punctual::worker::{State, Verdict};
use punctual::{Job, MemoryEngine, Queue, Result, Worker};
use serde::{Deserialize, Serialize};

const ACCOUNTS: u64 = 10_000;
const FLOW: &str = "statements-2026-11-27";

#[derive(Serialize, Deserialize)]
struct Statement {
    account: u64,
}

impl Job for Statement {
    const KIND: &str = "statements.write";
    const QUEUE: &str = "statements";
}

#[derive(Serialize, Deserialize)]
struct Report {
    flow: String,
}

impl Job for Report {
    const KIND: &str = "statements.report";
    const QUEUE: &str = "reports";
}

#[derive(Default)]
struct Night {
    written: AtomicU64,
    reports: AtomicU64,
    is_mended: std::sync::atomic::AtomicBool,
}

async fn write(job: Statement, State(night): State<Arc<Night>>) -> Verdict {
    if job.account.is_multiple_of(1_000) && !night.is_mended.load(Ordering::SeqCst) {
        return Verdict::dead("no address");
    }
    night.written.fetch_add(1, Ordering::SeqCst);
    Verdict::completed()
}

async fn report(job: Report, State((queue, night)): State<(Queue, Arc<Night>)>) -> Result<()> {
    night.reports.fetch_add(1, Ordering::SeqCst);
    let flow = queue.flows().get(&job.flow).await?;
    let counts = flow.map(|flow| flow.counts).unwrap_or_default();
    println!(
        "report: {} of {} statements written, {} failed",
        counts.completed, counts.steps, counts.dead
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let night = Arc::new(Night::default());
    let worker = || {
        let worker = Worker::new(&engine).state(night.clone());
        let worker = worker.state((queue.clone(), night.clone()));
        worker.handle(write).handle(report)
    };

    let real_time = Stopwatch::start();
    let batch = queue.flow(FLOW);
    for account in 0..ACCOUNTS {
        batch.add(account.to_string(), Statement { account });
    }
    batch.on_settled(Report { flow: FLOW.into() });
    let sent = batch.send().await?;
    println!(
        "{} steps sent; the same batch again is a duplicate",
        sent.steps.len()
    );
    advance(&clock, &worker(), minutes(10)).await?;
    assert_eq!(night.reports.load(Ordering::SeqCst), 1, "one report");

    // In the morning the addresses are mended.
    night.is_mended.store(true, Ordering::SeqCst);
    let retried = queue.flows().retry(FLOW, None).await?;
    println!("{} steps again", retried.retried);
    assert!(retried.left_out.is_empty(), "all of them are still kept");
    advance(&clock, &worker(), minutes(10)).await?;
    let flow = queue
        .flows()
        .get(FLOW)
        .await?
        .expect("it is kept for a day");
    println!(
        "the batch is {}, after {} ms",
        flow.state,
        real_time.elapsed().as_millis()
    );
    assert_eq!(flow.counts.completed, ACCOUNTS);
    assert_eq!(
        night.written.load(Ordering::SeqCst),
        ACCOUNTS,
        "none of them twice"
    );
    assert_eq!(
        night.reports.load(Ordering::SeqCst),
        1,
        "a report runs once"
    );
    Ok(())
}
