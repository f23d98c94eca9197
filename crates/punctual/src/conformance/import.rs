//! Laws of import: a job with history is stored as it was.

use super::START;
use super::case::*;
use crate::engine::{Action, EnqueueVerdict, Filter, ListBy, QueueSettings};
use crate::error::ErrorKind;
use crate::job::{Due, JobRecord, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes, seconds};

/// The job that imports a record, as an export of it makes it.
pub(super) fn import_of(record: &JobRecord) -> NewJob {
    NewJob {
        id: record.id,
        queue: record.queue.clone(),
        kind: record.kind.clone(),
        payload: record.payload.clone(),
        content_type: record.content_type.clone(),
        headers: record.headers.clone(),
        due: Due::At(record.due),
        expires_at: record.expires_at,
        priority: record.priority,
        unique: record.unique.clone(),
        group: record.group.clone(),
        share: record.share.clone(),
        limits: record.limits.clone(),
        cost: record.cost,
        max_attempts: record.max_attempts,
        max_crashes: record.max_crashes,
        retry: record.retry.clone(),
        timeout: record.timeout,
        retention: record.retention,
        remember: record.remember,
        wait_for: record.wait_for.clone(),
        after: Vec::new(),
        flow: None,
        history: Some(Box::new(record.clone())),
    }
}

/// Every job of an engine, imported into another one, is the same there, in every state.
pub(super) async fn every_job_comes_over_as_it_was(case: Case) {
    for state in [0, 1, 4, 5, 6, 2].map(|nth| JobState::ALL[nth]) {
        case.job_in_state(state).await;
    }
    let failed = case.active(job()).await;
    case.retry(&failed, minutes(5)).await;
    let crashed = case.active(job()).await;
    case.leases_run_out().await;
    let mut exported = case.list_by(ListBy::All, Filter::default(), 100).await;
    exported.sort_by_key(|job| job.id);
    assert_eq!(exported.len(), 8);
    let other = case.another().await;
    other.set_time(case.clock()).await;
    let receipts = other
        .send_all(exported.iter().map(import_of).collect())
        .await;
    assert!(
        receipts
            .iter()
            .all(|receipt| receipt.verdict == EnqueueVerdict::Created)
    );
    let mut imported = other.list_by(ListBy::All, Filter::default(), 100).await;
    imported.sort_by_key(|job| job.id);
    assert_eq!(imported, exported);
    assert_eq!(other.counts().await, case.counts().await);
    let back = other.get(crashed.id()).await;
    assert_eq!((back.attempt, back.crashes), (1, 1));
}

/// An active job comes over as ready, its attempt kept: the next claim is a later one.
pub(super) async fn an_active_job_comes_over_as_ready(case: Case) {
    let attempt = case.active(job()).await;
    let other = case.another().await;
    other.enqueue(import_of(&attempt.job)).await;
    let imported = other.get(attempt.id()).await;
    assert_eq!((imported.state, imported.attempt), (JobState::Ready, 1));
    assert_eq!((imported.worker, imported.lease_until), (None, None));
    assert_eq!(other.claim_one().await.job.attempt, 2);
}

/// The same import again is a duplicate and changes nothing.
pub(super) async fn an_import_again_is_a_duplicate(case: Case) {
    let id = case.job_in_state(JobState::Dead).await;
    let dead = case.get(id).await;
    let other = case.another().await;
    other.enqueue(import_of(&dead)).await;
    assert_eq!(
        other.verdict(import_of(&dead)).await,
        EnqueueVerdict::Duplicate
    );
    assert_eq!(other.get(id).await, dead);
}

/// The retention of a settled job counts from when it settled, not from its import.
pub(super) async fn a_retention_counts_from_the_end(case: Case) {
    let sent = NewJob {
        retention: hours(1),
        ..job()
    };
    let id = case.ended_job(sent, Outcome::Completed).await;
    let done = case.get(id).await;
    let other = case.another().await;
    other.advance(minutes(59)).await;
    other.enqueue(import_of(&done)).await;
    assert_eq!(other.get(id).await.finished_at, Some(START));
    other.advance(minutes(1)).await;
    for _ in 0..5 {
        other.maintain().await;
    }
    assert!(other.is_unknown(id).await);
}

