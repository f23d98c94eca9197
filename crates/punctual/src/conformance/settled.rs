//! Laws of settled jobs: kept as long as promised, and bounded.

use super::START;
use super::case::*;
use crate::engine::{EnqueueVerdict, Got};
use crate::job::{JobId, NewJob, Outcome, State};
use crate::time::{days, hours, minutes, seconds};

async fn prune(case: &Case) {
    for _ in 0..20 {
        case.maintain().await;
    }
}

/// A tombstone stays for the settled window, which `info` names; then its id is free.
pub(super) async fn a_tombstone_stays_for_the_settled_window(case: Case) {
    let window = case.info().await.settled_window;
    let sent = job();
    case.ended_job(sent.clone(), Outcome::Completed).await;
    case.advance(window - TICK).await;
    prune(&case).await;
    assert_eq!(case.verdict(sent.clone()).await, EnqueueVerdict::Duplicate);
    case.advance(TICK).await;
    prune(&case).await;
    assert!(case.is_unknown(sent.id).await);
    assert_eq!(case.verdict(sent).await, EnqueueVerdict::Created);
}

/// The limits say how long tombstones, cancelled and dead jobs stay.
pub(super) async fn settled_jobs_stay_as_long_as_the_limits_say(case: Case) {
    let case = case
        .limited(|limits| {
            limits.settled_window = seconds(5);
            limits.cancelled_retention = seconds(20);
            limits.dead_retention = seconds(40);
        })
        .await;
    assert_eq!(case.info().await.settled_window, seconds(5));
    for (outcome, retention) in [
        (Outcome::Completed, seconds(5)),
        (Outcome::Cancelled, seconds(20)),
        (Outcome::Dead, seconds(40)),
    ] {
        let sent = job();
        case.ended_job(sent.clone(), outcome.clone()).await;
        case.advance(retention - TICK).await;
        prune(&case).await;
        let resent = case.verdict(sent.clone()).await;
        assert_eq!(resent, EnqueueVerdict::Duplicate, "{outcome:?}");
        case.advance(TICK).await;
        prune(&case).await;
        assert!(case.is_unknown(sent.id).await, "{outcome:?}");
    }
}

/// Tombstones are bounded by number: the oldest go first.
pub(super) async fn tombstones_are_bounded(case: Case) {
    let case = case.limited(|limits| limits.tombstones = 5).await;
    let sent = case.enqueue_all((0..8).map(|_| job()).collect()).await;
    for _ in 0..8 {
        let attempt = case.claim_one().await;
        case.complete(&attempt).await;
        case.advance(seconds(1)).await;
    }
    prune(&case).await;
    for (nth, id) in sent.iter().enumerate() {
        assert_eq!(case.is_unknown(*id).await, nth < 3, "tombstone {nth} of 8");
    }
}

/// A settled job is kept for its retention: completed as sent, cancelled a day, dead 30 days.
pub(super) async fn a_settled_job_is_kept_for_its_retention(case: Case) {
    for (outcome, retention) in [
        (Outcome::Completed, hours(1)),
        (Outcome::Cancelled, days(1)),
        (Outcome::Dead, days(30)),
    ] {
        let sent = NewJob {
            retention: hours(1),
            ..job()
        };
        let id = case.ended_job(sent, outcome.clone()).await;
        case.advance(retention - TICK).await;
        prune(&case).await;
        assert!(
            case.got(id).await.is_some_and(|got| got.job().is_some()),
            "{outcome:?}"
        );
        case.advance(TICK).await;
        prune(&case).await;
        assert!(case.is_unknown(id).await, "{outcome:?}");
    }
}

/// A retention shorter than the settled window keeps the job for that window.
pub(super) async fn a_short_retention_lasts_for_the_settled_window(case: Case) {
    let window = case.info().await.settled_window;
    let short = NewJob {
        retention: seconds(1),
        ..job()
    };
    let id = case.ended_job(short, Outcome::Completed).await;
    case.advance(window - TICK).await;
    prune(&case).await;
    assert_eq!(
        case.get(id).await.state,
        State::Completed,
        "more than its tombstone"
    );
}

