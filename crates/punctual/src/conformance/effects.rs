//! Laws of held jobs and effects: an outcome and what it causes stand or fall together.

use super::START;
use super::case::*;
use crate::engine::{Action, EnqueueVerdict, OnFull, QueueSettings, SettleVerdict, Settlement};
use crate::error::ErrorKind;
use crate::job::{Due, Effect, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes, seconds};

fn held(names: &[&str]) -> NewJob {
    let wait_for = names.iter().map(ToString::to_string).collect();
    NewJob { wait_for, ..job() }
}

pub(super) fn enqueues(job: NewJob) -> Effect {
    Effect::Enqueue(Box::new(job))
}

fn clears(job: JobId, name: &str) -> Effect {
    Effect::Clear {
        job,
        name: name.into(),
    }
}

fn completed_with(attempt: &Attempt, effects: Vec<Effect>) -> Settlement {
    Settlement {
        effects,
        ..attempt.ended(Outcome::Completed)
    }
}

/// Settles as completed; answers the verdicts of the effects.
pub(super) async fn complete_with(
    case: &Case,
    attempt: &Attempt,
    sent: Vec<Effect>,
) -> Vec<Option<EnqueueVerdict>> {
    match case
        .settle_as(attempt.token, completed_with(attempt, sent))
        .await
    {
        SettleVerdict::Settled { effects, .. } => effects,
        other => panic!("the lease is valid, got {other:?}"),
    }
}

/// An effect enqueues a job, with the outcome, and has a verdict of its own.
pub(super) async fn an_effect_puts_a_job_in(case: Case) {
    let attempt = case.active(job()).await;
    let (now, later) = (job(), job_in(minutes(5)));
    let sent = vec![
        enqueues(now.clone()),
        enqueues(later.clone()),
        enqueues(now.clone()),
    ];
    let verdicts = complete_with(&case, &attempt, sent).await;
    let expected = [
        EnqueueVerdict::Created,
        EnqueueVerdict::Created,
        EnqueueVerdict::Duplicate,
    ];
    assert_eq!(verdicts, expected.map(Some));
    assert_eq!(case.get(later.id).await.due, START + minutes(5));
    assert_eq!(case.drain().await, [now.id]);
}

/// Every outcome may have effects, not only a completed one.
pub(super) async fn every_outcome_may_have_effects(case: Case) {
    let outcomes = [
        Outcome::Cancelled,
        Outcome::Dead,
        Outcome::Retry {
            after: Some(hours(1)),
        },
        Outcome::Snooze { after: hours(1) },
    ];
    for outcome in outcomes {
        let attempt = case.active(job()).await;
        let next = job();
        let mut settlement = attempt.ended(outcome);
        settlement.effects = vec![enqueues(next.clone())];
        case.end_as(&attempt, settlement).await;
        assert_eq!(case.drain().await, [next.id]);
    }
}

/// The effects of a lost lease do not happen.
pub(super) async fn effects_of_a_lost_lease_do_not_happen(case: Case) {
    let waiting = case.enqueue(held(&["paid"])).await;
    let late = case.active(job()).await;
    case.leases_run_out().await;
    let next = job();
    let effects = vec![enqueues(next.clone()), clears(waiting, "paid")];
    let verdict = case
        .settle_as(late.token, completed_with(&late, effects))
        .await;
    assert_eq!(verdict, SettleVerdict::LeaseLost);
    assert!(case.is_unknown(next.id).await);
    assert_eq!(case.state(waiting).await, JobState::Held);
}

/// The effects of a repeated settlement happen once.
pub(super) async fn effects_of_a_repeated_settlement_happen_once(case: Case) {
    let attempt = case.active(job()).await;
    let next = job();
    let settlement = completed_with(&attempt, vec![enqueues(next.clone())]);
    case.end_as(&attempt, settlement.clone()).await;
    assert_eq!(case.drain().await, [next.id]);
    case.edit(next.id, Action::Delete).await;
    let again = case.settle_as(attempt.token, settlement).await;
    assert_eq!(again, SettleVerdict::Repeated);
    assert!(case.is_unknown(next.id).await);
}

