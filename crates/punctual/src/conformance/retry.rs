//! Laws of retry: failures are the user's and counted, by policy and to the last.

use super::START;
use super::case::*;
use crate::engine::SettleVerdict;
use crate::job::{DeadReason, JobState, NewJob, Outcome};
use crate::retry::RetryPolicy;
use crate::time::{days, hours, millis, minutes, seconds};

const BY_POLICY: Outcome = Outcome::Retry { after: None };

/// A failed job waits the span that its worker says.
pub(super) async fn a_retry_waits_the_span_given(case: Case) {
    let attempt = case.active(job()).await;
    case.advance(seconds(1)).await;
    let span = minutes(3) + TICK;
    let verdict = case
        .settle(&attempt, Outcome::Retry { after: Some(span) })
        .await;
    let due = START + seconds(1) + span;
    let expected = SettleVerdict::Settled {
        state: JobState::Scheduled,
        due: Some(due),
        effects: vec![],
    };
    assert_eq!(verdict, expected);
    case.set_time(START + seconds(1) + minutes(3)).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.set_time(due).await;
    assert_eq!(case.claim_ids(10).await, [attempt.id()]);
}

/// Jobs that fail together wait each as long as its verdict says: by its policy, or its own span.
pub(super) async fn jobs_that_fail_together_wait_each_by_itself(case: Case) {
    case.enqueue_all((0..12).map(|_| job()).collect()).await;
    let span_of = |nth: usize| (nth == 5).then(|| hours(2));
    let error_of = |nth: usize| if nth == 8 { "gone" } else { "busy" };
    let attempts = case.claim(12).await;
    for lease in attempts.chunk_by(|one, next| one.token == next.token) {
        let failed = |(nth, attempt): (usize, &Attempt)| {
            let mut failed = attempt.ended(Outcome::Retry {
                after: span_of(nth),
            });
            failed.error = Some(error_of(nth).into());
            failed
        };
        let settlements = lease.iter().enumerate().map(failed).collect();
        let verdicts = case.try_settle(lease[0].token, settlements).await;
        let verdicts = verdicts.expect("settle").into_iter();
        for (nth, (attempt, verdict)) in lease.iter().zip(verdicts).enumerate() {
            let by_policy = || RetryPolicy::default().span(attempt.id(), 1);
            let span = span_of(nth).unwrap_or_else(by_policy);
            let due = case.clock() + span;
            // The default policy draws no span at all about once in a thousand times.
            let state = match span.is_zero() {
                true => JobState::Ready,
                false => JobState::Scheduled,
            };
            let expected = SettleVerdict::Settled {
                state,
                due: Some(due),
                effects: vec![],
            };
            assert_eq!(verdict, expected, "{nth}");
            let waits = case.get(attempt.id()).await;
            assert_eq!((waits.due, waits.failures), (due, 1), "{nth}");
            assert_eq!(waits.last_error.as_deref(), Some(error_of(nth)));
        }
    }
    case.advance(hours(2)).await;
    assert_eq!(case.claim(100).await.len(), 12);
}

/// A failed job without a span given waits what its policy says, to the microsecond.
pub(super) async fn a_retry_waits_as_its_policy_says(case: Case) {
    let cap = minutes(1);
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::fixed(millis(1_500)),
        RetryPolicy::exponential(millis(250), cap),
        RetryPolicy::Exponential {
            base: seconds(3),
            factor: 1.7,
            cap,
            jitter: true,
        },
        RetryPolicy::Linear {
            base: seconds(2),
            cap,
            jitter: false,
        },
        RetryPolicy::List(vec![seconds(1), seconds(10)]),
    ];
    for retry in policies {
        let id = case
            .enqueue(NewJob {
                retry: retry.clone(),
                ..job()
            })
            .await;
        for failures in 1..=5 {
            let attempt = case.claim_one().await;
            case.end(&attempt, BY_POLICY).await;
            let failed = case.get(id).await;
            let due = case.clock() + retry.span(id, failures);
            assert_eq!((failed.failures, failed.due), (failures, due), "{retry:?}");
            case.set_time(due).await;
        }
        case.cancel(id).await;
    }
}