/// Settled jobs are bounded by number per queue and state: the oldest go first.
pub(super) async fn settled_jobs_are_bounded(case: Case) {
    let case = case.limited(|limits| limits.retained = 5).await;
    let mut dead = Vec::new();
    for _ in 0..8 {
        dead.push(case.ended_job(job(), Outcome::Dead).await);
        case.advance(seconds(1)).await;
    }
    let cancelled = case.ended_job(job(), Outcome::Cancelled).await;
    prune(&case).await;
    dead.reverse();
    assert_eq!(case.listed(State::Dead).await, dead[..5]);
    assert_eq!(
        case.listed(State::Cancelled).await,
        [cancelled],
        "another state"
    );
    assert_eq!(case.counts().await.of(State::Dead), 5);
}

/// Settled jobs are bounded by bytes per queue and state: the oldest go first.
pub(super) async fn settled_jobs_are_bounded_by_bytes(case: Case) {
    let case = case.limited(|limits| limits.retained_bytes = 20_000).await;
    let mut dead = Vec::new();
    for _ in 0..8 {
        let large = NewJob {
            payload: vec![b'.'; 5_000].into(),
            ..job()
        };
        dead.push(case.ended_job(large, Outcome::Dead).await);
        case.advance(seconds(1)).await;
    }
    prune(&case).await;
    let kept = case.listed(State::Dead).await;
    assert!((1..=4).contains(&kept.len()), "{} kept", kept.len());
    dead.reverse();
    assert_eq!(kept, dead[..kept.len()], "the latest are kept");
}

/// A settled job says when it settled: the engine time of that step.
pub(super) async fn a_settled_job_says_when(case: Case) {
    for outcome in [Outcome::Completed, Outcome::Cancelled, Outcome::Dead] {
        let attempt = case
            .active(NewJob {
                retention: hours(1),
                ..job()
            })
            .await;
        case.advance(seconds(3)).await;
        case.end(&attempt, outcome).await;
        let settled_at = Some(case.clock());
        case.advance(minutes(1)).await;
        assert_eq!(case.get(attempt.id()).await.finished_at, settled_at);
    }
}

/// Maintenance says what it did and when to come again.
pub(super) async fn maintenance_says_when_to_come_again(case: Case) {
    let first = case.maintain().await;
    assert_eq!(first.next, None, "nothing is pending");
    case.enqueue(job_in(minutes(5))).await;
    assert_eq!(case.maintain().await.next, Some(START + minutes(5)));
    let attempt = case.active(job()).await;
    assert_eq!(case.maintain().await.next, Some(START + LEASE_DURATION));
    case.complete(&attempt).await;
    let window = case.info().await.settled_window;
    assert_eq!(
        case.maintain().await.next,
        Some(START + window),
        "its tombstone"
    );
}

/// Maintenance comes again when a job expires, and when one is past its retention.
pub(super) async fn maintenance_comes_again_for_what_ends(case: Case) {
    let expires_at = Some(START + minutes(1));
    case.enqueue(NewJob {
        expires_at,
        ..job()
    })
    .await;
    assert_eq!(case.maintain().await.next, expires_at);
    case.advance(minutes(1)).await;
    assert_eq!(case.maintain().await.next, Some(case.clock() + days(1)));
    assert_eq!(case.counts().await.of(State::Cancelled), 1);
}

/// A tombstone is answered by `get` with outcome and result, for whoever awaits it.
pub(super) async fn a_result_can_be_read_after_the_end(case: Case) {
    let attempt = case.active(job()).await;
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.result = Some(bytes("42"));
    case.end_as(&attempt, settlement).await;
    case.advance(minutes(1)).await;
    let Some(Got::Tombstone { state, result, .. }) = case.got(attempt.id()).await else {
        panic!("its tombstone is left");
    };
    assert_eq!((state, result), (State::Completed, Some(bytes("42"))));
    assert!(case.is_unknown(JobId::new()).await);
}
