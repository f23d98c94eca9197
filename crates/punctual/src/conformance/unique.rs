//! Laws of unique keys: a key lives and dies with its job.

use std::time::Duration;

use super::case::*;
use crate::engine::Action;
use crate::engine::EditVerdict::{Done, UniqueHeld};
use crate::engine::EnqueueVerdict::{self, Created, Merged, Replaced, UniqueActive};
use crate::engine::Got;
use crate::job::{
    CancelReason, Effect, Hold, JobId, JobState, NewJob, Outcome, Unique,
    UniquePolicy::{self, After, Keep, Replace},
};
use crate::time::{hours, minutes, seconds};

const KEY: &str = "order:7";

fn unique(policy: UniquePolicy, hold: Hold) -> Option<Unique> {
    Some(Unique {
        key: KEY.into(),
        policy,
        hold,
    })
}

/// A job that holds the key until it settles.
fn with_key(policy: UniquePolicy) -> NewJob {
    NewJob {
        unique: unique(policy, Hold::UntilSettled),
        ..job()
    }
}

fn held_for(span: Duration) -> NewJob {
    NewJob {
        unique: unique(Keep, Hold::For(span)),
        ..job()
    }
}

fn in_an_hour(policy: UniquePolicy) -> NewJob {
    NewJob {
        unique: unique(policy, Hold::UntilSettled),
        ..job_in(hours(1))
    }
}

async fn send_with_key(case: &Case, policy: UniquePolicy) -> (JobId, EnqueueVerdict) {
    let receipt = case.send(with_key(policy)).await;
    (receipt.id, receipt.verdict)
}

/// Keep: the holder stays, whether it waits or runs; the new job is merged and not stored.
pub(super) async fn keep_merges_into_the_holder(case: Case) {
    let holder = case.enqueue(in_an_hour(Keep)).await;
    let (merged, verdict) = send_with_key(&case, Keep).await;
    assert_eq!(verdict, Merged(holder));
    assert!(case.is_unknown(merged).await, "a merged job is not stored");
    case.edit(holder, Action::RunNow).await;
    case.claim_one().await;
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(holder));
    assert_eq!(case.counts().await.pending(), 0);
}

/// Replace: a waiting holder becomes `cancelled: replaced` and the new job holds the key.
pub(super) async fn replace_cancels_a_waiting_holder(case: Case) {
    let holder = case.enqueue(in_an_hour(Keep)).await;
    let (new, verdict) = send_with_key(&case, Replace).await;
    assert_eq!(verdict, Replaced(holder));
    let old = case.get(holder).await;
    assert_eq!(
        (old.state, old.cancelled),
        (JobState::Cancelled, Some(CancelReason::Replaced))
    );
    assert_eq!(case.holder(KEY).await, Some(new));
    assert_eq!(case.drain().await, [new]);
}

/// Replace: an active holder is not replaced; the new job is not stored.
pub(super) async fn replace_of_an_active_holder_is_refused(case: Case) {
    let holder = case.active(with_key(Keep)).await;
    let (new, verdict) = send_with_key(&case, Replace).await;
    assert_eq!(verdict, UniqueActive(holder.id()));
    assert!(case.is_unknown(new).await);
    case.complete(&holder).await;
}

/// Replace: the follower of a waiting holder is replaced with it.
pub(super) async fn replace_takes_the_follower_too(case: Case) {
    let holder = case.active(with_key(Keep)).await;
    let follower = case.enqueue(with_key(After)).await;
    case.retry(&holder, minutes(1)).await;
    let (new, verdict) = send_with_key(&case, Replace).await;
    assert_eq!(verdict, Replaced(holder.id()));
    for id in [holder.id(), follower] {
        assert_eq!(case.get(id).await.cancelled, Some(CancelReason::Replaced));
    }
    case.advance(minutes(2)).await;
    assert_eq!(case.drain().await, [new]);
}

