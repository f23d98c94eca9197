//! Laws of memos: what a step kept outlives its worker, and an attempt may wait for a signal.

use bytes::Bytes;

use super::case::*;
use super::import::import_of;
use crate::engine::EditVerdict::{Done, NotFound, SignalsFull, WaitEnded, WrongState};
use crate::engine::{Action, Edit, Extend, ExtendVerdict, Reason, Select, Target};
use crate::error::ErrorKind;
use crate::job::{
    CancelReason, Group, JobId, JobState, MEMO_BYTES_MAX, MEMOS_MAX, Memo, MemoSource, NewJob,
    OnRetry, Outcome, PastOutcome,
};
use crate::time::{Timestamp, days, hours, minutes, seconds};

pub(super) fn keeps(attempt: &Attempt, name: &str, value: &str) -> Extend {
    let memo = (attempt.id(), name.to_owned(), bytes(value));
    Extend::new(attempt.token, LEASE_DURATION)
        .memos(vec![memo])
        .jobs(vec![attempt.id()])
}

pub(super) fn holds(name: &str) -> Outcome {
    Outcome::Hold {
        names: vec![name.to_owned()],
        limit: hours(1),
    }
}

fn memo(source: MemoSource, name: &str, value: &str, at: Timestamp) -> Memo {
    Memo {
        name: name.into(),
        source,
        value: bytes(value),
        at,
    }
}

pub(super) async fn signal(
    case: &Case,
    target: impl Into<Target>,
    name: &str,
    value: &str,
) -> crate::engine::EditVerdict {
    let (name, payload) = (name.to_owned(), bytes(value));
    case.edit(target, Action::Signal { name, payload }).await
}

/// A memo that was acknowledged is there in every later attempt, whatever became of its worker.
pub(super) async fn a_kept_step_is_not_lost_with_its_worker(case: Case) {
    let first = case.active(job()).await;
    let kept = case.clock();
    case.extend_as(keeps(&first, "charge", "r-1")).await;
    case.advance(seconds(1)).await;
    case.extend_as(keeps(&first, "charge", "other")).await;
    case.leases_run_out().await;
    let second = case.claim_one().await;
    let expected = [memo(MemoSource::Step, "charge", "r-1", kept)];
    assert_eq!((second.id(), second.job.attempt), (first.id(), 2));
    assert_eq!(second.job.memos, expected, "the first value stays");
    case.retry(&second, seconds(0)).await;
    assert_eq!(case.claim_one().await.job.memos, expected);
    assert_eq!(case.get(first.id()).await.memos, expected);
}

/// Memos go with their job; a redrive keeps them.
pub(super) async fn a_redrive_keeps_memos(case: Case) {
    let attempt = case.active(job()).await;
    case.extend_as(keeps(&attempt, "charge", "r-1")).await;
    case.end(&attempt, Outcome::Dead).await;
    assert_eq!(
        case.edit(attempt.id(), Action::Redrive).await,
        Done(JobState::Ready)
    );
    let again = case.claim_one().await;
    assert_eq!(again.job.memos[0].value, bytes("r-1"));
    case.end(&again, Outcome::Dead).await;
    case.edit(attempt.id(), Action::Delete).await;
    assert!(case.is_unknown(attempt.id()).await);
    case.send(NewJob::with_id(attempt.id(), QUEUE, "{}")).await;
    assert_eq!(case.claim_one().await.job.memos, []);
}

/// An old token keeps nothing, and a job that the lease has lost is named.
pub(super) async fn an_old_token_keeps_nothing(case: Case) {
    let old = case.active(job()).await;
    case.leases_run_out().await;
    let new = case.claim_one().await;
    let verdict = case.extend_as(keeps(&old, "charge", "old")).await;
    assert_eq!(verdict, ExtendVerdict::LeaseLost);
    let mut forged = keeps(&new, "charge", "forged");
    forged.token.nonce ^= 1;
    case.extend_as(forged).await;
    assert_eq!(case.get(new.id()).await.memos, []);
    case.extend_as(keeps(&new, "charge", "new")).await;
    assert_eq!(case.get(new.id()).await.memos[0].value, bytes("new"));
    // Another job of the same worker, under another lease.
    let other = case.active(job()).await;
    let mut of_other = keeps(&new, "pack", "x");
    of_other.memos[0].0 = other.id();
    of_other.jobs = vec![other.id()];
    match case.extend_as(of_other).await {
        ExtendVerdict::Extended { lost, .. } => assert_eq!(lost, [other.id()]),
        verdict => panic!("{verdict:?}"),
    }
    assert_eq!(case.get(other.id()).await.memos, []);
    // Nor does the answer say that its memo is kept where the call names no jobs.
    let mut of_other = keeps(&new, "pack", "x");
    (of_other.memos[0].0, of_other.jobs) = (other.id(), Vec::new());
    match case.extend_as(of_other).await {
        ExtendVerdict::Extended { lost, .. } => assert_eq!(lost, [other.id()]),
        verdict => panic!("{verdict:?}"),
    }
}

