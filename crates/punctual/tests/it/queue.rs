//! Putting jobs in.

use punctual::engine::{
    Control, Engine, EnqueueVerdict, Namespace, QueueSettings, RecordValue, ShareSettings,
};
use punctual::time::{Clock, Timestamp, days, hours, minutes, seconds};
use punctual::{
    Due, ErrorKind, Group, Hold, Job, JobId, NewJob, OnRetry, Queue, RetryPolicy, Unique,
    UniquePolicy,
};

use crate::support::*;

#[tokio::test]
async fn every_option_arrives() {
    let (probe, clock) = Probe::new();
    let id = JobId::new();
    let expires = clock.now() + days(9);
    let receipt = Queue::new(&probe)
        .enqueue(ping(7))
        .delay(minutes(30))
        .priority(2)
        .unique_with("ping:7", UniquePolicy::Replace, Hold::UntilStarted)
        .group_with("rider:7", OnRetry::Pass)
        .expires_at(expires)
        .max_attempts(3)
        .retry(RetryPolicy::fixed(seconds(5)))
        .timeout(hours(1))
        .retention(days(2))
        .header("trace", "a")
        .header("trace", "b")
        .wait_for(["upload"])
        .id(id)
        .queue("others")
        .kind("pong")
        .content_type("application/x-ping")
        .await
        .unwrap();
    assert_eq!(receipt.id, id);
    assert_eq!(receipt.due, clock.now() + minutes(30));
    let job = probe.job(id).await;
    assert_eq!(job.payload, r#"{"n":7}"#);
    assert_eq!((job.queue.as_str(), job.kind.as_str()), ("others", "pong"));
    assert_eq!(job.content_type, "application/x-ping");
    assert_eq!(job.priority, 2);
    let unique = Unique::new("ping:7")
        .policy(UniquePolicy::Replace)
        .hold(Hold::UntilStarted);
    assert_eq!(job.unique, Some(unique));
    let group = Group::new("rider:7").on_retry(OnRetry::Pass);
    assert_eq!(job.group, Some(group));
    assert_eq!(job.expires_at, Some(expires));
    assert_eq!(job.max_attempts, 3);
    assert_eq!(job.retry, RetryPolicy::fixed(seconds(5)));
    assert_eq!(job.timeout, Some(hours(1)));
    assert_eq!(job.retention, days(2));
    assert_eq!(job.headers.len(), 2);
    assert_eq!(job.wait_for, ["upload"]);
}

#[tokio::test]
async fn the_same_options_make_the_same_job_unsent() {
    let at = Timestamp::from_millis(1);
    let job = NewJob::of(&ping(7)).unwrap().at(at).unique("k").group("g");
    assert_eq!(job.kind, Ping::KIND);
    assert_eq!(job.queue, Ping::QUEUE);
    assert_eq!(job.due, Due::At(at));
    assert_eq!(job.unique.unwrap().policy, UniquePolicy::Keep);
    assert_eq!(job.group.unwrap().on_retry, OnRetry::Hold);
}

#[tokio::test]
async fn expires_in_counts_from_the_engines_time() {
    let (probe, clock) = Probe::new();
    let sent = Queue::new(&probe).enqueue(ping(1)).expires_in(minutes(5));
    let id = sent.await.unwrap().id;
    let expected = clock.now() + minutes(5);
    assert_eq!(probe.job(id).await.expires_at, Some(expected));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_id() {
    let (probe, _clock) = Probe::new();
    let unanswered = Fault::Unanswered(ErrorKind::EngineUnavailable);
    let lost = Fault::Lost(ErrorKind::Io);
    probe.fail("enqueue", [unanswered, lost]);
    let receipt = Queue::new(&probe).enqueue(ping(1)).await.unwrap();
    assert_eq!(
        receipt.verdict,
        EnqueueVerdict::Duplicate,
        "it was stored once"
    );
    assert_eq!(probe.calls("enqueue"), 3);
    let stats = probe
        .stats(&Default::default(), Default::default())
        .await
        .unwrap();
    assert_eq!(stats.queues[0].counts.pending(), 1);
}

#[tokio::test]
async fn sending_again_has_an_end() {
    let (probe, _clock) = Probe::new();
    probe.fail("enqueue", [Fault::Lost(ErrorKind::EngineUnavailable); 20]);
    let error = Queue::new(&probe).enqueue(ping(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    assert!(error.to_string().contains("sends: 6"), "{error}");
    assert_eq!(probe.calls("enqueue"), 6);
}

#[tokio::test]
async fn a_refusal_is_not_sent_again() {
    let (probe, _clock) = Probe::new();
    probe.fail("enqueue", [Fault::Lost(ErrorKind::EngineFull)]);
    let queue = Queue::new(&probe);
    let full = queue.enqueue(ping(1)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::EngineFull);
    let bad = queue.enqueue(ping(1)).priority(10).await.unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidInput);
    assert_eq!(probe.calls("enqueue"), 2);
}

#[tokio::test]
async fn a_job_that_is_not_stored_is_an_error_and_its_receipt_can_be_had() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(1)).await.unwrap().id;
    let other = || queue.enqueue(ping(2)).id(id);
    let conflict = other().await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert!(conflict.to_string().contains(&id.to_string()), "{conflict}");
    let receipt = other().receipt().await.unwrap();
    assert_eq!(receipt.verdict, EnqueueVerdict::IdConflict);

    let settings = QueueSettings::new().max_pending(1);
    let write = Control::Write {
        name: "queue/pings".into(),
        expected: 0,
        value: Some(RecordValue::Queue(settings)),
    };
    probe.control(&Namespace::default(), write).await.unwrap();
    let full = queue.enqueue(ping(3)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::EngineFull);
    assert!(full.to_string().contains("queue: pings"), "{full}");
    assert!(full.is_retryable());
}

#[tokio::test]
async fn a_full_share_is_an_error_that_names_it() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let shares = ShareSettings::new().max_pending(1);
    let limits = queue.limits("pings").per_share(shares);
    limits.set().await.unwrap();
    queue.enqueue(ping(1)).share("acme").await.unwrap();
    let full = queue.enqueue(ping(2)).share("acme").await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::EngineFull);
    let said = full.to_string();
    for part in [
        "queue: pings",
        "share: acme",
        "max_pending: 1",
        "add workers",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    queue.enqueue(ping(3)).share("other").await.unwrap();
}

