//! Laws of imports: a flow that was exported half way goes on, and its callback fires once.

use super::case::*;
use super::flow_calls::*;
use super::import::import_of;
use super::memos::{holds, keeps, signal};
use crate::engine::{Action, Control, Controlled, EnqueueVerdict, FlowAct, Got};
use crate::error::ErrorKind;
use crate::flow::{
    After, Edge, EndedStep, FlowState, On, OnFailure, RestoredFlow, RestoredSeal, Role, StepPast,
    StepStatus,
};
use crate::job::{JobId, JobState, NewJob, Outcome};
use crate::time::hours;

const DONE: On = On::Completed;

/// A flow as an export has it.
pub(super) struct Exported {
    jobs: Vec<NewJob>,
    flow: RestoredFlow,
    /// Steps whose jobs are gone, with what they waited for.
    waits: Vec<(JobId, Vec<After>)>,
}

impl Case {
    async fn edges_from(&self, of: Vec<JobId>) -> Vec<Edge> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (of, limit) = (of.clone(), 2);
            let control = Control::Dependants { of, after, limit };
            match self.try_control(control).await {
                Ok(Controlled::Edges { edges, next }) => {
                    found.extend(edges);
                    after = next;
                }
                other => panic!("edges are read, got {other:?}"),
            }
            if after.is_none() {
                return found;
            }
        }
    }

    async fn callbacks(&self) -> Vec<(Role, StepStatus, bool)> {
        let mut found = Vec::new();
        for one in self.flow().await.callbacks {
            let steps = vec![format!("@{}", one.role.name())];
            match self.try_flow(FLOW, FlowAct::Named { steps }).await {
                Ok(Controlled::Steps { mut steps, .. }) => {
                    found.push((one.role, steps.remove(0), one.fired));
                }
                other => panic!("a callback is read, got {other:?}"),
            }
        }
        found
    }

    /// [`FLOW`], as an export has it.
    pub(super) async fn exported(&self) -> Exported {
        let status = self.flow().await;
        let steps = self.flow_steps().await.into_iter();
        let mut all: Vec<_> = steps.map(|step| (Role::Step, step, false)).collect();
        all.extend(self.callbacks().await);
        let ids = all.iter().map(|(_, step, _)| step.id);
        let edges = self.edges_from(ids.collect()).await;
        let (mut jobs, mut ended, mut waits) = (Vec::new(), Vec::new(), Vec::new());
        for (role, step, fired) in all {
            let past = StepPast {
                sent: step.sent,
                fired,
            };
            let ended_step = EndedStep {
                step: step.name.clone(),
                role,
                state: step.state,
                skipped: step.skipped,
                result: step.result.clone(),
                past,
            };
            let Some(Got::Job(record, _)) = self.got(step.id).await else {
                ended.push(ended_step);
                let of = edges.iter().filter(|edge| edge.to == step.id);
                waits.push((
                    step.id,
                    of.map(|edge| After::new(edge.from, edge.on)).collect(),
                ));
                continue;
            };
            let mut job = import_of(&record);
            job.flow = Some(Box::new(ended_step.place(FLOW)));
            for edge in edges.iter().filter(|edge| edge.to == step.id) {
                job = job.after(edge.from, edge.on);
            }
            jobs.push(job);
        }
        let seal = status.sealed_at.map(|_| RestoredSeal {
            steps: status.counts.steps,
            planned: status.planned,
            on_failure: status.on_failure,
        });
        let flow = RestoredFlow {
            ended,
            seal,
            cancelled: status.cancelled,
        };
        Exported { jobs, flow, waits }
    }

    async fn restore(&self, flow: RestoredFlow) {
        let restored = self.try_flow(FLOW, FlowAct::Restore(flow)).await;
        restored.expect("it is restored");
    }

    pub(super) async fn import_flow(&self, exported: &Exported) {
        let ended = RestoredFlow {
            seal: None,
            cancelled: false,
            ..exported.flow.clone()
        };
        self.restore(ended).await;
        for receipt in self.send_all(exported.jobs.clone()).await {
            let verdict = receipt.verdict;
            assert!(verdict.is_accepted(), "{verdict:?}");
        }
        for (step, after) in exported.waits.clone() {
            let waits = self.try_flow(FLOW, FlowAct::Wait { step, after }).await;
            waits.expect("it waited for steps that are known");
        }
        self.restore(RestoredFlow {
            ended: Vec::new(),
            ..exported.flow.clone()
        })
        .await;
        self.do_all().await;
    }
}

