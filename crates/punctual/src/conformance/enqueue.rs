//! Laws of enqueue: what is taken is kept as sent, once.

use std::collections::BTreeSet;

use super::START;
use super::case::*;
use crate::engine::EnqueueVerdict::{Created, Duplicate, IdConflict};
use crate::engine::{Claim, Got};
use crate::job::{
    CancelReason, Due, Group, Hold, JobId, JobRecord, JobState, NewJob, OnRetry, Outcome, Unique,
    UniquePolicy,
};
use crate::retry::RetryPolicy;
use crate::time::{Timestamp, hours, millis, minutes, seconds};

/// A job is read back with every field that was sent, and with nothing done to it yet.
pub(super) async fn a_job_is_read_back_as_sent(case: Case) {
    let sent = NewJob {
        kind: "orders.remind".into(),
        payload: vec![0, 0xff, b'{', 0x80].into(),
        content_type: "application/octet-stream".into(),
        headers: vec![("b".into(), "2".into()), ("a".into(), "1, ü".into())],
        due: Due::After(minutes(30)),
        expires_at: Some(START + hours(2)),
        priority: 3,
        unique: Some(Unique {
            key: "order 7".into(),
            policy: UniquePolicy::Replace,
            hold: Hold::UntilStarted,
        }),
        group: Some(Group {
            key: "customer 9".into(),
            on_retry: OnRetry::Pass,
        }),
        max_attempts: 7,
        max_crashes: Some(4),
        retry: RetryPolicy::List(vec![seconds(1), minutes(1)]),
        timeout: Some(seconds(90)),
        retention: hours(3),
        remember: Some(hours(30)),
        wait_for: vec!["stock".into(), "paid".into(), "stock".into()],
        ..job()
    };
    let expected = JobRecord {
        id: sent.id,
        queue: QUEUE.into(),
        kind: sent.kind.clone(),
        payload: sent.payload.clone(),
        content_type: sent.content_type.clone(),
        headers: sent.headers.clone(),
        expires_at: sent.expires_at,
        priority: 3,
        unique: sent.unique.clone(),
        group: sent.group.clone(),
        max_attempts: 7,
        max_crashes: Some(4),
        retry: sent.retry.clone(),
        timeout: sent.timeout,
        retention: sent.retention,
        remember: Some(hours(30)),
        wait_for: vec!["stock".into(), "paid".into()],
        state: JobState::Held,
        due: START + minutes(30),
        enqueued_at: START,
        ..untouched()
    };
    let id = case.enqueue(sent).await;
    assert_eq!(case.get(id).await, expected);
}

/// A record on which nothing has been done.
fn untouched() -> JobRecord {
    JobRecord {
        id: JobId::new(),
        queue: String::new(),
        kind: String::new(),
        payload: Vec::new().into(),
        content_type: String::new(),
        headers: Vec::new(),
        expires_at: None,
        priority: 5,
        unique: None,
        group: None,
        share: None,
        limits: Vec::new(),
        cost: 1,
        max_attempts: 20,
        max_crashes: None,
        retry: RetryPolicy::default(),
        timeout: None,
        retention: seconds(0),
        remember: None,
        wait_for: Vec::new(),
        schedule: None,
        flow: None,
        state: JobState::Ready,
        due: START,
        attempt: 0,
        failures: 0,
        crashes: 0,
        enqueued_at: START,
        started_at: None,
        finished_at: None,
        last_error: None,
        result: None,
        progress: None,
        cancel_requested: false,
        cancelled: None,
        dead: None,
        stopped: None,
        worker: None,
        lease_until: None,
        attempts: Vec::new(),
        log: Vec::new(),
        memos: Vec::new(),
    }
}

/// Every retry policy is read back as sent.
pub(super) async fn every_retry_policy_is_kept(case: Case) {
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::fixed(millis(1_500)),
        RetryPolicy::Linear {
            base: seconds(2),
            cap: minutes(1),
            jitter: true,
        },
        RetryPolicy::Exponential {
            base: seconds(3),
            factor: 1.5,
            cap: hours(2),
            jitter: false,
        },
        RetryPolicy::List(vec![seconds(1), seconds(5)]),
    ];
    for retry in policies {
        let id = case
            .enqueue(NewJob {
                retry: retry.clone(),
                ..job()
            })
            .await;
        assert_eq!(case.get(id).await.retry, retry);
    }
}

