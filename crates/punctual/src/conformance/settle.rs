//! Laws of settle: an attempt ends once, as its worker says.

use super::START;
use super::case::*;
use crate::engine::{Got, LeaseReport, Settle, SettleVerdict};
use crate::job::{CancelReason, DeadReason, JobId, JobState, NewJob, Outcome};
use crate::time::{hours, minutes, seconds};

/// A completed job without retention leaves its tombstone: id, outcome, small result.
pub(super) async fn a_completed_job_leaves_a_tombstone(case: Case) {
    let attempt = case.active(job()).await;
    case.advance(seconds(1)).await;
    let settlement = with_result(&attempt, "shipped");
    let settled = SettleVerdict::Settled {
        state: JobState::Completed,
        due: None,
        effects: vec![],
    };
    assert_eq!(case.settle_as(attempt.token, settlement).await, settled);
    let tombstone = Got::Tombstone {
        id: attempt.id(),
        state: JobState::Completed,
        result: Some(bytes("shipped")),
        finished_at: START + seconds(1),
    };
    assert_eq!(case.got(attempt.id()).await, Some(tombstone));
}

/// A completed job with retention is kept whole, with its result.
pub(super) async fn a_completed_job_with_retention_is_kept(case: Case) {
    let kept = NewJob {
        retention: hours(1),
        ..job()
    };
    let attempt = case.active(kept).await;
    case.advance(seconds(1)).await;
    case.end_as(&attempt, with_result(&attempt, "shipped"))
        .await;
    let done = case.get(attempt.id()).await;
    assert_eq!(
        (done.state, done.result),
        (JobState::Completed, Some(bytes("shipped")))
    );
    assert_eq!(done.payload, attempt.job.payload);
    assert_eq!(done.finished_at, Some(START + seconds(1)));
    assert_eq!((done.worker, done.lease_until), (None, None));
    assert_eq!((done.attempt, done.failures, done.crashes), (1, 0, 0));
}

pub(super) fn with_result(attempt: &Attempt, result: &str) -> crate::engine::Settlement {
    let result = Some(bytes(result));
    crate::engine::Settlement {
        result,
        ..attempt.ended(Outcome::Completed)
    }
}

/// A job that its worker gives up is cancelled on request.
pub(super) async fn a_cancelled_outcome_cancels(case: Case) {
    let id = case.ended_job(job(), Outcome::Cancelled).await;
    let ended = case.get(id).await;
    assert_eq!(
        (ended.state, ended.cancelled),
        (JobState::Cancelled, Some(CancelReason::Requested))
    );
    assert_eq!(case.claim_ids(10).await, []);
}

/// A job that fails for good is dead with its error, whatever attempts are left.
pub(super) async fn a_dead_outcome_keeps_the_error(case: Case) {
    let attempt = case.active(job()).await;
    let mut settlement = attempt.ended(Outcome::Dead);
    settlement.error = Some("no such customer".into());
    let settled = SettleVerdict::Settled {
        state: JobState::Dead,
        due: None,
        effects: vec![],
    };
    assert_eq!(case.settle_as(attempt.token, settlement).await, settled);
    let dead = case.get(attempt.id()).await;
    assert_eq!(dead.dead, Some(DeadReason::Permanent));
    assert_eq!(dead.last_error.as_deref(), Some("no such customer"));
    assert_eq!(dead.payload, attempt.job.payload);
}

/// A snooze puts a job off and counts as nothing.
pub(super) async fn a_snooze_counts_as_nothing(case: Case) {
    let attempt = case.active(job()).await;
    case.advance(seconds(1)).await;
    let verdict = case
        .settle(&attempt, Outcome::Snooze { after: minutes(5) })
        .await;
    let due = START + seconds(1) + minutes(5);
    let expected = SettleVerdict::Settled {
        state: JobState::Scheduled,
        due: Some(due),
        effects: vec![],
    };
    assert_eq!(verdict, expected);
    let snoozed = case.get(attempt.id()).await;
    assert_eq!((snoozed.state, snoozed.due), (JobState::Scheduled, due));
    assert_eq!(
        (snoozed.attempt, snoozed.failures, snoozed.crashes),
        (1, 0, 0)
    );
}

/// A snooze of no span is ready at once.
pub(super) async fn a_snooze_of_no_span_is_ready(case: Case) {
    let attempt = case.active(job()).await;
    let state = case
        .end(&attempt, Outcome::Snooze { after: seconds(0) })
        .await;
    assert_eq!(state, JobState::Ready);
    assert_eq!(case.claim_one().await.job.attempt, 2);
}

