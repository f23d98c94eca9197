//! Laws of claim: what is due goes out once, under a lease, never early.

use std::time::Duration;

use super::START;
use super::case::*;
use crate::engine::{Claim, ClaimOrder, WorkerId};
use crate::job::{CLAIM_BYTES_MAX, Due, Hold, JobId, JobState, NewJob, Unique, UniquePolicy};
use crate::time::{hours, minutes, seconds};

/// A job is not claimed a microsecond before it is due, and is at that instant.
pub(super) async fn a_job_is_claimed_when_due_and_never_before(case: Case) {
    let id = case.enqueue(job_in(minutes(30))).await;
    case.advance(minutes(30) - TICK).await;
    assert_eq!(case.state(id).await, JobState::Scheduled);
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.state(id).await, JobState::Ready);
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// Delays from two microseconds to two years each end at their microsecond.
pub(super) async fn a_delay_of_any_length_is_never_early(case: Case) {
    let mut spans: Vec<u64> = (0..47).map(|bit| (1 << bit) + 1).collect();
    spans.extend([999, 1_000, 64_000, 4_096_000]);
    spans.sort_unstable();
    let delay = |span: &u64| job_in(Duration::from_micros(*span));
    let sent = case
        .enqueue_all(spans.iter().rev().map(delay).collect())
        .await;
    for (span, id) in spans.iter().zip(sent.iter().rev()) {
        let due = START + Duration::from_micros(*span);
        case.set_time(START + Duration::from_micros(span - 1)).await;
        assert_eq!(case.drain().await, [], "before {span} us");
        case.set_time(due).await;
        assert_eq!(case.drain().await, [*id], "at {span} us");
    }
}

/// A claimed job is active under its worker's lease, its attempt counted.
pub(super) async fn a_claimed_job_is_active_under_a_lease(case: Case) {
    let id = case.enqueue(job()).await;
    case.advance(seconds(3)).await;
    let claimed = case.claim_as(case.wants(10)).await;
    let lease = &claimed.leases[0];
    assert_eq!(claimed.now, START + seconds(3));
    assert_eq!(lease.deadline, claimed.now + LEASE_DURATION);
    let active = case.get(id).await;
    assert_eq!(
        lease.jobs,
        std::slice::from_ref(&active),
        "a claim answers the job as it is kept"
    );
    assert_eq!((active.state, active.attempt), (JobState::Active, 1));
    assert_eq!(active.started_at, Some(claimed.now));
    assert_eq!(active.worker, Some(case.worker.0));
    assert_eq!(active.lease_until, Some(lease.deadline));
    assert_eq!(
        active.due, START,
        "an active job keeps the instant it could run"
    );
}

/// A job is handed to one claimer only, however many claim at the same time.
pub(super) async fn a_job_is_claimed_once(case: Case) {
    let mut sent = case.enqueue_all((0..200).map(|_| job()).collect()).await;
    let claims = (0..8).map(|_| {
        let (engine, namespace) = (case.engine(), case.namespace.clone());
        tokio::spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..10 {
                let claim = Claim::new(WorkerId::random(), QUEUE, 5);
                let claimed = engine.claim(&namespace, claim).await.expect("claim");
                mine.extend(attempts(&claimed).iter().map(Attempt::id));
            }
            mine
        })
    });
    let mut claimed = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        claimed.extend(claim.await.expect("a claimer does not panic"));
    }
    claimed.sort_unstable();
    sent.sort_unstable();
    assert_eq!(claimed, sent);
}

/// A claim answers at most the jobs it wants, and the rest to the next one.
pub(super) async fn a_claim_answers_at_most_its_limit(case: Case) {
    let sent = case.enqueue_all((0..5).map(|_| job()).collect()).await;
    assert_eq!(case.claim_ids(3).await, sent[..3]);
    assert_eq!(case.claim_ids(3).await, sent[3..]);
}

/// A claim answers at most the bytes it wants, but the first job whatever its size.
pub(super) async fn a_claim_answers_at_most_its_bytes(case: Case) {
    let sized = |size: usize| NewJob {
        payload: vec![b'.'; size].into(),
        ..job()
    };
    let sent = case
        .enqueue_all([300, 100, 100, 100].map(sized).to_vec())
        .await;
    let small = || Claim {
        max_bytes: 250,
        ..case.wants(10)
    };
    let first = attempts(&case.claim_as(small()).await);
    assert_eq!(first.iter().map(Attempt::id).collect::<Vec<_>>(), sent[..1]);
    let second = attempts(&case.claim_as(small()).await);
    assert_eq!(
        second.iter().map(Attempt::id).collect::<Vec<_>>(),
        sent[1..3]
    );
}

