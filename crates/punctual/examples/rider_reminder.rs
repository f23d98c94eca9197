//! A rider is reminded ten minutes ahead. A ride that moves takes its reminder along, and one that
//! no worker could send in time is not sent at all.

use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, Timestamp, hours, minutes};
use punctual::worker::State;
use punctual::{Hold, Job, MemoryEngine, Queue, UniquePolicy, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Remind {
    ride: u64,
}

impl Job for Remind {
    const KIND: &str = "rides.remind";
    const QUEUE: &str = "reminders";
}

type Sent = Arc<Mutex<Vec<(u64, Timestamp)>>>;

async fn remind(job: Remind, State(sent): State<Sent>, State(clock): State<TestClock>) {
    println!("{} ride {} starts in ten minutes", clock.now(), job.ride);
    sent.lock().unwrap().push((job.ride, clock.now()));
}

/// Plans a ride's reminder, in place of the one that it has.
async fn plan(queue: &Queue, ride: u64, at: Timestamp) -> punctual::Result<()> {
    queue
        .enqueue(Remind { ride })
        .at(at - minutes(10))
        .expires_at(at)
        .unique_with(
            format!("ride:{ride}"),
            UniquePolicy::Replace,
            Hold::default(),
        )
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let clock = TestClock::new("2026-12-01T06:00:00Z".parse()?);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let sent = Sent::default();
    let worker = Worker::new(&engine)
        .state(sent.clone())
        .state(clock.clone())
        .handle(remind);

    let eight: Timestamp = "2026-12-01T08:00:00Z".parse()?;
    for ride in [1, 2, 3] {
        plan(&queue, ride, eight).await?;
    }
    println!("ride 2 moves to 08:30, ride 3 is called off");
    plan(&queue, 2, eight + minutes(30)).await?;
    queue.cancel(("reminders", "ride:3")).await?;

    advance(&clock, &worker, hours(3)).await?;
    let sent = sent.lock().unwrap().clone();
    assert_eq!(sent, [(1, eight - minutes(10)), (2, eight + minutes(20))]);
    println!("{} reminders were sent, each on time", sent.len());
    Ok(())
}