/// Steps that keep nothing once they have completed.
fn unkept(name: &str, after: &[(&str, On)]) -> NewJob {
    NewJob {
        retention: std::time::Duration::ZERO,
        ..step(name, after)
    }
}

fn plan() -> Vec<NewJob> {
    vec![
        unkept("charge", &[]),
        step("pack", &[("charge", DONE)]),
        step("label", &[("charge", DONE)]),
        step("ship", &[("pack", DONE), ("label", DONE)]),
        step("refund", &[("pack", On::Failed)]),
        callback(Role::OnDone),
        callback(Role::OnFailed),
    ]
}

/// A flow that was exported half way goes on elsewhere, and its callback fires once.
pub(super) async fn a_flow_goes_on_where_it_was_exported(case: Case) {
    case.send_plan(plan()).await;
    let charge = case.claim_one().await;
    case.complete(&charge).await;
    // One step runs, the other waits its turn.
    let running = case.claim_one().await;
    let other = case.another().await;
    other.set_time(case.clock() + hours(3)).await;
    other.import_flow(&case.exported().await).await;
    assert_eq!(
        other.flow_counts().await,
        counts(4, [1, 0, 0, 0]),
        "the step whose job is gone counts"
    );
    let [pack, label, ship, refund] = other.states(&["pack", "label", "ship", "refund"]).await[..]
    else {
        panic!("four steps");
    };
    assert_eq!((pack, label), (JobState::Ready, JobState::Ready));
    assert_eq!((ship, refund), (JobState::Held, JobState::Held));
    assert_eq!(
        other.get(running.id()).await.attempt,
        1,
        "its past comes too"
    );
    let ran = other.drain().await;
    let last = [id("ship"), callback_id(Role::OnDone)];
    assert_eq!(&ran[ran.len() - 2..], last);
    assert_eq!(ran.len(), 4, "each once: {ran:?}");
    assert_eq!(other.flow().await.state, FlowState::Done);
    assert_eq!(other.flow_counts().await, counts(0, [4, 1, 0, 0]));
    assert_eq!(other.drain().await, []);
}

/// What has settled stays so: no callback fires again, unless a step runs again that failed.
pub(super) async fn a_settled_flow_comes_over_as_it_was(case: Case) {
    case.send_plan(plan()).await;
    let charge = case.claim_one().await;
    case.complete(&charge).await;
    for attempt in case.claim(10).await {
        let outcome = match attempt.id() == id("pack") {
            true => Outcome::Dead,
            false => Outcome::Completed,
        };
        case.end(&attempt, outcome).await;
    }
    case.do_all().await;
    let after = case.drain().await;
    assert_eq!(after, [id("refund"), callback_id(Role::OnFailed)]);
    let before = case.flow_counts().await;
    let other = case.another().await;
    other.import_flow(&case.exported().await).await;
    assert_eq!(other.flow_counts().await, before);
    let flow = other.flow().await;
    assert_eq!(flow.state, FlowState::Failed);
    let fired: Vec<_> = (flow.callbacks.iter().filter(|one| one.fired)).collect();
    assert_eq!(fired.len(), 1);
    assert_eq!(other.drain().await, [], "nothing runs again");
    assert_eq!(other.retry_flow(None).await, 1);
    other.do_all().await;
    assert_eq!(
        other.drain().await,
        [id("pack"), id("ship"), callback_id(Role::OnDone)],
        "and the callback that ran does not"
    );
}

/// A step that waits for more than one call carries may wait for steps whose jobs are gone.
pub(super) async fn a_step_waits_for_more_steps_whose_jobs_are_gone(case: Case) {
    case.send_plan(plan()).await;
    let charge = case.claim_one().await;
    case.complete(&charge).await;
    let Exported { mut jobs, flow, .. } = case.exported().await;
    let other = case.another().await;
    let ended = RestoredFlow {
        seal: None,
        ..flow.clone()
    };
    other.restore(ended).await;
    let (step, gone) = (id("label"), id("charge"));
    let label = jobs.iter_mut().find(|job| job.id == step);
    let label = label.expect("it is exported");
    assert_eq!(label.after.len(), 1, "it waits for the step that is gone");
    label.after.clear();
    other.send_all(jobs).await;
    let after = vec![After {
        job: gone,
        on: DONE,
    }];
    let waits = FlowAct::Wait { step, after };
    let waits = other.try_flow(FLOW, waits).await;
    waits.expect("the step that is gone is known");
    let seal = RestoredFlow {
        ended: Vec::new(),
        ..flow
    };
    other.restore(seal).await;
    other.do_all().await;
    assert_eq!(other.drain().await.len(), 4);
    assert_eq!(other.flow().await.state, FlowState::Done);
}

