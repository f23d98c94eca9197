//! Laws of plans: what is sent of a flow, in parts, again, or while it runs.

use super::START;
use super::case::*;
use super::flow_calls::*;
use crate::engine::{Action, Controlled, EnqueueVerdict, FlowAct, Reason};
use crate::error::ErrorKind;
use crate::flow::{After, FlowState, On, OnFailure, Role, SEND_TIMEOUT};
use crate::job::{CancelReason, Effect, JobId, JobState, NewJob, Outcome, Unique};
use crate::time::minutes;

const DONE: On = On::Completed;

/// Nothing of a plan runs before it is sealed, and it is cancelled whole after a while.
pub(super) async fn a_plan_sent_in_part_never_runs(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", On::Settled)]),
        callback(Role::OnSettled),
    ];
    case.enqueue_all(plan).await;
    assert_eq!(case.flow().await.until, Some(START + SEND_TIMEOUT));
    let flow = FLOW.to_owned();
    assert_eq!(case.reasons(id("a")).await, [Reason::FlowOpen { flow }]);
    case.edit(id("a"), Action::RunNow).await;
    case.cancel(id("a")).await;
    assert!(case.claim_ids(10).await.is_empty());
    case.advance(SEND_TIMEOUT).await;
    case.do_all().await;
    assert!(case.claim_ids(10).await.is_empty());
    let status = case.flow().await;
    assert_eq!(status.state, FlowState::Cancelled);
    assert_eq!(case.flow_counts().await, counts(0, [0, 0, 2, 0]));
    let b = case.get(id("b")).await;
    assert_eq!(b.cancelled, Some(CancelReason::Expired));
    assert_eq!(
        case.state(callback_id(Role::OnSettled)).await,
        JobState::Cancelled
    );
    let error = case.try_seal(FLOW, 2, OnFailure::default()).await;
    assert_eq!(
        error.map_err(|error| error.kind()),
        Err(ErrorKind::Conflict)
    );
    assert_eq!(
        case.verdict(step("c", &[])).await,
        EnqueueVerdict::FlowClosed
    );
}

/// What waits for the seal is done with it, or with the cancel: the answer has it.
pub(super) async fn a_part_that_lost_a_step_is_sealed_or_cancelled_at_once(case: Case) {
    let plan = |flow: &str| {
        let last = step_of(flow, "c", &[("b", On::Settled)]);
        vec![step_of(flow, "a", &[]), step_of(flow, "b", &[]), last]
    };
    for flow in ["sealed", "cancelled"] {
        case.enqueue_all(plan(flow)).await;
        case.cancel(JobId::step(flow, "b")).await;
    }
    let sealed = case.try_seal("sealed", 3, OnFailure::default()).await;
    sealed.expect("the plan is whole");
    for name in ["a", "c"] {
        let state = case.state(JobId::step("sealed", name)).await;
        assert_eq!(state, JobState::Ready, "{name}");
    }
    let cancelled = case.try_flow("cancelled", FlowAct::Cancel).await;
    let Ok(Controlled::Flow(Some(status))) = cancelled else {
        panic!("a flow is cancelled, got {cancelled:?}");
    };
    assert_eq!(status.counts, counts(0, [0, 0, 3, 0]));
    assert_eq!(status.state, FlowState::Cancelled);
}

/// The same plan again changes nothing, before it is sealed, after, and once it has settled.
pub(super) async fn the_same_plan_again_is_a_duplicate(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        callback(Role::OnDone),
    ];
    case.enqueue_all(plan.clone()).await;
    for _ in 0..2 {
        let receipts = case.send_all(plan.clone()).await;
        let verdicts: Vec<_> = receipts.iter().map(|receipt| receipt.verdict).collect();
        assert_eq!(verdicts, [EnqueueVerdict::Duplicate; 3]);
        let sealed = case.try_seal(FLOW, 2, OnFailure::default()).await;
        sealed.expect("the plan is whole");
    }
    assert_eq!(case.drain().await.len(), 3);
    case.advance(minutes(10)).await;
    let receipts = case.send_all(plan).await;
    assert!(
        receipts
            .iter()
            .all(|receipt| receipt.verdict == EnqueueVerdict::Duplicate)
    );
    assert!(case.try_seal(FLOW, 2, OnFailure::default()).await.is_ok());
    assert!(case.drain().await.is_empty());
}

