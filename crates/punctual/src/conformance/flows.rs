//! Laws of flows: a step starts once what it waits for has ended as asked, in no other case.

use super::START;
use super::case::*;
use super::flow_calls::*;
use super::polls::at_once;
use crate::engine::{Action, EnqueueVerdict, FlowAct, Reason, Waited};
use crate::error::ErrorKind;
use crate::flow::{After, EDGES_PER_CALL, FlowState, On, OnFailure, Role};
use crate::job::{CancelReason, Effect, JobId, JobState, NewJob, Outcome};
use crate::time::{hours, millis, minutes, seconds};

const DONE: On = On::Completed;

/// A step runs once the last of those that it waits for has completed.
pub(super) async fn a_step_waits_for_all(case: Case) {
    let ship = step("ship", &[("pack", DONE), ("label", DONE)]);
    let plan = vec![
        step("charge", &[]),
        step("pack", &[("charge", DONE)]),
        step("label", &[("charge", DONE)]),
        ship,
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["charge"]);
    let [pack, label] = &case.claim(10).await[..] else {
        panic!("both wait for nothing more");
    };
    case.complete(pack).await;
    assert_eq!(case.state(id("ship")).await, JobState::Held);
    let some = vec![(label.id(), JobState::Active)];
    let waits = Reason::WaitsForJobs { waits: 1, some };
    assert_eq!(case.reasons(id("ship")).await, [waits]);
    case.complete(label).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["ship"]);
    let status = case.flow().await;
    assert_eq!(status.state, FlowState::Done);
    assert_eq!(case.flow_counts().await, counts(0, [4, 0, 0, 0]));
}

/// A step may wait for a failure, or for any end.
pub(super) async fn a_step_waits_for_an_end_as_asked(case: Case) {
    for (outcome, expected) in [
        (Outcome::Completed, [JobState::Ready, JobState::Cancelled]),
        (Outcome::Dead, [JobState::Cancelled, JobState::Ready]),
        (Outcome::Cancelled, [JobState::Cancelled, JobState::Ready]),
    ] {
        let case = case.another().await;
        let plan = vec![
            step("pack", &[]),
            step("ship", &[("pack", DONE)]),
            step("refund", &[("pack", On::Failed)]),
            step("report", &[("pack", On::Settled)]),
        ];
        case.send_plan(plan).await;
        assert_eq!(case.run_steps(outcome).await, ["pack"]);
        let states = case.states(&["ship", "refund", "report"]).await;
        assert_eq!(states, [expected[0], expected[1], JobState::Ready]);
    }
}

/// A job that has settled before counts as it ended, also when its record is gone.
pub(super) async fn a_parent_that_has_settled_counts(case: Case) {
    let done = case.ended_job(job(), Outcome::Completed).await;
    let dead = case.ended_job(job(), Outcome::Dead).await;
    for (on, states) in [
        (On::Completed, [JobState::Ready, JobState::Cancelled]),
        (On::Failed, [JobState::Cancelled, JobState::Ready]),
        (On::Settled, [JobState::Ready, JobState::Ready]),
    ] {
        let after_done = case.enqueue(job().after(done, on)).await;
        let after_dead = case.enqueue(job().after(dead, on)).await;
        let found = [case.state(after_done).await, case.state(after_dead).await];
        assert_eq!(found, states, "{on}");
    }
}

/// A job cannot wait for an unknown job: the engine makes no guess.
pub(super) async fn an_unknown_parent_is_refused(case: Case) {
    let unknown = JobId::new();
    let waiting = job().after(unknown, DONE);
    let (id, verdict) = (waiting.id, case.verdict(waiting).await);
    assert_eq!(verdict, EnqueueVerdict::ParentUnknown(unknown));
    assert!(case.is_unknown(id).await);
    let early = step("pack", &[("charge", DONE)]);
    let receipts = case.send_all(vec![early, step("charge", &[])]).await;
    let charge = JobId::step(FLOW, "charge");
    assert_eq!(receipts[0].verdict, EnqueueVerdict::ParentUnknown(charge));
    assert_eq!(receipts[1].verdict, EnqueueVerdict::Created);
}