/// A step whose job is gone comes over with what it waited for: one that was not needed is left
/// out by a retry, and one that is needed is reported.
pub(super) async fn a_gone_step_comes_over_with_what_it_waited_for(case: Case) {
    let plan = vec![
        step("pack", &[]),
        step("refund", &[("pack", On::Failed)]),
        step("label", &[]),
        step("ship", &[("label", DONE)]),
        step("mail", &[("ship", DONE)]),
    ];
    case.send_plan(plan).await;
    let [pack, label] = &case.claim(10).await[..] else {
        panic!("two steps are ready");
    };
    case.complete(pack).await;
    case.end(label, Outcome::Dead).await;
    case.edit(id("refund"), Action::Delete).await;
    let whole = case.another().await;
    whole.import_flow(&case.exported().await).await;
    assert_eq!(whole.retry_flow(None).await, 1);
    whole.do_all().await;
    assert_eq!(
        whole.drain().await,
        [id("label"), id("ship"), id("mail")],
        "all that failed ran"
    );
    assert_eq!(whole.flow().await.state, FlowState::Done);
    assert_eq!(whole.flow_counts().await, counts(0, [4, 1, 0, 0]));

    case.edit(id("mail"), Action::Delete).await;
    case.edit(id("ship"), Action::Delete).await;
    let other = case.another().await;
    let exported = case.exported().await;
    other.import_flow(&exported).await;
    assert_eq!(other.flow_counts().await, case.flow_counts().await);
    let (retried, left_out) = other.retry_as(None, None).await;
    let mut steps = left_out.gone_steps;
    steps.sort();
    assert_eq!((retried, steps), (1, vec!["mail".into(), "ship".into()]));
    other.do_all().await;
    assert_eq!(other.drain().await, [id("label")]);
    assert_eq!(other.flow().await.state, FlowState::Failed);
    assert_eq!(other.flow_counts().await, counts(0, [2, 1, 2, 0]));
    other.import_flow(&exported).await;
    assert_eq!(other.flow_counts().await, counts(0, [2, 1, 2, 0]));
}

/// The same import again changes nothing, nor does the plan itself.
pub(super) async fn an_import_of_a_flow_again_changes_nothing(case: Case) {
    case.send_plan(plan()).await;
    let charge = case.claim_one().await;
    case.complete(&charge).await;
    let exported = case.exported().await;
    let other = case.another().await;
    other.import_flow(&exported).await;
    let before = (other.flow().await, other.flow_steps().await);
    other.import_flow(&exported).await;
    for receipt in other.send_all(plan()).await {
        assert_eq!(receipt.verdict, EnqueueVerdict::Duplicate);
    }
    let sealed = other.try_seal(FLOW, 5, OnFailure::default()).await;
    sealed.expect("the same plan");
    assert_eq!((other.flow().await, other.flow_steps().await), before);
}

/// Jobs of a flow whose import was cut short do not run before the rest has come.
pub(super) async fn a_flow_that_came_in_part_never_runs(case: Case) {
    case.send_plan(plan()).await;
    let charge = case.claim_one().await;
    case.complete(&charge).await;
    let Exported { mut jobs, flow, .. } = case.exported().await;
    let other = case.another().await;
    let rest = jobs.split_off(2);
    let ended = RestoredFlow {
        seal: None,
        ..flow.clone()
    };
    other.restore(ended).await;
    other.send_all(jobs).await;
    other.do_all().await;
    assert_eq!(other.claim_ids(10).await, []);
    let seal = RestoredFlow {
        ended: Vec::new(),
        ..flow.clone()
    };
    let early = other.try_flow(FLOW, FlowAct::Restore(seal.clone())).await;
    assert_eq!(early.expect_err("in part").kind(), ErrorKind::Conflict);
    other.send_all(rest).await;
    other.restore(seal).await;
    other.do_all().await;
    assert_eq!(other.drain().await.len(), 4);
    // Another plan under a name that is taken here.
    let mut wrong = flow.seal.expect("it was sealed");
    wrong.planned += 1;
    let seal = RestoredFlow {
        seal: Some(wrong),
        ..RestoredFlow::default()
    };
    let error = other.try_flow(FLOW, FlowAct::Restore(seal)).await;
    assert_eq!(error.expect_err("another").kind(), ErrorKind::Conflict);
}