/// Another plan under the name of a flow is refused, wherever it differs.
pub(super) async fn another_plan_under_its_name_is_refused(case: Case) {
    case.send_plan(vec![step("a", &[]), step("b", &[("a", DONE)])])
        .await;
    let conflict = EnqueueVerdict::IdConflict;
    let other = step("a", &[]).payload(bytes("other"));
    assert_eq!(case.verdict(other).await, conflict);
    assert_eq!(case.verdict(step("b", &[])).await, conflict);
    assert_eq!(
        case.verdict(step("b", &[("a", On::Settled)])).await,
        conflict
    );
    assert_eq!(
        case.verdict(step("c", &[])).await,
        EnqueueVerdict::FlowClosed
    );
    let late = callback(Role::OnDone);
    assert_eq!(case.verdict(late).await, EnqueueVerdict::FlowClosed);
    for (steps, on_failure) in [(1, OnFailure::CancelDependants), (2, OnFailure::Continue)] {
        let answer = case.try_seal(FLOW, steps, on_failure).await;
        let error = answer.expect_err("it was sealed as another plan");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    case.enqueue(step_of("short", "a", &[])).await;
    let answer = case.try_seal("short", 2, OnFailure::default()).await;
    assert_eq!(
        answer.map_err(|error| error.kind()),
        Err(ErrorKind::Conflict)
    );
}

/// A step with another option is that of another plan; the order of what it waits for is none.
pub(super) async fn a_plan_that_differs_in_an_option_is_another_one(case: Case) {
    let first = || step("c", &[("a", DONE), ("b", On::Settled)]);
    case.send_plan(vec![step("a", &[]), step("b", &[]), first()])
        .await;
    let turned = step("c", &[("b", On::Settled), ("a", DONE)]);
    assert_eq!(case.verdict(turned).await, EnqueueVerdict::Duplicate);
    let mut named = first();
    named.wait_for = vec!["approved".into()];
    let keyed = NewJob {
        unique: Some(Unique::new("order:7")),
        ..first()
    };
    let others = [
        first().priority(9),
        first().delay(minutes(1)),
        first().max_attempts(7),
        named,
        keyed,
    ];
    for other in others {
        assert_eq!(case.verdict(other).await, EnqueueVerdict::IdConflict);
    }
}

/// A plan that is sent again without its callback, or with another one, is another plan; one that
/// lacks a callback is not sealed.
pub(super) async fn a_plan_without_its_callback_is_another_one(case: Case) {
    let seal = async |flow: &str, callbacks: &[Role]| {
        let seal = FlowAct::Seal {
            steps: 1,
            on_failure: OnFailure::default(),
            callbacks: Some(callbacks.to_vec()),
        };
        let answer = case.try_flow(flow, seal).await;
        answer.map(drop).map_err(|error| error.kind())
    };
    let conflict = Err(ErrorKind::Conflict);
    case.enqueue(step("a", &[])).await;
    assert_eq!(
        seal(FLOW, &[Role::OnDone]).await,
        conflict,
        "it has not come"
    );
    case.enqueue(callback(Role::OnDone)).await;
    assert_eq!(seal(FLOW, &[]).await, conflict);
    assert_eq!(seal(FLOW, &[Role::OnDone, Role::OnFailed]).await, conflict);
    assert_eq!(case.claim_ids(1).await, [], "nothing of it runs");
    assert_eq!(seal(FLOW, &[Role::OnDone]).await, Ok(()));
    assert_eq!(seal(FLOW, &[Role::OnDone]).await, Ok(()), "the same again");
    assert_eq!(seal(FLOW, &[]).await, conflict);
    assert_eq!(seal(FLOW, &[Role::OnSettled]).await, conflict);
    let other = callback(Role::OnDone).payload(bytes("other"));
    assert_eq!(case.verdict(other).await, EnqueueVerdict::IdConflict);
    assert_eq!(case.drain().await, [id("a"), callback_id(Role::OnDone)]);
    case.enqueue(step_of("bare", "a", &[])).await;
    assert_eq!(seal("bare", &[]).await, Ok(()));
    assert_eq!(seal("bare", &[Role::OnDone]).await, conflict);
}

/// After a failure that cancels the rest a flow takes no step but one that waits for a failure.
pub(super) async fn a_flow_whose_rest_is_cancelled_does_not_grow(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("mend", &[("a", On::Failed)]),
        step("b", &[]),
    ];
    case.plan(plan, OnFailure::CancelRest).await;
    let failed = case.claim_one().await;
    case.end(&failed, Outcome::Dead).await;
    assert_eq!(
        case.verdict(grown("more")).await,
        EnqueueVerdict::FlowClosed
    );
    let mends = grown("mend-too").after(id("a"), On::Failed);
    assert_eq!(case.verdict(mends).await, EnqueueVerdict::Created);
    assert_eq!(case.drain().await, [id("mend"), id("mend-too")]);
}

