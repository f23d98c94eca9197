//! Asking about jobs that are in, and changing them.

use punctual::engine::{EditVerdict, Reason, Target};
use punctual::time::{days, minutes, seconds};
use punctual::{Context, ErrorKind, JobId, JobState, Queue, Worker};

use crate::support::*;

#[tokio::test]
async fn a_job_is_named_by_id_or_unique_key() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let sent = queue.enqueue(ping(7)).delay(minutes(30)).unique("ping:7");
    let id = sent.await.unwrap().id;
    for target in [
        Target::from(id),
        ("pings", "ping:7").into(),
        Target::unique::<Ping>("ping:7"),
    ] {
        let got = queue.get(target).await.unwrap().unwrap();
        assert_eq!(got.job().unwrap().id, id);
    }
    let verdict = queue.cancel(("pings", "ping:7")).await.unwrap();
    assert_eq!(verdict, EditVerdict::Done(JobState::Cancelled));
    assert_eq!(
        queue.cancel(id).await.unwrap(),
        EditVerdict::AlreadyCancelled
    );
    assert_eq!(
        queue.cancel(JobId::new()).await.unwrap(),
        EditVerdict::NotFound
    );
}

#[tokio::test]
async fn a_job_is_moved_in_time_and_says_why_it_waits() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(1)).delay(days(30)).await.unwrap().id;
    use punctual::time::Clock;
    queue.reschedule(id, minutes(5)).await.unwrap();
    assert_eq!(probe.job(id).await.due, clock.now() + minutes(5));
    let explanation = queue.explain(id).await.unwrap().unwrap();
    assert!(
        matches!(explanation.reasons[0], Reason::NotDue { .. }),
        "{explanation:?}"
    );
    queue.reschedule(id, clock.now() + days(2)).await.unwrap();
    assert_eq!(probe.job(id).await.due, clock.now() + days(2));
    queue.reprioritise(id, 1).await.unwrap();
    assert_eq!(probe.job(id).await.priority, 1);
    assert_eq!(
        queue.run_now(id).await.unwrap(),
        EditVerdict::Done(JobState::Ready)
    );
    assert_eq!(queue.explain(JobId::new()).await.unwrap(), None);
}

#[tokio::test]
async fn a_dead_job_is_sent_back_or_deleted() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(1)).max_attempts(1).await.unwrap().id;
    let worker = Worker::new(&probe).handle(|_: Ping| async { Err::<(), _>("no") });
    worker.run_until_idle().await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Dead);
    assert_eq!(
        queue.redrive(id).await.unwrap(),
        EditVerdict::Done(JobState::Ready)
    );
    worker.run_until_idle().await.unwrap();
    assert!(queue.delete(id).await.unwrap().is_change());
    assert!(queue.get(id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_awaited() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(20)).delay(days(1)).await.unwrap().id;
    let worker = Worker::new(&probe)
        .handle(|job: Ping, ctx: Context| async move { ctx.result((job.n + 1).to_string()) });
    let running = background(&worker);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.wait_settled(id, days(9)).await }
    });
    clock.advance(days(1));
    let got = soon(waiting).await.unwrap().unwrap().unwrap();
    match got {
        punctual::engine::Got::Tombstone { state, result, .. } => {
            assert_eq!(state, JobState::Completed);
            assert_eq!(result.as_deref(), Some(&b"21"[..]));
        }
        other => panic!("only its tombstone is kept, not {other:?}"),
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_with_its_span_and_refuses_the_unknown() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(1)).await.unwrap().id;
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.wait_settled(id, seconds(5)).await }
    });
    soon(async {
        while clock.next_sleeper().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    clock.advance(seconds(5));
    assert_eq!(soon(waiting).await.unwrap().unwrap(), None);
    let error = queue
        .wait_settled(JobId::new(), seconds(5))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
