//! Laws of crashes: evidence only against a job that ran alone.

use super::case::*;
use crate::engine::{Claim, ClaimMode};
use crate::job::{DeadReason, Due, Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{minutes, seconds};

/// One job that aborts its process among 63 innocent ones in one lease: exactly that one dies.
pub(super) async fn one_aborting_among_63_innocent_dies_alone(case: Case) {
    let mut sent = case.enqueue_all((0..64).map(|_| job()).collect()).await;
    let aborting = sent[17];
    // A worker that takes what it gets; its process ends whenever the aborting job runs in it.
    let mut completed = Vec::new();
    for _ in 0..200 {
        let mut lease = case.claim(64).await;
        if lease.is_empty() {
            lease = case.claim_alone().await;
        }
        if lease.iter().any(|attempt| attempt.id() == aborting) {
            case.leases_run_out().await;
            continue;
        }
        for attempt in lease {
            case.complete(&attempt).await;
            completed.push(attempt.id());
        }
    }
    let dead = case.get(aborting).await;
    assert_eq!(
        (dead.state, dead.dead),
        (JobState::Dead, Some(DeadReason::Poison))
    );
    assert_eq!(dead.crashes, 3);
    sent.retain(|id| *id != aborting);
    sent.sort_unstable();
    completed.sort_unstable();
    assert_eq!(completed, sent);
    assert_eq!(case.counts().await.of(JobState::Dead), 1);
}

/// A suspect is passed over by a claim that is not alone, which says that suspects wait.
pub(super) async fn a_suspect_is_claimed_only_alone(case: Case) {
    let suspect = case.suspect(job()).await;
    assert!(case.get(suspect).await.is_suspect());
    let other = case.enqueue(job()).await;
    let claimed = case.claim_as(case.wants(10)).await;
    assert!(claimed.suspects_wait, "a suspect waits");
    let ids: Vec<_> = attempts(&claimed).iter().map(Attempt::id).collect();
    assert_eq!(ids, [other]);
}

/// A claim that is alone answers one suspect and nothing beside it.
pub(super) async fn a_claim_alone_answers_one_suspect(case: Case) {
    let suspects = two_suspects(&case).await;
    let other = case
        .enqueue(NewJob {
            priority: 0,
            ..job()
        })
        .await;
    for id in suspects {
        let lease = case.claim_alone().await;
        assert_eq!(lease.iter().map(Attempt::id).collect::<Vec<_>>(), [id]);
        case.complete(&lease[0]).await;
    }
    let lease = case.claim_alone().await;
    assert_eq!(lease.iter().map(Attempt::id).collect::<Vec<_>>(), [other]);
}

async fn two_suspects(case: &Case) -> Vec<JobId> {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    for _ in 0..2 {
        assert_eq!(case.claim(2).await.len(), 2);
        case.leases_run_out().await;
    }
    sent
}

/// A claim that is alone answers other jobs if there is no suspect; a crash there is no poison.
pub(super) async fn a_first_crash_alone_is_no_poison(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    assert_eq!(
        case.claim_alone().await.len(),
        2,
        "no suspect: jobs as ever"
    );
    case.leases_run_out().await;
    for id in sent {
        let job = case.get(id).await;
        assert_eq!((job.state, job.crashes), (JobState::Ready, 1));
    }
}

/// A suspect that completes alone has proved its innocence.
pub(super) async fn a_suspect_may_complete(case: Case) {
    let id = case.suspect(job()).await;
    let alone = case.claim_alone().await;
    case.complete(&alone[0]).await;
    assert_eq!(case.state(id).await, JobState::Completed);
    assert!(!case.claim_as(case.wants(1)).await.suspects_wait);
}

/// A suspect that fails alone is tried again, alone.
pub(super) async fn a_suspect_that_fails_is_tried_again_alone(case: Case) {
    let id = case.suspect(job()).await;
    let alone = case.claim_alone().await;
    assert_eq!(case.retry(&alone[0], seconds(1)).await, JobState::Scheduled);
    case.advance(seconds(1)).await;
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.claim_alone().await[0].id(), id);
}

/// Crashes while its worker lives on with extensions are none.
pub(super) async fn an_extended_lease_is_no_crash(case: Case) {
    let attempt = case.active(job()).await;
    for _ in 0..20 {
        case.advance(seconds(4)).await;
        case.extend(attempt.token, &[]).await;
    }
    assert_eq!(case.get(attempt.id()).await.crashes, 0);
    case.complete(&attempt).await;
}

/// A suspect blocks no other job: jobs behind it in its line are claimed.
pub(super) async fn a_suspect_blocks_no_other_job(case: Case) {
    two_suspects(&case).await;
    let sent = case.enqueue_all((0..50).map(|_| job()).collect()).await;
    assert_eq!(case.claim_ids(100).await, sent);
    case.advance(minutes(1)).await;
}

/// A crash of a lease spares what of it had been settled before, in whatever way.
pub(super) async fn what_was_settled_before_a_crash_is_no_suspect(case: Case) {
    let kept = || NewJob {
        retention: minutes(9),
        ..job()
    };
    case.enqueue_all((0..6).map(|_| kept()).collect()).await;
    let lease = case.claim(6).await;
    let span = minutes(5);
    let ways = [
        Outcome::Completed,
        Outcome::Retry { after: Some(span) },
        Outcome::Snooze { after: span },
        Outcome::Dead,
        Outcome::Released,
    ];
    for (attempt, outcome) in lease.iter().zip(ways) {
        case.end(attempt, outcome).await;
    }
    case.advance(seconds(2)).await;
    let released = case.claim_one().await;
    assert_eq!(released.id(), lease[4].id());
    let mut before = Vec::new();
    for attempt in &lease[..5] {
        before.push(case.get(attempt.id()).await);
    }
    case.advance_awake(LEASE_DURATION - seconds(2)).await;
    let crashed = case.get(lease[5].id()).await;
    assert_eq!((crashed.state, crashed.crashes), (JobState::Ready, 1));
    for (attempt, before) in lease.iter().zip(before) {
        assert_eq!(case.get(attempt.id()).await, before);
    }
    case.complete(&released).await;
}