/// Jobs of no flow may wait for each other too.
pub(super) async fn any_job_may_wait_for_another(case: Case) {
    let first = case.enqueue(job()).await;
    let second = case.enqueue(job().after(first, DONE)).await;
    let third = case.enqueue(job().after(second, DONE)).await;
    let (waits, some) = (1, vec![(second, JobState::Held)]);
    assert_eq!(
        case.reasons(third).await,
        [Reason::WaitsForJobs { waits, some }]
    );
    assert_eq!(case.drain().await, [first, second, third]);
}

/// A callback runs once, whatever happens to the flow later.
pub(super) async fn a_callback_fires_once(case: Case) {
    let plan = vec![step("a", &[]), step("b", &[]), callback(Role::OnSettled)];
    case.send_plan(plan).await;
    let on_settled = callback_id(Role::OnSettled);
    let (flow, open) = (FLOW.to_owned(), 2);
    let waits = Reason::WaitsForFlow { flow, open };
    assert_eq!(case.reasons(on_settled).await, [waits]);
    let [a, b] = &case.claim(10).await[..] else {
        panic!("two steps wait for nothing");
    };
    case.complete(a).await;
    assert_eq!(case.state(on_settled).await, JobState::Held);
    case.end(b, Outcome::Dead).await;
    assert_eq!(case.claim_ids(10).await, [on_settled]);
    case.leases_run_out().await;
    assert_eq!(case.drain().await, [on_settled]);
    assert_eq!(case.retry_flow(None).await, 1);
    assert_eq!(case.drain().await, [id("b")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert!(case.claim_ids(10).await.is_empty());
}

/// Which callbacks run depends on how the flow ends.
pub(super) async fn callbacks_fire_by_how_a_flow_ends(case: Case) {
    for (outcome, state, runs, passed) in [
        (
            Outcome::Completed,
            FlowState::Done,
            Role::OnDone,
            Role::OnFailed,
        ),
        (
            Outcome::Dead,
            FlowState::Failed,
            Role::OnFailed,
            Role::OnDone,
        ),
    ] {
        let case = case.another().await;
        let callbacks = [Role::OnDone, Role::OnFailed, Role::OnSettled].map(callback);
        let plan = [vec![step("a", &[])], callbacks.into()].concat();
        case.send_plan(plan).await;
        assert_eq!(case.run_steps(outcome).await, ["a"]);
        assert_eq!(case.flow().await.state, state);
        let mut fired = case.claim_ids(10).await;
        fired.sort();
        let mut expected = [callback_id(runs), callback_id(Role::OnSettled)];
        expected.sort();
        assert_eq!(fired, expected);
        let other = case.get(callback_id(passed)).await;
        assert_eq!(other.cancelled, Some(CancelReason::Upstream));
    }
}

/// A step that was passed over is no failure.
pub(super) async fn a_skipped_step_is_no_failure(case: Case) {
    let plan = vec![
        step("pack", &[]),
        step("refund", &[("pack", On::Failed)]),
        step("mail", &[("refund", DONE)]),
        callback(Role::OnDone),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["pack"]);
    assert_eq!(case.flow_counts().await, counts(0, [1, 2, 0, 0]));
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(case.claim_ids(10).await, [callback_id(Role::OnDone)]);
}

/// Counts are those of a recount, at any instant and however steps end.
pub(super) async fn counts_are_those_of_a_recount(case: Case) {
    let names = ["a", "b", "c", "d", "e", "f"];
    case.send_plan(names.map(|name| step(name, &[])).into())
        .await;
    assert_eq!(case.flow_counts().await, counts(6, [0; 4]));
    case.cancel(id("a")).await;
    assert_eq!(case.flow_counts().await, counts(5, [0, 0, 1, 0]));
    let claimed = case.claim(10).await;
    case.complete(&claimed[0]).await;
    case.end(&claimed[1], Outcome::Dead).await;
    case.retry(&claimed[2], seconds(1)).await;
    assert_eq!(case.flow_counts().await, counts(2, [1, 0, 1, 2]));
    case.cancel(claimed[3].id()).await;
    assert_eq!(case.flow_counts().await, counts(2, [1, 0, 1, 2]));
    case.leases_run_out().await;
    case.do_all().await;
    assert_eq!(case.flow_counts().await, counts(1, [1, 0, 2, 2]));
    super::control::purge(&case, 100).await;
    assert_eq!(case.flow_counts().await, counts(0, [1, 0, 3, 2]));
    case.edit(claimed[0].id(), Action::Redrive).await;
    assert_eq!(case.flow_counts().await, counts(1, [0, 0, 3, 2]));
}

/// A dead step that is sent back reopens its flow, and what was passed over waits again.
pub(super) async fn a_redriven_step_reopens_its_flow(case: Case) {
    let plan = vec![
        step("charge", &[]),
        step("pack", &[("charge", DONE)]),
        step("ship", &[("pack", DONE)]),
        callback(Role::OnDone),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["charge"]);
    assert_eq!(case.flow().await.state, FlowState::Failed);
    assert_eq!(case.flow_counts().await, counts(0, [0, 2, 0, 1]));
    let skipped = case.edit(id("ship"), Action::Redrive).await;
    assert_eq!(
        skipped,
        crate::engine::EditVerdict::WrongState(JobState::Cancelled)
    );
    case.edit(id("charge"), Action::Redrive).await;
    let status = case.flow().await;
    assert_eq!((status.state, status.until), (FlowState::Running, None));
    assert_eq!(case.flow_counts().await, counts(3, [0; 4]));
    assert_eq!(
        case.states(&["charge", "pack", "ship"]).await,
        [JobState::Ready, JobState::Held, JobState::Held,]
    );
    assert_eq!(
        case.drain().await,
        [
            id("charge"),
            id("pack"),
            id("ship"),
            callback_id(Role::OnDone)
        ]
    );
    assert_eq!(case.flow().await.state, FlowState::Done);
}

/// A retry from a step runs it and all that depends on it again.
pub(super) async fn a_retry_from_a_step_runs_what_depends_on_it(case: Case) {
    let plan = vec![
        step("charge", &[]),
        step("pack", &[("charge", DONE)]),
        step("ship", &[("pack", DONE)]),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.drain().await, [id("charge"), id("pack"), id("ship")]);
    assert_eq!(case.retry_flow(None).await, 0);
    assert_eq!(case.retry_flow(Some("pack")).await, 1);
    assert_eq!(case.flow_counts().await, counts(2, [1, 0, 0, 0]));
    assert_eq!(case.drain().await, [id("pack"), id("ship")]);
}

/// A cancel of a flow asks all of it to stop.
pub(super) async fn a_cancelled_flow_stops_its_steps(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[]),
        step("c", &[("a", On::Settled)]),
        callback(Role::OnDone),
        callback(Role::OnSettled),
    ];
    case.send_plan(plan).await;
    let running = case.claim_one().await;
    assert_eq!(running.id(), id("a"));
    let answer = case.try_flow(FLOW, FlowAct::Cancel).await;
    answer.expect("it is cancelled");
    assert_eq!(case.states(&["b", "c"]).await, [JobState::Cancelled; 2]);
    assert!(case.get(id("a")).await.cancel_requested);
    assert_eq!(case.flow().await.state, FlowState::Running);
    assert_eq!(case.verdict(grown("d")).await, EnqueueVerdict::FlowClosed);
    case.end(&running, Outcome::Cancelled).await;
    assert_eq!(case.flow().await.state, FlowState::Cancelled);
    assert_eq!(case.flow_counts().await, counts(0, [0, 0, 3, 0]));
    assert_eq!(case.claim_ids(10).await, [callback_id(Role::OnSettled)]);
}

