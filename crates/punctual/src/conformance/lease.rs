//! Laws of leases: one valid lease per job, fenced by its token, measured by engine time.

use super::START;
use super::case::*;
use crate::engine::{Extend, ExtendVerdict, SettleVerdict, Token};
use crate::job::{JobId, JobState, NewJob, Outcome};
use crate::time::{hours, millis, minutes, seconds};

/// A lease that runs out is a crash: the job is ready again, at that instant and not before.
pub(super) async fn a_lease_that_runs_out_is_a_crash(case: Case) {
    let id = case.active(job()).await.id();
    case.advance_awake(LEASE_DURATION - TICK).await;
    assert_eq!(case.state(id).await, JobState::Active);
    case.advance(TICK).await;
    let rescued = case.get(id).await;
    assert_eq!(rescued.state, JobState::Ready);
    assert_eq!(
        (rescued.attempt, rescued.failures, rescued.crashes),
        (1, 0, 1)
    );
    assert_eq!((rescued.worker, rescued.lease_until), (None, None));
    let again = case.claim_one().await.job;
    let now = Some(case.clock());
    assert_eq!((again.attempt, again.started_at), (2, now));
}

/// An extended lease outlives its first deadline.
pub(super) async fn an_extended_lease_lives_on(case: Case) {
    let attempt = case.active(job()).await;
    for round in 1..=5 {
        case.advance(LEASE_DURATION / 3).await;
        let ExtendVerdict::Extended { deadline, lost, .. } =
            case.extend(attempt.token, &[attempt.id()]).await
        else {
            panic!("the lease is valid in round {round}");
        };
        assert_eq!((deadline, lost), (case.clock() + LEASE_DURATION, vec![]));
        assert_eq!(case.get(attempt.id()).await.lease_until, Some(deadline));
    }
    case.complete(&attempt).await;
}

/// An extension never makes a lease shorter.
pub(super) async fn an_extension_never_shortens(case: Case) {
    let attempt = case.active(job()).await;
    let short = Extend {
        token: attempt.token,
        lease_duration: millis(1),
        log: Vec::new(),
        memos: Vec::new(),
        progress: vec![],
        jobs: vec![],
    };
    let ExtendVerdict::Extended { deadline, .. } = case.extend_as(short).await else {
        panic!("the lease is valid");
    };
    assert_eq!(deadline, START + LEASE_DURATION);
}

/// An extend names the asked jobs that are not of its lease any more.
pub(super) async fn an_extend_names_lost_jobs(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let claimed = case.claim(2).await;
    case.complete(&claimed[0]).await;
    let outsider = JobId::new();
    let asked = [claimed[0].id(), claimed[1].id(), outsider];
    let ExtendVerdict::Extended { lost, .. } = case.extend(claimed[1].token, &asked).await else {
        panic!("one job is left of the lease");
    };
    assert_eq!(lost, [claimed[0].id(), outsider]);
}

/// A token that is no lease, or none any more, extends nothing.
pub(super) async fn an_old_token_extends_nothing(case: Case) {
    let attempt = case.active(job()).await;
    let Token { fence, nonce } = attempt.token;
    for wrong in [
        Token {
            fence,
            nonce: nonce ^ 1,
        },
        Token {
            fence: fence + 1,
            nonce,
        },
    ] {
        assert_eq!(case.extend(wrong, &[]).await, ExtendVerdict::LeaseLost);
    }
    case.leases_run_out().await;
    assert_eq!(
        case.extend(attempt.token, &[]).await,
        ExtendVerdict::LeaseLost
    );
    assert_eq!(case.state(attempt.id()).await, JobState::Ready);
}

/// A settlement under a lease that ran out is refused and changes nothing.
pub(super) async fn a_late_settlement_changes_nothing(case: Case) {
    let late = case.active(job()).await;
    case.leases_run_out().await;
    let before = case.get(late.id()).await;
    let verdict = case.settle(&late, Outcome::Completed).await;
    assert_eq!(verdict, SettleVerdict::LeaseLost);
    assert_eq!(case.get(late.id()).await, before);
}

/// A settlement under the token of an earlier lease is refused while the job runs again.
pub(super) async fn an_old_token_settles_nothing(case: Case) {
    let old = case.active(job()).await;
    case.leases_run_out().await;
    let new = case.claim_one().await;
    for outcome in [Outcome::Completed, Outcome::Dead, Outcome::Released] {
        assert_eq!(case.settle(&old, outcome).await, SettleVerdict::LeaseLost);
    }
    let mixed = Attempt {
        token: old.token,
        ..new.clone()
    };
    assert_eq!(
        case.settle(&mixed, Outcome::Completed).await,
        SettleVerdict::LeaseLost
    );
    let mixed = Attempt {
        token: new.token,
        ..old
    };
    assert_eq!(
        case.settle(&mixed, Outcome::Completed).await,
        SettleVerdict::LeaseLost
    );
    assert_eq!(case.get(new.id()).await, new.job);
    case.complete(&new).await;
}

/// A settlement under another worker's token, or one made up, is refused.
pub(super) async fn another_token_settles_nothing(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let (mine, others) = (case.claim_one().await, case.claim_one().await);
    let Token { fence, nonce } = mine.token;
    for token in [
        others.token,
        Token {
            fence,
            nonce: nonce ^ 1,
        },
        Token {
            fence: fence + 9,
            nonce,
        },
    ] {
        let wrong = Attempt {
            token,
            ..mine.clone()
        };
        assert_eq!(
            case.settle(&wrong, Outcome::Completed).await,
            SettleVerdict::LeaseLost
        );
    }
    assert_eq!(case.state(mine.id()).await, JobState::Active);
}