/// Only a step has the id of a step.
pub(super) async fn the_id_of_a_step_is_reserved(case: Case) {
    let stolen = NewJob::with_id(id("a"), QUEUE, "{}");
    let error = case.enqueue_error(stolen).await;
    assert_names(&error, ErrorKind::ReservedId, 0);
    let wrong = NewJob {
        id: id("b"),
        ..step("a", &[])
    };
    let error = case.enqueue_error(wrong).await;
    assert_names(&error, ErrorKind::ReservedId, 0);
}

/// A flow grows while it runs, also by the effects of its last step.
pub(super) async fn a_flow_grows_while_it_runs(case: Case) {
    let plan = vec![step("a", &[]), callback(Role::OnDone)];
    case.send_plan(plan.clone()).await;
    let last = case.claim_one().await;
    let more = grown("more").after(id("a"), DONE);
    let mut settlement = last.ended(Outcome::Completed);
    settlement.effects = vec![
        Effect::Enqueue(Box::new(more)),
        Effect::Enqueue(Box::new(grown("other"))),
    ];
    case.end_as(&last, settlement).await;
    assert_eq!(case.flow_counts().await, counts(2, [1, 0, 0, 0]));
    let on_done = callback_id(Role::OnDone);
    assert_eq!(case.drain().await, [id("more"), id("other"), on_done]);
    assert_eq!(
        case.verdict(grown("late")).await,
        EnqueueVerdict::FlowClosed
    );
    assert_eq!(
        case.send_all(plan).await[0].verdict,
        EnqueueVerdict::Duplicate
    );
    assert!(case.try_seal(FLOW, 1, OnFailure::default()).await.is_ok());
}

/// A flow that has settled is forgotten after a while, and its name is free.
pub(super) async fn a_flow_is_forgotten_after_its_time(case: Case) {
    let case = case
        .limited(|limits| limits.cancelled_retention = minutes(30))
        .await;
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        callback(Role::OnDone),
    ];
    case.send_plan(plan.clone()).await;
    assert_eq!(case.drain().await.len(), 3);
    assert_eq!(case.flow().await.until, Some(START + minutes(30)));
    case.advance(minutes(30)).await;
    case.do_all().await;
    assert_eq!(case.find_flow(FLOW).await, None);
    assert!(case.is_unknown(id("a")).await);
    case.send_plan(plan).await;
    assert_eq!(case.drain().await.len(), 3);
}

/// Two jobs never wait for each other: who is waited for comes first.
pub(super) async fn a_cycle_is_refused(case: Case) {
    let alone = job();
    let error = case
        .enqueue_error(alone.clone().after(alone.id, DONE))
        .await;
    assert_names(&error, ErrorKind::InvalidInput, 0);
    let twice = step("a", &[("b", DONE), ("b", On::Failed)]);
    let error = case.enqueue_error(twice).await;
    assert_names(&error, ErrorKind::InvalidInput, 0);
    case.enqueue_all(vec![step("a", &[]), step("b", &[("a", DONE)])])
        .await;
    let after = vec![After::completed(id("b"))];
    let wait = FlowAct::Wait {
        step: id("a"),
        after,
    };
    let error = case
        .try_flow(FLOW, wait)
        .await
        .expect_err("it would be one");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // A callback waits for all steps, so no step of its flow waits for it.
    let on_done = callback_id(Role::OnDone);
    case.enqueue_all(vec![callback(Role::OnDone)]).await;
    let error = case
        .enqueue_error(step("c", &[]).after(on_done, DONE))
        .await;
    assert_names(&error, ErrorKind::InvalidInput, 0);
    let after = vec![After::completed(on_done)];
    let wait = FlowAct::Wait {
        step: id("b"),
        after,
    };
    let error = case
        .try_flow(FLOW, wait)
        .await
        .expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
