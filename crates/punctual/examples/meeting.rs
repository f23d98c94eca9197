//! A meeting: all who take part are reminded a day, an hour and ten minutes ahead. When it moves,
//! its reminders move; when it is called off, they go.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, Timestamp, days, format_span, hours, minutes};
use punctual::worker::State;
use punctual::{Due, Job, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};

const AHEAD: [Duration; 3] = [days(1), hours(1), minutes(10)];

#[derive(Serialize, Deserialize)]
struct Remind {
    meeting: u64,
    ahead: u64,
}

impl Job for Remind {
    const KIND: &str = "meetings.remind";
    const QUEUE: &str = "meetings";
}

type Sent = Arc<Mutex<Vec<Timestamp>>>;

async fn remind(job: Remind, State(sent): State<Sent>, State(clock): State<TestClock>) {
    let ahead = format_span(Duration::from_secs(job.ahead));
    println!("{} meeting {} begins in {ahead}", clock.now(), job.meeting);
    sent.lock().unwrap().push(clock.now());
}

/// The key of a reminder: by it the meeting finds it again.
fn key(meeting: u64, ahead: Duration) -> String {
    format!("{meeting}:{}", ahead.as_secs())
}

async fn plan(queue: &Queue, meeting: u64, at: Timestamp) -> punctual::Result<()> {
    for ahead in AHEAD {
        let job = Remind {
            meeting,
            ahead: ahead.as_secs(),
        };
        queue
            .enqueue(job)
            .at(at - ahead)
            .unique(key(meeting, ahead))
            .await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let clock = TestClock::new("2026-12-01T09:00:00Z".parse()?);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let sent = Sent::default();
    let worker = Worker::new(&engine)
        .state(sent.clone())
        .state(clock.clone())
        .handle(remind);

    let friday: Timestamp = "2026-12-04T14:00:00Z".parse()?;
    plan(&queue, 1, friday).await?;
    plan(&queue, 2, friday).await?;
    let monday = friday + days(3);
    println!("meeting 1 moves to {monday}, meeting 2 is called off");
    for ahead in AHEAD {
        let target = ("meetings", &*key(1, ahead));
        queue.reschedule(target, Due::At(monday - ahead)).await?;
        queue.cancel(("meetings", &*key(2, ahead))).await?;
    }
    advance(&clock, &worker, days(10)).await?;

    let expected = AHEAD.map(|ahead| monday - ahead);
    assert_eq!(*sent.lock().unwrap(), expected);
    Ok(())
}