/// Receipts come in the order sent, one per job, and name the durability that `info` names.
pub(super) async fn receipts_come_in_the_order_sent(case: Case) {
    let known = job();
    case.enqueue(known.clone()).await;
    let other = NewJob {
        payload: bytes("[]"),
        ..known.clone()
    };
    let jobs = vec![job_in(hours(1)), known, other, job()];
    let sent = ids(&jobs);
    let answer = case.engine().enqueue(&case.namespace, jobs).await;
    let answer = answer.expect("enqueue");
    let verdicts: Vec<_> = answer
        .receipts
        .iter()
        .map(|receipt| receipt.verdict)
        .collect();
    assert_eq!(verdicts, [Created, Duplicate, IdConflict, Created]);
    let receipts: Vec<_> = answer.receipts.iter().map(|receipt| receipt.id).collect();
    assert_eq!(receipts, sent);
    assert_eq!(answer.durability, case.info().await.durability);
}

/// The same id again is a duplicate with the same receipt, however late, and stores nothing.
pub(super) async fn the_same_id_again_is_a_duplicate(case: Case) {
    let sent = job_in(minutes(1));
    let first = case.send(sent.clone()).await;
    let stored = case.get(sent.id).await;
    case.advance(seconds(30)).await;
    let second = case.send(sent.clone()).await;
    assert_eq!((second.verdict, second.due), (Duplicate, first.due));
    assert_eq!(case.get(sent.id).await, stored);
    assert_eq!(case.counts().await.pending(), 1);
}

/// The same id twice in one call is stored once.
pub(super) async fn the_same_id_within_a_call_is_a_duplicate(case: Case) {
    let sent = job();
    let receipts = case.send_all(vec![sent.clone(), sent]).await;
    assert_eq!(
        [receipts[0].verdict, receipts[1].verdict],
        [Created, Duplicate]
    );
    assert_eq!(case.drain().await.len(), 1);
}

/// The same id with another queue, kind, payload, content type or header is a conflict.
pub(super) async fn other_content_under_a_known_id_is_a_conflict(case: Case) {
    let sent = job();
    let id = case.enqueue(sent.clone()).await;
    let stored = case.get(id).await;
    let others = [
        NewJob {
            queue: "mail".into(),
            ..sent.clone()
        },
        NewJob {
            kind: "mail".into(),
            ..sent.clone()
        },
        NewJob {
            payload: bytes("{ }"),
            ..sent.clone()
        },
        NewJob {
            content_type: "text/plain".into(),
            ..sent.clone()
        },
        NewJob {
            headers: vec![("a".into(), "1".into())],
            ..sent
        },
    ];
    for other in others {
        assert_eq!(case.verdict(other.clone()).await, IdConflict, "{other:?}");
    }
    assert_eq!(case.get(id).await, stored);
}

/// Other settings under a known id are no conflict: what is stored stays.
pub(super) async fn other_settings_under_a_known_id_are_a_duplicate(case: Case) {
    let sent = job_in(hours(1));
    let id = case.enqueue(sent.clone()).await;
    let stored = case.get(id).await;
    let again = NewJob {
        due: Due::Now,
        priority: 0,
        max_attempts: 1,
        ..sent
    };
    let receipt = case.send(again).await;
    assert_eq!((receipt.verdict, receipt.due), (Duplicate, stored.due));
    assert_eq!(case.get(id).await, stored);
}

