//! One host's trouble stays its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual::time::{days, millis, seconds, within};
use punctual::{JobRecord, JobState, RetryPolicy};
use tokio::sync::Notify;

use crate::support::{Answer, Server, Under, job};

/// Failures in a row after which a host is left alone.
const FAILURES: usize = 5;

/// Posts a job that, should it fail, is not tried again within the test.
async fn once(under: &Under, server: &Server) -> JobRecord {
    let mut job = job(&server.url());
    job.retry = RetryPolicy::fixed(days(1));
    let id = under.send(job).await;
    under.run().await;
    under.get(id).await
}

#[tokio::test]
async fn a_host_that_fails_is_left_alone_probed_and_taken_back() {
    let server = Server::start(500).await;
    let well = Server::start(200).await;
    let under = Under::new(server.guard().allow([well.allow()]));
    for _ in 0..FAILURES {
        assert_eq!(once(&under, &server).await.failures, 1);
    }
    assert_eq!(server.seen().len(), FAILURES);

    // No failure is counted, nothing is sent, and it is tried again once the span is over.
    let waiting = once(&under, &server).await;
    assert_eq!((waiting.state, waiting.failures), (JobState::Scheduled, 0));
    let waits = waiting.due - under.now();
    assert!(waits >= seconds(30) && waits < seconds(40), "{waits:?}");
    let text = waiting.last_error.expect("a word why");
    assert!(text.contains("failed too often in a row"), "{text}");
    assert_eq!(server.seen().len(), FAILURES);

    // Others are not its business.
    assert_eq!(under.post(&well.url()).await.state, JobState::Completed);

    // One probe fails: it is left alone for longer.
    under.clock.advance(seconds(30));
    let probe = once(&under, &server).await;
    assert_eq!(probe.failures, 1);
    assert_eq!(server.seen().len(), FAILURES + 1);
    let waiting = once(&under, &server).await;
    assert!(waiting.due - under.now() >= seconds(60));

    // One that is answered opens the way for all.
    under.clock.advance(seconds(60));
    server.status(200);
    let before = server.seen().len();
    let jobs: Vec<_> = [0; 3].map(|_| job(&server.url())).into();
    let mut ids = Vec::new();
    for job in jobs {
        ids.push(under.send(job).await);
    }
    under.run().await;
    under.clock.advance(seconds(10));
    under.run().await;
    for id in ids {
        assert_eq!(under.get(id).await.state, JobState::Completed);
    }
    assert!(server.seen().len() >= before + 3);
}

#[tokio::test]
async fn answers_that_blame_the_request_leave_the_host_well() {
    let server = Server::start(404).await;
    let under = Under::new(server.guard());
    for _ in 0..FAILURES * 2 {
        assert_eq!(once(&under, &server).await.failures, 1);
    }
    assert_eq!(server.seen().len(), FAILURES * 2);
}

#[tokio::test]
async fn a_host_has_no_more_deliveries_than_it_may_and_others_go_past_it() {
    let slow = Server::start(200).await;
    let quick = Server::start(200).await;
    let gate: Arc<Notify> = Arc::default();
    slow.answers(Answer {
        status: 200,
        held: Some(gate.clone()),
        ..Answer::default()
    });
    let under = Under::new(slow.guard().allow([quick.allow()])).with(|pusher| pusher.per_host(2));
    let mut slow_ids = Vec::new();
    for _ in 0..12 {
        slow_ids.push(under.enqueue(&slow.url()).await);
    }
    let quick_id = under.enqueue(&quick.url()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // Two are under way and eight wait: there is a slot for those that go past.
    let worker = under.worker().concurrency(11);
    let run = tokio::spawn(worker.run_until(async move {
        let _ = stopped.await;
    }));
    slow.until_seen(2).await;
    quick.until_seen(1).await;
    assert_eq!(slow.most.load(Ordering::SeqCst), 2);
    // What found neither a place nor room to wait comes back, and counts no failure.
    let delay = async {
        loop {
            let mut back = 0;
            for id in &slow_ids {
                let job = under.get(*id).await;
                assert_eq!(job.failures, 0);
                back += usize::from(job.state == JobState::Scheduled);
            }
            if back >= 2 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(seconds(60), delay).await.expect("two are delayed");

    slow.status(200);
    for _ in 0..2 {
        gate.notify_waiters();
    }
    // Those that were delayed fall due again as time goes on.
    while slow.seen().len() < 12 {
        let before = slow.seen().len();
        under.clock.advance(millis(1_500));
        slow.until_seen(before + 1).await;
        gate.notify_waiters();
    }
    stop.send(()).expect("it runs");
    run.await.expect("no panic").expect("it ends well");
    assert_eq!(slow.most.load(Ordering::SeqCst), 2);
    slow_ids.push(quick_id);
    for id in slow_ids {
        assert_eq!(under.get(id).await.state, JobState::Completed);
    }
}
