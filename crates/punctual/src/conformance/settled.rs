//! Laws of settled jobs: kept as long as promised, and bounded.

use std::time::Duration;

use super::START;
use super::case::*;
use crate::engine::{Action, Claim, EnqueueVerdict, Got, Info};
use crate::error::ErrorKind;
use crate::job::{JobId, JobState, NewJob, Outcome, TOMBSTONE_BYTES};
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

/// Tombstones are bounded by bytes: the oldest go first.
pub(super) async fn tombstones_are_bounded(case: Case) {
    let case = case
        .limited(|limits| limits.tombstone_bytes = 5 * TOMBSTONE_BYTES)
        .await;
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

/// Tombstones that go early shorten the time for which a resend is recognised: `info` says by how
/// much, and `health` warns, until they are as old as the settled window.
pub(super) async fn a_resend_window_that_shrinks_is_reported(case: Case) {
    let bound = 5 * TOMBSTONE_BYTES;
    let case = case.limited(|limits| limits.tombstone_bytes = bound).await;
    let resends = |info: &Info| {
        info.health
            .problem_texts()
            .any(|it| it.contains("a resend is recognised"))
    };
    for nth in 0..6 {
        let info = case.info().await;
        assert_eq!(info.resend_window, info.settled_window, "after {nth} jobs");
        assert!(!resends(&info), "{:?}", info.health);
        case.ended_job(job(), Outcome::Completed).await;
        case.advance(seconds(1)).await;
    }
    let info = case.info().await;
    assert_eq!(info.resend_window, seconds(6), "the first of six has gone");
    assert!(resends(&info), "{:?}", info.health);
    case.advance(info.settled_window).await;
    prune(&case).await;
    let info = case.info().await;
    assert_eq!(info.resend_window, info.settled_window);
    assert!(!resends(&info), "{:?}", info.health);
}

/// The results that tombstones keep count as bytes too.
pub(super) async fn results_in_tombstones_are_bounded(case: Case) {
    let bound = 8 * TOMBSTONE_BYTES;
    let case = case.limited(|limits| limits.tombstone_bytes = bound).await;
    let mut sent = Vec::new();
    for _ in 0..4 {
        let attempt = case.active(job()).await;
        let mut settlement = attempt.ended(Outcome::Completed);
        settlement.result = Some(vec![b'.'; 3 * TOMBSTONE_BYTES].into());
        case.end_as(&attempt, settlement).await;
        sent.push(attempt.id());
        case.advance(seconds(1)).await;
    }
    prune(&case).await;
    for (nth, id) in sent.iter().enumerate() {
        assert_eq!(case.is_unknown(*id).await, nth < 2, "tombstone {nth} of 4");
    }
}

/// A job with a `remember` is recognised for so long after it settled, whatever else is kept of it.
pub(super) async fn a_job_is_remembered_for_as_long_as_it_says(case: Case) {
    for (outcome, retention) in [
        (Outcome::Completed, Duration::ZERO),
        (Outcome::Completed, minutes(30)),
        (Outcome::Cancelled, Duration::ZERO),
    ] {
        let sent = NewJob {
            retention,
            remember: Some(days(2)),
            ..job()
        };
        let attempt = case.active(sent.clone()).await;
        assert_eq!(attempt.job.remember, sent.remember, "it is kept");
        let mut settlement = attempt.ended(outcome.clone());
        settlement.result = (outcome == Outcome::Completed).then(|| bytes("42"));
        case.end_as(&attempt, settlement).await;
        for span in [minutes(3), days(1), days(1) - minutes(3) - TICK] {
            case.advance(span).await;
            prune(&case).await;
            assert_eq!(case.verdict(sent.clone()).await, EnqueueVerdict::Duplicate);
        }
        let changed = NewJob {
            payload: bytes("another"),
            ..sent.clone()
        };
        assert_eq!(case.verdict(changed).await, EnqueueVerdict::IdConflict);
        if let Some(Got::Tombstone { result, .. }) = case.got(sent.id).await {
            assert_eq!(result.is_some(), outcome == Outcome::Completed);
        } else {
            panic!("no tombstone of a job that {outcome:?} two days ago");
        }
        case.advance(TICK).await;
        prune(&case).await;
        assert!(case.is_unknown(sent.id).await);
        assert_eq!(case.verdict(sent.clone()).await, EnqueueVerdict::Created);
        case.end(&case.claim_one().await, Outcome::Completed).await;
    }
}

/// What is remembered goes last where tombstones are too many bytes, and its delete leaves nothing.
pub(super) async fn a_remembered_tombstone_goes_last(case: Case) {
    let bound = 6 * TOMBSTONE_BYTES;
    let case = case.limited(|limits| limits.tombstone_bytes = bound).await;
    let remembered = || NewJob {
        remember: Some(hours(1)),
        ..job()
    };
    let kept = [remembered(), remembered()];
    let mut others = Vec::new();
    for sent in &kept {
        case.ended_job(sent.clone(), Outcome::Completed).await;
        case.advance(seconds(1)).await;
    }
    for _ in 0..8 {
        others.push(case.ended_job(job(), Outcome::Completed).await);
        case.advance(seconds(1)).await;
    }
    for sent in &kept {
        assert!(!case.is_unknown(sent.id).await, "it is remembered");
    }
    for (nth, id) in others.iter().enumerate() {
        assert_eq!(case.is_unknown(*id).await, nth < 4, "tombstone {nth} of 8");
    }
    case.edit(kept[0].id, Action::Delete).await;
    assert!(case.is_unknown(kept[0].id).await);
    assert_eq!(case.verdict(kept[0].clone()).await, EnqueueVerdict::Created);
}

/// An enqueue with a `remember` is refused while what is remembered has half of the bound: nothing
/// of the call is stored. Others are taken, and so is a resend.
pub(super) async fn remember_is_refused_when_its_share_is_full(case: Case) {
    let bound = 6 * TOMBSTONE_BYTES;
    let case = case.limited(|limits| limits.tombstone_bytes = bound).await;
    let remembered = || NewJob {
        remember: Some(hours(1)),
        ..job()
    };
    let first = remembered();
    case.ended_job(first.clone(), Outcome::Completed).await;
    for _ in 0..2 {
        case.ended_job(remembered(), Outcome::Completed).await;
    }
    let (plain, refused) = (job(), remembered());
    let answer = case.try_enqueue(vec![plain.clone(), refused.clone()]).await;
    let error = answer.expect_err("three of three");
    assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}");
    assert!(error.message().contains("`remember`"), "{error}");
    assert!(case.is_unknown(plain.id).await, "the whole call is refused");
    assert_eq!(case.verdict(plain).await, EnqueueVerdict::Created);
    assert_eq!(case.verdict(first).await, EnqueueVerdict::Duplicate);
    case.advance(hours(1)).await;
    prune(&case).await;
    assert_eq!(case.verdict(refused).await, EnqueueVerdict::Created);
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

/// Jobs that complete together are kept each for its own retention; one of them can be deleted, and
/// another run again.
pub(super) async fn jobs_that_end_together_are_kept_for_their_own_time(case: Case) {
    let spans = [minutes(10), hours(1), minutes(10), minutes(30)];
    let kept = |nth: usize| NewJob {
        retention: spans[nth % 4],
        ..job()
    };
    let single = case.ended_job(kept(2), Outcome::Completed).await;
    let ids = case.enqueue_all((0..24).map(kept).collect()).await;
    case.drain_together().await;
    case.edit(ids[4], Action::Delete).await;
    case.edit(ids[5], Action::Redrive).await;
    case.advance(minutes(5)).await;
    case.drain_together().await;
    let there = async |nth: usize| {
        let got = case.got(ids[nth]).await;
        got.is_some_and(|got| got.job().is_some())
    };
    let ends = [
        (minutes(5), 10, 0),
        (minutes(20), 30, 3),
        (minutes(30), 60, 1),
    ];
    for (after, gone, of_these) in ends {
        case.advance(after - TICK).await;
        prune(&case).await;
        assert!(there(of_these).await, "{gone} minutes are not over");
        case.advance(TICK).await;
        prune(&case).await;
        for nth in 0..24 {
            let ends = spans[nth % 4] + if nth == 5 { minutes(5) } else { minutes(0) };
            let is_there = nth != 4 && ends > minutes(gone);
            assert_eq!(there(nth).await, is_there, "job {nth} after {gone} minutes");
        }
    }
    assert!(case.is_unknown(single).await);
    case.advance(minutes(5)).await;
    prune(&case).await;
    assert!(case.is_unknown(ids[5]).await);
}

/// Jobs that completed together, each kept for its own time, are bounded by bytes as others are.
pub(super) async fn jobs_that_end_together_are_bounded(case: Case) {
    let case = case
        .limited(|limits| limits.namespace_retained_bytes = 20_000)
        .await;
    let kept = |nth: usize| NewJob {
        retention: if nth.is_multiple_of(2) {
            hours(1)
        } else {
            hours(2)
        },
        payload: vec![b'.'; 2_000].into(),
        ..job()
    };
    let ids = case.enqueue_all((0..16).map(kept).collect()).await;
    case.drain_together().await;
    prune(&case).await;
    let mut left = 0;
    for id in &ids {
        let got = case.got(*id).await;
        left += usize::from(got.is_some_and(|got| got.job().is_some()));
    }
    assert!((6..=9).contains(&left), "{left} kept");
}

/// So are hundreds of them of which the first ones are kept longest.
pub(super) async fn hundreds_that_end_together_are_bounded(case: Case) {
    let case = case
        .limited(|limits| limits.namespace_retained_bytes = 90_000)
        .await;
    let kept = |nth: usize| NewJob {
        retention: if nth < 300 { hours(1) } else { minutes(10) },
        ..job()
    };
    case.enqueue_all((0..400).map(kept).collect()).await;
    case.drain_together().await;
    prune(&case).await;
    let left = case.counts().await.of(JobState::Completed);
    assert!((330..=350).contains(&left), "{left} kept");
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
        JobState::Completed,
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
    assert_eq!(case.listed(JobState::Dead).await, dead[..5]);
    assert_eq!(
        case.listed(JobState::Cancelled).await,
        [cancelled],
        "another state"
    );
    assert_eq!(case.counts().await.of(JobState::Dead), 5);
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
    let kept = case.listed(JobState::Dead).await;
    assert!((1..=4).contains(&kept.len()), "{} kept", kept.len());
    dead.reverse();
    assert_eq!(kept, dead[..kept.len()], "the latest are kept");
}

/// Settled jobs of all queues of a namespace are bounded by bytes; those of another stay.
pub(super) async fn settled_jobs_of_a_namespace_are_bounded(case: Case) {
    let bound = 20_000;
    let case = case
        .limited(|limits| limits.namespace_retained_bytes = bound)
        .await;
    let large = |nth: usize| NewJob {
        queue: format!("queue-{nth}"),
        payload: vec![b'.'; 2_000].into(),
        ..job()
    };
    let dies = async |case: &Case, nth: usize| {
        let id = case.enqueue(large(nth)).await;
        let claim = Claim {
            queues: vec![large(nth).queue],
            ..case.wants(1)
        };
        let attempt = attempts(&case.claim_as(claim).await).remove(0);
        case.end(&attempt, Outcome::Dead).await;
        case.advance(seconds(1)).await;
        id
    };
    let case = case.tenant("other");
    let of_another = dies(&case, 0).await;
    let case = case.tenant("default");
    let mut dead = Vec::new();
    for nth in 0..20 {
        dead.push(dies(&case, nth).await);
    }
    prune(&case).await;
    let mut kept = 0;
    for id in &dead {
        let got = case.got(*id).await;
        kept += usize::from(got.is_some_and(|got| got.job().is_some()));
    }
    assert!((4..=8).contains(&kept), "{kept} of 20 are kept");
    let counted: u64 = case
        .stats()
        .await
        .queues
        .iter()
        .map(|it| it.counts.of(JobState::Dead))
        .sum();
    assert_eq!(counted, kept as u64);
    let last = case.got(dead[19]).await;
    assert!(
        last.is_some_and(|got| got.job().is_some()),
        "the last is kept"
    );
    let case = case.tenant("other");
    assert_eq!(case.get(of_another).await.state, JobState::Dead);
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
    assert_eq!(case.counts().await.of(JobState::Cancelled), 1);
}

/// A tombstone is answered by `get` with outcome and result, for a waiter.
pub(super) async fn a_result_can_be_read_after_the_end(case: Case) {
    let attempt = case.active(job()).await;
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.result = Some(bytes("42"));
    case.end_as(&attempt, settlement).await;
    case.advance(minutes(1)).await;
    let Some(Got::Tombstone { state, result, .. }) = case.got(attempt.id()).await else {
        panic!("its tombstone is left");
    };
    assert_eq!((state, result), (JobState::Completed, Some(bytes("42"))));
    assert!(case.is_unknown(JobId::new()).await);
}