/// Progress that an extend carries is kept with the job.
pub(super) async fn progress_is_kept(case: Case) {
    let attempt = case.active(job()).await;
    let extend = Extend {
        token: attempt.token,
        lease_duration: LEASE_DURATION,
        log: Vec::new(),
        memos: Vec::new(),
        progress: vec![(attempt.id(), bytes("40 %"))],
        jobs: vec![],
    };
    case.extend_as(extend).await;
    assert_eq!(case.get(attempt.id()).await.progress, Some(bytes("40 %")));
}

/// After a silence longer than half a lease, rescue waits one lease more.
pub(super) async fn after_a_silence_rescue_waits_a_lease(case: Case) {
    let attempt = case.active(job()).await;
    let jumps = case.info().await.clock_jumps;
    case.advance(hours(1)).await;
    let saved = case.get(attempt.id()).await;
    assert_eq!(saved.state, JobState::Active);
    assert_eq!(saved.lease_until, Some(case.clock() + LEASE_DURATION));
    assert!(
        case.info().await.clock_jumps > jumps,
        "a silence is counted"
    );
    case.advance_awake(LEASE_DURATION - TICK).await;
    assert_eq!(case.state(attempt.id()).await, JobState::Active);
    case.advance(TICK).await;
    assert_eq!(case.state(attempt.id()).await, JobState::Ready);
}

/// Half a lease is the longest silence that saves nothing.
pub(super) async fn a_silence_of_half_a_lease_saves_nothing(case: Case) {
    for (silence, saved) in [
        (LEASE_DURATION / 2, false),
        (LEASE_DURATION / 2 + TICK, true),
    ] {
        let attempt = case.active(job()).await;
        let deadline = case.clock() + LEASE_DURATION;
        case.advance(silence).await;
        let until = case.get(attempt.id()).await.lease_until;
        let later = case.clock() + LEASE_DURATION;
        assert_eq!(
            until,
            Some(if saved { later } else { deadline }),
            "{silence:?}"
        );
        case.complete(&attempt).await;
    }
}

/// A lease saved from a silence is valid: its holder settles.
pub(super) async fn a_lease_saved_from_a_silence_settles(case: Case) {
    let attempt = case.active(job()).await;
    case.advance(hours(1)).await;
    case.complete(&attempt).await;
}

/// A second silence does not save a lease again; an extension earns it anew.
pub(super) async fn a_second_silence_saves_nothing(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let (mine, others) = (case.claim_one().await, case.claim_one().await);
    case.advance(minutes(1)).await;
    assert_eq!(case.state(mine.id()).await, JobState::Active);
    case.extend(others.token, &[]).await;
    case.advance(minutes(1)).await;
    assert_eq!(case.state(mine.id()).await, JobState::Ready);
    assert_eq!(case.state(others.id()).await, JobState::Active);
}

/// Engine time neither steps back nor stands still when the clock is set back.
pub(super) async fn time_ticks_on_when_the_clock_steps_back(case: Case) {
    let jumps = case.info().await.clock_jumps;
    case.set_time(before(START, hours(1))).await;
    let mut last = START;
    for _ in 0..5 {
        let now = case.stats().await.now;
        assert!(now > last, "{now:?} after {last:?}");
        assert!(now < START + seconds(1), "{now:?} is far ahead");
        last = now;
    }
    assert_eq!(
        case.info().await.clock_jumps,
        jumps + 1,
        "one step, counted once"
    );
    case.set_time(START + seconds(5)).await;
    assert_eq!(
        case.stats().await.now,
        START + seconds(5),
        "the clock has caught up"
    );
}

/// A clock that is set back makes nothing early and ends no lease.
pub(super) async fn a_clock_step_back_makes_nothing_early(case: Case) {
    let active = case.active(job()).await;
    let id = case.enqueue(job_in(seconds(1))).await;
    case.set_time(before(START, hours(1))).await;
    for _ in 0..10 {
        assert_eq!(case.claim_ids(10).await, []);
    }
    assert_eq!(case.state(active.id()).await, JobState::Active);
    case.set_time(START + seconds(1)).await;
    assert_eq!(case.claim_ids(10).await, [id]);
    case.complete(&active).await;
}

/// A lease is as long as its claim asked, each lease its own.
pub(super) async fn a_lease_is_as_long_as_asked(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    for lease_duration in [seconds(2), minutes(10)] {
        let claim = crate::engine::Claim {
            lease_duration,
            ..case.wants(1)
        };
        let lease = &case.claim_as(claim).await.leases[0];
        assert_eq!(lease.deadline, START + lease_duration);
    }
    for _ in 0..5 {
        case.advance(millis(400)).await;
        case.maintain().await;
    }
    assert_eq!(case.state(sent[0]).await, JobState::Ready);
    assert_eq!(case.state(sent[1]).await, JobState::Active);
}

/// What is rescued in one sweep is bounded, and all of it is rescued in the end.
pub(super) async fn a_large_crash_is_rescued_in_steps(case: Case) {
    let case = case.limited(|limits| limits.sweep = 10).await;
    let jobs = (0..100).map(|_| NewJob {
        priority: 1,
        ..job()
    });
    case.enqueue_all(jobs.collect()).await;
    for _ in 0..10 {
        case.claim(10).await;
    }
    case.leases_run_out().await;
    for _ in 0..20 {
        case.maintain().await;
    }
    let counts = case.counts().await;
    assert_eq!(
        (counts.of(JobState::Ready), counts.of(JobState::Active)),
        (100, 0)
    );
    assert!(
        case.claim(100)
            .await
            .iter()
            .all(|attempt| attempt.job.crashes == 1)
    );
}
