//! Laws of steps that a retry cannot run: their jobs are gone, or another job has their unique key.

use super::case::*;
use super::flow_calls::*;
use crate::engine::{Filter, FlowAct, Reason};
use crate::error::ErrorKind;
use crate::flow::{FlowState, LeftOut, On, OnFailure, Outside, Role};
use crate::job::{Hold, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes};

const DONE: On = On::Completed;

fn gone(steps: &[&str]) -> LeftOut {
    let mut left_out = LeftOut::default();
    for step in steps {
        left_out.add_gone(*step);
    }
    left_out
}

fn held(step: &str, holder: JobId) -> LeftOut {
    let mut left_out = LeftOut::default();
    left_out.add_held(step, holder);
    left_out
}

fn with_key(job: NewJob) -> NewJob {
    let unique = Unique {
        key: "order:7".into(),
        policy: UniquePolicy::Keep,
        hold: Hold::UntilSettled,
    };
    NewJob {
        unique: Some(unique),
        ..job
    }
}

impl Case {
    /// A case in which a cancelled job is soon gone, and a dead one is not.
    async fn soon_gone(self) -> Self {
        self.limited(|limits| limits.cancelled_retention = minutes(30))
            .await
    }

    async fn kind_of_end(&self, from: Option<&str>) -> ErrorKind {
        let (from, filter) = (from.map(str::to_owned), None);
        let next = None;
        let act = FlowAct::Retry { from, next, filter };
        let answer = self.try_flow(FLOW, act).await;
        answer.expect_err("it is refused").kind()
    }
}

/// Steps that were passed over and whose jobs are gone are reported, and the flow fails by them.
pub(super) async fn a_retry_reports_steps_that_are_gone(case: Case) {
    let case = case.soon_gone().await;
    let plan = vec![
        step("a", &[]),
        step("b", &[("a", DONE)]),
        step("c", &[("b", DONE)]),
        step("other", &[]),
        step("refund", &[("other", On::Failed)]),
        callback(Role::OnDone),
    ];
    case.send_plan(plan).await;
    let [a, other] = &case.claim(10).await[..] else {
        panic!("two steps are ready");
    };
    case.end(a, Outcome::Dead).await;
    case.complete(other).await;
    assert_eq!(case.flow_counts().await, counts(0, [1, 3, 0, 1]));
    case.pass(hours(2)).await;
    let of_kind = Filter::default().kind("none".to_owned());
    let nothing = (0, LeftOut::default());
    assert_eq!(case.retry_as(None, Some(of_kind)).await, nothing);
    let all_gone = gone(&["b", "c", "on_done"]);
    assert_eq!(case.retry_as(None, None).await, (1, all_gone));
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    let status = case.flow().await;
    assert_eq!(status.state, FlowState::Failed, "two steps never ran");
    assert!(!status.callbacks[0].fired, "it is not done");
    assert_eq!(case.flow_counts().await, counts(0, [2, 1, 2, 0]));
    assert_eq!(case.retry_as(None, None).await, (0, gone(&["b", "c"])));
    assert_eq!(case.flow_counts().await, counts(0, [2, 1, 2, 0]));
}

/// So are those of a flow whose rest was cancelled, and many of them with their number.
pub(super) async fn a_retry_reports_how_many_steps_are_gone(case: Case) {
    let case = case.soon_gone().await;
    let behind = (0..300).map(|n| step(&format!("b{n}"), &[("a", DONE)]));
    let plan = [step("a", &[])].into_iter().chain(behind).collect();
    case.plan(plan, OnFailure::CancelRest).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    case.do_all().await;
    case.pass(hours(2)).await;
    let (retried, left_out) = case.retry_as(None, None).await;
    assert_eq!((retried, left_out.gone), (1, 300));
    let first: Vec<String> = (0..10).map(|n| format!("b{n}")).collect();
    assert_eq!(left_out.gone_steps, first);
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    assert_eq!(case.flow().await.state, FlowState::Failed);
    assert_eq!(case.flow().await.counts, counts(0, [1, 0, 300, 0]));
}

