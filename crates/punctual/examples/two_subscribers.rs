//! Two shops publish orders that were paid; a mailer and an accountant each get a copy of what
//! concerns them, and a reminder is cancelled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{days, minutes};
use punctual::topic::{Filter, SUBJECT_HEADER, Subscription};
use punctual::worker::{HandlerResult, State};
use punctual::{Context, Job, MemoryEngine, NewJob, Outcome, Queue, Result, Worker};
use serde::{Deserialize, Serialize};

/// What a shop publishes.
#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order: u64,
    cents: u64,
}

impl Job for OrderPaid {
    const KIND: &str = "orders.paid";
}

/// What the mailer publishes in turn.
#[derive(Serialize, Deserialize)]
struct ReceiptSent {
    order: u64,
}

impl Job for ReceiptSent {
    const KIND: &str = "receipts.sent";
}

/// What each consumer did.
type Report = Arc<Mutex<BTreeMap<&'static str, Vec<u64>>>>;

fn note(report: &Report, what: &'static str, order: u64) {
    report.lock().unwrap().entry(what).or_default().push(order);
}

async fn send_receipt(job: OrderPaid, ctx: Context, State(report): State<Report>) -> HandlerResult {
    note(&report, "receipts mailed", job.order);
    // With this job's outcome, or not at all.
    ctx.publish("receipts.sent", ReceiptSent { order: job.order })?;
    Ok(Outcome::Completed)
}

async fn book(job: OrderPaid, ctx: Context, State(report): State<Report>) -> HandlerResult {
    assert!(
        ctx.header(SUBJECT_HEADER)
            .is_some_and(|subject| subject.ends_with(".paid"))
    );
    note(&report, "orders booked", job.order);
    Ok(Outcome::Completed)
}

async fn file(job: ReceiptSent, State(report): State<Report>) -> HandlerResult {
    note(&report, "receipts filed", job.order);
    Ok(Outcome::Completed)
}

#[tokio::main]
async fn main() -> Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let german = Filter::header("country").one_of(["de", "at"]);
    let topics = queue.topics();
    topics
        .subscribe(
            "orders.*.paid",
            Subscription::to("mail").filter(german).name("mailer"),
        )
        .await?;
    topics
        .subscribe("orders.>", Subscription::to("books").name("accountant"))
        .await?;
    topics
        .subscribe("receipts.sent", Subscription::to("books").name("filing"))
        .await?;
    topics
        .subscribe(
            "orders.*.paid",
            Subscription::cancels("reminders").name("paid in time"),
        )
        .await?;

    let reminder = NewJob::new("reminders", r#"{"order":1}"#).delay(days(3));
    let reminder = queue.enqueue_job(reminder.unique("order-1")).await?;

    // Two producers, which know no subscriber.
    for (shop, country, orders) in [("eu", "de", [1, 2]), ("us", "us", [3, 4])] {
        for order in orders {
            let published = queue
                .publish(
                    format!("orders.{shop}.paid"),
                    OrderPaid { order, cents: 990 },
                )
                .header("country", country)
                .unique(format!("order-{order}"))
                .await?;
            let names = published.copies.iter().map(|copy| &*copy.subscription);
            let names: Vec<&str> = names.collect();
            println!(
                "order {order} of {shop}: {} matched: {names:?}",
                published.matched
            );
        }
    }
    let unmatched = queue.publish("parcels.lost", OrderPaid { order: 9, cents: 0 });
    println!("parcels.lost: {} matched", unmatched.await?.matched);

    // Two consumers, each with its own queue.
    let report = Report::default();
    let mailer = Worker::new(&engine).state(report.clone());
    let mailer = mailer.queues(["mail"]).handle(send_receipt);
    let accountant = Worker::new(&engine).state(report.clone()).queues(["books"]);
    let accountant = accountant.handle(book).handle(file);
    for worker in [&mailer, &accountant] {
        advance(&clock, worker, minutes(1)).await?;
    }
    let reminder = queue.get(reminder.id).await?.map(|got| got.state());
    println!("report:");
    let mut report = report.lock().unwrap().clone();
    for (what, orders) in &mut report {
        orders.sort_unstable();
        println!("  {what}: {orders:?}");
    }
    println!("  reminder of order 1: {reminder:?}");
    assert_eq!(report["receipts mailed"], [1, 2]);
    assert_eq!(report["orders booked"], [1, 2, 3, 4]);
    assert_eq!(report["receipts filed"], [1, 2]);
    assert_eq!(reminder, Some(punctual::JobState::Cancelled));
    Ok(())
}