/// With `cancel_rest` a failure cancels every other step but those that wait for a failure.
pub(super) async fn a_failure_may_cancel_the_rest(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[]),
        step("c", &[("b", DONE)]),
        step("mend", &[("a", On::Failed)]),
    ];
    case.plan(plan, OnFailure::CancelRest).await;
    let failed = case.claim_one().await;
    case.end(&failed, Outcome::Dead).await;
    let b = case.get(id("b")).await;
    assert_eq!(
        (b.state, b.cancelled),
        (JobState::Cancelled, Some(CancelReason::Upstream))
    );
    assert_eq!(
        case.states(&["c", "mend"]).await,
        [JobState::Cancelled, JobState::Ready]
    );
    assert_eq!(case.drain().await, [id("mend")]);
    assert_eq!(case.flow().await.state, FlowState::Failed);
}

/// With `continue` what waits for a completion runs after a failure too.
pub(super) async fn a_failure_may_be_passed_over(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        step("mend", &[("a", On::Failed)]),
    ];
    case.plan(plan, OnFailure::Continue).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    assert_eq!(case.drain().await, [id("b"), id("mend")]);
    assert_eq!(case.flow().await.state, FlowState::Failed);
}

/// What many jobs wait for, and what waits for many, is handled in bounded parts; states in between
/// are true.
pub(super) async fn a_cascade_is_bounded_per_call(case: Case) {
    let children: Vec<_> = (0..400)
        .map(|n| step(&format!("c{n}"), &[("root", DONE)]))
        .collect();
    let mut plan = vec![step("root", &[])];
    plan.extend(children);
    plan.push(step("join", &[]));
    case.enqueue_all(plan).await;
    let after: Vec<_> = (0..400)
        .map(|n| After::completed(id(&format!("c{n}"))))
        .collect();
    let wait = FlowAct::Wait {
        step: id("join"),
        after,
    };
    case.try_flow(FLOW, wait)
        .await
        .expect("they come before it");
    assert!(case.try_seal(FLOW, 402, OnFailure::default()).await.is_ok());
    case.do_all().await;
    case.cancel(id("root")).await;
    let counted = case.recount().await;
    assert!(counted.counts.skipped < 400, "{counted:?}");
    assert_eq!(counted.counts, counted.flow.counts);
    assert_eq!(case.claim_ids(1_000).await, []);
    case.do_all().await;
    assert_eq!(case.flow_counts().await, counts(0, [0, 401, 1, 0]));
    let error = case
        .enqueue_error(job().step("big", "join").after_many(EDGES_PER_CALL + 1))
        .await;
    assert_eq!(error.kind(), ErrorKind::BatchTooLarge);
}

