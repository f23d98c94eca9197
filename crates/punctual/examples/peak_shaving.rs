//! A sale brings 600 orders in one minute; the warehouse takes 60 a minute. The queue holds the
//! rest back: none is lost or refused, urgent ones go first, and the warehouse never sees more.

use std::sync::{Arc, Mutex};

use punctual::engine::Rate;
use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, Timestamp, minutes, seconds};
use punctual::worker::State;
use punctual::{Job, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Pack {
    order: u32,
    urgent: bool,
}

impl Job for Pack {
    const KIND: &str = "warehouse.pack";
    const QUEUE: &str = "warehouse";
}

type Packed = Arc<Mutex<Vec<(Timestamp, bool)>>>;

async fn pack(job: Pack, State(packed): State<Packed>, State(clock): State<TestClock>) {
    packed.lock().unwrap().push((clock.now(), job.urgent));
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let clock = TestClock::new("2026-11-27T08:00:00Z".parse()?);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let packed = Packed::default();
    let worker = Worker::new(&engine)
        .state(packed.clone())
        .state(clock.clone())
        .handle(pack);

    queue
        .limits("warehouse")
        .rate(Rate::window(60, minutes(1)))
        .set()
        .await?;
    for order in 0..600 {
        let urgent = order % 60 == 59;
        let pack = queue.enqueue(Pack { order, urgent });
        pack.priority(if urgent { 0 } else { 5 }).await?;
        if order % 10 == 9 {
            advance(&clock, &worker, seconds(1)).await?;
        }
    }
    println!("600 orders came in a minute");
    advance(&clock, &worker, minutes(12)).await?;

    let packed = packed.lock().unwrap().clone();
    assert_eq!(packed.len(), 600, "none is lost");
    let in_a_minute = |(from, _): &(Timestamp, bool)| {
        let until = *from + minutes(1);
        let count = packed.iter().filter(|(at, _)| at >= from && *at < until);
        count.count()
    };
    let fullest = packed.iter().map(in_a_minute).max().unwrap_or(0);
    assert!(fullest <= 60, "{fullest} in a minute");
    let last_urgent = packed.iter().rposition(|(_, urgent)| *urgent);
    let took = packed[599].0 - packed[0].0;
    println!("the fullest minute had {fullest} of them, and the last came after {took:?}");
    println!(
        "the last urgent one was number {}",
        last_urgent.unwrap_or(0) + 1
    );
    assert!(
        last_urgent < Some(120),
        "urgent ones do not wait for others"
    );
    Ok(())
}