/// After: behind an active holder one follower is held, and starts when the holder settles.
pub(super) async fn after_an_active_holder_one_follower_waits(case: Case) {
    let holder = case.active(with_key(Keep)).await;
    let follower = case.enqueue(with_key(After)).await;
    assert_eq!(case.state(follower).await, JobState::Held);
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.holder(KEY).await, Some(holder.id()));
    case.complete(&holder).await;
    assert_eq!(case.holder(KEY).await, Some(follower));
    assert_eq!(case.claim_ids(10).await, [follower]);
}

/// After: a second follower is merged into the first.
pub(super) async fn after_merges_a_second_follower(case: Case) {
    case.active(with_key(Keep)).await;
    let follower = case.enqueue(with_key(After)).await;
    assert_eq!(send_with_key(&case, After).await.1, Merged(follower));
}

/// After: behind a holder that waits, the new job is merged into it.
pub(super) async fn after_a_waiting_holder_merges(case: Case) {
    let holder = case.enqueue(in_an_hour(Keep)).await;
    assert_eq!(send_with_key(&case, After).await.1, Merged(holder));
}

/// After: a follower waits through its holder's retries, and follows a death as well.
pub(super) async fn a_follower_waits_until_its_holder_settles(case: Case) {
    let holder = case.active(with_key(Keep)).await;
    let follower = case.enqueue(with_key(After)).await;
    case.retry(&holder, seconds(0)).await;
    let again = case.claim(10).await;
    assert_eq!(
        again.iter().map(Attempt::id).collect::<Vec<_>>(),
        [holder.id()]
    );
    case.end(&again[0], Outcome::Dead).await;
    assert_eq!(case.claim_ids(10).await, [follower]);
}

/// After: a follower whose due is still to come is scheduled when its holder settles.
pub(super) async fn a_follower_is_not_early(case: Case) {
    let holder = case.active(with_key(Keep)).await;
    let follower = case.enqueue(in_an_hour(After)).await;
    case.complete(&holder).await;
    assert_eq!(case.state(follower).await, JobState::Scheduled);
    assert_eq!(case.claim_ids(10).await, []);
}

/// After: a follower that waits for names too waits for both, whichever ends first.
pub(super) async fn a_follower_may_wait_for_names_too(case: Case) {
    for holder_first in [true, false] {
        let holder = case.active(with_key(Keep)).await;
        let wait_for = vec!["paid".into()];
        let follower = case
            .enqueue(NewJob {
                wait_for,
                ..with_key(After)
            })
            .await;
        if holder_first {
            case.complete(&holder).await;
        }
        let other = case.active(job()).await;
        assert_eq!(case.state(follower).await, JobState::Held);
        let mut settlement = other.ended(Outcome::Completed);
        let name = "paid".into();
        settlement.effects = vec![Effect::Clear {
            job: follower,
            name,
        }];
        case.end_as(&other, settlement).await;
        if !holder_first {
            assert_eq!(case.state(follower).await, JobState::Held);
            case.complete(&holder).await;
        }
        assert_eq!(case.drain().await, [follower]);
    }
}

/// A key is free once its job has settled, whatever the outcome.
pub(super) async fn a_key_is_free_once_its_job_settles(case: Case) {
    for outcome in [Outcome::Completed, Outcome::Cancelled, Outcome::Dead] {
        case.ended_job(with_key(Keep), outcome.clone()).await;
        assert_eq!(case.holder(KEY).await, None, "{outcome:?}");
        let (new, verdict) = send_with_key(&case, Keep).await;
        assert_eq!(verdict, Created, "{outcome:?}");
        case.cancel(new).await;
    }
    assert_eq!(
        send_with_key(&case, Keep).await.1,
        Created,
        "after a cancel"
    );
}

