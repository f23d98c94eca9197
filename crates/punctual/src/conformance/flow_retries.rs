//! Laws of what runs again: after a cancel, after the rest was cancelled, and during a cascade.

use super::case::*;
use super::flow_calls::*;
use crate::engine::{Action, FlowAct};
use crate::flow::{FlowState, On, OnFailure, Role};
use crate::job::{JobState, Outcome};
use crate::time::{hours, minutes};

const DONE: On = On::Completed;

/// A retry runs all that a cancel has stopped, each after those that it waits for.
pub(super) async fn a_retry_takes_a_cancel_back(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        step("c", &[("b", DONE)]),
        callback(Role::OnDone),
    ];
    case.send_plan(plan).await;
    let cancelled = case.try_flow(FLOW, FlowAct::Cancel).await;
    cancelled.expect("it is cancelled");
    case.do_all().await;
    assert_eq!(
        case.states(&["a", "b", "c"]).await,
        [JobState::Cancelled; 3]
    );
    assert_eq!(case.retry_flow(None).await, 3);
    assert_eq!(
        case.states(&["a", "b", "c"]).await,
        [JobState::Ready, JobState::Held, JobState::Held]
    );
    let all = [id("a"), id("b"), id("c"), callback_id(Role::OnDone)];
    assert_eq!(case.drain().await, all);
    assert_eq!(case.flow().await.state, FlowState::Done);
}

/// A retry runs the rest too that was cancelled because of a failure.
pub(super) async fn a_retry_runs_the_rest_too(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("x", &[]),
        step("y", &[("x", DONE)]),
        callback(Role::OnDone),
    ];
    case.plan(plan, OnFailure::CancelRest).await;
    let [a, ..] = &case.claim(1).await[..] else {
        panic!("a step is ready");
    };
    case.end(a, Outcome::Dead).await;
    case.do_all().await;
    assert_eq!(case.flow().await.state, FlowState::Failed);
    assert!(case.retry_flow(None).await >= 2);
    case.do_all().await;
    assert_eq!(case.drain().await.len(), 4);
    assert_eq!(
        case.states(&["a", "x", "y"]).await,
        [JobState::Completed; 3]
    );
    assert_eq!(case.flow().await.state, FlowState::Done);
}

/// A step that waits again before its first attempt waits for its names and its due too.
pub(super) async fn a_step_that_waits_again_keeps_what_it_waits_for(case: Case) {
    let mut approved = step("b", &[("a", DONE)]);
    approved.wait_for = vec!["approved".into()];
    let later = step("d", &[("a", DONE)]).due(crate::job::Due::After(hours(1)));
    case.send_plan(vec![step("a", &[]), approved, later]).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    assert_eq!(case.states(&["b", "d"]).await, [JobState::Cancelled; 2]);
    case.edit(id("a"), Action::Redrive).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    assert_eq!(
        case.states(&["b", "d"]).await,
        [JobState::Held, JobState::Scheduled]
    );
}

/// A redrive stops the rest of a cascade that the earlier end began.
pub(super) async fn a_redrive_ends_the_cascade_of_before(case: Case) {
    let behind = (0..400).map(|n| step(&format!("b{n}"), &[("a", DONE)]));
    let plan = [step("a", &[])].into_iter().chain(behind);
    case.send_plan(plan.chain([callback(Role::OnDone)]).collect())
        .await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    case.edit(id("a"), Action::Redrive).await;
    case.do_all().await;
    let held = case.counts().await.of(JobState::Held);
    assert_eq!(held, 401, "all wait again, and the callback");
    assert_eq!(case.drain().await.len(), 402);
    assert_eq!(case.flow().await.state, FlowState::Done);
}

/// A flow is kept until its callback has ended: others may wait for that.
pub(super) async fn a_flow_outlives_what_waits_for_its_callback(case: Case) {
    let case = case
        .limited(|limits| limits.cancelled_retention = minutes(30))
        .await;
    case.send_plan(vec![step("a", &[]), callback(Role::OnSettled)])
        .await;
    let waits = job().after(callback_id(Role::OnSettled), DONE);
    let waiting = case.enqueue(waits).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    case.pass(hours(2)).await;
    assert_eq!(case.state(waiting).await, JobState::Held);
    assert_eq!(case.drain().await, [callback_id(Role::OnSettled), waiting]);
    case.pass(hours(2)).await;
    assert_eq!(case.find_flow(FLOW).await, None);
}

/// A step that was free to run, and does not yet, waits again with the one that it waits for.
pub(super) async fn a_freed_step_is_held_again_with_its_parent(case: Case) {
    let plan = vec![step("a", &[]), step("b", &[("a", On::Settled)])];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    assert_eq!(case.state(id("b")).await, JobState::Ready);
    case.edit(id("a"), Action::Redrive).await;
    assert_eq!(
        case.states(&["a", "b"]).await,
        [JobState::Ready, JobState::Held]
    );
    assert_eq!(case.drain().await, [id("a"), id("b")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
}

/// A callback that is not there any more was not released.
pub(super) async fn a_deleted_callback_does_not_read_as_fired(case: Case) {
    let on_settled = callback_id(Role::OnSettled);
    case.send_plan(vec![step("a", &[]), callback(Role::OnSettled)])
        .await;
    case.cancel(on_settled).await;
    case.edit(on_settled, Action::Delete).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    let status = case.flow().await;
    assert_eq!(status.state, FlowState::Done);
    assert!(!status.callbacks[0].fired);
}

/// A step that ended before those that wait for it were sent runs again, and they after it.
pub(super) async fn a_step_that_ended_before_the_rest_came_runs_again(case: Case) {
    case.enqueue(step("a", &[])).await;
    case.cancel(id("a")).await;
    case.enqueue(step("b", &[("a", DONE)])).await;
    let sealed = case.try_seal(FLOW, 2, OnFailure::default()).await;
    sealed.expect("the plan is whole");
    case.do_all().await;
    assert_eq!(case.states(&["a", "b"]).await, [JobState::Cancelled; 2]);
    assert_eq!(case.retry_flow(None).await, 1);
    case.do_all().await;
    assert_eq!(
        case.states(&["a", "b"]).await,
        [JobState::Ready, JobState::Held]
    );
    assert_eq!(case.drain().await, [id("a"), id("b")]);
}
