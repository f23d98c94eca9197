//! Laws of expiry: from its instant on, a job that does not run is cancelled.

use super::START;
use super::case::*;
use crate::engine::Action;
use crate::job::{CancelReason, JobId, JobState, NewJob, Outcome, Stop};
use crate::time::{hours, minutes, seconds};

/// Expires a minute after the start.
fn expiring(job: NewJob) -> NewJob {
    NewJob {
        expires_at: Some(START + minutes(1)),
        ..job
    }
}

async fn assert_expired(case: &Case, id: JobId) {
    let job = case.get(id).await;
    assert_eq!(
        (job.state, job.cancelled),
        (JobState::Cancelled, Some(CancelReason::Expired))
    );
    assert!(job.finished_at.is_some(), "an expired job has settled");
}

/// A job that waits expires at its instant and not before, ready, scheduled or held.
pub(super) async fn a_waiting_job_expires_at_its_instant(case: Case) {
    let held = NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let jobs = [job(), job_in(hours(1)), held].map(expiring).to_vec();
    let sent = case.enqueue_all(jobs).await;
    case.advance(minutes(1) - TICK).await;
    for (id, state) in sent
        .iter()
        .zip([JobState::Ready, JobState::Scheduled, JobState::Held])
    {
        assert_eq!(case.state(*id).await, state);
    }
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    for id in sent {
        assert_expired(&case, id).await;
    }
}

/// A job that has expired is not claimed, though no sweep has come to it yet.
pub(super) async fn an_expired_job_is_never_claimed(case: Case) {
    let case = case.limited(|limits| limits.sweep = 5).await;
    let jobs = (0..100).map(|_| expiring(job()));
    let sent = case.enqueue_all(jobs.collect()).await;
    let fresh = case
        .enqueue(NewJob {
            priority: 9,
            ..job()
        })
        .await;
    case.advance(minutes(1)).await;
    let mut claimed = Vec::new();
    for _ in 0..40 {
        claimed.extend(case.claim_ids(10).await);
    }
    assert_eq!(claimed, [fresh]);
    for id in sent {
        assert_expired(&case, id).await;
    }
}

/// A claim that meets many expired jobs settles some of them and says that it could answer more:
/// the one that lives behind them all is claimed in the end, without a wakeup.
pub(super) async fn a_claim_settles_some_of_many_expired_jobs(case: Case) {
    const MANY: usize = 10_000;
    /// What a claim settles, and what the calls beside it sweep.
    const AT_ONCE: u64 = 125 + 5;
    let case = case.limited(|limits| limits.sweep = 1).await;
    for _ in 0..MANY / 1_000 {
        let jobs = (0..1_000).map(|_| expiring(job()));
        case.enqueue_all(jobs.collect()).await;
    }
    let alive = case.enqueue(job()).await;
    case.advance(minutes(1)).await;
    let mut left = case.counts().await.of(JobState::Ready);
    assert!(left > MANY as u64 - AT_ONCE, "no sweep has removed them");
    loop {
        let claimed = case.claim_as(case.wants(10)).await;
        let now_left = case.counts().await.of(JobState::Ready);
        let settled = left - now_left;
        assert!(settled <= AT_ONCE, "{settled} in one claim");
        left = now_left;
        if let Some(lease) = claimed.leases.first() {
            assert_eq!(lease.jobs[0].id, alive);
            break;
        }
        assert!(settled > 1, "it does some of the work");
        assert_eq!(claimed.wake_at, Some(claimed.now), "there is more");
    }
    assert_eq!(left, 0);
}

/// An active job does not expire: it may complete.
pub(super) async fn an_active_job_does_not_expire(case: Case) {
    let expires_at = Some(START + seconds(3));
    let attempt = case
        .active(NewJob {
            expires_at,
            retention: hours(1),
            ..job()
        })
        .await;
    case.advance(seconds(4)).await;
    assert_eq!(case.state(attempt.id()).await, JobState::Active);
    case.complete(&attempt).await;
    assert_eq!(case.state(attempt.id()).await, JobState::Completed);
}

/// A retry, snooze or release at or after its instant is cancelled: expired.
pub(super) async fn a_job_handed_back_too_late_expires(case: Case) {
    for outcome in [
        Outcome::Retry {
            after: Some(seconds(1)),
        },
        Outcome::Snooze { after: seconds(1) },
        Outcome::Released,
    ] {
        let expires_at = Some(case.clock() + seconds(3));
        let attempt = case
            .active(NewJob {
                expires_at,
                ..job()
            })
            .await;
        case.advance(seconds(3)).await;
        assert_eq!(case.end(&attempt, outcome).await, JobState::Cancelled);
        assert_expired(&case, attempt.id()).await;
    }
}

/// A job whose lease runs out after its instant is cancelled: expired, with its crash counted.
pub(super) async fn a_rescued_job_expires(case: Case) {
    let expires_at = Some(START + seconds(3));
    let attempt = case
        .active(NewJob {
            expires_at,
            ..job()
        })
        .await;
    case.leases_run_out().await;
    assert_expired(&case, attempt.id()).await;
    assert_eq!(case.get(attempt.id()).await.crashes, 1);
}

/// A retry that would fall due after its instant expires then.
pub(super) async fn a_retry_after_its_expiry_never_runs(case: Case) {
    let attempt = case.active(expiring(job())).await;
    assert_eq!(case.retry(&attempt, hours(1)).await, JobState::Scheduled);
    case.advance(minutes(1)).await;
    assert_expired(&case, attempt.id()).await;
    case.advance(hours(1)).await;
    assert_eq!(case.claim_ids(10).await, []);
}

/// An expiry says when it was seen, and that the job was not running.
pub(super) async fn an_expired_job_says_when(case: Case) {
    let id = case.enqueue(expiring(job())).await;
    case.advance(minutes(2)).await;
    let expired = case.get(id).await;
    assert_eq!(expired.finished_at, Some(START + minutes(2)));
    assert!(matches!(expired.stopped, None | Some(Stop::BeforeStart)));
}

/// A job that settled before its instant stays as it settled, and nothing is upset by that.
pub(super) async fn a_settled_job_does_not_expire(case: Case) {
    let only_a_tombstone = case.ended_job(expiring(job()), Outcome::Completed).await;
    let dead = case.ended_job(expiring(job()), Outcome::Dead).await;
    let deleted = case.ended_job(expiring(job()), Outcome::Dead).await;
    case.edit(deleted, Action::Delete).await;
    case.advance(minutes(1)).await;
    case.maintain().await;
    assert_eq!(case.state(only_a_tombstone).await, JobState::Completed);
    assert_eq!(case.state(dead).await, JobState::Dead);
    assert!(case.is_unknown(deleted).await);
    case.advance(minutes(5)).await;
    assert_eq!(case.maintain().await.expired, 0);
}