/// A key stays with its job through retry, snooze, release and rescue.
pub(super) async fn a_key_is_kept_while_its_job_goes_on(case: Case) {
    let holder = case.enqueue(with_key(Keep)).await;
    let now = seconds(0);
    for outcome in [
        Outcome::Retry { after: Some(now) },
        Outcome::Snooze { after: now },
        Outcome::Released,
    ] {
        let attempt = case.claim_one().await;
        case.end(&attempt, outcome.clone()).await;
        assert_eq!(
            send_with_key(&case, Keep).await.1,
            Merged(holder),
            "{outcome:?}"
        );
    }
    case.claim_one().await;
    case.leases_run_out().await;
    assert_eq!(
        send_with_key(&case, Keep).await.1,
        Merged(holder),
        "rescued"
    );
}

/// A key held until started is free from the first claim on, and not taken back.
pub(super) async fn a_key_until_started_is_free_at_the_first_claim(case: Case) {
    let until_started = NewJob {
        unique: unique(Keep, Hold::UntilStarted),
        ..job()
    };
    let first = case.active(until_started.clone()).await;
    let second = NewJob {
        id: JobId::new(),
        ..until_started
    };
    assert_eq!(case.verdict(second.clone()).await, Created);
    case.end(&first, Outcome::Released).await;
    assert_eq!(case.holder(KEY).await, Some(second.id));
    assert_eq!(case.drain().await.len(), 2);
}

/// A key held for a period is held after its job has settled, until the period ends.
pub(super) async fn a_key_for_a_period_outlives_its_job(case: Case) {
    let holder = case
        .ended_job(held_for(minutes(1)), Outcome::Completed)
        .await;
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(holder));
    assert_eq!(send_with_key(&case, Replace).await.1, Merged(holder));
    case.advance(minutes(1) - TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(holder));
    case.advance(TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Created);
}

/// A holder that has settled within its period is not replaced: it is over.
pub(super) async fn a_settled_holder_is_not_replaced(case: Case) {
    for outcome in [Outcome::Dead, Outcome::Cancelled] {
        let holder = case.ended_job(held_for(minutes(1)), outcome).await;
        let before = case.get(holder).await;
        assert_eq!(send_with_key(&case, Replace).await.1, Merged(holder));
        assert_eq!(case.get(holder).await, before);
        case.advance(minutes(1)).await;
    }
}

/// A key held for a period is free at its end, though its job has not settled.
pub(super) async fn a_key_for_a_period_is_free_before_its_job_settles(case: Case) {
    let slow = NewJob {
        unique: unique(Keep, Hold::For(minutes(1))),
        ..job_in(hours(1))
    };
    let first = case.enqueue(slow).await;
    case.advance(minutes(1)).await;
    let (second, verdict) = send_with_key(&case, Keep).await;
    assert_eq!(verdict, Created);
    case.cancel(first).await;
    assert_eq!(
        case.holder(KEY).await,
        Some(second),
        "the new holder keeps it"
    );
}

/// A period counts from the enqueue, for a job that takes its key again too.
pub(super) async fn a_period_counts_from_the_enqueue(case: Case) {
    let dead = case.ended_job(held_for(minutes(10)), Outcome::Dead).await;
    case.advance(minutes(5)).await;
    case.pause().await;
    assert_eq!(
        case.edit(dead, Action::Redrive).await,
        Done(JobState::Ready)
    );
    case.advance(minutes(5) - TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(dead));
    case.advance(TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Created);
}

/// The same key in another queue is another key.
pub(super) async fn a_key_is_of_one_queue(case: Case) {
    case.enqueue(with_key(Keep)).await;
    let elsewhere = NewJob {
        queue: "mail".into(),
        ..with_key(Keep)
    };
    assert_eq!(case.verdict(elsewhere).await, Created);
}

/// Two jobs of one call with one key: the second is merged into the first.
pub(super) async fn a_key_counts_within_a_call(case: Case) {
    let jobs = vec![with_key(Keep), with_key(Keep), with_key(Replace)];
    let sent = ids(&jobs);
    let receipts = case.send_all(jobs).await;
    let verdicts: Vec<_> = receipts.iter().map(|receipt| receipt.verdict).collect();
    assert_eq!(verdicts, [Created, Merged(sent[0]), Replaced(sent[0])]);
    assert_eq!(case.drain().await, [sent[2]]);
}