#[tokio::test]
async fn a_merged_job_is_a_success() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let first = queue.enqueue(ping(1)).unique("k").await.unwrap();
    let second = queue.enqueue(ping(2)).unique("k").await.unwrap();
    assert_eq!(second.verdict, EnqueueVerdict::Merged(first.id));
}

#[tokio::test]
async fn many_jobs_go_in_batches_with_a_verdict_each() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let jobs: Vec<NewJob> = (0..2_500)
        .map(|n| {
            NewJob::of(&ping(n))
                .unwrap()
                .unique(format!("{}", n % 2_000))
        })
        .collect();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let receipts = queue.enqueue_many(jobs).await.unwrap();
    assert_eq!(probe.calls("enqueue"), 25, "100 a call, as they have keys");
    let answered: Vec<JobId> = receipts.iter().map(|receipt| receipt.id).collect();
    assert_eq!(answered, ids);
    let merged = receipts
        .iter()
        .filter(|receipt| matches!(receipt.verdict, EnqueueVerdict::Merged(_)));
    assert_eq!(merged.count(), 500);
}

#[tokio::test]
async fn batches_are_bounded_in_bytes_too() {
    let (probe, _clock) = Probe::new();
    let large = || NewJob::new("blobs", vec![b' '; 256 << 10]);
    let jobs: Vec<NewJob> = std::iter::repeat_with(large).take(40).collect();
    Queue::new(&probe).enqueue_many(jobs).await.unwrap();
    assert_eq!(probe.calls("enqueue"), 40, "one of 256 KiB fills a call");
    let small = || NewJob::new("blobs", vec![b' '; 64 << 10]);
    let jobs: Vec<NewJob> = std::iter::repeat_with(small).take(40).collect();
    Queue::new(&probe).enqueue_many(jobs).await.unwrap();
    assert_eq!(probe.calls("enqueue"), 50, "and so do four of 64 KiB");
}

#[tokio::test]
async fn calls_are_shorter_where_jobs_cost_more() {
    for (job, calls) in [
        (NewJob::new("mail", "{}"), 2),
        (NewJob::new("mail", "{}").delay(minutes(30)), 2),
        (NewJob::new("mail", "{}").retention(minutes(1)), 5),
        (NewJob::new("mail", "{}").group("customer"), 10),
    ] {
        let (probe, _clock) = Probe::new();
        let jobs = (0..500).map(|_| job.clone().id(JobId::new()));
        let receipts = Queue::new(&probe).enqueue_many(jobs).await.unwrap();
        assert_eq!((receipts.len(), probe.calls("enqueue")), (500, calls));
    }
}

#[tokio::test]
async fn nothing_to_send_is_no_call() {
    let (probe, _clock) = Probe::new();
    let none: [Ping; 0] = [];
    let receipts = Queue::new(&probe).enqueue_many(none).await.unwrap();
    assert!(receipts.is_empty());
    assert_eq!(probe.calls("enqueue"), 0);
}

#[tokio::test]
async fn a_malformed_job_among_many_is_named() {
    let (probe, _clock) = Probe::new();
    let jobs = (0..1_500).map(|n| {
        let job = NewJob::of(&ping(n)).unwrap();
        if n == 1_200 {
            job.queue("no spaces")
        } else {
            job
        }
    });
    let error = Queue::new(&probe).enqueue_many(jobs).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    let context: Vec<_> = error.context().collect();
    assert!(context.contains(&("index", "1200")), "{error}");
    assert!(context.contains(&("sent", "1000")), "{error}");
}

#[tokio::test]
async fn namespaces_see_nothing_of_each_other() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let shop = queue.namespace(Namespace::new("shop").unwrap());
    let id = shop.enqueue(ping(1)).await.unwrap().id;
    assert!(shop.get(id).await.unwrap().is_some());
    assert!(queue.get(id).await.unwrap().is_none());
}
