//! Laws of jobs outside of a flow for which its steps wait.

use super::case::*;
use super::flow_calls::*;
use crate::engine::{Action, Reason};
use crate::flow::{On, OnFailure, Outside};
use crate::job::{JobState, NewJob};
use crate::time::hours;

const DONE: On = On::Completed;

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

/// A job outside of a flow is shown as it ended for the step, also when it is forgotten.
pub(super) async fn a_forgotten_parent_is_shown_as_it_ended(case: Case) {
    let failed = case.enqueue(job_in(hours(1))).await;
    let done = case.enqueue(job()).await;
    let both = step("b", &[]).after(done, DONE).after(failed, DONE);
    let plan = vec![both, step("c", &[]).after(failed, On::Failed)];
    case.send_plan(plan).await;
    let met = async |case: &Case| {
        let steps = case.flow_steps().await;
        let met = |one: &Outside| (one.met, one.state);
        let of = |nth: usize| steps[nth].outside.iter().map(met).collect::<Vec<_>>();
        [of(0), of(1)]
    };
    let waits = (false, Some(JobState::Scheduled));
    let ready = (false, Some(JobState::Ready));
    assert_eq!(met(&case).await, [vec![ready, waits], vec![waits]]);
    let attempt = case.claim_one().await;
    case.complete(&attempt).await;
    case.cancel(failed).await;
    let completed = (true, Some(JobState::Completed));
    let cancelled = |met| (met, Some(JobState::Cancelled));
    let expected = [vec![completed, cancelled(false)], vec![cancelled(true)]];
    assert_eq!(met(&case).await, expected);
    case.edit(failed, Action::Delete).await;
    case.pass(hours(2)).await;
    let expected = [vec![(true, None), (false, None)], vec![(true, None)]];
    assert_eq!(met(&case).await, expected);
}
