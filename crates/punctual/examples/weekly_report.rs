//! A weekly report: each Monday at nine the week opens; half an hour before Friday 18:00 in Berlin
//! each person who has not submitted is reminded. A submission cancels the reminder.
//!
//! Two weeks pass in milliseconds, one of them with the end of summer time in it.

use std::sync::{Arc, Mutex};

use punctual::schedule::Spec;
use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, days, minutes};
use punctual::worker::{HandlerResult, State};
use punctual::{Context, Job, MemoryEngine, NewJob, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

const TEAM: [&str; 3] = ["ann", "bo", "cy"];
const ZONE: &str = "Europe/Berlin";

#[derive(Serialize, Deserialize)]
struct OpenWeek;

impl Job for OpenWeek {
    const KIND: &str = "reports.open_week";
    const QUEUE: &str = "reports";
}

#[derive(Serialize, Deserialize)]
struct Remind {
    person: String,
}

impl Job for Remind {
    const KIND: &str = "reports.remind";
    const QUEUE: &str = "reports";
}

type Reminded = Arc<Mutex<Vec<String>>>;

/// Plans a reminder for each person of the team, in the step that settles this run.
async fn open_week(_: OpenWeek, ctx: Context) -> HandlerResult {
    let run = ctx
        .job()
        .schedule
        .as_ref()
        .ok_or("this is no run of a schedule")?;
    let deadline = Spec::cron("0 18 * * FRI")
        .zone(ZONE)
        .before(minutes(30))
        .build()?;
    // By the instant that the run stands for, not by the clock: the run may be late.
    let remind_at = deadline
        .next_after(run.at)
        .ok_or("there is always a Friday")?;
    println!("{} the week is open, reminders at {remind_at}", run.at);
    for person in TEAM {
        let job = NewJob::of(&Remind {
            person: person.into(),
        })?;
        ctx.then(job.at(remind_at).unique(person))?;
    }
    Ok(Outcome::Completed)
}

async fn remind(job: Remind, State(reminded): State<Reminded>, State(clock): State<TestClock>) {
    println!("{} {} has not submitted", clock.now(), job.person);
    reminded.lock().unwrap().push(job.person);
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    // Berlin sets its clocks back on Sunday, 25 October.
    let clock = TestClock::new("2026-10-19T00:00:00Z".parse()?);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    queue
        .schedule("weekly-report")
        .cron("0 9 * * MON")
        .zone(ZONE)
        .enqueue(OpenWeek)
        .await?;
    let reminded = Reminded::default();
    let worker = Worker::new(&engine)
        .state(reminded.clone())
        .state(clock.clone())
        .handle(open_week)
        .handle(remind);

    for submits in [vec!["ann", "cy"], vec!["bo"]] {
        advance(&clock, &worker, days(3)).await?;
        for person in submits {
            println!("{} {person} submits", clock.now());
            queue.cancel(("reports", person)).await?;
        }
        advance(&clock, &worker, days(4)).await?;
    }
    let mut reminded = std::mem::take(&mut *reminded.lock().unwrap());
    reminded[1..].sort();
    assert_eq!(reminded, ["bo", "ann", "cy"]);
    Ok(())
}
