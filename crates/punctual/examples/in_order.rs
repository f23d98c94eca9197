//! Messages with sequence numbers arrive out of order and run in order. A gap is waited for, but
//! no longer than ten minutes.
//!
//! ```sh
//! cargo run --example in_order
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{minutes, seconds};
use punctual::worker::State;
use punctual::{Context, Job, JobId, MemoryEngine, Outcome, Queue, Result, Worker};
use serde::{Deserialize, Serialize};

/// How long a message waits for the one before it.
const GAP_MAX: std::time::Duration = minutes(10);

#[derive(Serialize, Deserialize)]
struct Message {
    account: u64,
    number: u64,
}

impl Job for Message {
    const KIND: &str = "accounts.message";
    const QUEUE: &str = "accounts";
}

/// The job of a message: the same message sent twice is one job.
fn id_of(account: u64, number: u64) -> JobId {
    JobId::derived(&format!("account:{account}"), &number.to_string())
}

/// What the application keeps in its database: the last message that ran, and those that wait.
#[derive(Default)]
struct Account {
    last: u64,
    waiting: BTreeSet<u64>,
    report: Vec<String>,
}

type Accounts = Arc<Mutex<Account>>;

async fn apply(job: Message, ctx: Context, State(account): State<Accounts>) -> Result<Outcome> {
    let (of, number) = (job.account, job.number);
    let comes_early = {
        let mut account = account.lock().unwrap();
        account.waiting.insert(number);
        account.last + 1 < number
    };
    if comes_early {
        // The slot is free while it waits. A signal that comes before the wait counts.
        let turn: Option<()> = ctx.wait_for("turn", GAP_MAX).await?;
        let first = account.lock().unwrap().waiting.first().copied();
        if turn.is_none() && first < Some(number) {
            // The gap is given up for the lowest number that is there, which goes first.
            return Ok(Outcome::Snooze { after: seconds(10) });
        }
    }
    account.lock().unwrap().apply(number);
    // With this job's outcome. If the next message is not there yet, it finds `last` instead.
    ctx.signal(id_of(of, number + 1), "turn", &())?;
    Ok(Outcome::Completed)
}

impl Account {
    /// One transaction. A number that is not above the last was applied before, or came too late.
    fn apply(&mut self, number: u64) {
        self.waiting.remove(&number);
        if self.last < number {
            let after = if self.last + 1 < number {
                ", after a gap"
            } else {
                ""
            };
            self.last = number;
            self.report.push(format!("{number} ran{after}"));
        } else {
            self.report
                .push(format!("{number} came too late, or again"));
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let account = Accounts::default();
    let worker = || Worker::new(&engine).state(account.clone()).handle(apply);
    let send = async |number| {
        let message = Message { account: 7, number };
        queue.enqueue(message).id(id_of(7, number)).await
    };

    // 3 and 2 come before 1, and 1 comes twice.
    for number in [3, 2, 1, 1, 4] {
        send(number).await?;
        advance(&clock, &worker(), seconds(1)).await?;
    }
    // 5 is lost: 6 and 7 wait, and go on after ten minutes. Then 5 comes after all.
    for number in [7, 6] {
        send(number).await?;
    }
    advance(&clock, &worker(), minutes(9)).await?;
    assert_eq!(account.lock().unwrap().last, 4, "6 still waits for 5");
    advance(&clock, &worker(), minutes(2)).await?;
    send(5).await?;
    advance(&clock, &worker(), seconds(1)).await?;

    let account = account.lock().unwrap();
    for line in &account.report {
        println!("{line}");
    }
    assert_eq!(account.last, 7);
    let numbers = account
        .report
        .iter()
        .filter_map(|line| line.split(' ').next());
    let numbers: Vec<&str> = numbers.collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "6", "7", "5"]);
    Ok(())
}