/// A claim answers at most 4 MiB, however many bytes it wants; the next one goes on behind it.
pub(super) async fn a_claim_answers_at_most_four_mebibytes(case: Case) {
    let limits = case.info().await.limits;
    let large = || NewJob {
        payload: vec![b'.'; limits.payload_bytes].into(),
        ..job()
    };
    let most = CLAIM_BYTES_MAX / limits.payload_bytes;
    let mut sent = case.enqueue_all((0..most).map(|_| large()).collect()).await;
    sent.extend(case.enqueue_all(vec![large(), large()]).await);
    let greedy = || Claim {
        max_bytes: u32::MAX as usize,
        ..case.wants(100)
    };
    let ids = |claimed: &[Attempt]| claimed.iter().map(Attempt::id).collect::<Vec<_>>();
    let first = case.claim_as(greedy()).await;
    let taken = ids(&attempts(&first));
    // An engine may count what it keeps beside a payload.
    assert!((most - 1..=most).contains(&taken.len()), "{}", taken.len());
    assert_eq!(first.wake_at, Some(first.now), "there is more");
    let rest = ids(&attempts(&case.claim_as(greedy()).await));
    assert_eq!([taken, rest].concat(), sent);
}

/// The same nonce of the same worker answers the same lease again: a lost reply strands nothing.
pub(super) async fn the_same_nonce_answers_the_same_lease(case: Case) {
    case.enqueue_all(vec![job(), job(), job()]).await;
    let claim = case.wants(2);
    let first = case.claim_as(claim.clone()).await;
    case.advance(seconds(1)).await;
    let again = case.claim_as(claim).await;
    assert_eq!(again.leases, first.leases);
}

/// The same nonce answers what is left of its lease, and claims anew once nothing is.
pub(super) async fn the_same_nonce_answers_what_is_left(case: Case) {
    let sent = case.enqueue_all(vec![job(), job(), job()]).await;
    let claim = case.wants(2);
    let first = attempts(&case.claim_as(claim.clone()).await);
    case.complete(&first[0]).await;
    let left = attempts(&case.claim_as(claim.clone()).await);
    assert_eq!(left.iter().map(Attempt::id).collect::<Vec<_>>(), sent[1..2]);
    case.complete(&left[0]).await;
    let anew = attempts(&case.claim_as(claim).await);
    assert_eq!(anew.iter().map(Attempt::id).collect::<Vec<_>>(), sent[2..]);
    assert!(anew[0].token.fence > first[0].token.fence);
}

/// The same nonce of another worker is a claim of its own.
pub(super) async fn a_nonce_is_of_one_worker(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    let claim = case.wants(1);
    let other = Claim {
        nonce: claim.nonce,
        ..Claim::new(WorkerId::random(), QUEUE, 1)
    };
    let mine = attempts(&case.claim_as(claim).await);
    let others = attempts(&case.claim_as(other).await);
    assert_eq!([mine[0].id(), others[0].id()], [sent[0], sent[1]]);
    assert_ne!(mine[0].token, others[0].token);
}

/// A fence is larger than every one before, and the token carries the claimer's nonce.
pub(super) async fn fences_only_grow(case: Case) {
    case.enqueue_all((0..5).map(|_| job()).collect()).await;
    let mut last = 0;
    for _ in 0..5 {
        let claim = case.wants(1);
        let nonce = claim.nonce;
        let token = case.claim_as(claim).await.leases[0].token;
        assert!(token.fence > last, "{token} after {last}");
        assert_eq!(token.nonce, nonce);
        last = token.fence;
    }
}

/// A claim answers jobs of its queues only.
pub(super) async fn a_claim_reads_only_its_queues(case: Case) {
    let mail = case.enqueue(NewJob::new("mail", "{}")).await;
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(
        claim_of(&case, &["mail"], ClaimOrder::Strict, 10).await,
        [mail]
    );
}

/// Strict: an earlier queue of the list is emptied before a later one is looked at.
pub(super) async fn strict_order_empties_the_first_queue_first(case: Case) {
    let (mail, orders) = two_queues(&case).await;
    let claimed = claim_of(&case, &["mail", QUEUE], ClaimOrder::Strict, 5).await;
    assert_eq!(claimed, [&mail[..], &orders[..2]].concat());
}