/// A release hands a job back as it was and counts as nothing; only attempts grow.
pub(super) async fn a_release_counts_as_nothing(case: Case) {
    let id = case.enqueue(job()).await;
    case.advance(seconds(1)).await;
    for round in 1..=5 {
        let attempt = case.claim_one().await;
        assert_eq!(attempt.job.attempt, round);
        assert_eq!(case.end(&attempt, Outcome::Released).await, JobState::Ready);
        let released = case.get(id).await;
        assert_eq!(
            (released.failures, released.crashes, released.due),
            (0, 0, START)
        );
        assert_eq!((released.worker, released.lease_until), (None, None));
    }
}

/// The same settlement again is answered as repeated, and changes nothing.
pub(super) async fn the_same_settlement_again_is_repeated(case: Case) {
    let dead = case.active(job()).await;
    case.end(&dead, Outcome::Dead).await;
    let before = case.get(dead.id()).await;
    assert_eq!(
        case.settle(&dead, Outcome::Dead).await,
        SettleVerdict::Repeated
    );
    assert_eq!(case.get(dead.id()).await, before);
    let done = case.active(job()).await;
    case.complete(&done).await;
    assert_eq!(
        case.settle(&done, Outcome::Completed).await,
        SettleVerdict::Repeated
    );
}

/// A retry settled again is repeated: it counts one failure.
pub(super) async fn a_repeated_retry_counts_once(case: Case) {
    let failed = case.active(job()).await;
    let retry = Outcome::Retry {
        after: Some(minutes(1)),
    };
    case.end(&failed, retry.clone()).await;
    let before = case.get(failed.id()).await;
    assert_eq!(case.settle(&failed, retry).await, SettleVerdict::Repeated);
    assert_eq!(case.get(failed.id()).await, before);
    assert_eq!(before.failures, 1);
}

/// A part of a lease is settled, the rest of it stays leased.
pub(super) async fn a_part_of_a_lease_is_settled(case: Case) {
    case.enqueue_all((0..4).map(|_| job()).collect()).await;
    let lease = case.claim(4).await;
    for attempt in [&lease[2], &lease[0]] {
        case.complete(attempt).await;
    }
    for attempt in [&lease[1], &lease[3]] {
        assert_eq!(case.get(attempt.id()).await, attempt.job);
    }
    case.complete(&lease[1]).await;
    case.complete(&lease[3]).await;
}

/// Verdicts come lease by lease in the order sent; one bad settlement spoils no other.
pub(super) async fn verdicts_come_in_the_order_sent(case: Case) {
    case.enqueue_all((0..3).map(|_| job()).collect()).await;
    let first = case.claim(2).await;
    let second = case.claim_one().await;
    let mut outsider = first[0].ended(Outcome::Completed);
    outsider.id = JobId::new();
    let mut wrong_attempt = first[1].ended(Outcome::Completed);
    wrong_attempt.attempt += 1;
    let leases = vec![
        LeaseReport::new(second.token, vec![second.ended(Outcome::Dead)]),
        LeaseReport::new(
            first[0].token,
            vec![outsider, first[0].ended(Outcome::Completed), wrong_attempt],
        ),
    ];
    let answer = case
        .engine()
        .settle(&case.namespace, Settle { leases })
        .await;
    let verdicts = answer.expect("settle").verdicts;
    let state = |verdict: &SettleVerdict| match verdict {
        SettleVerdict::Settled { state, .. } => Some(*state),
        _ => None,
    };
    let states: Vec<Vec<_>> = verdicts
        .iter()
        .map(|lease| lease.iter().map(state).collect())
        .collect();
    assert_eq!(
        states,
        [
            vec![Some(JobState::Dead)],
            vec![None, Some(JobState::Completed), None]
        ]
    );
    assert_eq!(verdicts[1][2], SettleVerdict::LeaseLost);
    assert_eq!(case.state(first[1].id()).await, JobState::Active);
}

/// A job that has settled is never claimed again.
pub(super) async fn a_settled_job_never_runs_again(case: Case) {
    for outcome in [Outcome::Completed, Outcome::Cancelled, Outcome::Dead] {
        case.ended_job(
            NewJob {
                retention: hours(1),
                ..job()
            },
            outcome,
        )
        .await;
    }
    case.leases_run_out().await;
    case.advance(hours(2)).await;
    assert_eq!(case.claim_ids(10).await, []);
}
