//! A parcel is confirmed seven days after it arrived, unless its buyer confirms or complains first.

use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, days};
use punctual::worker::State;
use punctual::{Job, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Confirm {
    parcel: u64,
}

impl Job for Confirm {
    const KIND: &str = "parcels.confirm";
    const QUEUE: &str = "parcels";
}

type Confirmed = Arc<Mutex<Vec<(u64, u64)>>>;

async fn confirm(job: Confirm, State(confirmed): State<Confirmed>, State(clock): State<TestClock>) {
    let day = (clock.now() - TestClock::default().now()).as_secs() / 86_400;
    println!("day {day}: parcel {} is confirmed", job.parcel);
    confirmed.lock().unwrap().push((job.parcel, day));
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let confirmed = Confirmed::default();
    let worker = Worker::new(&engine)
        .state(confirmed.clone())
        .state(clock.clone())
        .handle(confirm);

    for parcel in [1, 2, 3] {
        queue
            .enqueue(Confirm { parcel })
            .delay(days(7))
            .unique(format!("parcel:{parcel}"))
            .await?;
    }
    advance(&clock, &worker, days(2)).await?;
    println!("day 2: the buyer of parcel 1 confirms it");
    queue.run_now(("parcels", "parcel:1")).await?;
    advance(&clock, &worker, days(1)).await?;
    println!("day 3: the buyer of parcel 2 complains");
    queue.cancel(("parcels", "parcel:2")).await?;
    advance(&clock, &worker, days(30)).await?;

    assert_eq!(*confirmed.lock().unwrap(), [(1, 2), (3, 7)]);
    println!("parcel 2 is left to a person");
    Ok(())
}