/// 64 memos, 8 KiB each, 64 KiB together: a call that goes over a bound keeps none of its memos.
pub(super) async fn memos_are_bounded(case: Case) {
    let attempt = case.active(job()).await;
    let refused = async |extend: Extend| {
        let engine = case.engine();
        let error = engine.extend(&case.namespace, vec![extend]).await;
        let error = error.expect_err("over a bound");
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge, "{error}");
    };
    refused(keeps(&attempt, "s", &"x".repeat(MEMO_BYTES_MAX + 1))).await;
    for n in 0..MEMOS_MAX {
        case.extend_as(keeps(&attempt, &n.to_string(), "x")).await;
    }
    refused(keeps(&attempt, "one-more", "x")).await;
    let job = case.get(attempt.id()).await;
    assert_eq!(job.memos.len(), MEMOS_MAX);
    case.complete(&attempt).await;
    let attempt = case.active(self::job()).await;
    for n in 0..7 {
        let value = "x".repeat(MEMO_BYTES_MAX);
        case.extend_as(keeps(&attempt, &n.to_string(), &value))
            .await;
    }
    let mut two = keeps(&attempt, "small", "x");
    two.memos.push((
        attempt.id(),
        "large".into(),
        Bytes::from(vec![0; MEMO_BYTES_MAX]),
    ));
    refused(two).await;
    assert_eq!(case.get(attempt.id()).await.memos.len(), 7);
}

/// An attempt that waits is held without a lease, and its signal brings it back at once.
pub(super) async fn a_held_attempt_comes_back_with_its_signal(case: Case) {
    let keyed = NewJob {
        unique: Some(crate::job::Unique::new("order:7")),
        ..job()
    };
    let attempt = case.active(keyed).await;
    let id = attempt.id();
    assert_eq!(case.end(&attempt, holds("approved")).await, JobState::Held);
    let held = case.get(id).await;
    assert_eq!(
        (held.state, held.due),
        (JobState::Held, case.clock() + hours(1))
    );
    assert_eq!(held.wait_for, ["approved"]);
    assert_eq!(case.counts().await.of(JobState::Held), 1);
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(seconds(1)).await;
    assert_eq!(signal(&case, id, "other", "").await, Done(JobState::Held));
    let at = case.clock();
    let by_key = signal(&case, by_key("order:7"), "approved", "by ann").await;
    assert_eq!(by_key, Done(JobState::Ready));
    assert_eq!(signal(&case, id, "approved", "by bob").await, WaitEnded);
    let back = case.claim_one().await;
    assert_eq!((back.id(), back.job.attempt, back.job.due), (id, 2, at));
    let signalled = memo(MemoSource::Signal, "approved", "by ann", at);
    assert_eq!(back.job.memos.last(), Some(&signalled));
    case.complete(&back).await;
    assert_eq!(case.counts().await.of(JobState::Held), 0);
}

/// A signal that comes before the wait is kept: the attempt that waits for it comes back at once.
pub(super) async fn a_signal_before_the_wait_counts(case: Case) {
    let id = case.enqueue(job_in(minutes(1))).await;
    assert_eq!(signal(&case, id, "a", "1").await, Done(JobState::Scheduled));
    case.advance(minutes(1)).await;
    let attempt = case.claim_one().await;
    assert_eq!(attempt.job.memos[0].value, bytes("1"), "a claim brings it");
    assert_eq!(signal(&case, id, "b", "2").await, Done(JobState::Active));
    let both = Outcome::Hold {
        names: vec!["a".into(), "b".into(), "b".into()],
        limit: hours(1),
    };
    assert_eq!(case.end(&attempt, both).await, JobState::Ready);
    let again = case.claim_one().await;
    assert_eq!(again.job.memos.len(), 2);
    assert_eq!(again.job.wait_for, [] as [String; 0]);
}

/// A wait ends at its instant, not before, and says that it timed out.
pub(super) async fn a_wait_ends_at_its_instant(case: Case) {
    let attempt = case.active(job()).await;
    case.end(&attempt, holds("approved")).await;
    let end = case.clock() + hours(1);
    assert_eq!(case.wake_at().await, Some(end));
    case.set_time(before(end, TICK)).await;
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.state(attempt.id()).await, JobState::Held);
    case.set_time(end).await;
    let back = case.claim_one().await;
    assert_eq!((back.job.due, back.job.attempt), (end, 2));
    let memos = [memo(MemoSource::TimedOut, "approved", "", end)];
    assert_eq!(back.job.memos, memos);
    assert_eq!(signal(&case, back.id(), "approved", "").await, WaitEnded);
    case.complete(&back).await;
}

