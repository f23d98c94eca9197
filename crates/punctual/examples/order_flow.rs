//! An order as a flow: charge, then pack and label beside each other, then ship; a refund only if
//! it cannot be packed; and a report at the end. Two orders run, one of which cannot be packed.
//!
//! ```sh
//! cargo run --example order_flow
//! ```

use std::sync::{Arc, Mutex};

use punctual::worker::{State, Verdict};
use punctual::{Context, Job, MemoryEngine, Queue, Result, Worker};
use serde::{Deserialize, Serialize};

macro_rules! steps {
    ($($name:ident: $kind:literal),*) => {$(
        #[derive(Serialize, Deserialize)]
        struct $name {
            order: u64,
        }
        impl Job for $name {
            const KIND: &str = $kind;
            const QUEUE: &str = "orders";
        }
    )*};
}
steps!(Charge: "orders.charge", Pack: "orders.pack", Label: "orders.label", Ship: "orders.ship",
       Refund: "orders.refund", Report: "orders.report");

/// What happened, in order.
type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, text: String) {
    log.lock().expect("no handler panics").push(text);
}

async fn charge(job: Charge, State(log): State<Log>) {
    note(&log, format!("order {}: charged", job.order));
}

async fn pack(job: Pack, State(log): State<Log>) -> Verdict {
    if job.order == 8 {
        note(&log, "order 8: cannot be packed".into());
        return Verdict::dead("the shelf is empty");
    }
    note(&log, format!("order {}: packed", job.order));
    Verdict::completed()
}

async fn label(job: Label, ctx: Context, State(log): State<Log>) -> Result<()> {
    note(&log, format!("order {}: labelled", job.order));
    ctx.result(format!("\"parcel-{}\"", job.order))
}

async fn ship(job: Ship, ctx: Context, State(log): State<Log>) -> Result<()> {
    let parcel: String = ctx.upstream("label").await?;
    note(&log, format!("order {}: {parcel} shipped", job.order));
    Ok(())
}

async fn refund(job: Refund, State(log): State<Log>) {
    note(&log, format!("order {}: refunded", job.order));
}

async fn report(job: Report, State(log): State<Log>) {
    note(&log, format!("order {}: settled", job.order));
}

async fn send(queue: &Queue, order: u64) -> Result<()> {
    let flow = queue.flow(format!("order-{order}"));
    let charge = flow.add("charge", Charge { order });
    let pack = flow.add("pack", Pack { order }).after(&charge);
    let label = flow.add("label", Label { order }).after(&charge);
    flow.add("ship", Ship { order }).after_all([&pack, &label]);
    flow.add("refund", Refund { order }).after_failure(&pack);
    flow.on_settled(Report { order });
    flow.send().await.map(drop)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let log = Log::default();
    send(&queue, 7).await?;
    send(&queue, 8).await?;

    Worker::new(&engine)
        .state(log.clone())
        .handle(charge)
        .handle(pack)
        .handle(label)
        .handle(ship)
        .handle(refund)
        .handle(report)
        .run_until_idle()
        .await?;

    for line in log.lock().expect("no handler panics").iter() {
        println!("{line}");
    }
    for name in ["order-7", "order-8"] {
        let flows = queue.flows();
        let Some(flow) = flows.get(name).await? else {
            continue;
        };
        println!("\n{name} is {}", flow.state);
        for step in flows.steps(name).await? {
            let state = match step.skipped {
                true => "skipped",
                false => step.state.name(),
            };
            println!("  {:<8}{state}", step.name);
        }
    }
    Ok(())
}