impl NewJob {
    fn after_many(mut self, many: usize) -> Self {
        let ids = (0..many).map(|_| After::completed(JobId::new()));
        self.after.extend(ids);
        self
    }
}

/// Workers get what a cascade frees without maintenance: a claim says that more follows soon.
pub(super) async fn claims_alone_do_what_is_left_of_a_cascade(case: Case) {
    let mut plan = vec![step("root", &[])];
    plan.extend((0..300).map(|n| step(&format!("c{n}"), &[("root", DONE)])));
    case.send_plan(plan).await;
    case.do_all().await;
    let root = case.claim_one().await;
    case.complete(&root).await;
    let mut seen = 0;
    for _ in 0..20 {
        let claimed = case.claim_as(case.wants(1_000)).await;
        let now = attempts(&claimed).len();
        seen += now;
        if seen == 300 {
            return;
        }
        let soon = claimed.wake_at.filter(|at| *at <= claimed.now + millis(1));
        assert!(now > 0 || soon.is_some(), "{claimed:?}");
    }
    panic!("{seen} of 300 steps were claimed");
}

/// A worker that sleeps learns that more is to be done than the settlement of others could do, also
/// where nothing is left of the jobs that ended.
pub(super) async fn what_is_left_of_a_cascade_wakes_a_worker(case: Case) {
    let layer = |name: &str, after: &str| -> Vec<NewJob> {
        let after: Vec<_> = (0..40).map(|n| format!("{after}{n}")).collect();
        let after: Vec<_> = after.iter().map(|from| (from.as_str(), DONE)).collect();
        let steps = (0..40).map(|n| step(&format!("{name}{n}"), &after));
        steps.map(|job| job.retention(seconds(0))).collect()
    };
    let first = (0..40).map(|n| step(&format!("a{n}"), &[]).retention(seconds(0)));
    let plan = [first.collect::<Vec<_>>(), layer("b", "a"), layer("c", "b")].concat();
    case.send_plan(plan).await;
    case.do_all().await;
    let claimed = case.claim(40).await;
    let ends = claimed
        .iter()
        .map(|attempt| attempt.ended(Outcome::Completed));
    let (token, ends) = (claimed[0].token, ends.collect());
    let sleeper = case.listens().await;
    let settled = case.try_settle(token, ends).await;
    assert_eq!(settled.expect("settle").len(), 40);
    assert_eq!(at_once(sleeper).await, Waited::Work);
}

