//! Joins: a handler waits for jobs that it enqueued, whatever becomes of them or of a worker.

use std::sync::{Arc, Mutex};

use punctual::time::{days, hours};
use punctual::{Context, Job, JobState, NewJob, Outcome, Queue, Result, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::*;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    n: u64,
}

impl Job for Part {
    const KIND: &'static str = "part";
}

/// Doubles its number; 13 is dead.
async fn part(job: Part, ctx: Context) -> Result<Outcome> {
    if job.n == 13 {
        return Ok(Outcome::Dead);
    }
    ctx.result((job.n * 2).to_string())?;
    Ok(Outcome::Completed)
}

type Ends = Arc<Mutex<Vec<Vec<(JobState, Option<u64>)>>>>;

/// A worker that joins these parts, and notes what it learns of them.
fn joining(probe: &Arc<Probe>, parts: &[u64]) -> (Worker, Ends) {
    let ends = Ends::default();
    let (written, parts) = (ends.clone(), parts.to_vec());
    let handler = move |_: Ping, ctx: Context| {
        let (ends, parts) = (written.clone(), parts.clone());
        async move {
            let parts = parts.iter().map(|n| Part { n: *n });
            let joined = ctx.all("parts", parts, days(1)).await?;
            let read = joined.iter().map(|one| Ok((one.state, one.result()?)));
            let read = read.collect::<Result<Vec<_>>>()?;
            ends.lock().unwrap().push(read);
            Ok::<_, punctual::Error>(Outcome::Completed)
        }
    };
    (Worker::new(probe).handle(handler), ends)
}

#[tokio::test]
async fn a_join_ends_with_all_of_its_jobs() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, ends) = joining(&probe, &[1, 13, 3]);
    soon(worker.handle(part).run_until_idle()).await.unwrap();
    let job = probe.job(id).await;
    assert_eq!((job.state, job.failures), (JobState::Completed, 0));
    let (done, dead) = (JobState::Completed, JobState::Dead);
    let expected = vec![(done, Some(2)), (dead, None), (done, Some(6))];
    assert_eq!(*ends.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn a_join_of_nothing_ends_at_once() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, ends) = joining(&probe, &[]);
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.attempt, 1);
    assert_eq!(*ends.lock().unwrap(), [vec![]]);
}

#[tokio::test]
async fn a_join_gives_its_slot_back_and_learns_of_cancels() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, ends) = joining(&probe, &[1, 2]);
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Held);
    assert_eq!(active(&probe).await, 0);
    let queue = Queue::new(&probe);
    for nth in 0..2 {
        let part = punctual::JobId::derived(&id.to_string(), &format!("parts/{nth}"));
        queue.cancel(part).await.unwrap();
    }
    let (worker, after) = joining(&probe, &[1, 2]);
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    assert!(ends.lock().unwrap().is_empty());
    assert_eq!(
        *after.lock().unwrap(),
        [vec![
            (JobState::Cancelled, None),
            (JobState::Cancelled, None)
        ]]
    );
}

#[tokio::test]
async fn a_join_ends_at_its_limit_with_what_there_is() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, _ends) = joining(&probe, &[1]);
    soon(worker.run_until_idle()).await.unwrap();
    clock.advance(days(1));
    let (worker, ends) = joining(&probe, &[1]);
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    assert_eq!(*ends.lock().unwrap(), [vec![(JobState::Ready, None)]]);
}

/// A worker that ends after it has sent the jobs, and before it waits, sends none of them twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_in_a_join_sends_no_job_twice() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (sent, mut is_sent) = mpsc::unbounded_channel();
    let dies = move |_: Ping, ctx: Context| {
        let sent = sent.clone();
        async move {
            let waits = ctx
                .all("parts", [Part { n: 1 }, Part { n: 2 }], days(1))
                .await;
            assert!(waits.is_err(), "it waits");
            sent.send(()).unwrap();
            std::future::pending::<Result<Outcome>>().await
        }
    };
    let worker = Worker::new(&probe).handle(dies);
    let holders = Arc::strong_count(&probe);
    let running = background(&worker);
    soon(is_sent.recv()).await;
    running.kill(&probe, holders).await;
    leases_run_out(&probe, &clock).await;
    let (worker, ends) = joining(&probe, &[1, 2]);
    let ran = Arc::new(Mutex::new(0));
    let counted = ran.clone();
    let counts = move |job: Part, ctx: Context| {
        *counted.lock().unwrap() += 1;
        part(job, ctx)
    };
    soon(worker.handle(counts).run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    assert_eq!(*ran.lock().unwrap(), 2);
    let done = JobState::Completed;
    assert_eq!(
        *ends.lock().unwrap(),
        [vec![(done, Some(2)), (done, Some(4))]]
    );
}

/// How a join of these jobs fails.
async fn refused(jobs: Vec<NewJob>) -> String {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let handler = move |_: Ping, ctx: Context| {
        let jobs = jobs.clone();
        async move {
            ctx.all("parts", jobs, hours(1)).await?;
            Ok::<_, punctual::Error>(Outcome::Completed)
        }
    };
    let worker = Worker::new(&probe).handle(handler);
    soon(worker.run_until_idle()).await.unwrap();
    probe.job(id).await.last_error.unwrap()
}

#[tokio::test]
async fn a_join_that_cannot_be_sent_says_why() {
    let many = (0..1_000).map(|_| NewJob::new("parts", "{}")).collect();
    let error = refused(many).await;
    assert!(error.contains("at most 999"), "{error}");
    let keyed = || {
        let mut job = NewJob::new("parts", "{}");
        job.unique = Some(punctual::Unique::new("k"));
        job
    };
    let error = refused(vec![keyed(), keyed()]).await;
    assert!(error.contains("was not taken"), "{error}");
    let mut hostile = NewJob::new("parts", "{}");
    hostile.priority = 10;
    let error = refused(vec![hostile]).await;
    assert!(error.contains("priority"), "{error}");
}

/// A job of that kind that another sender made signals nothing: signals need other rights.
#[tokio::test]
async fn a_forged_join_signals_nothing() {
    let (probe, _clock) = Probe::new();
    let sent = async |job: NewJob| {
        let receipts = Queue::new(&probe).enqueue_many([job]).await.unwrap();
        receipts[0].id
    };
    let mut waits = NewJob::new("approval", "1");
    waits.due = punctual::Due::After(hours(1));
    let waits = sent(waits).await;
    let parent = waits.to_string();
    let derived = punctual::JobId::derived(&parent, "x/join");
    let forged = [
        (None, "approved"),
        (None, "all:x"),
        // The right id, in the queue of another job.
        (Some(derived), "all:x"),
    ];
    for (id, signal) in forged {
        let payload = format!(r#"{{"job":"{parent}","signal":"{signal}"}}"#);
        let mut job = NewJob::new(Ping::QUEUE, payload);
        job.kind = "punctual.join".into();
        job.id = id.unwrap_or(job.id);
        let id = sent(job).await;
        let (worker, _ends) = joining(&probe, &[]);
        soon(worker.run_until_idle()).await.unwrap();
        assert_eq!(probe.job(id).await.state, JobState::Dead);
    }
    assert_eq!(probe.job(waits).await.memos, []);
}
