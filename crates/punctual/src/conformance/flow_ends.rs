//! Laws of ends: whatever ends a job, the engine handles its dependants in that step.

use super::case::*;
use super::control::purge;
use super::flow_calls::*;
use crate::engine::{OnFull, QueueSettings};
use crate::flow::{On, Role};
use crate::job::{
    CancelReason, DeadReason, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy,
};
use crate::time::seconds;

/// Jobs that wait for one, each for another end, and one that waits for the first of them.
struct Watchers {
    completed: JobId,
    failed: JobId,
    settled: JobId,
    second: JobId,
}

/// The watchers are in a queue of their own: what happens to the parent's does not touch them.
fn elsewhere() -> NewJob {
    job().queue("watchers")
}

impl Watchers {
    async fn of(case: &Case, parent: JobId) -> Self {
        let after = |id, on| elsewhere().after(id, on);
        let completed = case.enqueue(after(parent, On::Completed)).await;
        Self {
            completed,
            failed: case.enqueue(after(parent, On::Failed)).await,
            settled: case.enqueue(after(parent, On::Settled)).await,
            second: case.enqueue(after(completed, On::Completed)).await,
        }
    }

    /// They know that it did not complete.
    async fn know(&self, case: &Case) {
        for id in [self.completed, self.second] {
            let job = case.get(id).await;
            let upstream = Some(CancelReason::Upstream);
            assert_eq!((job.state, job.cancelled), (JobState::Cancelled, upstream));
        }
        for id in [self.failed, self.settled] {
            assert_eq!(case.state(id).await, JobState::Ready);
        }
    }
}

/// A waiting parent that is cancelled.
pub(super) async fn a_cancelled_parent_is_known_to_its_watchers(case: Case) {
    let parent = case.enqueue(job()).await;
    let watchers = Watchers::of(&case, parent).await;
    case.cancel(parent).await;
    watchers.know(&case).await;
    // An active one whose worker dies after the request.
    let parent = case.active(job()).await;
    let watchers = Watchers::of(&case, parent.id()).await;
    case.cancel(parent.id()).await;
    assert_eq!(case.state(watchers.settled).await, JobState::Held);
    case.leases_run_out().await;
    watchers.know(&case).await;
}

/// A parent that expires while it waits.
pub(super) async fn an_expired_parent_is_known_to_its_watchers(case: Case) {
    let parent = job_in(seconds(60)).expires_at(case.clock() + seconds(30));
    let parent = case.enqueue(parent).await;
    let watchers = Watchers::of(&case, parent).await;
    case.advance(seconds(30)).await;
    watchers.know(&case).await;
}

/// A parent whose queue is purged.
pub(super) async fn a_purged_parent_is_known_to_its_watchers(case: Case) {
    let parent = case.enqueue(job()).await;
    let watchers = Watchers::of(&case, parent).await;
    assert_eq!(purge(&case, 100).await, 1);
    watchers.know(&case).await;
}

/// A parent that ends its worker while it runs alone.
pub(super) async fn a_poisoned_parent_is_known_to_its_watchers(case: Case) {
    let parent = case.suspect(job()).await;
    let watchers = Watchers::of(&case, parent).await;
    assert_eq!(case.claim_alone().await[0].id(), parent);
    case.leases_run_out().await;
    let job = case.get(parent).await;
    assert_eq!(job.dead, Some(DeadReason::Poison));
    watchers.know(&case).await;
}

/// A parent whose unique key another job takes.
pub(super) async fn a_replaced_parent_is_known_to_its_watchers(case: Case) {
    let keyed = || NewJob {
        unique: Some(Unique::new("order:7").policy(UniquePolicy::Replace)),
        ..job()
    };
    let parent = case.enqueue(keyed()).await;
    let watchers = Watchers::of(&case, parent).await;
    case.send(keyed()).await;
    watchers.know(&case).await;
}

/// A parent that goes because its queue is full.
pub(super) async fn an_overflowed_parent_is_known_to_its_watchers(case: Case) {
    let settings = QueueSettings::new()
        .max_pending(1)
        .on_full(OnFull::DeadLetterOldest);
    case.configure(settings, 0).await;
    let parent = case.enqueue(job()).await;
    let watchers = Watchers::of(&case, parent).await;
    case.enqueue(job()).await;
    let job = case.get(parent).await;
    assert_eq!(job.dead, Some(DeadReason::Overflow));
    watchers.know(&case).await;
}

/// A parent that fails for the last time, or for good.
pub(super) async fn an_exhausted_parent_is_known_to_its_watchers(case: Case) {
    let parent = case.active(job().max_attempts(2)).await;
    let watchers = Watchers::of(&case, parent.id()).await;
    case.retry(&parent, seconds(1)).await;
    assert_eq!(case.state(watchers.failed).await, JobState::Held);
    case.advance(seconds(1)).await;
    let parent = case.claim_one().await;
    case.retry(&parent, seconds(1)).await;
    watchers.know(&case).await;
    let parent = case.active(job()).await;
    let watchers = Watchers::of(&case, parent.id()).await;
    case.end(&parent, Outcome::Dead).await;
    watchers.know(&case).await;
}

/// A parent that completes frees those that wait for that, and passes over the others.
pub(super) async fn a_completed_parent_is_known_to_its_watchers(case: Case) {
    let parent = case.active(job()).await;
    let watchers = Watchers::of(&case, parent.id()).await;
    case.complete(&parent).await;
    assert_eq!(case.state(watchers.completed).await, JobState::Ready);
    assert_eq!(case.state(watchers.settled).await, JobState::Ready);
    assert_eq!(case.state(watchers.failed).await, JobState::Cancelled);
    assert_eq!(case.state(watchers.second).await, JobState::Held);
}

/// A flow in the middle of its life, with work left to the sweep.
async fn half_run(case: &Case) {
    let mut plan = vec![step("root", &[]), step("join", &[])];
    plan.push(step("mend", &[("root", On::Failed)]));
    plan.extend((0..300).map(|n| step(&format!("c{n}"), &[("root", On::Completed)])));
    plan.push(callback(Role::OnSettled));
    case.send_plan(plan).await;
    let root = case.claim_one().await;
    case.end(&root, Outcome::Dead).await;
}

/// What is left of it is done, and its counts are right.
async fn ends_as_it_should(case: &Case) {
    case.do_all().await;
    assert_eq!(case.flow_counts().await, counts(2, [0, 300, 0, 1]));
    assert_eq!(case.drain().await.len(), 3, "two steps and the callback");
    assert_eq!(case.flow_counts().await, counts(0, [2, 300, 0, 1]));
}

/// What is left to do for a flow is done after a crash.
pub(super) async fn flows_outlive_a_crash(mut case: Case) {
    half_run(&case).await;
    case.crash().await;
    ends_as_it_should(&case).await;
    case.crash().await;
    assert_eq!(case.flow_counts().await, counts(0, [2, 300, 0, 1]));
}

/// What is left to do for a flow is done after a close.
pub(super) async fn flows_outlive_a_close(mut case: Case) {
    half_run(&case).await;
    case.reopen().await;
    ends_as_it_should(&case).await;
    case.reopen().await;
    assert_eq!(case.flow_counts().await, counts(0, [2, 300, 0, 1]));
}