/// A retried job is the same job: id, payload, error, and what it was sent with.
pub(super) async fn a_retry_is_the_same_job(case: Case) {
    let sent = NewJob {
        payload: bytes(r#"{"order":7}"#),
        headers: vec![("trace".into(), "1".into())],
        ..job()
    };
    let attempt = case.active(sent).await;
    let mut settlement = attempt.ended(Outcome::Retry {
        after: Some(seconds(1)),
    });
    settlement.error = Some("bank is closed".into());
    case.end_as(&attempt, settlement).await;
    case.advance(seconds(1)).await;
    let again = case.claim_one().await.job;
    assert_eq!(again.id, attempt.id());
    assert_eq!(
        (&again.payload, &again.headers),
        (&attempt.job.payload, &attempt.job.headers)
    );
    assert_eq!(again.last_error.as_deref(), Some("bank is closed"));
    assert_eq!((again.attempt, again.failures), (2, 1));
    assert_eq!(again.enqueued_at, START);
}

/// A job that failed `max_attempts` times is dead: exhausted.
pub(super) async fn the_last_failure_is_the_end(case: Case) {
    let sent = NewJob {
        max_attempts: 3,
        retry: after_a_second(),
        ..job()
    };
    let id = case.enqueue(sent).await;
    for state in [JobState::Scheduled, JobState::Scheduled, JobState::Dead] {
        let attempt = case.claim_one().await;
        assert_eq!(case.end(&attempt, BY_POLICY).await, state);
        case.advance(seconds(1)).await;
    }
    let dead = case.get(id).await;
    assert_eq!((dead.failures, dead.dead), (3, Some(DeadReason::Exhausted)));
    assert_eq!(case.claim_ids(10).await, []);
}

/// A span of zero makes a failed job ready at once.
pub(super) async fn a_retry_of_no_span_is_ready(case: Case) {
    let attempt = case.active(job()).await;
    assert_eq!(case.retry(&attempt, seconds(0)).await, JobState::Ready);
    let failed = case.get(attempt.id()).await;
    assert_eq!((failed.state, failed.failures), (JobState::Ready, 1));
}

/// Releases, snoozes and crashes do not bring a job nearer to its last attempt.
pub(super) async fn only_failures_count_against_a_job(case: Case) {
    let id = case
        .enqueue(NewJob {
            max_attempts: 1,
            ..job()
        })
        .await;
    for outcome in [
        Outcome::Released,
        Outcome::Snooze { after: seconds(0) },
        Outcome::Released,
    ] {
        let attempt = case.claim_one().await;
        assert_eq!(case.end(&attempt, outcome).await, JobState::Ready);
    }
    case.claim_one().await;
    case.leases_run_out().await;
    let crashed = case.get(id).await;
    assert_eq!(
        (crashed.state, crashed.failures, crashed.crashes),
        (JobState::Ready, 0, 1)
    );
    let attempt = case.claim_one().await;
    assert_eq!(case.retry(&attempt, seconds(1)).await, JobState::Dead);
}

/// Remind after 30 days, retry five times: each at its instant.
pub(super) async fn a_reminder_after_30_days_is_tried_five_times(case: Case) {
    let sent = NewJob {
        max_attempts: 5,
        retry: RetryPolicy::fixed(hours(6)),
        ..job_in(days(30))
    };
    let id = case.enqueue(sent).await;
    case.set_time(START + days(30)).await;
    for attempt in 1..=5 {
        let claimed = case.claim_one().await;
        assert_eq!(claimed.job.attempt, attempt);
        case.end(&claimed, BY_POLICY).await;
        case.advance(hours(6) - TICK).await;
        assert_eq!(case.claim_ids(10).await, []);
        case.advance(TICK).await;
    }
    assert_eq!(case.state(id).await, JobState::Dead);
}
