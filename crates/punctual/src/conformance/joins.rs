//! Laws of joins: a handler waits for jobs that it enqueued, whatever ends them or kills a worker.
//!
//! They run a worker, as a join is made of several verbs, and one of its steps is a job of its own.

use std::sync::{Arc, Mutex};

use super::case::*;
use crate::engine::{Action, Claim, EditVerdict};
use crate::error::Error;
use crate::job::{JobId, JobRecord, JobState, NewJob, Outcome};
use crate::sync::Lock;
use crate::time::{days, seconds, within};
use crate::worker::Worker;
use crate::{Context, Result};

const PARTS: &str = "parts";

type End = (Option<JobState>, Option<u64>);
/// What attempts learned that came back from their join.
type Ends = Arc<Mutex<Vec<Vec<End>>>>;

/// A job that is kept once it has completed, and joins parts.
async fn parent(case: &Case) -> JobId {
    let kept = NewJob {
        retention: days(30),
        ..job()
    };
    case.enqueue(kept).await
}

fn parts(numbers: &[u64]) -> Vec<NewJob> {
    let part = |number: &u64| NewJob::new(PARTS, number.to_string());
    numbers.iter().map(part).collect()
}

fn part_of(parent: JobId, nth: usize) -> JobId {
    JobId::derived(&parent.to_string(), &format!("parts/{nth}"))
}

/// A worker that joins these parts, and notes what it learns of them. It does not run them.
fn joining(case: &Case, numbers: &[u64]) -> (Worker, Ends) {
    let ends = Ends::default();
    let (noted, numbers) = (ends.clone(), numbers.to_vec());
    let handler = move |_: JobRecord, ctx: Context| {
        let (ends, parts) = (noted.clone(), parts(&numbers));
        async move {
            let joined = ctx.all("parts", parts, days(1)).await?;
            let read = joined.iter().map(|one| Ok((one.state, one.result()?)));
            let read = read.collect::<Result<Vec<End>>>()?;
            ends.locked().push(read);
            Ok::<_, Error>(Outcome::Completed)
        }
    };
    let worker = Worker::new(case.engine())
        .lease_duration(LEASE_DURATION)
        .queues([QUEUE])
        .handle_raw(QUEUE, handler);
    (worker, ends)
}

/// A worker that doubles the number of a part, or says that 13 is dead; and how many it ran.
fn doubling(case: &Case) -> (Worker, Arc<Mutex<usize>>) {
    let runs = Arc::new(Mutex::new(0));
    let counted = runs.clone();
    let handler = move |part: JobRecord, ctx: Context| {
        *counted.locked() += 1;
        async move {
            let number: u64 = serde_json::from_slice(&part.payload).expect("a number");
            if number == 13 {
                return Ok(Outcome::Dead);
            }
            ctx.result((number * 2).to_string())?;
            Ok::<_, Error>(Outcome::Completed)
        }
    };
    let worker = Worker::new(case.engine())
        .lease_duration(LEASE_DURATION)
        .queues([PARTS])
        .handle_raw(PARTS, handler);
    (worker, runs)
}

/// Runs what is due.
async fn runs(worker: &Worker) {
    worker.run_until_idle().await.expect("it comes to rest");
}

fn done(result: u64) -> End {
    (Some(JobState::Completed), Some(result))
}

/// Each job is answered in the order given, however it ended; to wait counts as no failure.
pub(super) async fn a_join_ends_with_all_of_its_jobs(case: Case) {
    let id = parent(&case).await;
    let (worker, ends) = joining(&case, &[1, 13, 3]);
    runs(&worker).await;
    runs(&doubling(&case).0).await;
    runs(&worker).await;
    let job = case.get(id).await;
    assert_eq!((job.state, job.failures), (JobState::Completed, 0));
    let dead = (Some(JobState::Dead), None);
    assert_eq!(*ends.locked(), [vec![done(2), dead, done(6)]]);
}

/// Nothing is active while it waits, and a part that is cancelled has ended.
pub(super) async fn a_join_gives_its_slot_back_and_learns_of_cancels(case: Case) {
    let id = parent(&case).await;
    let (worker, ends) = joining(&case, &[1, 2]);
    runs(&worker).await;
    assert_eq!(case.state(id).await, JobState::Held);
    assert_eq!(case.counts().await.of(JobState::Active), 0);
    for nth in 0..2 {
        case.cancel(part_of(id, nth)).await;
    }
    assert_eq!(*ends.locked(), Vec::<Vec<End>>::new());
    runs(&worker).await;
    assert_eq!(case.state(id).await, JobState::Completed);
    let cancelled = (Some(JobState::Cancelled), None);
    assert_eq!(*ends.locked(), [vec![cancelled, cancelled]]);
}