/// A holder that has expired does not count, from that very instant.
pub(super) async fn an_expired_holder_does_not_count(case: Case) {
    let expires_at = Some(case.clock() + minutes(1));
    let first = case
        .enqueue(NewJob {
            expires_at,
            ..in_an_hour(Keep)
        })
        .await;
    case.advance(minutes(1) - TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(first));
    case.advance(TICK).await;
    assert_eq!(send_with_key(&case, Keep).await.1, Created);
    assert_eq!(case.get(first).await.cancelled, Some(CancelReason::Expired));
}

/// Every verb that takes ids takes the key of a holder as well.
pub(super) async fn a_job_is_named_by_its_key(case: Case) {
    let id = case.enqueue(in_an_hour(Keep)).await;
    let got = case.got(by_key(KEY)).await;
    assert_eq!(got.as_ref().and_then(Got::job).map(|job| job.id), Some(id));
    assert_eq!(
        case.edit(by_key(KEY), Action::RunNow).await,
        Done(JobState::Ready)
    );
    assert_eq!(case.cancel(by_key(KEY)).await, Done(JobState::Cancelled));
    assert!(case.is_unknown(by_key(KEY)).await, "no job holds it");
}

/// Redrive against a held key is refused with the holder, and takes the key once it is free.
pub(super) async fn redrive_takes_the_key_again(case: Case) {
    let dead = case.ended_job(with_key(Keep), Outcome::Dead).await;
    let holder = case.enqueue(with_key(Keep)).await;
    assert_eq!(case.edit(dead, Action::Redrive).await, UniqueHeld(holder));
    assert_eq!(case.state(dead).await, JobState::Dead);
    case.cancel(holder).await;
    assert_eq!(
        case.edit(dead, Action::Redrive).await,
        Done(JobState::Ready)
    );
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(dead));
}

/// The end of a former holder, however late, leaves the key with its present one.
pub(super) async fn a_former_holder_does_not_free_the_key(case: Case) {
    let dead = case.ended_job(with_key(Keep), Outcome::Dead).await;
    let holder = case.enqueue(with_key(Keep)).await;
    case.edit(dead, Action::Delete).await;
    assert_eq!(case.holder(KEY).await, Some(holder));
    assert_eq!(send_with_key(&case, Keep).await.1, Merged(holder));
}

/// Jobs that end together, by a settle or a cancel, free each its own key, and are kept as sent.
pub(super) async fn jobs_that_end_together_free_their_keys(case: Case) {
    let sent = |nth: u64, job: NewJob| NewJob {
        payload: bytes(&nth.to_string()),
        retention: hours(1),
        unique: Some(Unique {
            key: format!("order:{nth:02}"),
            policy: Keep,
            hold: Hold::UntilSettled,
        }),
        ..job
    };
    let start = case.clock();
    let mut ids = case
        .enqueue_all((0..12).map(|nth| sent(nth, job())).collect())
        .await;
    let later = (12..24).map(|nth| sent(nth, job_in(seconds(nth))));
    ids.extend(case.enqueue_all(later.collect()).await);
    for nth in 12..24 {
        assert_eq!(case.get(ids[nth as usize]).await.due, start + seconds(nth));
    }
    case.drain_together().await;
    let cancelled = ids[12..].iter().map(|id| (*id).into()).collect();
    assert_eq!(
        case.edit_all(cancelled, Action::Cancel).await,
        vec![Done(JobState::Cancelled); 12]
    );
    for nth in 0..24 {
        let kept = case.get(ids[nth as usize]).await;
        assert_eq!(kept.payload, bytes(&nth.to_string()));
        assert_eq!(case.verdict(sent(nth, job())).await, Created, "{nth}");
    }
}
