//! Laws of past attempts: a reader of a job sees how each of its attempts ended.

use std::slice::from_ref;

use super::case::*;
use super::import::import_of;
use crate::engine::{Action, SettleVerdict, Settlement};
use crate::error::ErrorKind;
use crate::job::{
    ATTEMPT_ERROR_BYTES, ATTEMPTS_KEPT, JobId, JobState, NewJob, Outcome, PastAttempt, PastOutcome,
};
use crate::time::{hours, millis, minutes, seconds};

/// A job of which no attempt that it makes here is the last.
fn hardy_job() -> NewJob {
    NewJob {
        max_attempts: 100,
        ..job()
    }
}

fn failed_with(attempt: &Attempt, outcome: Outcome, error: &str) -> Settlement {
    Settlement {
        error: Some(error.into()),
        ..attempt.ended(outcome)
    }
}

impl Case {
    /// An attempt of the case's worker that began when it was claimed, and ends now.
    fn ends_now(
        &self,
        attempt: &Attempt,
        outcome: PastOutcome,
        error: Option<&str>,
    ) -> PastAttempt {
        PastAttempt {
            attempt: attempt.job.attempt,
            started_at: attempt.job.started_at.expect("it was claimed"),
            ended_at: self.clock(),
            outcome,
            worker: Some(self.worker.0),
            error: error.map(Into::into),
        }
    }

    async fn numbers_and_outcomes(&self, id: JobId) -> Vec<(u32, PastOutcome)> {
        let job = self.get(id).await;
        (job.attempts.iter())
            .map(|past| (past.attempt, past.outcome))
            .collect()
    }

    /// Claims the only ready job and settles it at once.
    async fn attempt_ending(&self, outcome: Outcome) {
        let attempt = self.claim_one().await;
        self.end(&attempt, outcome).await;
    }
}

/// A job that was never claimed has no past attempt, nor has one on its first.
pub(super) async fn a_first_attempt_has_none_before_it(case: Case) {
    let id = case.enqueue(job()).await;
    assert_eq!(case.get(id).await.attempts, []);
    assert_eq!(case.claim_one().await.job.attempts, []);
    assert_eq!(case.get(id).await.attempts, []);
}

/// Every outcome but completed is kept, with its number, its times, its worker and its error.
pub(super) async fn every_outcome_but_completed_is_kept(case: Case) {
    let ends = [
        (
            Outcome::Retry {
                after: Some(hours(1)),
            },
            PastOutcome::Retry,
        ),
        (Outcome::Snooze { after: hours(1) }, PastOutcome::Snooze),
        (Outcome::Cancelled, PastOutcome::Cancelled),
        (Outcome::Dead, PastOutcome::Dead),
        (Outcome::Released, PastOutcome::Released),
    ];
    for (outcome, past) in ends {
        for error in [None, Some("the bank is closed")] {
            let attempt = case.active(hardy_job()).await;
            case.advance(millis(1_250)).await;
            let settlement = Settlement {
                error: error.map(Into::into),
                ..attempt.ended(outcome.clone())
            };
            case.end_as(&attempt, settlement).await;
            let kept = case.get(attempt.id()).await;
            assert_eq!(kept.attempts, [case.ends_now(&attempt, past, error)]);
            if kept.state == JobState::Ready {
                case.complete(&case.claim_one().await).await;
            }
        }
    }
}

/// A lease that runs out is the end of an attempt too, and the job that comes back has it on
/// record.
pub(super) async fn a_crash_is_kept(case: Case) {
    let first = case.active(job()).await;
    case.leases_run_out().await;
    case.maintain().await;
    let crashed = case.ends_now(&first, PastOutcome::Crashed, None);
    assert_eq!(case.get(first.id()).await.attempts, from_ref(&crashed));
    case.advance(seconds(3)).await;
    let second = case.claim_one().await;
    assert_eq!(second.job.attempts, from_ref(&crashed));
    case.end_as(&second, failed_with(&second, Outcome::Dead, "no"))
        .await;
    let dead = case.ends_now(&second, PastOutcome::Dead, Some("no"));
    assert_eq!(case.get(first.id()).await.attempts, [crashed, dead]);
}

/// An attempt ended when its lease did, however much later that is found.
pub(super) async fn a_crash_ends_with_its_lease(case: Case) {
    let attempt = case.active(job()).await;
    let lease_until = case.get(attempt.id()).await.lease_until;
    case.advance_awake(LEASE_DURATION - seconds(2)).await;
    case.maintain().await;
    case.advance(seconds(4)).await;
    case.maintain().await;
    let crashed = case.get(attempt.id()).await;
    assert_eq!(crashed.state, JobState::Ready);
    assert_eq!(Some(crashed.attempts[0].ended_at), lease_until);
    assert!(crashed.attempts[0].ended_at < case.clock());
}

/// The crash that buries a suspect is kept with those before it.
pub(super) async fn a_poison_job_has_every_crash_on_record(case: Case) {
    let id = case.suspect(job()).await;
    assert_eq!(case.claim_alone().await[0].id(), id);
    case.leases_run_out().await;
    assert_eq!(case.state(id).await, JobState::Dead);
    let crashes = [1, 2, 3].map(|attempt| (attempt, PastOutcome::Crashed));
    assert_eq!(case.numbers_and_outcomes(id).await, crashes);
}

/// An attempt that completes its job is in the job's record; those before it stay.
pub(super) async fn a_completion_keeps_the_attempts_before_it(case: Case) {
    let kept = NewJob {
        retention: hours(1),
        ..hardy_job()
    };
    let first = case.active(kept).await;
    case.retry(&first, seconds(0)).await;
    let failed = case.ends_now(&first, PastOutcome::Retry, None);
    case.advance(seconds(1)).await;
    let second = case.claim_one().await;
    case.complete(&second).await;
    let done = case.get(first.id()).await;
    assert_eq!((done.state, done.attempt), (JobState::Completed, 2));
    assert_eq!(done.attempts, [failed]);
}

