//! Laws of cancel: what waits is cancelled at once, what runs is asked to stop.

use super::case::*;
use crate::engine::EditVerdict::{AlreadyCancelled, CancelRequested, Done, NotFound, WrongState};
use crate::engine::{Action, ExtendVerdict, Settlement};
use crate::job::{CancelReason, JobId, JobState, NewJob, Outcome, Stop};
use crate::time::{minutes, seconds};

/// A job that waits is cancelled at once, before its start, and never runs.
pub(super) async fn a_waiting_job_is_cancelled_at_once(case: Case) {
    for state in [JobState::Held, JobState::Scheduled, JobState::Ready] {
        let id = case.job_in_state(state).await;
        assert_eq!(case.cancel(id).await, Done(JobState::Cancelled), "{state}");
        let job = case.get(id).await;
        assert_eq!(job.cancelled, Some(CancelReason::Requested), "{state}");
        assert_eq!(job.stopped, Some(Stop::BeforeStart), "{state}");
        assert_eq!(job.finished_at, Some(case.clock()), "{state}");
    }
    case.advance(minutes(100)).await;
    assert_eq!(case.claim_ids(10).await, []);
}

/// A settled job is not cancelled; one that is cancelled says so; none is unknown.
pub(super) async fn a_settled_job_is_not_cancelled(case: Case) {
    let cases = [
        (JobState::Completed, WrongState(JobState::Completed)),
        (JobState::Dead, WrongState(JobState::Dead)),
        (JobState::Cancelled, AlreadyCancelled),
    ];
    for (state, verdict) in cases {
        let id = case.job_in_state(state).await;
        let before = case.get(id).await;
        assert_eq!(case.cancel(id).await, verdict);
        assert_eq!(case.get(id).await, before);
    }
    let only_a_tombstone = case.ended_job(job(), Outcome::Completed).await;
    assert_eq!(
        case.cancel(only_a_tombstone).await,
        WrongState(JobState::Completed)
    );
    assert_eq!(case.cancel(JobId::new()).await, NotFound);
}

/// An active job is asked to stop: it stays active, and its next extend says so.
pub(super) async fn an_active_job_is_asked_to_stop(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let lease = case.claim(2).await;
    assert_eq!(case.cancel(lease[1].id()).await, CancelRequested);
    let asked = case.get(lease[1].id()).await;
    assert_eq!(
        (asked.state, asked.cancel_requested),
        (JobState::Active, true)
    );
    assert_eq!(case.cancel(lease[1].id()).await, CancelRequested, "again");
    let ExtendVerdict::Extended {
        cancel_requested, ..
    } = case.extend(lease[0].token, &[]).await
    else {
        panic!("the lease is valid");
    };
    assert_eq!(cancel_requested, [lease[1].id()]);
}

async fn asked_to_stop(case: &Case) -> Attempt {
    let attempt = case
        .active(NewJob {
            retention: minutes(5),
            ..job()
        })
        .await;
    case.cancel(attempt.id()).await;
    attempt
}

/// A worker that stops as asked ends the job as cancelled, and says how it stopped.
pub(super) async fn a_worker_that_stops_cancels(case: Case) {
    for stopped in [
        Some(Stop::Aborted),
        Some(Stop::Killed),
        Some(Stop::Token),
        None,
    ] {
        let attempt = asked_to_stop(&case).await;
        let settlement = Settlement {
            stopped,
            ..attempt.ended(Outcome::Cancelled)
        };
        assert_eq!(case.end_as(&attempt, settlement).await, JobState::Cancelled);
        let ended = case.get(attempt.id()).await;
        assert_eq!(ended.cancelled, Some(CancelReason::Requested));
        assert_eq!(ended.stopped, Some(stopped.unwrap_or(Stop::Token)));
    }
}

/// A job asked to stop is never handed back: retry, snooze and release cancel it.
pub(super) async fn a_job_asked_to_stop_is_not_handed_back(case: Case) {
    let now = seconds(0);
    for (outcome, failures) in [
        (Outcome::Retry { after: Some(now) }, 1),
        (Outcome::Snooze { after: now }, 0),
        (Outcome::Released, 0),
    ] {
        let attempt = asked_to_stop(&case).await;
        assert_eq!(
            case.end(&attempt, outcome.clone()).await,
            JobState::Cancelled
        );
        let ended = case.get(attempt.id()).await;
        assert_eq!(
            ended.cancelled,
            Some(CancelReason::Requested),
            "{outcome:?}"
        );
        assert_eq!(ended.failures, failures, "{outcome:?}");
    }
    assert_eq!(case.claim_ids(10).await, []);
}

/// A job that completes or dies in the meantime stays completed or dead.
pub(super) async fn a_job_that_ends_in_the_meantime_stays_ended(case: Case) {
    for (outcome, state) in [
        (Outcome::Completed, JobState::Completed),
        (Outcome::Dead, JobState::Dead),
    ] {
        let attempt = asked_to_stop(&case).await;
        assert_eq!(case.end(&attempt, outcome).await, state);
        let ended = case.get(attempt.id()).await;
        assert_eq!((ended.state, ended.cancelled), (state, None));
    }
}

/// A job asked to stop whose lease runs out is cancelled, as killed.
pub(super) async fn a_crash_ends_a_job_asked_to_stop(case: Case) {
    let attempt = asked_to_stop(&case).await;
    case.leases_run_out().await;
    let ended = case.get(attempt.id()).await;
    assert_eq!((ended.state, ended.crashes), (JobState::Cancelled, 1));
    assert_eq!(ended.cancelled, Some(CancelReason::Requested));
    assert_eq!(ended.stopped, Some(Stop::Killed));
}

/// A follower that is cancelled frees its place behind the holder.
pub(super) async fn a_cancelled_follower_frees_its_place(case: Case) {
    let with_key = |policy| NewJob {
        unique: Some(crate::job::Unique {
            key: "k".into(),
            policy,
            hold: Default::default(),
        }),
        ..job()
    };
    use crate::job::UniquePolicy::{After, Keep};
    let holder = case.active(with_key(Keep)).await;
    let first = case.enqueue(with_key(After)).await;
    assert_eq!(
        case.edit(first, Action::Cancel).await,
        Done(JobState::Cancelled)
    );
    let second = case.enqueue(with_key(After)).await;
    case.complete(&holder).await;
    assert_eq!(case.claim_ids(10).await, [second]);
}