/// Turns: the queues take turns within the claim, one job each.
pub(super) async fn turns_take_one_job_of_each_queue(case: Case) {
    let (mail, orders) = two_queues(&case).await;
    let claimed = claim_of(&case, &["mail", QUEUE], ClaimOrder::Turns, 5).await;
    assert_eq!(claimed, [mail[0], orders[0], mail[1], orders[1], mail[2]]);
}

async fn two_queues(case: &Case) -> (Vec<JobId>, Vec<JobId>) {
    let orders = case.enqueue_all(vec![job(), job(), job()]).await;
    let mail = (0..3).map(|_| NewJob::new("mail", "{}")).collect();
    (case.enqueue_all(mail).await, orders)
}

async fn claim_of(case: &Case, queues: &[&str], order: ClaimOrder, limit: usize) -> Vec<JobId> {
    let queues = queues.iter().map(ToString::to_string).collect();
    let claim = Claim {
        queues,
        order,
        ..case.wants(limit)
    };
    let claimed = attempts(&case.claim_as(claim).await);
    claimed.iter().map(Attempt::id).collect()
}

/// A claim over jobs of different make, each of a call of its own, takes them in order, and what a
/// bound leaves is there for the next one.
pub(super) async fn jobs_of_any_make_are_claimed_in_order(case: Case) {
    let mut ids = Vec::new();
    for nth in 0..8 {
        let job = match nth % 4 {
            2 => job().unique(format!("key {nth}")),
            _ => job(),
        };
        ids.push(case.enqueue(job).await);
    }
    let small = Claim {
        max_bytes: 3,
        ..case.wants(8)
    };
    let first = attempts(&case.claim_as(small).await);
    let mut claimed: Vec<_> = first.iter().map(Attempt::id).collect();
    assert_eq!(claimed, ids[..1], "one of two bytes");
    claimed.extend(case.claim_ids(4).await);
    claimed.extend(case.claim_ids(8).await);
    assert_eq!(claimed, ids);
}

/// `wake_at` is the earliest due, now if work was left, and nothing if there is nothing.
pub(super) async fn wake_at_is_when_a_claim_could_answer_more(case: Case) {
    assert_eq!(case.wake_at().await, None, "an empty queue");
    case.enqueue(job_in(hours(2))).await;
    case.enqueue(job_in(hours(1))).await;
    assert_eq!(case.wake_at().await, Some(START + hours(1)));
    case.enqueue_all(vec![job(), job()]).await;
    assert_eq!(case.wake_at().await, Some(START), "one more is ready");
}

/// `wake_at` is the end of a lease if that comes first.
pub(super) async fn wake_at_is_the_end_of_a_lease(case: Case) {
    case.enqueue(job_in(hours(1))).await;
    case.enqueue(job()).await;
    case.claim_one().await;
    assert_eq!(case.wake_at().await, Some(START + LEASE_DURATION));
}

/// `wake_at` is of the claimed queues: due jobs and leases of others are none of their business.
pub(super) async fn wake_at_is_of_the_claimed_queues(case: Case) {
    let mail = NewJob::new("mail", "{}");
    let later = NewJob {
        due: Due::After(minutes(1)),
        ..NewJob::new("mail", "{}")
    };
    case.enqueue_all(vec![mail, later]).await;
    claim_of(&case, &["mail"], ClaimOrder::Strict, 10).await;
    assert_eq!(case.wake_at().await, None);
}

/// Nor is what ends by itself and keeps none of them back: a waiter would come for each of
/// others' expiries.
pub(super) async fn wake_at_is_of_what_keeps_jobs_back(case: Case) {
    let ends = |queue: &str, number: u64| NewJob {
        expires_at: Some(case.clock() + seconds(number)),
        unique: Some(Unique {
            key: number.to_string(),
            policy: UniquePolicy::Keep,
            hold: Hold::For(seconds(number)),
        }),
        ..NewJob::new(queue, "{}")
    };
    let own = NewJob {
        due: Due::After(hours(1)),
        ..ends(QUEUE, 50)
    };
    case.enqueue_all((1..=40).map(|it| ends("mail", it)).collect())
        .await;
    assert_eq!(case.wake_at().await, None);
    case.enqueue(own).await;
    assert_eq!(case.wake_at().await, Some(START + hours(1)));
}

/// A call of many jobs is claimed whole, in leases whose tokens all settle.
pub(super) async fn every_lease_of_a_claim_settles(case: Case) {
    let sent = case.enqueue_all((0..1_000).map(|_| job()).collect()).await;
    assert_eq!(case.drain().await, sent);
    assert_eq!(case.counts().await.of(JobState::Active), 0);
}
