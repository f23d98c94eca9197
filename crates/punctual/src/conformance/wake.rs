//! Laws of `wake_at` where something ends by itself that kept another job back.

use std::time::Duration;

use super::case::*;
use super::polls::at_once;
use crate::engine::Waited;
use crate::job::{Group, Hold, JobId, NewJob, OnRetry, Unique, UniquePolicy};
use crate::time::{Timestamp, hours, seconds};

/// After this long a job of these laws expires, and before its lease would end.
pub(super) const SOON: Duration = seconds(5);

pub(super) fn in_group() -> NewJob {
    NewJob {
        group: Some(Group {
            key: "a".into(),
            on_retry: OnRetry::Hold,
        }),
        ..job()
    }
}

pub(super) fn with_key(policy: UniquePolicy, hold: Hold) -> NewJob {
    NewJob {
        unique: Some(Unique {
            key: "order:7".into(),
            policy,
            hold,
        }),
        ..job()
    }
}

pub(super) fn expiring(job: NewJob, at: Timestamp) -> NewJob {
    NewJob {
        expires_at: Some(at),
        ..job
    }
}

/// Who claims in vain and sleeps until `wake_at`, a few times if it is early, claims at that
/// instant.
pub(super) async fn assert_claims_at(case: &Case, at: Timestamp, id: JobId) {
    while case.clock() < at {
        let claimed = case.claim_as(case.wants(1)).await;
        assert!(claimed.leases.is_empty(), "it is kept back until {at}");
        let wake_at = claimed.wake_at.expect("something ends by itself");
        assert!(wake_at <= at, "{wake_at} is after {at}");
        assert!(wake_at > case.clock(), "a worker would claim without end");
        case.set_time(wake_at).await;
    }
    assert_eq!(case.claim_ids(1).await, [id]);
}

/// The expiry of a job that holds its group back.
pub(super) async fn the_expiry_of_what_holds_a_group_back_wakes(case: Case) {
    let at = case.clock() + SOON;
    let failed = case.active(expiring(in_group(), at)).await;
    let next = case.enqueue(in_group()).await;
    case.retry(&failed, hours(1)).await;
    assert_claims_at(&case, at, next).await;
}

/// The expiry of a suspect at the head of a line, for who is not alone.
pub(super) async fn the_expiry_of_a_suspect_in_front_wakes(case: Case) {
    let at = case.clock() + 4 * LEASE_DURATION;
    case.suspect(expiring(in_group(), at)).await;
    let same_line = NewJob {
        priority: 0,
        ..in_group()
    };
    let next = case.enqueue(same_line).await;
    assert_claims_at(&case, at, next).await;
}

/// The expiry of a waiting job that another one follows.
pub(super) async fn the_expiry_of_what_is_followed_wakes(case: Case) {
    let at = case.clock() + SOON;
    let first = with_key(UniquePolicy::Keep, Hold::UntilSettled);
    let failed = case.active(expiring(first, at)).await;
    let follower = with_key(UniquePolicy::After, Hold::UntilSettled);
    let follower = case.enqueue(follower).await;
    case.retry(&failed, hours(1)).await;
    assert_claims_at(&case, at, follower).await;
}

/// The end of a period for which a job holds its key, though it still runs.
pub(super) async fn the_end_of_a_followed_period_wakes(case: Case) {
    let at = case.clock() + SOON;
    case.active(with_key(UniquePolicy::Keep, Hold::For(SOON)))
        .await;
    let follower = with_key(UniquePolicy::After, Hold::UntilSettled);
    let follower = case.enqueue(follower).await;
    assert_claims_at(&case, at, follower).await;
}

/// A sleeping worker knows of nothing that ends by itself; then a job comes that waits for such an
/// end.
pub(super) async fn an_end_that_no_waiter_knows_of_wakes_one(case: Case) {
    case.active(with_key(UniquePolicy::Keep, Hold::For(SOON)))
        .await;
    case.wake_at().await;
    let wait = case.listens().await;
    case.enqueue(with_key(UniquePolicy::After, Hold::UntilSettled))
        .await;
    assert_eq!(at_once(wait).await, Waited::Work);
}
