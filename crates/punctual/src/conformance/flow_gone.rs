//! Laws of steps that a retry cannot run: their jobs are gone, or another job has their unique key.

use super::case::*;
use super::flow_calls::*;
use crate::engine::{Action, EnqueueVerdict, Filter, FlowAct};
use crate::error::ErrorKind;
use crate::flow::{FlowCounts, FlowState, FlowStep, LeftOut, On, OnFailure, Role};
use crate::job::{CancelReason, Hold, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes, seconds};

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
    // One of them may turn out not to be needed: the flow ends behind what the step causes.
    case.do_all().await;
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
    let open = Some(Box::new(Filter::default().state(JobState::Ready)));
    let act = FlowAct::Retry {
        from: None,
        next: None,
        filter: open,
    };
    let open = case.try_flow(FLOW, act).await.expect_err("none failed so");
    assert_eq!(open.kind(), ErrorKind::InvalidInput);
    assert_eq!(case.retry_as(None, None).await, (2, everything));
}

/// A retry reports steps of other flows behind it that cannot run; a flow that goes on fails by
/// them, and one that is done stays so.
pub(super) async fn a_retry_reports_steps_of_other_flows(case: Case) {
    let behind =
        |flow: &str, job: NewJob| job.in_flow(FlowStep::new(flow, "x")).after(id("a"), DONE);
    let plain = || job().retention(hours(1));
    case.send_plan(vec![step("a", &[])]).await;
    let steps = vec![
        behind("done", plain()),
        behind("open", plain()),
        step_of("open", "y", &[]),
        behind("held", with_key(plain())),
        step_of("held", "y", &[]),
    ];
    case.enqueue_all(steps).await;
    for (flow, steps) in [("done", 1), ("open", 2), ("held", 2)] {
        let sealed = case.try_seal(flow, steps, OnFailure::default()).await;
        sealed.expect("the plan is whole");
    }
    case.do_all().await;
    let claimed = case.claim(10).await;
    let [a, others @ ..] = &claimed[..] else {
        panic!("three steps are ready");
    };
    case.end(a, Outcome::Dead).await;
    let of = async |flow: &str| case.find_flow(flow).await.expect("it is known");
    assert_eq!(of("done").await.state, FlowState::Done);
    for flow in ["done", "open"] {
        case.edit(JobId::step(flow, "x"), Action::Delete).await;
    }
    let holder = case.enqueue(with_key(job_in(hours(1)))).await;
    let (retried, mut left_out) = case.retry_as(None, None).await;
    left_out.gone_steps.sort();
    let mut expected = gone(&["x (flow done)", "x (flow open)"]);
    expected.add(held("x (flow held)", holder));
    assert_eq!((retried, left_out), (1, expected));
    for attempt in others {
        case.complete(attempt).await;
    }
    assert_eq!(case.drain().await, [id("a")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(of("done").await.counts, counts(0, [0, 1, 0, 0]));
    assert_eq!(of("done").await.state, FlowState::Done);
    for flow in ["open", "held"] {
        assert_eq!(of(flow).await.counts, counts(0, [1, 0, 1, 0]), "{flow}");
        assert_eq!(of(flow).await.state, FlowState::Failed, "{flow}");
    }
}

/// A flow that is done stays so when it is retried, whatever is gone.
pub(super) async fn a_done_flow_stays_done_when_it_is_retried(case: Case) {
    case.enqueue(step_of("first", "a", &[])).await;
    let sealed = case.try_seal("first", 1, OnFailure::default()).await;
    sealed.expect("the plan is whole");
    let behind = step("x", &[]).after(JobId::step("first", "a"), DONE);
    let plan = vec![
        behind,
        step("pack", &[]),
        step("refund", &[("pack", On::Failed)]),
    ];
    case.send_plan([plan, vec![callback(Role::OnFailed)]].concat())
        .await;
    case.do_all().await;
    for attempt in case.claim(10).await {
        let outcome = match attempt.id() == id("pack") {
            true => Outcome::Completed,
            false => Outcome::Dead,
        };
        case.end(&attempt, outcome).await;
    }
    assert_eq!(case.flow().await.state, FlowState::Done);
    case.edit(id("x"), Action::Delete).await;
    case.edit(id("refund"), Action::Delete).await;
    // From here on nothing of its own keeps the step back.
    case.edit(JobId::step("first", "a"), Action::Redrive).await;
    case.do_all().await;
    for _ in 0..2 {
        assert_eq!(case.retry_as(None, None).await, (0, gone(&["x"])));
        let status = case.flow().await;
        assert_eq!(status.state, FlowState::Done);
        assert_eq!(status.counts, counts(0, [1, 2, 0, 0]));
    }
    assert_eq!(case.drain().await, [JobId::step("first", "a")]);
}

/// A flow that was done and goes on fails by steps that could not run again, in whatever order a
/// retry comes to its steps; unless they turn out not to be needed.
pub(super) async fn a_done_flow_that_goes_on_counts_what_is_gone(case: Case) {
    let flows: Vec<String> = (0..6).map(|n| format!("behind-{n}")).collect();
    case.send_plan(vec![step("a", &[])]).await;
    for (n, flow) in flows.iter().enumerate() {
        let mut steps = vec![
            step_of(flow, "pack", &[]).after(id("a"), DONE),
            step_of(flow, "mail", &[]).after(id("a"), DONE),
            step_of(flow, "report", &[("mail", DONE)]),
        ];
        if n % 2 == 1 {
            steps.rotate_left(1);
        }
        steps.push(job().callback(flow, Role::OnFailed).retention(hours(1)));
        case.enqueue_all(steps).await;
        let sealed = case.try_seal(flow, 3, OnFailure::default()).await;
        sealed.expect("the plan is whole");
    }
    let expect = async |counted: FlowCounts, state: FlowState| {
        case.do_all().await;
        for flow in &flows {
            let status = case.find_flow(flow).await.expect("it is known");
            assert_eq!((status.counts, status.state), (counted, state), "{flow}");
        }
    };
    let is_done = counts(0, [0, 3, 0, 0]);
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    expect(is_done, FlowState::Done).await;
    for flow in &flows {
        for name in ["mail", "report"] {
            case.edit(JobId::step(flow, name), Action::Delete).await;
        }
    }
    for again in [Outcome::Dead, Outcome::Completed] {
        let (retried, left_out) = case.retry_as(None, None).await;
        case.do_all().await;
        assert_eq!((retried, left_out.gone), (1, flows.len() as u64));
        expect(counts(1, [0, 0, 2, 0]), FlowState::Running).await;
        assert_eq!(case.run_steps(again.clone()).await, ["a"]);
        if again == Outcome::Dead {
            expect(is_done, FlowState::Done).await;
        }
    }
    let mut ran = case.drain().await;
    ran.sort();
    let with_callback = |flow: &String| {
        let callback = crate::flow::step_id(flow, Role::OnFailed.name(), Role::OnFailed);
        [JobId::step(flow, "pack"), callback]
    };
    let mut expected: Vec<JobId> = flows.iter().flat_map(with_callback).collect();
    expected.sort();
    assert_eq!(ran, expected, "each callback once");
    expect(counts(0, [1, 0, 2, 0]), FlowState::Failed).await;
}

/// A retry from a step reports what is behind that step and is expected to run, and no other.
pub(super) async fn a_retry_from_a_step_reports_what_is_behind_it(case: Case) {
    let plan = vec![
        step("a", &[]),
        step("b", &[]),
        step("c", &[("b", DONE)]),
        step("refund", &[("a", On::Failed)]),
        step("report", &[("a", On::Settled)]),
    ];
    case.send_plan(plan).await;
    let [a, b] = &case.claim(10).await[..] else {
        panic!("two steps are ready");
    };
    case.complete(a).await;
    case.end(b, Outcome::Dead).await;
    assert_eq!(case.drain().await, [id("report")]);
    for name in ["c", "refund", "report"] {
        case.edit(id(name), Action::Delete).await;
    }
    assert_eq!(case.retry_as(None, None).await, (1, gone(&["c"])));
    assert_eq!(case.retry_as(Some("a"), None).await, (1, gone(&["report"])));
    let mut ran = case.drain().await;
    ran.sort();
    let mut both = vec![id("a"), id("b")];
    both.sort();
    assert_eq!(ran, both);
    assert_eq!(case.flow_counts().await, counts(0, [3, 1, 1, 0]));
}

/// It reports all of many, also where one call cannot handle them.
pub(super) async fn a_retry_from_a_step_reports_many_that_are_gone(case: Case) {
    let behind = (0..400).map(|n| step(&format!("b{n}"), &[("a", DONE)]).retention(seconds(0)));
    let plan = [step("a", &[])].into_iter().chain(behind);
    case.send_plan(plan.collect()).await;
    assert_eq!(case.drain().await.len(), 401);
    let (retried, left_out) = case.retry_as(Some("a"), None).await;
    assert_eq!((retried, left_out.gone), (1, 400));
    assert_eq!(case.drain().await, [id("a")]);
    assert_eq!(case.flow_counts().await, counts(0, [401, 0, 0, 0]));
}

/// A retry by a filter reports what is gone behind the steps that it matches.
pub(super) async fn a_retry_by_a_filter_reports_what_is_gone(case: Case) {
    let plan = vec![
        step("a", &[]).kind("mail"),
        step("b", &[("a", DONE)]),
        with_key(step("c", &[("a", DONE)])),
        step("d", &[]).kind("text"),
        step("e", &[("d", DONE)]),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a", "d"]);
    case.edit(id("b"), Action::Delete).await;
    case.edit(id("e"), Action::Delete).await;
    let holder = case.enqueue(with_key(job_in(hours(1)))).await;
    let mail = Filter::default().kind("mail".to_owned());
    let mut expected = gone(&["b"]);
    expected.add(held("c", holder));
    assert_eq!(case.retry_as(None, Some(mail)).await, (1, expected));
    assert_eq!(case.flow_counts().await, counts(1, [0, 1, 2, 1]));
}

/// A step that could not run again and turns out not to be needed fails no flow.
pub(super) async fn a_gone_step_that_is_not_needed_is_no_failure(case: Case) {
    let plan = vec![
        step("charge", &[]),
        step("mend", &[("charge", On::Failed)]),
        step("report", &[("mend", DONE)]),
        step("mail", &[("report", DONE)]),
        callback(Role::OnDone),
        callback(Role::OnFailed),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["charge"]);
    assert_eq!(case.run_steps(Outcome::Dead).await, ["mend"]);
    assert_eq!(case.drain().await, [callback_id(Role::OnFailed)]);
    case.edit(id("report"), Action::Delete).await;
    case.edit(id("mail"), Action::Delete).await;
    let both = gone(&["report", "mail"]);
    assert_eq!(case.retry_as(None, None).await, (2, both.clone()));
    assert_eq!(case.flow_counts().await, counts(2, [0, 0, 2, 0]));
    assert_eq!(
        case.drain().await,
        [id("charge"), callback_id(Role::OnDone)]
    );
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(case.flow_counts().await, counts(0, [1, 3, 0, 0]));
}

/// The same of a step whose unique key another job holds: it is passed over again.
pub(super) async fn a_held_step_that_is_not_needed_is_no_failure(case: Case) {
    let plan = vec![
        step("charge", &[]),
        step("mend", &[("charge", On::Failed)]),
        with_key(step("report", &[("mend", DONE)])),
    ];
    case.send_plan(plan).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["charge"]);
    assert_eq!(case.run_steps(Outcome::Dead).await, ["mend"]);
    let holder = case.enqueue(with_key(job_in(hours(1)))).await;
    assert_eq!(case.retry_as(None, None).await, (2, held("report", holder)));
    let report = case.get(id("report")).await;
    assert_eq!(report.cancelled, Some(CancelReason::Replaced));
    assert_eq!(case.drain().await, [id("charge")]);
    assert_eq!(case.flow().await.state, FlowState::Done);
    assert_eq!(case.flow_counts().await, counts(0, [1, 2, 0, 0]));
    let report = case.get(id("report")).await;
    assert_eq!(report.cancelled, Some(CancelReason::Upstream));
}

/// A flow whose rest is cancelled by a failure grows on behind a step that a retry could not run.
pub(super) async fn a_step_that_is_gone_does_not_end_growth(case: Case) {
    let plan = vec![step("a", &[]), step("b", &[("a", DONE)])];
    case.plan(plan, OnFailure::CancelRest).await;
    assert_eq!(case.run_steps(Outcome::Dead).await, ["a"]);
    case.do_all().await;
    assert_eq!(case.verdict(grown("d")).await, EnqueueVerdict::FlowClosed);
    case.edit(id("b"), Action::Delete).await;
    assert_eq!(case.retry_as(None, None).await, (1, gone(&["b"])));
    assert_eq!(case.verdict(grown("d")).await, EnqueueVerdict::Created);
    assert_eq!(case.drain().await.len(), 2);
    assert_eq!(case.flow_counts().await, counts(0, [2, 0, 1, 0]));
    assert_eq!(case.flow().await.state, FlowState::Failed);
}

/// A retry from a step that cannot run says why, and names what it waits for.
pub(super) async fn a_retry_from_a_step_that_cannot_run_says_why(case: Case) {
    let plain = case.enqueue(job_in(hours(1))).await;
    let long = "l".repeat(100);
    let other = case.enqueue(step_of(&long, &long, &[])).await;
    let plan = vec![
        step("charge", &[]),
        step("pack", &[("charge", DONE)]),
        step("mail", &[]).after(plain, DONE),
        step("refund", &[]).after(other, DONE),
    ];
    case.send_plan(plan).await;
    let refused = async |flow: &str, from: Option<&str>| {
        let (from, next, filter) = (from.map(str::to_owned), None, None);
        let act = FlowAct::Retry { from, next, filter };
        let error = case.try_flow(flow, act).await.expect_err("it cannot run");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        error.to_string()
    };
    let why = async |from: &str| refused(FLOW, Some(from)).await;
    for open in ["charge", "pack"] {
        let text = why(open).await;
        assert!(text.contains("not ended") && text.contains(open), "{text}");
    }
    assert_eq!(case.run_steps(Outcome::Dead).await, ["charge"]);
    case.cancel(plain).await;
    let text = why("pack").await;
    assert!(
        text.contains("retry from") && text.contains("charge"),
        "{text}"
    );
    let text = why("mail").await;
    assert!(text.contains(&plain.to_string()), "{text}");
    let text = refused(&long, None).await;
    assert!(text.contains("never sealed"), "{text}");
    case.try_flow(&long, FlowAct::Cancel)
        .await
        .expect("it is open");
    let text = refused(&long, None).await;
    assert!(text.contains("cancelled before it was sealed"), "{text}");
    let text = why("refund").await;
    let named = format!("{long} (flow {long})");
    assert!(text.contains(&named), "{text}");
    assert_eq!(case.flow_counts().await, counts(0, [0, 3, 0, 1]));
}