/// To wait counts neither as a failure nor as a crash, and lets the group and the queue go on.
pub(super) async fn a_hold_counts_as_nothing(case: Case) {
    let grouped = || NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        max_attempts: 1,
        ..job()
    };
    let id = case.enqueue(grouped()).await;
    let next = case.enqueue(grouped()).await;
    for n in 0..3 {
        let attempt = case.claim_one().await;
        assert_eq!(attempt.id(), id);
        case.end(&attempt, holds(&n.to_string())).await;
        let held = case.get(id).await;
        assert_eq!((held.failures, held.crashes, held.attempt), (0, 0, n + 1));
        assert_eq!(held.last_error, None);
        assert_eq!(held.attempts.last().unwrap().outcome, PastOutcome::Hold);
        if n == 0 {
            let passed = case.claim_one().await;
            assert_eq!(passed.id(), next, "its group goes on");
            case.complete(&passed).await;
        }
        signal(&case, id, &n.to_string(), "").await;
    }
    assert_eq!(
        case.get(id).await.attempts.len(),
        1,
        "holds in a row are one"
    );
    let attempt = case.claim_one().await;
    case.complete(&attempt).await;
}

/// A signal for a job that is unknown, settled or has too many says so, and changes nothing.
pub(super) async fn a_signal_that_cannot_count_says_so(case: Case) {
    assert_eq!(signal(&case, JobId::new(), "a", "").await, NotFound);
    let done = case.ended_job(job(), Outcome::Completed).await;
    assert_eq!(
        signal(&case, done, "a", "").await,
        WrongState(JobState::Completed)
    );
    let dead = case.ended_job(job(), Outcome::Dead).await;
    assert_eq!(
        signal(&case, dead, "a", "").await,
        WrongState(JobState::Dead)
    );
    let id = case.enqueue(job_in(hours(1))).await;
    for n in 0..MEMOS_MAX {
        signal(&case, id, &n.to_string(), "").await;
    }
    assert_eq!(signal(&case, id, "one-more", "").await, SignalsFull);
    let attempt = case.active(job()).await;
    for n in 0..MEMOS_MAX {
        signal(&case, attempt.id(), &n.to_string(), "").await;
    }
    case.extend_as(keeps(&attempt, "step", "x")).await;
    let memos = case.get(attempt.id()).await.memos;
    assert_eq!(memos.len(), MEMOS_MAX + 1, "signals take no room of steps");
    let too_large = Action::Signal {
        name: "a".into(),
        payload: Bytes::from(vec![0; MEMO_BYTES_MAX + 1]),
    };
    let edit = Edit {
        select: Select::Targets(vec![id.into()]),
        action: too_large,
        dry_run: false,
    };
    let error = case.engine().edit(&case.namespace, edit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PayloadTooLarge, "{error}");
}

/// A job that waits can be cancelled, run now and rescheduled as any held job, and expires.
pub(super) async fn a_waiting_attempt_obeys_edits(case: Case) {
    let waiting = async |new: NewJob| {
        let attempt = case.active(new).await;
        case.end(&attempt, holds("approved")).await;
        attempt.id()
    };
    let id = waiting(job()).await;
    assert_eq!(case.edit(id, Action::RunNow).await, Done(JobState::Ready));
    let back = case.claim_one().await;
    assert_eq!(back.job.memos[0].source, MemoSource::TimedOut);
    case.complete(&back).await;
    let id = waiting(job()).await;
    assert_eq!(case.cancel(id).await, Done(JobState::Cancelled));
    case.advance(days(1)).await;
    assert_eq!(case.claim_ids(10).await, []);
    let expires_at = Some(case.clock() + minutes(1));
    let id = waiting(NewJob {
        expires_at,
        ..job()
    })
    .await;
    case.advance(minutes(1)).await;
    assert_eq!(case.get(id).await.cancelled, Some(CancelReason::Expired));
    assert_eq!(case.counts().await.pending(), 0);
    let attempt = case.active(job()).await;
    case.cancel(attempt.id()).await;
    assert_eq!(case.end(&attempt, holds("x")).await, JobState::Cancelled);
}

/// Explain names the signals that a held job waits for, and until when.
pub(super) async fn explain_names_the_signal(case: Case) {
    let attempt = case.active(job()).await;
    case.end(&attempt, holds("approved")).await;
    let due = case.clock() + hours(1);
    let names = vec!["approved".to_owned()];
    let expected = [Reason::WaitsForNames { names }, Reason::NotDue { due }];
    assert_eq!(case.reasons(attempt.id()).await, expected);
}

/// An import brings memos, and a job that waits goes on waiting.
pub(super) async fn an_import_brings_memos_and_waits(case: Case) {
    let attempt = case.active(job()).await;
    case.extend_as(keeps(&attempt, "charge", "r-1")).await;
    case.end(&attempt, holds("approved")).await;
    let record = case.get(attempt.id()).await;
    let other = case.another().await;
    other.set_time(case.clock()).await;
    other.send(import_of(&record)).await;
    let there = other.get(record.id).await;
    assert_eq!(there.memos, record.memos);
    assert_eq!((there.state, there.due), (JobState::Held, record.due));
    other.set_time(record.due).await;
    let back = other.claim_one().await;
    assert_eq!(back.job.memos.last().unwrap().source, MemoSource::TimedOut);
}
