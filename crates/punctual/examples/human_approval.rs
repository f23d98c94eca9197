//! A refund is asked for, cools off, waits for a person's approval, and is paid once: by steps of
//! one handler, although its worker ends in the middle.

use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{days, minutes};
use punctual::worker::State;
use punctual::{Context, Job, MemoryEngine, Outcome, Queue, Result, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Refund {
    order: u64,
}

impl Job for Refund {
    const KIND: &str = "refunds.pay";
    const QUEUE: &str = "refunds";
}

#[derive(Serialize, Deserialize)]
struct Approval {
    by: String,
}

/// What the bank and the mail server have seen.
#[derive(Default)]
struct World {
    letters: Vec<u64>,
    payments: Vec<String>,
    report: Vec<String>,
}

type Shared = Arc<Mutex<World>>;

async fn send_letter(world: &Shared, order: u64) -> Result<()> {
    world.lock().unwrap().letters.push(order);
    Ok(())
}

async fn pay(world: &Shared, key: String) -> Result<()> {
    world.lock().unwrap().payments.push(key);
    Ok(())
}

async fn refund(job: Refund, ctx: Context, State(world): State<Shared>) -> Result<Outcome> {
    let order = job.order;
    ctx.step("ask", || send_letter(&world, order)).await?;
    ctx.sleep("cool-off", days(1)).await?;
    let approval: Option<Approval> = ctx.wait_for("approved", days(7)).await?;
    let Some(Approval { by }) = approval else {
        let line = format!("order {order}: no approval came within 7 days");
        world.lock().unwrap().report.push(line);
        return Ok(Outcome::Cancelled);
    };
    // The bank recognises a repetition by the key.
    ctx.step("pay", || pay(&world, ctx.key("pay"))).await?;
    let line = format!("order {order}: paid, approved by {by}");
    world.lock().unwrap().report.push(line);
    Ok(Outcome::Completed)
}

#[tokio::main]
async fn main() -> Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let world = Shared::default();
    let worker = || {
        let worker = Worker::new(&engine).state(world.clone());
        worker.handle(refund)
    };
    for order in [7, 8] {
        let refund = queue.enqueue(Refund { order });
        refund.unique(format!("refund:{order}")).await?;
    }
    advance(&clock, &worker(), days(2)).await?;
    let waits = queue.explain(("refunds", "refund:7")).await?;
    for reason in waits.into_iter().flat_map(|reported| reported.reasons) {
        let punctual::engine::Reason::WaitsForNames { names } = reason else {
            continue;
        };
        println!("day 2: order 7 waits for {}", names.join(", "));
    }

    let ann = Approval { by: "ann".into() };
    let verdict = queue
        .signal(("refunds", "refund:7"), "approved", &ann)
        .await?;
    println!("day 2: ann approves order 7: {}", verdict.name());
    // Another worker, days later: what was kept is with the job.
    advance(&clock, &worker(), minutes(1)).await?;
    advance(&clock, &worker(), days(10)).await?;

    let mut world = world.lock().unwrap();
    world.letters.sort_unstable();
    println!("report:");
    for line in &world.report {
        println!("  {line}");
    }
    assert_eq!(world.letters, [7, 8], "each letter was sent once");
    assert_eq!(world.payments.len(), 1);
    assert_eq!(world.report.len(), 2);
    println!(
        "letters: {}, payments: {}",
        world.letters.len(),
        world.payments.len()
    );
    Ok(())
}