/// Who sends a job again does so under another trace: that is no other content.
pub(super) async fn another_trace_under_a_known_id_is_a_duplicate(case: Case) {
    let traced = |parent: &str| NewJob {
        headers: vec![
            ("TraceParent".into(), parent.into()),
            ("a".into(), "1".into()),
            ("tracestate".into(), "x=1".into()),
        ],
        ..job()
    };
    let sent = traced("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    case.enqueue(sent.clone()).await;
    let stored = case.get(sent.id).await;
    assert_eq!(stored.headers, sent.headers);
    let others = [
        NewJob {
            id: sent.id,
            ..traced("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        },
        NewJob {
            headers: vec![("a".into(), "1".into())],
            ..sent.clone()
        },
    ];
    for other in &others {
        assert_eq!(case.verdict(other.clone()).await, Duplicate, "{other:?}");
    }
    assert_eq!(case.get(sent.id).await, stored);
    case.drain().await;
    for other in others {
        assert_eq!(case.verdict(other.clone()).await, Duplicate, "{other:?}");
    }
}

/// A duplicate changes nothing of an active job.
pub(super) async fn a_duplicate_of_an_active_job_leaves_it_alone(case: Case) {
    let sent = job();
    case.enqueue(sent.clone()).await;
    let attempt = case.claim_one().await;
    assert_eq!(case.verdict(sent.clone()).await, Duplicate);
    assert_eq!(case.get(sent.id).await, attempt.job);
    assert_eq!(case.claim_ids(10).await, []);
}

/// A job that has settled is known by its tombstone: sent again, it does not run again.
pub(super) async fn a_settled_job_is_a_duplicate_by_its_tombstone(case: Case) {
    let sent = job();
    case.enqueue(sent.clone()).await;
    case.drain().await;
    assert!(matches!(
        case.got(sent.id).await,
        Some(Got::Tombstone { .. })
    ));
    assert_eq!(case.verdict(sent.clone()).await, Duplicate);
    let other = NewJob {
        payload: bytes("[]"),
        ..sent
    };
    assert_eq!(case.verdict(other).await, IdConflict);
    assert_eq!(case.drain().await, []);
}

/// A delay counts from engine time, and the receipt says the instant.
pub(super) async fn a_delay_counts_from_engine_time(case: Case) {
    case.advance(seconds(7)).await;
    let delay = millis(1_234) + TICK;
    let receipt = case.send(job_in(delay)).await;
    assert_eq!(receipt.due, START + seconds(7) + delay);
    assert!(!receipt.late);
    assert_eq!(case.get(receipt.id).await.due, receipt.due);
}

/// An instant that has passed is due now and flagged late; one to come is neither.
pub(super) async fn an_instant_in_the_past_is_due_now_and_late(case: Case) {
    let at = |due| NewJob {
        due: Due::At(due),
        ..job()
    };
    let past = case.send(at(before(START, TICK))).await;
    assert_eq!((past.verdict, past.due, past.late), (Created, START, true));
    assert_eq!(case.state(past.id).await, JobState::Ready);
    for due in [START, START + seconds(1)] {
        let receipt = case.send(at(due)).await;
        assert_eq!((receipt.due, receipt.late), (due, false));
    }
    assert!(!case.send(job()).await.late);
}

/// The longest delay ends with the year 9999; anything later is refused.
pub(super) async fn the_last_instant_is_the_end_of_the_year_9999(case: Case) {
    let longest = Timestamp::MAX - START;
    let receipt = case.send(job_in(longest)).await;
    assert_eq!((receipt.verdict, receipt.due), (Created, Timestamp::MAX));
    assert_eq!(case.state(receipt.id).await, JobState::Scheduled);
    let error = case.enqueue_error(job_in(longest + TICK)).await;
    assert_eq!(error.kind(), crate::ErrorKind::InvalidDelay, "{error}");
}

/// A job that is expired when it comes is cancelled at once.
pub(super) async fn a_job_that_comes_expired_is_cancelled(case: Case) {
    let expired = NewJob {
        expires_at: Some(START),
        ..job()
    };
    let id = case.enqueue(expired).await;
    let stored = case.get(id).await;
    assert_eq!(stored.state, JobState::Cancelled);
    assert_eq!(stored.cancelled, Some(CancelReason::Expired));
    assert_eq!(case.claim_ids(10).await, []);
}

/// An id whose job was deleted is free: it makes a job anew.
pub(super) async fn an_id_that_is_free_again_makes_a_new_job(case: Case) {
    let sent = job();
    case.ended_job(sent.clone(), Outcome::Completed).await;
    case.edit(sent.id, crate::engine::Action::Delete).await;
    assert_eq!(case.verdict(sent.clone()).await, Created);
    assert_eq!(case.get(sent.id).await.attempt, 0);
}

/// Jobs of one call stay in their queues, however these are named and whatever the jobs wait for.
pub(super) async fn jobs_of_a_call_stay_in_their_queues(case: Case) {
    let of = |queue: &str, job: NewJob| NewJob {
        queue: queue.into(),
        ..job
    };
    let held = || NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let names = ["q", "hq", "gq", "lq", "sq"];
    let later = |queue: &&str| of(queue, job_in(seconds(1)));
    let mut jobs = vec![of("q", held()), of("q", held())];
    jobs.extend(names.iter().map(later));
    jobs.extend(names.iter().map(later));
    let ids = case.enqueue_all(jobs).await;
    case.advance(seconds(1)).await;
    for (nth, name) in names.iter().enumerate() {
        let claim = Claim {
            queues: vec![(*name).into()],
            ..case.wants(10)
        };
        let claimed = attempts(&case.claim_as(claim).await);
        let claimed: BTreeSet<JobId> = claimed.iter().map(Attempt::id).collect();
        let sent = BTreeSet::from([ids[2 + nth], ids[7 + nth]]);
        assert_eq!(claimed, sent, "{name}");
    }
    assert_eq!(case.state(ids[0]).await, JobState::Held);
}
