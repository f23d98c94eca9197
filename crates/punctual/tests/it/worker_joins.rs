//! Joins that cannot be sent, are of nothing, or are forged. The laws of joins are in the suite.

use std::sync::Arc;

use punctual::time::{days, hours};
use punctual::{Context, Job, JobState, NewJob, Outcome, Queue, Worker};

use crate::support::*;

/// A worker whose handler joins nothing.
fn worker(probe: &Arc<Probe>) -> Worker {
    Worker::new(probe).handle(async |_: Ping, ctx: Context| {
        let joined = ctx.all("parts", Vec::<NewJob>::new(), days(1)).await?;
        assert_eq!(joined, []);
        Ok::<_, punctual::Error>(Outcome::Completed)
    })
}

#[tokio::test]
async fn a_join_of_nothing_ends_at_once() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    soon(worker(&probe).run_until_idle()).await.unwrap();
    let job = probe.job(id).await;
    assert_eq!((job.attempt, job.state), (1, JobState::Completed));
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
        soon(worker(&probe).run_until_idle()).await.unwrap();
        assert_eq!(probe.job(id).await.state, JobState::Dead);
    }
    assert_eq!(probe.job(waits).await.memos, []);
}