/// A malformed effect refuses the whole call: the job goes on, and no effect happens.
pub(super) async fn a_malformed_effect_refuses_the_settle(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let claimed = case.claim(2).await;
    let next = job();
    let bad = NewJob {
        priority: 10,
        ..job()
    };
    let settlements = vec![
        claimed[0].ended(Outcome::Completed),
        completed_with(&claimed[1], vec![enqueues(next.clone()), enqueues(bad)]),
    ];
    let answer = case.try_settle(claimed[0].token, settlements).await;
    let error = answer.expect_err("a malformed effect is refused");
    assert_names(&error, ErrorKind::InvalidInput, 1);
    for attempt in &claimed {
        assert_eq!(case.get(attempt.id()).await, attempt.job);
    }
    assert!(case.is_unknown(next.id).await);
}

/// An effect into a full queue is taken: an outcome is not lost to it.
pub(super) async fn an_effect_into_a_full_queue_is_taken(case: Case) {
    let attempt = case.active(job()).await;
    let settings = QueueSettings::new().max_pending(1).on_full(OnFull::Refuse);
    case.configure(settings, 0).await;
    case.enqueue(job()).await;
    assert_eq!(case.verdict(job()).await, EnqueueVerdict::Full);
    let verdicts = complete_with(&case, &attempt, vec![enqueues(job())]).await;
    assert_eq!(verdicts, [Some(EnqueueVerdict::Created)]);
    assert_eq!(case.counts().await.pending(), 2);
}

/// An effect comes after its outcome: it may take the unique key that the outcome frees.
pub(super) async fn an_effect_may_take_the_key_of_its_job(case: Case) {
    let with_key = || NewJob {
        unique: Some(Unique {
            key: "tick".into(),
            policy: UniquePolicy::Keep,
            hold: Default::default(),
        }),
        ..job()
    };
    let attempt = case.active(with_key()).await;
    let next = with_key();
    let verdicts = complete_with(&case, &attempt, vec![enqueues(next.clone())]).await;
    assert_eq!(verdicts, [Some(EnqueueVerdict::Created)]);
    assert_eq!(case.holder("tick").await, Some(next.id));
}

/// An effect may go to another queue, and to another shard: it arrives once, if not at once.
pub(super) async fn an_effect_for_elsewhere_arrives_once(case: Case) {
    let attempt = case.active(job()).await;
    let far = NewJob {
        id: JobId::new().in_shard(613),
        ..NewJob::new("mail", "{}")
    };
    complete_with(&case, &attempt, vec![enqueues(far.clone())]).await;
    for _ in 0..100 {
        if !case.is_unknown(far.id).await {
            break;
        }
        case.maintain().await;
    }
    let claim = crate::engine::Claim::new(case.worker, "mail", 10);
    let claimed = attempts(&case.claim_as(claim).await);
    assert_eq!(
        claimed.iter().map(Attempt::id).collect::<Vec<_>>(),
        [far.id]
    );
}

/// A held job is not claimed, however long it waits.
pub(super) async fn a_held_job_is_not_claimed(case: Case) {
    let id = case.enqueue(held(&["paid"])).await;
    case.advance(hours(100)).await;
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.state(id).await, JobState::Held);
    assert_eq!(case.wake_at().await, None);
}