/// A retry from a step reports those behind it whose jobs are gone, and leaves their ends.
pub(super) async fn a_retry_from_a_step_reports_what_is_gone(case: Case) {
    let brief = |job: NewJob| NewJob {
        retention: std::time::Duration::ZERO,
        ..job
    };
    let plan = vec![
        step("a", &[]),
        brief(step("b", &[("a", DONE)])),
        step("c", &[("a", DONE)]),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.drain().await.len(), 3);
    assert_eq!(case.retry_as(Some("a"), None).await, (1, gone(&["b"])));
    assert_eq!(case.drain().await, [id("a"), id("c")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(case.flow_counts().await, counts(0, [3, 0, 0, 0]));
    assert_eq!(case.kind_of_end(Some("b")).await, ErrorKind::Conflict);
}

/// A step whose unique key another job holds is reported with that job, and runs once it is free.
pub(super) async fn a_retry_reports_steps_whose_key_is_held(case: Case) {
    let plan = vec![
        step("a", &[]),
        with_key(step("b", &[("a", DONE)])),
        step("c", &[("b", DONE)]),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    let holder = case.enqueue(with_key(job().queue("others"))).await;
    assert_eq!(case.retry_as(None, None).await.0, 1, "another queue's key");
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    case.cancel(holder).await;

    let holder = case.enqueue(with_key(job_in(hours(1)))).await;
    assert_eq!(case.retry_as(None, None).await, (1, held("b", holder)));
    assert_eq!(case.run_steps(Outcome::Completed).await, ["a"]);
    assert_eq!(case.flow().await.state, FlowState::Failed, "b never ran");
    assert_eq!(case.flow_counts().await, counts(0, [1, 1, 1, 0]));
    assert_eq!(case.retry_as(None, None).await, (0, held("b", holder)));

    case.cancel(holder).await;
    assert_eq!(case.retry_flow(None).await, 1);
    case.do_all().await;
    assert_eq!(case.drain().await, [id("b"), id("c")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(case.flow_counts().await, counts(0, [3, 0, 0, 0]));
}

/// A retry by a filter runs the failed steps that it matches, and no others.
pub(super) async fn a_retry_by_a_filter_runs_what_it_matches(case: Case) {
    let kind = |name: &str, kind: &str| step(name, &[]).kind(kind);
    let plan = vec![
        kind("a", "mail"),
        kind("b", "text"),
        kind("c", "mail"),
        step("d", &[("a", DONE)]),
    ];
    case.send_plan(plan).await;
    for attempt in case.claim(10).await {
        let mut dead = attempt.ended(Outcome::Dead);
        let name = attempt.job.flow.as_ref().map(|place| place.step.clone());
        dead.error = Some(format!("no route for {}", name.unwrap_or_default()));
        case.end_as(&attempt, dead).await;
    }
    let mail = Filter::default().kind("mail".to_owned());
    let of_a = mail.clone().error("for a".to_owned());
    let everything = LeftOut::default();
    assert_eq!(
        case.retry_as(None, Some(of_a)).await,
        (1, everything.clone())
    );
    assert_eq!(
        case.states(&["a", "b", "c", "d"]).await,
        [
            JobState::Ready,
            JobState::Dead,
            JobState::Dead,
            JobState::Held
        ]
    );
    let cancelled = mail.state(JobState::Cancelled);
    assert_eq!(
        case.retry_as(None, Some(cancelled)).await,
        (0, everything.clone())
    );
    let act = FlowAct::Retry {
        from: Some("a".into()),
        next: None,
        filter: Some(Box::default()),
    };
    let both = case.try_flow(FLOW, act).await.expect_err("one of them");
    assert_eq!(both.kind(), ErrorKind::InvalidInput);
    assert_eq!(case.retry_as(None, None).await, (2, everything));
}

/// What waits for jobs outside of its flow is explained by those, and a list of steps has them.
pub(super) async fn parents_outside_of_a_flow_are_named(case: Case) {
    let plain = case.enqueue(job_in(hours(1))).await;
    let many: Vec<NewJob> = (0..9).map(|_| job_in(hours(1))).collect();
    let more = ids(&many);
    case.enqueue_all(many).await;
    let first = case
        .enqueue(job().step("order-6", "pack").retention(hours(1)))
        .await;
    case.try_seal("order-6", 1, OnFailure::default())
        .await
        .expect("one step");
    let joins = step("b", &[("a", DONE)])
        .after(plain, On::Settled)
        .after(first, DONE);
    let wide = more
        .iter()
        .fold(step("c", &[]), |job, one| job.after(*one, DONE));
    case.send_plan(vec![step("a", &[]), joins, wide]).await;
    let reason = |waits, some| [Reason::WaitsForJobs { waits, some }];
    let some = vec![
        (plain, JobState::Scheduled),
        (first, JobState::Ready),
        (id("a"), JobState::Ready),
    ];
    assert_eq!(case.reasons(id("b")).await, reason(3, some));
    let eight = more.iter().take(8).map(|one| (*one, JobState::Scheduled));
    assert_eq!(case.reasons(id("c")).await, reason(9, eight.collect()));

    case.cancel(plain).await;
    let attempts = case.claim(10).await;
    let of_first = attempts.iter().find(|attempt| attempt.id() == first);
    case.complete(of_first.expect("it is ready")).await;
    let some = vec![(id("a"), JobState::Active)];
    assert_eq!(case.reasons(id("b")).await, reason(1, some));
    let outside = |job, on, state| Outside {
        job,
        on,
        met: true,
        state: Some(state),
    };
    let steps = case.flow_steps().await;
    assert_eq!(
        steps[1].outside,
        [
            outside(plain, On::Settled, JobState::Cancelled),
            outside(first, DONE, JobState::Completed),
        ]
    );
    assert_eq!(steps[2].outside.len(), 8, "they are bounded");
    assert!(steps[2].outside.iter().all(|one| !one.met));
}
