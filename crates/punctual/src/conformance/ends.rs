//! Laws of ends: every queue keeps the last hundred jobs that ended, without their payloads.

use super::case::*;
use crate::engine::{ENDS_KEPT, JobEnd, LeaseReport, Settle, StatsRequest};
use crate::job::{Hold, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{millis, minutes, seconds};

/// The ends that a queue keeps, the newest first.
async fn ends_of(case: &Case, queue: &str) -> Vec<JobEnd> {
    let request = StatsRequest {
        queues: vec![queue.into()],
        ends: true,
        ..StatsRequest::default()
    };
    let queues = case.stats_of(request).await.queues;
    queues.into_iter().flat_map(|stats| stats.ends).collect()
}

pub(super) async fn ends(case: &Case) -> Vec<JobEnd> {
    ends_of(case, QUEUE).await
}

fn end(case: &Case, id: JobId, state: JobState) -> JobEnd {
    JobEnd {
        id,
        kind: QUEUE.into(),
        state,
        at: case.clock(),
    }
}

/// Stores, claims and completes so many jobs in one call; their ids in the order of the call.
async fn complete_at_once(case: &Case, count: usize) -> Vec<JobId> {
    case.enqueue_all((0..count).map(|_| job()).collect()).await;
    let attempts = case.claim(count).await;
    let mut leases: Vec<LeaseReport> = Vec::new();
    for attempt in &attempts {
        let settlement = attempt.ended(Outcome::Completed);
        match leases.last_mut() {
            Some(lease) if lease.token == attempt.token => lease.settlements.push(settlement),
            _ => leases.push(LeaseReport::new(attempt.token, vec![settlement])),
        }
    }
    let settle = Settle { leases };
    let answer = case.engine().settle(&case.namespace, settle).await;
    answer.expect("settle");
    attempts.iter().map(|attempt| attempt.id()).collect()
}

/// Whatever ends a job is an end: its worker, a cancel, a replacement, its expiry, its last
/// failure.
pub(super) async fn every_job_that_ends_is_an_end(case: Case) {
    let mut expected = Vec::new();
    for (outcome, state) in [
        (Outcome::Completed, JobState::Completed),
        (Outcome::Cancelled, JobState::Cancelled),
        (Outcome::Dead, JobState::Dead),
    ] {
        case.advance(millis(1)).await;
        let id = case.ended_job(job(), outcome).await;
        expected.push(end(&case, id, state));
    }
    case.advance(millis(1)).await;
    let once = NewJob {
        max_attempts: 1,
        ..job()
    };
    let id = case.ended_job(once, Outcome::Retry { after: None }).await;
    expected.push(end(&case, id, JobState::Dead));

    case.advance(millis(1)).await;
    let id = case.enqueue(job()).await;
    case.cancel(id).await;
    expected.push(end(&case, id, JobState::Cancelled));

    let keyed = || NewJob {
        unique: Some(Unique {
            key: "k".into(),
            policy: UniquePolicy::Replace,
            hold: Hold::UntilSettled,
        }),
        ..job_in(minutes(1))
    };
    let replaced = case.enqueue(keyed()).await;
    case.advance(millis(1)).await;
    case.send(keyed()).await;
    expected.push(end(&case, replaced, JobState::Cancelled));

    let expires = NewJob {
        expires_at: Some(case.clock() + seconds(1)),
        ..job_in(minutes(1))
    };
    let id = case.enqueue(expires).await;
    case.advance(seconds(1)).await;
    case.maintain().await;
    expected.push(end(&case, id, JobState::Cancelled));

    expected.reverse();
    assert_eq!(ends(&case).await, expected);
    let unasked = case.stats().await.queues;
    assert!(unasked.iter().all(|stats| stats.ends.is_empty()));
}

/// A retry, a snooze, a release and a lease that ran out end an attempt, not the job; a refused
/// settlement ends nothing, and a repeated one ends the job once.
pub(super) async fn an_attempt_is_no_end(case: Case) {
    let attempt = case.active(job()).await;
    case.end(&attempt, Outcome::Released).await;
    let attempt = case.claim_one().await;
    case.retry(&attempt, seconds(1)).await;
    case.advance(seconds(1)).await;
    let attempt = case.claim_one().await;
    let snooze = Outcome::Snooze { after: seconds(1) };
    case.end(&attempt, snooze).await;
    case.advance(seconds(1)).await;
    let old = case.claim_one().await;
    case.leases_run_out().await;
    case.maintain().await;
    case.settle(&old, Outcome::Completed).await;
    assert_eq!(ends(&case).await, []);

    let attempt = case.claim_one().await;
    case.complete(&attempt).await;
    case.settle(&attempt, Outcome::Completed).await;
    assert_eq!(
        ends(&case).await,
        [end(&case, attempt.id(), JobState::Completed)]
    );
}

/// A queue keeps its last hundred ends, however many a call brings.
pub(super) async fn a_queue_keeps_its_last_hundred_ends(case: Case) {
    let mut expected: Vec<Vec<JobId>> = Vec::new();
    for count in [3, 1, 40, 1, 60, 30, 1, 250, 99, 1, 1, 64, 64, 100, 8, 1] {
        case.advance(millis(1)).await;
        expected.push(complete_at_once(&case, count).await);
        let answered = ends(&case).await;
        let total: usize = expected.iter().map(Vec::len).sum();
        assert_eq!(answered.len(), total.min(ENDS_KEPT));
        let mut left = &answered[..];
        for (nth, calls) in expected.iter().rev().enumerate() {
            let (here, rest) = left.split_at(calls.len().min(left.len()));
            let at = before(case.clock(), millis(1) * nth as u32);
            for end in here {
                assert!(calls.contains(&end.id), "{end:?} ended {nth} calls ago");
                assert_eq!((end.state, end.at), (JobState::Completed, at));
            }
            left = rest;
        }
    }
    for _ in 0..ENDS_KEPT + 30 {
        case.advance(millis(1)).await;
        expected.push(complete_at_once(&case, 1).await);
    }
    let last = expected.iter().rev().take(ENDS_KEPT);
    let answered = ends(&case).await.into_iter().map(|end| end.id);
    assert!(answered.eq(last.map(|ids| ids[0])));
}

/// Each end has the kind of its job, in leases of several kinds too.
pub(super) async fn ends_name_the_kind_of_each_job(case: Case) {
    for (kinds, results) in [
        (vec!["b"; 3], false),
        (vec!["a", "a", QUEUE, "b", "a"], false),
        (vec!["c"; 12], false),
        ([vec!["a"; 10], vec![QUEUE], vec!["b"; 10]].concat(), false),
        ([vec!["a"; 10], vec!["b"; 10]].concat(), true),
        ([vec!["a"; 60], vec!["b"; 60]].concat(), false),
    ] {
        case.advance(millis(1)).await;
        let jobs = kinds.iter().map(|kind| NewJob {
            kind: (*kind).into(),
            ..job()
        });
        case.enqueue_all(jobs.collect()).await;
        for attempt in case.claim(kinds.len()).await {
            let mut settlement = attempt.ended(Outcome::Completed);
            settlement.result = results.then(|| bytes("done"));
            case.end_as(&attempt, settlement).await;
        }
        let mut reported: Vec<String> = ends(&case).await.into_iter().map(|end| end.kind).collect();
        reported.truncate(kinds.len());
        reported.reverse();
        let from = kinds.len() - reported.len();
        assert_eq!(reported, kinds[from..]);
    }
    let mixed = [vec!["x"; 70], vec!["y"; 70]].concat();
    let jobs = mixed.iter().map(|kind| NewJob {
        kind: (*kind).into(),
        ..job()
    });
    let jobs: Vec<NewJob> = jobs.collect();
    case.enqueue_all(jobs.clone()).await;
    case.advance(millis(1)).await;
    complete_claimed(&case, mixed.len()).await;
    for end in ends(&case).await {
        let sent = jobs.iter().find(|job| job.id == end.id);
        assert_eq!(sent.map(|job| job.kind.as_str()), Some(&*end.kind));
    }
}

/// Completes so many claimed jobs, a call per lease.
async fn complete_claimed(case: &Case, count: usize) {
    let attempts = case.claim(count).await;
    assert_eq!(attempts.len(), count);
    for lease in attempts.chunk_by(|one, next| one.token == next.token) {
        let settlements = lease.iter().map(|one| one.ended(Outcome::Completed));
        let report = LeaseReport::new(lease[0].token, settlements.collect());
        let settle = Settle {
            leases: vec![report],
        };
        let answer = case.engine().settle(&case.namespace, settle).await;
        answer.expect("settle");
    }
}

/// A queue has its own ends, and so has each namespace.
pub(super) async fn ends_are_of_a_queue_and_a_namespace(case: Case) {
    let id = case.ended_job(job(), Outcome::Completed).await;
    assert_eq!(ends_of(&case, "mail").await, []);
    assert_eq!(ends(&case).await[0].id, id);
    let other = case.tenant("other");
    assert_eq!(ends(&other).await, []);
    let there = other.ended_job(job(), Outcome::Dead).await;
    assert_eq!(ends(&other).await, [end(&other, there, JobState::Dead)]);
}

/// Ends are kept as jobs are: a crash loses none that was acknowledged.
pub(super) async fn ends_outlive_a_crash(mut case: Case) {
    for count in [1, 70, 1, 20] {
        case.advance(millis(1)).await;
        complete_at_once(&case, count).await;
        let kept = ends(&case).await;
        case.crash().await;
        assert_eq!(ends(&case).await, kept);
    }
    case.advance(millis(1)).await;
    let last = complete_at_once(&case, 50).await;
    case.crash().await;
    let kept = ends(&case).await;
    assert_eq!(kept.len(), ENDS_KEPT);
    assert!(kept[..50].iter().all(|end| last.contains(&end.id)));
}

/// Ends are there after a clean close.
pub(super) async fn ends_outlive_a_close(mut case: Case) {
    complete_at_once(&case, 5).await;
    case.advance(millis(1)).await;
    case.ended_job(job(), Outcome::Dead).await;
    let kept = ends(&case).await;
    assert_eq!(kept.len(), 6);
    case.reopen().await;
    assert_eq!(ends(&case).await, kept);
}