/// At its limit it goes on, with the state of what has not ended.
pub(super) async fn a_join_ends_at_its_limit_with_what_there_is(case: Case) {
    let id = parent(&case).await;
    let (worker, ends) = joining(&case, &[1]);
    runs(&worker).await;
    case.advance(days(1)).await;
    case.maintain().await;
    runs(&worker).await;
    assert_eq!(case.state(id).await, JobState::Completed);
    assert_eq!(*ends.locked(), [vec![(Some(JobState::Ready), None)]]);
}

/// A worker that is killed once its handler has joined parts; answers whether the join had ended.
async fn killed_in_its_join(case: &Case, numbers: &[u64]) -> bool {
    let (joined, mut has_joined) = tokio::sync::mpsc::unbounded_channel();
    let numbers = numbers.to_vec();
    let dies = move |_: JobRecord, ctx: Context| {
        let (joined, parts) = (joined.clone(), parts(&numbers));
        async move {
            let answer = ctx.all("parts", parts, days(1)).await;
            joined.send(answer.is_ok()).expect("the law goes on");
            std::future::pending::<Result<Outcome>>().await
        }
    };
    let engine = case.engine();
    let holders = Arc::strong_count(&engine);
    let worker = Worker::new(engine.clone())
        .lease_duration(LEASE_DURATION)
        .queues([QUEUE])
        .handle_raw(QUEUE, dies);
    let running = tokio::spawn(async move { worker.run_until_idle().await });
    let had_ended = has_joined.recv().await.expect("the worker runs");
    running.abort();
    // Its loops end where they next wait: it is gone once only those hold the engine that did.
    let gone = async {
        while Arc::strong_count(&engine) > holders {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(20), gone).await.expect("its loops end");
    had_ended
}

/// A worker that ends after it has sent the jobs, and before it waits, sends none of them twice.
pub(super) async fn a_worker_that_is_killed_in_a_join_sends_no_job_twice(case: Case) {
    let id = parent(&case).await;
    assert!(!killed_in_its_join(&case, &[1, 2]).await, "it waits");
    assert_eq!(case.state(id).await, JobState::Active);
    case.leases_run_out().await;
    let (worker, ends) = joining(&case, &[1, 2]);
    let (doubling, ran) = doubling(&case);
    runs(&worker).await;
    runs(&doubling).await;
    runs(&worker).await;
    assert_eq!(case.state(id).await, JobState::Completed);
    assert_eq!(*ran.locked(), 2);
    assert_eq!(*ends.locked(), [vec![done(2), done(4)]]);
}

/// While it waits, workers are killed with a part, with the job that signals its end, and with the
/// attempt that came back: others go on.
pub(super) async fn a_join_outlives_workers_that_are_killed_while_it_waits(case: Case) {
    let id = parent(&case).await;
    let (worker, ends) = joining(&case, &[1, 2]);
    runs(&worker).await;
    let claimed = case.claim_as(Claim::new(case.worker, PARTS, 1)).await;
    assert_eq!(attempts(&claimed).len(), 1);
    case.leases_run_out().await;
    let (doubling, ran) = doubling(&case);
    runs(&doubling).await;
    assert_eq!(*ran.locked(), 2);
    let signals = case.claim_one().await;
    assert_eq!(signals.job.kind, "punctual.join");
    case.leases_run_out().await;
    assert_eq!(case.state(id).await, JobState::Held);
    assert!(killed_in_its_join(&case, &[1, 2]).await, "it came back");
    assert_eq!(case.state(id).await, JobState::Active);
    case.leases_run_out().await;
    runs(&worker).await;
    let job = case.get(id).await;
    assert_eq!((job.state, job.crashes), (JobState::Completed, 1));
    assert_eq!(*ends.locked(), [vec![done(2), done(4)]]);
}

/// The end of a job whose record is gone is unknown; those of the others are answered.
pub(super) async fn a_join_goes_on_without_a_job_that_is_gone(case: Case) {
    let id = parent(&case).await;
    let (worker, ends) = joining(&case, &[1, 2]);
    runs(&worker).await;
    runs(&doubling(&case).0).await;
    let deleted = case.edit(part_of(id, 0), Action::Delete).await;
    assert!(matches!(deleted, EditVerdict::Done(_)), "{deleted:?}");
    assert!(case.is_unknown(part_of(id, 0)).await);
    runs(&worker).await;
    assert_eq!(case.state(id).await, JobState::Completed);
    assert_eq!(*ends.locked(), [vec![(None, None), done(4)]]);
}