/// The outcome is what the worker settled, whatever became of the job by it.
pub(super) async fn a_last_failure_is_kept_as_a_retry(case: Case) {
    let once = NewJob {
        max_attempts: 1,
        ..job()
    };
    let id = case.ended_job(once, Outcome::Retry { after: None }).await;
    assert_eq!(case.state(id).await, JobState::Dead);
    assert_eq!(
        case.numbers_and_outcomes(id).await,
        [(1, PastOutcome::Retry)]
    );
}

/// A settlement that is sent again is no other attempt.
pub(super) async fn a_repetition_is_kept_once(case: Case) {
    let attempt = case.active(hardy_job()).await;
    let failed = failed_with(&attempt, Outcome::Retry { after: None }, "no");
    case.settle_as(attempt.token, failed.clone()).await;
    let again = case.settle_as(attempt.token, failed).await;
    assert_eq!(again, SettleVerdict::Repeated);
    let id = attempt.id();
    assert_eq!(
        case.numbers_and_outcomes(id).await,
        [(1, PastOutcome::Retry)]
    );
}

/// Of many attempts the first and the last nine are kept.
pub(super) async fn the_first_and_the_last_nine_are_kept(case: Case) {
    let id = case.enqueue(hardy_job()).await;
    for attempt in 1..=13 {
        let after = Some(seconds(0));
        case.attempt_ending(Outcome::Retry { after }).await;
        let kept = case.get(id).await.attempts.len();
        assert_eq!(kept, ATTEMPTS_KEPT.min(attempt));
    }
    let numbers = case.numbers_and_outcomes(id).await;
    let expected = [1, 5, 6, 7, 8, 9, 10, 11, 12, 13];
    assert_eq!(numbers, expected.map(|n| (n, PastOutcome::Retry)));
}

/// Snoozes in a row are one, the last of them; releases too. They push no failure out.
pub(super) async fn of_snoozes_in_a_row_the_last_is_kept(case: Case) {
    let id = case.enqueue(hardy_job()).await;
    let snooze = Outcome::Snooze { after: seconds(0) };
    case.attempt_ending(snooze.clone()).await;
    case.attempt_ending(Outcome::Retry {
        after: Some(seconds(0)),
    })
    .await;
    for _ in 3..=15 {
        case.attempt_ending(snooze.clone()).await;
    }
    case.attempt_ending(Outcome::Released).await;
    case.attempt_ending(Outcome::Released).await;
    case.attempt_ending(snooze).await;
    let expected = [
        (1, PastOutcome::Snooze),
        (2, PastOutcome::Retry),
        (15, PastOutcome::Snooze),
        (17, PastOutcome::Released),
        (18, PastOutcome::Snooze),
    ];
    assert_eq!(case.numbers_and_outcomes(id).await, expected);
}

/// An attempt keeps the first kilobyte of its error, whole characters of it; the job keeps more of
/// the last one.
pub(super) async fn a_long_error_is_cut(case: Case) {
    let long = format!("x{}", "ü".repeat(ATTEMPT_ERROR_BYTES));
    let attempt = case.active(hardy_job()).await;
    case.end_as(&attempt, failed_with(&attempt, Outcome::Dead, &long))
        .await;
    let dead = case.get(attempt.id()).await;
    let kept = dead.attempts[0].error.as_deref().expect("an error is kept");
    assert_eq!(kept, &long[..ATTEMPT_ERROR_BYTES - 1]);
    assert_eq!(dead.last_error.as_deref(), Some(&*long));
}

/// A redrive forgets what was counted, not what has happened.
pub(super) async fn a_redrive_keeps_the_attempts(case: Case) {
    let attempt = case.active(job()).await;
    case.end_as(&attempt, failed_with(&attempt, Outcome::Dead, "no"))
        .await;
    let before = case.get(attempt.id()).await.attempts;
    case.edit(attempt.id(), Action::Redrive).await;
    assert_eq!(case.get(attempt.id()).await.attempts, before);
    assert_eq!(case.claim_one().await.job.attempts, before);
}

/// Nor does a cancel, a reschedule or another edit of a job that waits.
pub(super) async fn an_edit_keeps_the_attempts(case: Case) {
    let attempt = case.active(hardy_job()).await;
    case.retry(&attempt, minutes(5)).await;
    let before = case.get(attempt.id()).await.attempts;
    for action in [Action::Reprioritise(3), Action::RunNow, Action::Cancel] {
        case.edit(attempt.id(), action).await;
        assert_eq!(case.get(attempt.id()).await.attempts, before);
    }
    assert_eq!(case.state(attempt.id()).await, JobState::Cancelled);
}

/// An import has as many attempts as a job keeps, and not of more.
pub(super) async fn an_import_of_too_many_attempts_is_refused(case: Case) {
    let attempt = case.active(job()).await;
    case.end(&attempt, Outcome::Dead).await;
    let mut past = case.get(attempt.id()).await;
    past.attempts = vec![past.attempts[0].clone(); ATTEMPTS_KEPT + 1];
    let too_many = case.enqueue_error(import_of(&past)).await;
    assert_eq!(too_many.kind(), ErrorKind::InvalidInput);
    past.attempts.truncate(1);
    past.attempts[0].error = Some("x".repeat(ATTEMPT_ERROR_BYTES + 1));
    let too_long = case.enqueue_error(import_of(&past)).await;
    assert_eq!(too_long.kind(), ErrorKind::PayloadTooLarge);
}