/// A flow that was being cancelled is cancelled here too.
pub(super) async fn a_cancelled_flow_comes_over_cancelled(case: Case) {
    case.send_plan(plan()).await;
    let running = case.claim_one().await;
    let cancelled = case.try_flow(FLOW, FlowAct::Cancel).await;
    cancelled.expect("it is cancelled");
    case.do_all().await;
    let other = case.another().await;
    other.import_flow(&case.exported().await).await;
    other.do_all().await;
    assert_eq!(other.state(running.id()).await, JobState::Cancelled);
    assert_eq!(other.flow().await.state, FlowState::Cancelled);
    let ran = other.drain().await;
    assert!(!ran.contains(&callback_id(Role::OnDone)), "{ran:?}");
}

/// A step in the middle of its attempt comes over with its memos, and waits on.
pub(super) async fn a_step_that_waits_for_a_signal_comes_over(case: Case) {
    case.send_plan(vec![
        step("ask", &[]),
        step("act", &[("ask", DONE)]),
        callback(Role::OnSettled),
    ])
    .await;
    let ask = case.claim_one().await;
    case.extend_as(keeps(&ask, "mailed", "yes")).await;
    case.end(&ask, holds("approved")).await;
    let other = case.another().await;
    other.import_flow(&case.exported().await).await;
    let held = other.get(ask.id()).await;
    assert_eq!((held.state, held.memos.len()), (JobState::Held, 1));
    assert_eq!(other.claim_ids(10).await, []);
    signal(&other, ask.id(), "approved", "yes").await;
    let all = [id("ask"), id("act"), callback_id(Role::OnSettled)];
    assert_eq!(other.drain().await, all);
}

/// Jobs wait for others without a flow too.
pub(super) async fn a_job_of_no_flow_comes_over_with_what_it_waits_for(case: Case) {
    let first = case.enqueue(job()).await;
    let second = case.enqueue(job().after(first, DONE)).await;
    let failed = case.enqueue(job().after(first, On::Failed)).await;
    let edges = case.edges_from(vec![first, second, failed]).await;
    assert_eq!(edges.len(), 2);
    let other = case.another().await;
    for id in [first, second, failed] {
        let mut job = import_of(&case.get(id).await);
        for edge in edges.iter().filter(|edge| edge.to == id) {
            job = job.after(edge.from, edge.on);
        }
        other.enqueue(job).await;
    }
    assert_eq!(other.claim_ids(1).await, [first]);
    assert_eq!(other.state(second).await, JobState::Held);
    other.leases_run_out().await;
    assert_eq!(other.drain().await, [first, second]);
    assert_eq!(other.state(failed).await, JobState::Cancelled);
}

/// What an import says of a flow is checked before anything of it is kept.
pub(super) async fn a_malformed_import_of_a_flow_is_refused(case: Case) {
    let past = StepPast {
        sent: 1,
        fired: false,
    };
    let good = EndedStep {
        step: "a".into(),
        role: Role::Step,
        state: JobState::Completed,
        skipped: false,
        result: None,
        past,
    };
    let long = "x".repeat(case.info().await.limits.result_bytes + 1);
    let (name, input) = (ErrorKind::InvalidName, ErrorKind::InvalidInput);
    let bad = [
        (
            EndedStep {
                step: "a b".into(),
                ..good.clone()
            },
            name,
        ),
        (
            EndedStep {
                state: JobState::Held,
                ..good.clone()
            },
            input,
        ),
        (
            EndedStep {
                role: Role::OnDone,
                ..good.clone()
            },
            input,
        ),
        (
            EndedStep {
                result: Some(bytes(&long)),
                ..good.clone()
            },
            ErrorKind::PayloadTooLarge,
        ),
    ];
    for (one, kind) in bad {
        let ended = vec![good.clone(), one];
        let flow = RestoredFlow {
            ended,
            ..RestoredFlow::default()
        };
        let refused = case.try_flow(FLOW, FlowAct::Restore(flow)).await;
        assert_eq!(refused.expect_err("it is malformed").kind(), kind);
    }
    assert!(case.find_flow(FLOW).await.is_none());
    // A step has a past, or its job has none.
    let mut half = step("a", &[]);
    half.flow.as_mut().expect("a step").past = Some(past);
    assert_eq!(case.enqueue_error(half).await.kind(), input);
    let known = case.job_in_state(JobState::Ready).await;
    let mut other = import_of(&case.get(known).await).step(FLOW, "b");
    other.flow.as_mut().expect("a step").past = None;
    assert_eq!(case.enqueue_error(other).await.kind(), input);
}
