//! Laws of serial groups: one at a time, in order, and no group in the way of another.

use super::START;
use super::case::*;
use crate::engine::Action;
use crate::job::{Due, Group, JobState, NewJob, OnRetry, Outcome};
use crate::time::{minutes, seconds};

fn in_group(key: &str) -> NewJob {
    let key = key.into();
    NewJob {
        group: Some(Group {
            key,
            on_retry: OnRetry::Hold,
        }),
        ..job()
    }
}

fn passing(key: &str) -> NewJob {
    let key = key.into();
    NewJob {
        group: Some(Group {
            key,
            on_retry: OnRetry::Pass,
        }),
        ..job()
    }
}

/// A group has one job active, however many are claimed; the next goes when it settles.
pub(super) async fn a_group_has_one_active_job(case: Case) {
    let sent = case
        .enqueue_all(vec![in_group("a"), in_group("a"), in_group("a")])
        .await;
    for id in sent {
        let claimed = case.claim(10).await;
        assert_eq!(claimed.iter().map(Attempt::id).collect::<Vec<_>>(), [id]);
        assert_eq!(case.claim_ids(10).await, [], "its group is active");
        case.complete(&claimed[0]).await;
    }
}

/// A group has one job active over all priorities, and the earliest priority goes next.
pub(super) async fn a_group_is_one_over_all_priorities(case: Case) {
    let of = |priority| NewJob {
        priority,
        ..in_group("a")
    };
    let sent = case.enqueue_all([5, 9, 0].map(of).to_vec()).await;
    assert_eq!(case.drain().await, [sent[2], sent[0], sent[1]]);
    let active = case.active(of(5)).await;
    case.enqueue(of(0)).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.complete(&active).await;
}

/// A group goes by due, then by enqueue.
pub(super) async fn a_group_goes_in_order(case: Case) {
    let due = |s| NewJob {
        due: Due::After(seconds(s)),
        ..in_group("a")
    };
    let sent = case.enqueue_all([3, 1, 2, 1].map(due).to_vec()).await;
    case.advance(minutes(1)).await;
    assert_eq!(case.drain().await, [1, 3, 2, 0].map(|nth| sent[nth]));
}

/// Every member runs, however it came into the line: by hundreds, alone, at its due or again.
pub(super) async fn every_member_runs_however_it_came(case: Case) {
    let later = || NewJob {
        due: Due::After(seconds(1)),
        ..in_group("a")
    };
    let first = case.active(in_group("a")).await;
    let twelve = (0..12).map(|_| in_group("a")).collect();
    let mut sent = case.enqueue_all(twelve).await;
    sent.push(case.enqueue(later()).await);
    sent.extend(case.enqueue_all(vec![in_group("a"), later()]).await);
    sent.push(case.enqueue(in_group("a")).await);
    case.advance(seconds(1)).await;
    case.end(&first, Outcome::Released).await;
    sent.push(first.id());
    let mut ran = case.drain().await;
    ran.sort_unstable();
    sent.sort_unstable();
    assert_eq!(ran, sent);
}

/// One claim takes a job of each group, and jobs without a group besides.
pub(super) async fn groups_run_beside_each_other(case: Case) {
    let keys = ["a", "a", "b", "b", "c"];
    let grouped = case.enqueue_all(keys.map(in_group).to_vec()).await;
    let free = case.enqueue_all(vec![job(), job()]).await;
    let mut claimed = case.claim_ids(10).await;
    let mut expected = vec![grouped[0], grouped[2], grouped[4], free[0], free[1]];
    claimed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(claimed, expected);
}

/// A long blocked group hides no work that lies behind it.
pub(super) async fn a_blocked_group_hides_nothing(case: Case) {
    case.active(in_group("a")).await;
    case.enqueue_all((0..1_000).map(|_| in_group("a")).collect())
        .await;
    let other = case.enqueue(in_group("b")).await;
    let free = case
        .enqueue(NewJob {
            priority: 9,
            ..job()
        })
        .await;
    assert_eq!(case.claim_ids(10).await, [other, free]);
}

/// The same group key in another queue is another group.
pub(super) async fn a_group_is_of_one_queue(case: Case) {
    case.active(in_group("a")).await;
    let mail = case
        .enqueue(NewJob {
            queue: "mail".into(),
            ..in_group("a")
        })
        .await;
    let claim = crate::engine::Claim::new(case.worker, "mail", 10);
    let claimed = attempts(&case.claim_as(claim).await);
    assert_eq!(claimed.iter().map(Attempt::id).collect::<Vec<_>>(), [mail]);
}

