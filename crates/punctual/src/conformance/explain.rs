//! Laws of explain: cause a reason, ask, remove the cause, and the job is claimed.

use super::START;
use super::case::*;
use super::control::{dead_letter, purge};
use crate::engine::{Action, Claim, Reason, WorkerId};
use crate::job::{
    CancelReason, DeadReason, Effect, Group, JobId, JobState, NewJob, OnRetry, Outcome, Unique,
    UniquePolicy,
};
use crate::time::{minutes, seconds};

/// The job is explained with this reason before all others.
async fn assert_reason(case: &Case, id: JobId, expected: Reason) {
    let reasons = case.reasons(id).await;
    assert_eq!(reasons.first(), Some(&expected), "of {reasons:?}");
}

/// With the cause removed, the job is claimed.
async fn assert_claimed(case: &Case, id: JobId) {
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// A worker has looked at the queue: a reason is not for want of workers.
async fn a_worker_was_here(case: &Case) {
    case.claim(1).await;
}

fn in_group(key: &str) -> NewJob {
    let (key, on_retry) = (key.into(), OnRetry::Hold);
    NewJob {
        group: Some(Group { key, on_retry }),
        ..job()
    }
}

/// Not due: the instant comes.
pub(super) async fn not_due(case: Case) {
    a_worker_was_here(&case).await;
    let id = case.enqueue(job_in(seconds(5))).await;
    let due = START + seconds(5);
    assert_reason(&case, id, Reason::NotDue { due }).await;
    case.advance(seconds(5)).await;
    assert_claimed(&case, id).await;
}

/// Waits for a retry: its instant comes.
pub(super) async fn waits_for_retry(case: Case) {
    let attempt = case.active(job()).await;
    case.retry(&attempt, seconds(5)).await;
    let due = START + seconds(5);
    assert_reason(
        &case,
        attempt.id(),
        Reason::WaitsForRetry { due, failures: 1 },
    )
    .await;
    case.advance(seconds(5)).await;
    assert_claimed(&case, attempt.id()).await;
}

/// Waits after a snooze: its instant comes.
pub(super) async fn waits_after_a_snooze(case: Case) {
    let attempt = case.active(job()).await;
    case.end(&attempt, Outcome::Snooze { after: seconds(5) })
        .await;
    let due = START + seconds(5);
    assert_reason(
        &case,
        attempt.id(),
        Reason::WaitsForRetry { due, failures: 0 },
    )
    .await;
    case.advance(seconds(5)).await;
    assert_claimed(&case, attempt.id()).await;
}

/// Waits for names: they are cleared one by one.
pub(super) async fn waits_for_names(case: Case) {
    let wait_for = vec!["paid".into(), "packed".into()];
    let id = case.enqueue(NewJob { wait_for, ..job() }).await;
    for names in [vec!["paid", "packed"], vec!["packed"]] {
        let expected = names.iter().map(ToString::to_string).collect();
        assert_reason(&case, id, Reason::WaitsForNames { names: expected }).await;
        let attempt = case.active(job()).await;
        let mut settlement = attempt.ended(Outcome::Completed);
        let name = names[0].into();
        settlement.effects = vec![Effect::Clear { job: id, name }];
        case.end_as(&attempt, settlement).await;
    }
    assert_claimed(&case, id).await;
}

/// Nothing releases a job that waits for another one by id, once that has ended without clearing
/// it: named before the name. Run now lets it run.
pub(super) async fn never_released_after_a_parent_that_ended(case: Case) {
    let waits_for = |parent: JobId| NewJob {
        wait_for: vec![parent.to_string()],
        ..job()
    };
    let expires = NewJob {
        expires_at: Some(case.clock() + seconds(1)),
        ..job_in(seconds(60))
    };
    let waiting = |parent: JobId| Reason::WaitsForNames {
        names: vec![parent.to_string()],
    };
    let (cancelled, expired) = (job_in(seconds(60)), expires);
    let (cancelled, expired) = (case.enqueue(cancelled).await, case.enqueue(expired).await);
    let (dead, completed) = (case.active(job()).await, case.active(job()).await);
    let parents = [cancelled, expired, dead.id(), completed.id()];
    let mut held = Vec::new();
    for parent in parents {
        let id = case.enqueue(waits_for(parent)).await;
        assert_reason(&case, id, waiting(parent)).await;
        held.push(id);
    }
    let unknown = JobId::new();
    let of_unknown = case.enqueue(waits_for(unknown)).await;
    assert_reason(&case, of_unknown, waiting(unknown)).await;
    case.cancel(cancelled).await;
    case.end(&dead, Outcome::Dead).await;
    case.end(&completed, Outcome::Completed).await;
    case.advance(seconds(1)).await;
    let states = [
        JobState::Cancelled,
        JobState::Cancelled,
        JobState::Dead,
        JobState::Completed,
    ];
    for ((by, id), state) in parents.into_iter().zip(&held).zip(states) {
        let never = Reason::NeverReleased { by, state };
        assert_eq!(case.reasons(*id).await, [never, waiting(by)], "{state}");
    }
    case.edit(held[0], Action::RunNow).await;
    assert_claimed(&case, held[0]).await;
}

/// A job of another queue that waits for that one.
async fn child_of(case: &Case, parent: JobId) -> JobId {
    let child = NewJob {
        wait_for: vec![parent.to_string()],
        ..NewJob::new("children", "{}")
    };
    let id = case.enqueue(child).await;
    assert_reason(case, id, waits_for_parent(parent)).await;
    id
}

fn waits_for_parent(parent: JobId) -> Reason {
    Reason::WaitsForNames {
        names: vec![parent.to_string()],
    }
}

/// The parent has ended so, and nothing releases the child.
async fn assert_never_released(case: &Case, child: JobId, by: JobId, state: JobState) {
    let expected = [Reason::NeverReleased { by, state }, waits_for_parent(by)];
    assert_eq!(case.reasons(child).await, expected);
}

/// Nothing releases a job whose parent was purged.
pub(super) async fn never_released_after_a_purge(case: Case) {
    let parent = case.enqueue(job_in(seconds(60))).await;
    let child = child_of(&case, parent).await;
    assert_eq!(purge(&case, 10).await, 1);
    assert_never_released(&case, child, parent, JobState::Cancelled).await;
}

/// Nothing releases a job whose parent was replaced.
pub(super) async fn never_released_after_a_replacement(case: Case) {
    let keyed = || NewJob {
        unique: Some(Unique {
            key: "k".into(),
            policy: UniquePolicy::Replace,
            hold: Default::default(),
        }),
        ..job_in(seconds(60))
    };
    let parent = case.enqueue(keyed()).await;
    let child = child_of(&case, parent).await;
    case.send(keyed()).await;
    assert_never_released(&case, child, parent, JobState::Cancelled).await;
}

/// Nothing releases a job whose parent is dead of poison.
pub(super) async fn never_released_after_poison(case: Case) {
    let parent = case.suspect(job()).await;
    let child = child_of(&case, parent).await;
    assert_eq!(case.claim_alone().await[0].id(), parent);
    case.leases_run_out().await;
    case.maintain().await;
    assert_never_released(&case, child, parent, JobState::Dead).await;
}

/// Nothing releases a job whose parent is dead of overflow.
pub(super) async fn never_released_after_an_overflow(case: Case) {
    case.configure(dead_letter(1), 0).await;
    let parent = case.enqueue(job_in(seconds(60))).await;
    let child = child_of(&case, parent).await;
    case.enqueue(job_in(seconds(90))).await;
    assert_never_released(&case, child, parent, JobState::Dead).await;
}

/// Waits for the holder of its key: the holder settles.
pub(super) async fn waits_for_holder(case: Case) {
    let with_key = |policy| {
        let (key, hold) = ("k".into(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let attempt = case.active(with_key(UniquePolicy::Keep)).await;
    let id = case.enqueue(with_key(UniquePolicy::After)).await;
    let holder = attempt.id();
    assert_reason(&case, id, Reason::WaitsForHolder { holder }).await;
    case.complete(&attempt).await;
    assert_claimed(&case, id).await;
}

/// The queue is paused: it is resumed.
pub(super) async fn queue_paused(case: Case) {
    a_worker_was_here(&case).await;
    let id = case.enqueue(job()).await;
    case.pause().await;
    assert_reason(&case, id, Reason::QueuePaused).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.resume().await;
    assert_claimed(&case, id).await;
}

/// A job of its group is active: that one settles.
pub(super) async fn group_active(case: Case) {
    let attempt = case.active(in_group("a")).await;
    let id = case.enqueue(in_group("a")).await;
    let by = attempt.id();
    assert_reason(&case, id, Reason::GroupActive { by }).await;
    case.complete(&attempt).await;
    assert_claimed(&case, id).await;
}

/// A job of its group waits for its retry: that one runs again and settles.
pub(super) async fn group_held(case: Case) {
    let attempt = case.active(in_group("a")).await;
    let id = case.enqueue(in_group("a")).await;
    case.retry(&attempt, seconds(5)).await;
    let (by, until) = (attempt.id(), START + seconds(5));
    assert_reason(&case, id, Reason::GroupHeld { by, until }).await;
    case.advance(seconds(5)).await;
    let held_by_itself = |reason: &Reason| matches!(reason, Reason::GroupHeld { .. });
    assert!(!case.reasons(by).await.iter().any(held_by_itself));
    let again = case.claim_one().await;
    assert_eq!(again.id(), by);
    case.complete(&again).await;
    assert_claimed(&case, id).await;
}

/// It is suspect: a worker comes that runs nothing else.
pub(super) async fn suspect(case: Case) {
    let id = case.suspect(job()).await;
    assert_reason(&case, id, Reason::Suspect { crashes: 2 }).await;
    assert_eq!(case.claim_ids(10).await, []);
    let alone = case.claim_alone().await;
    assert_eq!(alone[0].id(), id);
}

/// No worker reads its queue: one comes. A worker of a minute ago is none.
pub(super) async fn no_worker(case: Case) {
    let id = case.enqueue(job()).await;
    assert_reason(&case, id, Reason::NoWorker).await;
    let attempt = case.claim_one().await;
    case.end(&attempt, Outcome::Released).await;
    assert!(!case.reasons(id).await.contains(&Reason::NoWorker));
    case.advance(minutes(2)).await;
    assert_reason(&case, id, Reason::NoWorker).await;
    assert_claimed(&case, id).await;
}

/// No worker has a handler for its kind: one comes that has.
pub(super) async fn no_worker_for_kind(case: Case) {
    let mut other = Claim {
        limit: 1,
        ..case.wants(1)
    };
    other.worker.kinds = vec!["mail".into()];
    case.claim_as(other).await;
    let id = case
        .enqueue(NewJob {
            kind: "bill".into(),
            ..job()
        })
        .await;
    let kind = "bill".to_string();
    assert_reason(&case, id, Reason::NoWorkerForKind { kind }).await;
    let mut able = Claim::new(WorkerId::random(), QUEUE, 1);
    able.worker.kinds = vec!["mail".into(), "bill".into()];
    let claimed = attempts(&case.claim_as(able).await);
    assert_eq!(claimed[0].id(), id);
}

/// It waits its turn: those before it go.
pub(super) async fn in_line(case: Case) {
    a_worker_was_here(&case).await;
    let sent = case.enqueue_all((0..4).map(|_| job()).collect()).await;
    assert_reason(&case, sent[3], Reason::InLine { ahead: 3 }).await;
    case.claim(2).await;
    assert_reason(&case, sent[3], Reason::InLine { ahead: 1 }).await;
    case.claim(1).await;
    assert_claimed(&case, sent[3]).await;
}

/// It runs: who runs it, since when, and until when its lease lasts.
pub(super) async fn active(case: Case) {
    let id = case.enqueue(job()).await;
    case.advance(seconds(2)).await;
    case.claim_one().await;
    let since = START + seconds(2);
    let (worker, until) = (case.worker, since + LEASE_DURATION);
    let expected = Reason::Active {
        worker,
        since,
        until,
    };
    assert_eq!(case.reasons(id).await, [expected]);
    case.leases_run_out().await;
    assert_claimed(&case, id).await;
}

/// It has settled: how, and why.
pub(super) async fn settled(case: Case) {
    let expected = [
        (JobState::Completed, Reason::Completed),
        (
            JobState::Cancelled,
            Reason::Cancelled {
                reason: CancelReason::Requested,
            },
        ),
        (
            JobState::Dead,
            Reason::Dead {
                reason: DeadReason::Permanent,
                error: None,
            },
        ),
    ];
    for (state, reason) in expected {
        let id = case.job_in_state(state).await;
        assert_eq!(case.reasons(id).await, [reason]);
        if state == JobState::Dead {
            case.edit(id, Action::Redrive).await;
            assert_claimed(&case, id).await;
        }
    }
}

/// A dead job names its cause: why it is dead, and the error of its last failure.
pub(super) async fn a_dead_job_names_its_cause(case: Case) {
    let after = Some(seconds(1));
    for (outcome, reason) in [
        (Outcome::Dead, DeadReason::Permanent),
        (Outcome::Retry { after }, DeadReason::Exhausted),
    ] {
        let last_attempt = NewJob {
            max_attempts: 1,
            ..job()
        };
        let attempt = case.active(last_attempt).await;
        let mut settlement = attempt.ended(outcome);
        settlement.error = Some("no such customer".into());
        case.settle_as(attempt.token, settlement).await;
        let error = Some("no such customer".into());
        let expected = Reason::Dead { reason, error };
        assert_eq!(case.reasons(attempt.id()).await, [expected]);
    }
}

/// Every reason that holds is named, the weightiest first.
pub(super) async fn every_reason_that_holds_is_named(case: Case) {
    let later = case.enqueue(job_in(minutes(5))).await;
    let sent = case.enqueue_all(vec![job(), job()]).await;
    case.pause().await;
    let due = START + minutes(5);
    assert_eq!(
        case.reasons(later).await,
        [Reason::NotDue { due }, Reason::QueuePaused]
    );
    assert_eq!(
        case.reasons(sent[1]).await,
        [
            Reason::QueuePaused,
            Reason::NoWorker,
            Reason::InLine { ahead: 1 }
        ]
    );
    case.resume().await;
    case.advance(minutes(5)).await;
    assert_eq!(case.claim_ids(10).await, [sent[0], sent[1], later]);
}