/// A suspect of a group is passed over as well, and its group waits for it; after a retry too.
pub(super) async fn a_suspect_of_a_group_is_claimed_only_alone(case: Case) {
    let (key, on_retry) = ("a".into(), OnRetry::Hold);
    let group = Some(Group { key, on_retry });
    let suspect = case.suspect(NewJob { group, ..job() }).await;
    assert_eq!(case.claim_ids(10).await, []);
    let lease = case.claim_alone().await;
    assert_eq!(lease.iter().map(Attempt::id).collect::<Vec<_>>(), [suspect]);
    case.retry(&lease[0], seconds(1)).await;
    case.advance(seconds(1)).await;
    assert_eq!(case.claim_ids(10).await, []);
    let lease = case.claim_alone().await;
    assert_eq!(lease.iter().map(Attempt::id).collect::<Vec<_>>(), [suspect]);
    case.complete(&lease[0]).await;
}

/// A suspect of a paused queue is not claimed, alone either.
pub(super) async fn a_suspect_of_a_paused_queue_waits(case: Case) {
    let suspect = case.suspect(job()).await;
    case.pause().await;
    assert_eq!(case.claim_alone().await.len(), 0);
    case.resume().await;
    assert_eq!(case.claim_alone().await[0].id(), suspect);
}

/// A suspect is no reason to claim again for a worker that is not alone.
pub(super) async fn a_suspect_wakes_only_workers_that_run_alone(case: Case) {
    case.suspect(job()).await;
    let claimed = case.claim_as(case.wants(10)).await;
    assert_eq!((claimed.wake_at, claimed.suspects_wait), (None, true));
    let suspects = two_suspects(&case).await;
    let alone = Claim {
        mode: ClaimMode::Alone,
        ..case.wants(10)
    };
    let claimed = case.claim_as(alone).await;
    assert_eq!(
        claimed.wake_at,
        Some(case.clock()),
        "{} more wait",
        suspects.len()
    );
}

/// A job with `max_crashes` 1 runs alone from its first attempt on, and its first crash ends it.
pub(super) async fn a_job_of_one_crash_dies_at_its_first(case: Case) {
    let fragile = || NewJob {
        max_crashes: Some(1),
        ..job()
    };
    let now = case.enqueue(fragile()).await;
    let later = case
        .enqueue(NewJob {
            due: Due::After(seconds(1)),
            ..fragile()
        })
        .await;
    let other = case.enqueue(job()).await;
    case.advance(seconds(1)).await;
    assert!(case.get(now).await.is_suspect());
    let claimed = case.claim_as(case.wants(10)).await;
    assert!(claimed.suspects_wait, "jobs wait that run alone");
    let ids: Vec<_> = attempts(&claimed).iter().map(Attempt::id).collect();
    assert_eq!(ids, [other]);
    case.complete(&attempts(&claimed)[0]).await;
    for id in [now, later] {
        let alone = case.claim_alone().await;
        assert_eq!(alone.iter().map(Attempt::id).collect::<Vec<_>>(), [id]);
        case.leases_run_out().await;
        let dead = case.get(id).await;
        assert_eq!(
            (dead.state, dead.dead, dead.crashes),
            (JobState::Dead, Some(DeadReason::Poison), 1)
        );
    }
}

/// A job runs alone after one crash less than it may have, after two at the latest, and dies at its
/// limit.
pub(super) async fn a_crash_limit_is_kept(case: Case) {
    for (max, shared) in [(2, 1), (3, 2), (5, 2)] {
        let limited = NewJob {
            max_crashes: Some(max),
            ..job()
        };
        let id = case.enqueue(limited).await;
        for crash in 1..=max {
            assert_eq!(case.get(id).await.is_suspect(), crash > shared, "{max}");
            let lease = if crash > shared {
                assert_eq!(case.claim_ids(10).await, [], "crash {crash} of {max}");
                case.claim_alone().await
            } else {
                case.claim(10).await
            };
            assert_eq!(lease.iter().map(Attempt::id).collect::<Vec<_>>(), [id]);
            case.leases_run_out().await;
            let seen = case.get(id).await;
            let state = if crash == max {
                JobState::Dead
            } else {
                JobState::Ready
            };
            assert_eq!((seen.state, seen.crashes), (state, crash), "of {max}");
        }
    }
}

/// A redriven job of one crash runs alone again; one that completes alone is completed.
pub(super) async fn a_redriven_job_of_one_crash_runs_alone(case: Case) {
    let fragile = NewJob {
        max_crashes: Some(1),
        ..job()
    };
    let id = case.enqueue(fragile).await;
    case.claim_alone().await;
    case.leases_run_out().await;
    case.edit(id, crate::engine::Action::Redrive).await;
    assert_eq!(case.claim_ids(10).await, []);
    let alone = case.claim_alone().await;
    case.complete(&alone[0]).await;
    assert_eq!(case.state(id).await, JobState::Completed);
}