/// A job that waits for its retry holds its group back; at its due it goes first.
pub(super) async fn a_retry_holds_its_group_back(case: Case) {
    let sent = case.enqueue_all(vec![in_group("a"), in_group("a")]).await;
    let failed = case.claim_one().await;
    case.retry(&failed, seconds(5)).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(seconds(5) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [sent[0]]);
}

/// A snoozed job holds its group back, and no other priority of it passes.
pub(super) async fn a_snooze_holds_its_group_back(case: Case) {
    let snoozed = case.active(in_group("a")).await;
    case.end(&snoozed, Outcome::Snooze { after: seconds(5) })
        .await;
    case.enqueue(NewJob {
        priority: 0,
        ..in_group("a")
    })
    .await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(seconds(5)).await;
    assert_eq!(case.claim_ids(10).await, [snoozed.id()]);
}

/// A job that lets others pass while it waits does so, and still never runs beside them.
pub(super) async fn a_passing_retry_lets_its_group_go_on(case: Case) {
    let sent = case.enqueue_all(vec![passing("a"), in_group("a")]).await;
    let failed = case.claim_one().await;
    case.retry(&failed, seconds(5)).await;
    let next = case.claim_one().await;
    assert_eq!(next.id(), sent[1]);
    case.advance(seconds(5)).await;
    assert_eq!(case.claim_ids(10).await, [], "one at a time");
    case.complete(&next).await;
    assert_eq!(case.claim_ids(10).await, [sent[0]]);
}

/// A job that ends, in whatever way, lets its group go on.
pub(super) async fn a_settled_job_lets_its_group_go_on(case: Case) {
    for outcome in [Outcome::Completed, Outcome::Cancelled, Outcome::Dead] {
        case.ended_job(in_group("a"), outcome).await;
    }
    let last = case
        .active(NewJob {
            max_attempts: 1,
            ..in_group("a")
        })
        .await;
    assert_eq!(case.retry(&last, minutes(1)).await, JobState::Dead);
    let next = case.enqueue(in_group("a")).await;
    assert_eq!(case.claim_ids(10).await, [next]);
}

/// A waiting retry that is cancelled holds its group back no longer.
pub(super) async fn a_cancelled_retry_lets_its_group_go_on(case: Case) {
    let failed = case.active(in_group("a")).await;
    let next = case.enqueue(in_group("a")).await;
    case.retry(&failed, minutes(5)).await;
    case.cancel(failed.id()).await;
    assert_eq!(case.claim_ids(10).await, [next]);
}

/// A waiting retry that expires holds its group back no longer.
pub(super) async fn an_expired_retry_lets_its_group_go_on(case: Case) {
    let expires_at = Some(START + seconds(30));
    let failed = case
        .active(NewJob {
            expires_at,
            ..in_group("a")
        })
        .await;
    let next = case.enqueue(in_group("a")).await;
    case.retry(&failed, seconds(20)).await;
    case.pause().await;
    case.advance(seconds(30)).await;
    case.resume().await;
    assert_eq!(case.claim_ids(10).await, [next]);
}

/// A waiting retry that is made to run now, or delayed, moves the end of the hold with it.
pub(super) async fn an_edited_retry_moves_the_hold(case: Case) {
    let failed = case.active(in_group("a")).await;
    let next = case.enqueue(in_group("a")).await;
    case.retry(&failed, seconds(5)).await;
    case.edit(failed.id(), Action::Reschedule(Due::After(seconds(60))))
        .await;
    case.advance(seconds(30)).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.edit(failed.id(), Action::RunNow).await;
    assert_eq!(case.drain().await, [failed.id(), next]);
}

/// A rescued or released job goes first in its group, before what has an earlier due.
pub(super) async fn a_returned_job_goes_first_in_its_group(case: Case) {
    let of = |priority| NewJob {
        priority,
        ..in_group("a")
    };
    let earlier = case.enqueue(of(9)).await;
    case.advance(seconds(1)).await;
    let returned = case.enqueue(of(5)).await;
    assert_eq!(case.claim_one().await.id(), returned);
    case.edit(earlier, Action::Reprioritise(5)).await;
    case.leases_run_out().await;
    let rescued = case.claim_one().await;
    assert_eq!(rescued.id(), returned);
    case.end(&rescued, Outcome::Released).await;
    assert_eq!(case.drain().await, [returned, earlier]);
}