/// A flow with much to do lets others have their turn.
pub(super) async fn a_large_flow_holds_up_no_other(case: Case) {
    for part in 0..3 {
        let steps = (0..1_000).map(|n| step_of("large", &format!("s{part}.{n}"), &[]));
        case.enqueue_all(steps.collect()).await;
    }
    let sealed = case.try_seal("large", 3_000, OnFailure::default()).await;
    sealed.expect("the plan is whole");
    case.send_plan(vec![step("a", &[])]).await;
    case.maintain().await;
    assert_eq!(case.state(id("a")).await, JobState::Ready);
}

/// Results are read by who comes later, for as long as the flow is known.
pub(super) async fn results_are_kept_with_the_flow(case: Case) {
    let label = step("label", &[]).retention(seconds(0));
    case.send_plan(vec![label, step("ship", &[("label", DONE)])])
        .await;
    let attempt = case.claim_one().await;
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.result = Some(bytes("\"DE-7\""));
    case.end_as(&attempt, settlement).await;
    case.advance(minutes(10)).await;
    assert!(case.is_unknown(id("label")).await);
    let steps = case.flow_steps().await;
    assert_eq!(steps[0].name, "label");
    assert_eq!(steps[0].state, JobState::Completed);
    assert_eq!(steps[0].result, Some(bytes("\"DE-7\"")));
    assert_eq!((steps[1].number, steps[1].waits), (1, 0));
    assert_eq!(case.flow_counts().await, counts(1, [1, 0, 0, 0]));
}

/// A delay counts from the enqueue; a step that could run only later is not late.
pub(super) async fn a_step_is_due_when_it_may_run(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        step("c", &[("a", DONE)]).delay(hours(1)),
    ];
    case.send_plan(plan).await;
    case.advance(minutes(1)).await;
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    assert_eq!(case.get(id("b")).await.due, START + minutes(1));
    let c = case.get(id("c")).await;
    assert_eq!((c.state, c.due), (JobState::Scheduled, START + hours(1)));
}

/// A name is waited for beside jobs, and a step cannot be made to run before its time.
pub(super) async fn a_step_may_wait_for_a_name_too(case: Case) {
    let mut approved = step("b", &[("a", DONE)]);
    approved.wait_for = vec!["approved".into()];
    case.send_plan(vec![step("a", &[]), approved, step("c", &[])])
        .await;
    let verdict = case.edit(id("b"), Action::RunNow).await;
    assert_eq!(
        verdict,
        crate::engine::EditVerdict::WrongState(JobState::Held)
    );
    let [a, c] = &case.claim(10).await[..] else {
        panic!("two steps wait for nothing");
    };
    let mut settlement = c.ended(Outcome::Completed);
    settlement.effects = vec![Effect::Clear {
        job: id("b"),
        name: "approved".into(),
    }];
    case.end_as(c, settlement).await;
    assert_eq!(case.state(id("b")).await, JobState::Held);
    case.complete(a).await;
    assert_eq!(case.state(id("b")).await, JobState::Ready);
}