/// A waiting job brings its unique key; a settled one does not.
pub(super) async fn an_import_brings_the_key_of_a_waiting_job(case: Case) {
    let keyed = |key: &str| {
        let (key, policy, hold) = (key.into(), Default::default(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job_in(hours(1))
        }
    };
    let waiting = case.enqueue(keyed("a")).await;
    let settled = case
        .ended_job(
            NewJob {
                due: Due::Now,
                ..keyed("b")
            },
            Outcome::Dead,
        )
        .await;
    let other = case.another().await;
    for id in [waiting, settled] {
        other.enqueue(import_of(&case.get(id).await)).await;
    }
    assert_eq!(
        other.verdict(keyed("a")).await,
        EnqueueVerdict::Merged(waiting)
    );
    assert_eq!(other.verdict(keyed("b")).await, EnqueueVerdict::Created);
}

/// An imported job that is due is claimed like any other, and one to come is not early.
pub(super) async fn an_imported_job_runs_when_due(case: Case) {
    let id = case.enqueue(job_in(minutes(5))).await;
    let record = case.get(id).await;
    let other = case.another().await;
    other.advance(seconds(1)).await;
    other.enqueue(import_of(&record)).await;
    assert_eq!(other.get(id).await, record);
    other.set_time(before(START + minutes(5), TICK)).await;
    assert_eq!(other.claim_ids(10).await, []);
    other.set_time(START + minutes(5)).await;
    assert_eq!(other.claim_ids(10).await, [id]);
}

/// What an import knows of the past is checked like the rest: sizes, names, counters.
pub(super) async fn a_malformed_past_is_refused(case: Case) {
    let id = case.job_in_state(JobState::Held).await;
    let record = case.get(id).await;
    let limits = case.info().await.limits;
    let long = "x".repeat(limits.result_bytes + 1);
    let malformed = [
        (
            JobRecord {
                result: Some(bytes(&long)),
                ..record.clone()
            },
            ErrorKind::PayloadTooLarge,
        ),
        (
            JobRecord {
                progress: Some(bytes(&long)),
                ..record.clone()
            },
            ErrorKind::PayloadTooLarge,
        ),
        (
            JobRecord {
                wait_for: vec![String::new()],
                ..record.clone()
            },
            ErrorKind::InvalidName,
        ),
        (
            JobRecord {
                attempt: u32::MAX,
                ..record.clone()
            },
            ErrorKind::InvalidInput,
        ),
        (
            JobRecord {
                failures: u32::MAX,
                ..record.clone()
            },
            ErrorKind::InvalidInput,
        ),
        (
            JobRecord {
                crashes: u32::MAX,
                ..record.clone()
            },
            ErrorKind::InvalidInput,
        ),
    ];
    let other = case.another().await;
    for (past, kind) in malformed {
        let history = Some(Box::new(past));
        let error = other
            .enqueue_error(NewJob {
                history,
                ..import_of(&record)
            })
            .await;
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(other.is_unknown(id).await);
    other.enqueue(import_of(&record)).await;
}

/// A settled job is imported though another holds its key: it wants it no more.
pub(super) async fn a_settled_import_needs_no_key(case: Case) {
    let keyed = || {
        let (key, policy, hold) = ("k".into(), Default::default(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let dead = case.ended_job(keyed(), Outcome::Dead).await;
    let other = case.another().await;
    let holder = other.enqueue(keyed()).await;
    other.enqueue(import_of(&case.get(dead).await)).await;
    assert_eq!(other.state(dead).await, JobState::Dead);
    assert_eq!(other.holder("k").await, Some(holder));
}

/// A waiting job that comes behind an active holder of its key follows it, whatever its past.
pub(super) async fn an_imported_job_may_follow(case: Case) {
    let keyed = |policy| {
        let (key, hold) = ("k".into(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let waiting = case.enqueue(keyed(UniquePolicy::After)).await;
    let other = case.another().await;
    let holder = other.active(keyed(UniquePolicy::Keep)).await;
    other.enqueue(import_of(&case.get(waiting).await)).await;
    assert_eq!(other.state(waiting).await, JobState::Held);
    assert_eq!(other.claim_ids(10).await, []);
    other.complete(&holder).await;
    assert_eq!(other.claim_ids(10).await, [waiting]);
}

/// An end that is still to come by this engine's clock has come, and the job is one of its state.
pub(super) async fn a_past_that_is_to_come_ends_now(case: Case) {
    let id = case.job_in_state(JobState::Dead).await;
    let dead = JobRecord {
        finished_at: Some(START + hours(1)),
        ..case.get(id).await
    };
    let other = case.another().await;
    other.enqueue(import_of(&dead)).await;
    assert_eq!(other.get(id).await.finished_at, Some(START));
    other.edit(id, Action::Redrive).await;
    assert_eq!(other.counts().await.of(JobState::Dead), 0);
    assert_eq!(other.claim_ids(10).await, [id]);
}

/// A settled job takes no room from those that wait.
pub(super) async fn a_settled_import_needs_no_room(case: Case) {
    let id = case.job_in_state(JobState::Dead).await;
    let other = case.another().await;
    let settings = QueueSettings::new().max_pending(0);
    other.configure(settings, 0).await;
    let verdict = other.verdict(import_of(&case.get(id).await)).await;
    assert_eq!(verdict, EnqueueVerdict::Created);
}