/// The last name cleared lets a held job run; names that it does not wait for are ignored.
pub(super) async fn the_last_name_lets_a_held_job_run(case: Case) {
    let id = case.enqueue(held(&["paid", "packed", "paid"])).await;
    for name in ["no such name", "paid"] {
        let attempt = case.active(job()).await;
        let verdicts = complete_with(&case, &attempt, vec![clears(id, name)]).await;
        assert_eq!(verdicts, [None], "a clear has no verdict");
        assert_eq!(case.state(id).await, JobState::Held);
    }
    assert_eq!(case.get(id).await.wait_for, ["packed"]);
    let attempt = case.active(job()).await;
    complete_with(&case, &attempt, vec![clears(id, "packed")]).await;
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// A held job whose due is still to come is scheduled when its last name is cleared.
pub(super) async fn a_cleared_job_is_not_early(case: Case) {
    let id = case
        .enqueue(NewJob {
            due: Due::After(hours(1)),
            ..held(&["paid"])
        })
        .await;
    let attempt = case.active(job()).await;
    complete_with(&case, &attempt, vec![clears(id, "paid")]).await;
    let cleared = case.get(id).await;
    assert_eq!(
        (cleared.state, cleared.due),
        (JobState::Scheduled, START + hours(1))
    );
    case.advance(hours(1) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// A clear of a job that waits for nothing, or has settled, is ignored.
pub(super) async fn a_clear_of_a_job_that_does_not_wait_is_ignored(case: Case) {
    let scheduled = case.enqueue(job_in(hours(1))).await;
    let settled = case.ended_job(job(), Outcome::Completed).await;
    let attempt = case.active(job()).await;
    let sent = vec![clears(settled, "paid"), clears(scheduled, "paid")];
    assert_eq!(complete_with(&case, &attempt, sent).await, [None, None]);
    assert_eq!(case.state(scheduled).await, JobState::Scheduled);
    case.edit(settled, Action::Delete).await;
    let again = NewJob {
        id: settled,
        ..held(&["paid"])
    };
    let again = case.enqueue(again).await;
    assert_eq!(case.state(again).await, JobState::Held, "it was not kept");
}

/// One settle may put a held job in and clear its name, in any order.
pub(super) async fn a_settle_may_clear_a_job_that_it_enqueues(case: Case) {
    let attempt = case.active(job()).await;
    let next = held(&["paid"]);
    let sent = vec![clears(next.id, "paid"), enqueues(next.clone())];
    complete_with(&case, &attempt, sent).await;
    assert_eq!(case.drain().await, [next.id]);
    let attempt = case.active(job()).await;
    let other = held(&["paid"]);
    let sent = vec![enqueues(other.clone()), clears(other.id, "paid")];
    complete_with(&case, &attempt, sent).await;
    case.advance(seconds(1)).await;
    assert_eq!(case.drain().await, [other.id]);
}

/// The verdict of a settlement is of the instant after its effects: a retried job that an effect
/// replaces is cancelled, and waits for nothing.
pub(super) async fn a_settle_reports_the_state_after_its_effects(case: Case) {
    let key = || Unique {
        key: "k".into(),
        policy: UniquePolicy::Replace,
        hold: Default::default(),
    };
    let keyed = || NewJob {
        unique: Some(key()),
        ..job()
    };
    for after in [seconds(0), minutes(5)] {
        let attempt = case.active(keyed()).await;
        let successor = keyed();
        let retry = Settlement {
            effects: vec![enqueues(successor.clone())],
            ..attempt.ended(Outcome::Retry { after: Some(after) })
        };
        let verdict = case.settle_as(attempt.token, retry).await;
        let expected = SettleVerdict::Settled {
            state: JobState::Cancelled,
            due: None,
            effects: vec![Some(EnqueueVerdict::Replaced(attempt.id()))],
        };
        assert_eq!(verdict, expected, "a retry after {after:?}");
        assert_eq!(case.state(attempt.id()).await, JobState::Cancelled);
        case.cancel(successor.id).await;
    }
}

/// A retried job that an effect pushes out of a full queue is reported dead.
pub(super) async fn a_settle_reports_its_job_dead_of_overflow(case: Case) {
    let attempt = case.active(job()).await;
    let settings = QueueSettings::new()
        .max_pending(1)
        .on_full(OnFull::DeadLetterOldest);
    case.configure(settings, 0).await;
    let after = Some(seconds(0));
    let retry = Settlement {
        effects: vec![enqueues(job())],
        ..attempt.ended(Outcome::Retry { after })
    };
    let verdict = case.settle_as(attempt.token, retry).await;
    let SettleVerdict::Settled { state, due, .. } = verdict else {
        panic!("the lease is valid, got {verdict:?}");
    };
    let is = case.state(attempt.id()).await;
    assert_eq!((state, due.is_some()), (is, is.is_pending()));
}
