//! Laws of order: within a line by due, then by enqueue; between lines by priority.

use super::case::*;
use super::effects::complete_with;
use crate::engine::Action;
use crate::job::{Due, Effect, JobId, JobState, NewJob, Outcome};
use crate::time::{hours, millis, minutes, seconds};

fn of_priority(priority: u8) -> NewJob {
    NewJob { priority, ..job() }
}

/// Jobs that fall due together are claimed by due, whatever the order they came in.
pub(super) async fn a_line_goes_by_due(case: Case) {
    let delays = [5, 3, 9, 1, 7];
    let sent = case
        .enqueue_all(delays.map(|s| job_in(seconds(s))).to_vec())
        .await;
    case.advance(minutes(1)).await;
    assert_eq!(
        case.claim_ids(10).await,
        [3, 1, 0, 4, 2].map(|nth| sent[nth])
    );
}

/// Jobs with the same due are claimed in the order they came in, over calls too.
pub(super) async fn equal_dues_go_by_enqueue(case: Case) {
    let at = || NewJob {
        due: Due::At(case.clock() + minutes(1)),
        ..job()
    };
    let mut sent = case.enqueue_all((0..20).map(|_| at()).collect()).await;
    for _ in 0..20 {
        sent.push(case.enqueue(at()).await);
    }
    case.advance(minutes(1)).await;
    assert_eq!(case.claim_ids(100).await, sent);
}

/// An earlier priority goes first, though its jobs came and fell due later.
pub(super) async fn an_earlier_priority_goes_first(case: Case) {
    let mut sent = Vec::new();
    for priority in (0..=9).rev() {
        sent.push(case.enqueue(of_priority(priority)).await);
        case.advance(seconds(1)).await;
    }
    sent.reverse();
    assert_eq!(case.claim_ids(100).await, sent);
}

/// A pile of due jobs that is larger than a sweep is claimed by due all the same.
pub(super) async fn a_pile_over_the_sweep_is_claimed_by_due(case: Case) {
    let case = case.limited(|limits| limits.sweep = 10).await;
    let delay = |nth: u64| job_in(seconds(1 + (nth * 37) % 100));
    let sent = case.enqueue_all((0..100).map(delay).collect()).await;
    case.advance(hours(1)).await;
    let mut by_due: Vec<u64> = (0..100).collect();
    by_due.sort_by_key(|nth| (nth * 37) % 100);
    let expected: Vec<_> = by_due.into_iter().map(|nth| sent[nth as usize]).collect();
    let mut claimed = Vec::new();
    for _ in 0..100 {
        claimed.extend(case.claim_ids(7).await);
    }
    assert_eq!(claimed, expected);
}

/// An active job, and a ready one of its line that has an earlier due.
async fn active_before_an_earlier_due(case: &Case) -> (Attempt, JobId) {
    let earlier = case.enqueue(of_priority(9)).await;
    case.advance(seconds(1)).await;
    let active = case.enqueue(of_priority(5)).await;
    let attempt = case.claim_one().await;
    assert_eq!(attempt.id(), active);
    case.edit(earlier, Action::Reprioritise(5)).await;
    (attempt, earlier)
}

/// A released job goes to the front of its line, before what has an earlier due.
pub(super) async fn a_released_job_goes_first(case: Case) {
    let (attempt, earlier) = active_before_an_earlier_due(&case).await;
    case.end(&attempt, Outcome::Released).await;
    assert_eq!(case.claim_ids(10).await, [attempt.id(), earlier]);
}

/// A rescued job goes to the front of its line, before what has an earlier due.
pub(super) async fn a_rescued_job_goes_first(case: Case) {
    let (attempt, earlier) = active_before_an_earlier_due(&case).await;
    case.leases_run_out().await;
    assert_eq!(case.claim_ids(10).await, [attempt.id(), earlier]);
}

/// A released job that is rescheduled stands by its new due, no longer at the front.
pub(super) async fn a_reschedule_takes_a_job_from_the_front(case: Case) {
    let (attempt, earlier) = active_before_an_earlier_due(&case).await;
    case.end(&attempt, Outcome::Released).await;
    case.edit(attempt.id(), Action::Reschedule(Due::Now)).await;
    assert_eq!(case.claim_ids(10).await, [earlier, attempt.id()]);
}

/// A job that is tried again stands in its line by its new due.
pub(super) async fn a_retry_stands_by_its_new_due(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    let failed = case.claim_one().await;
    case.advance(seconds(1)).await;
    case.retry(&failed, seconds(0)).await;
    assert_eq!(case.claim_ids(10).await, [sent[1], sent[0]]);
}

/// A rescheduled job stands in its line by its new due, earlier or later.
pub(super) async fn a_rescheduled_job_stands_by_its_new_due(case: Case) {
    let sent = case
        .enqueue_all([10, 20, 30].map(|s| job_in(seconds(s))).to_vec())
        .await;
    case.edit(sent[0], Action::Reschedule(Due::After(seconds(25))))
        .await;
    case.edit(sent[2], Action::Reschedule(Due::After(seconds(5))))
        .await;
    case.advance(minutes(1)).await;
    assert_eq!(case.claim_ids(10).await, [sent[2], sent[1], sent[0]]);
}

/// A ready job that is rescheduled leaves its place in the line.
pub(super) async fn a_ready_job_delayed_is_not_claimed(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    case.edit(sent[0], Action::Reschedule(Due::After(seconds(5))))
        .await;
    assert_eq!(case.claim_ids(10).await, [sent[1]]);
    case.advance(seconds(5)).await;
    assert_eq!(case.claim_ids(10).await, [sent[0]]);
}

/// A reprioritised job stands in the line of its new priority, ready or scheduled.
pub(super) async fn a_reprioritised_job_changes_its_line(case: Case) {
    let ready = case.enqueue_all(vec![job(), job(), job()]).await;
    let scheduled = case.enqueue(job_in(seconds(1))).await;
    case.edit(ready[2], Action::Reprioritise(1)).await;
    case.edit(scheduled, Action::Reprioritise(0)).await;
    case.edit(ready[0], Action::Reprioritise(9)).await;
    case.advance(seconds(1)).await;
    assert_eq!(
        case.claim_ids(10).await,
        [scheduled, ready[2], ready[1], ready[0]]
    );
}

/// A job that was edited again and again is claimed once: a stale place in a line is no job.
pub(super) async fn a_stale_place_in_a_line_is_not_claimed(case: Case) {
    let id = case.enqueue(job_in(minutes(1))).await;
    for nth in 0..20 {
        case.edit(id, Action::RunNow).await;
        case.edit(id, Action::Reprioritise(nth % 10)).await;
        case.edit(id, Action::Reschedule(Due::After(seconds(30))))
            .await;
    }
    assert_eq!(case.claim_ids(10).await, [], "its last word is 30 s ahead");
    case.advance(minutes(1)).await;
    assert_eq!(case.claim_ids(10).await, [id]);
    let gone = case.enqueue(job()).await;
    case.cancel(gone).await;
    assert_eq!(case.claim_ids(10).await, []);
}

/// Jobs whose name is cleared stand in line by their dues and then as they came, whatever the order
/// in which they are cleared.
pub(super) async fn cleared_jobs_stand_by_their_dues(case: Case) {
    let held = |_| NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let clears = |job: &JobId| Effect::Clear {
        job: *job,
        name: "paid".into(),
    };
    let mut releases = case.enqueue_all((0..8).map(|_| job()).collect()).await;
    let mut releasing = case.claim(8).await;
    let (mut line, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let waiting = (0..12).map(held).collect();
        let waiting = case.enqueue_all(waiting).await;
        line.extend(&waiting);
        calls.push(waiting);
        case.advance(millis(10)).await;
        line.push(case.enqueue(job()).await);
        case.advance(millis(10)).await;
    }
    let mixed = [calls[4].clone(), calls[0][6..].to_vec()].concat();
    let reversed = calls[1].iter().rev().copied().collect();
    let cleared = [
        calls[2][6..].to_vec(),
        mixed,
        calls[2][..6].to_vec(),
        calls[0][..6].to_vec(),
        reversed,
        calls[3].iter().step_by(2).copied().collect(),
        calls[3].iter().skip(1).step_by(2).copied().collect(),
        calls[3].clone(), // again
    ];
    for ids in cleared {
        let attempt = releasing.remove(0);
        releases.retain(|id| *id != attempt.id());
        let sent = ids.iter().map(clears).collect();
        let verdicts = complete_with(&case, &attempt, sent).await;
        assert!(verdicts.iter().all(Option::is_none), "{verdicts:?}");
        let ready = case.get(ids[0]).await;
        assert_eq!((ready.state, ready.wait_for.len()), (JobState::Ready, 0));
    }
    assert_eq!(releases, []);
    let mut claimed = case.claim_ids(20).await;
    claimed.extend(case.claim_ids(100).await);
    assert_eq!(claimed, line);
}

/// Jobs that stay held are listed as such, and no other ones, whatever is released around them.
pub(super) async fn a_release_takes_nothing_of_what_stays_held(case: Case) {
    let held = |name: &str, due| NewJob {
        wait_for: vec![name.into()],
        due: Due::After(seconds(due)),
        ..job()
    };
    let release = case.active(job()).await;
    let late = case.enqueue(held("paid", 20)).await;
    let early = case.enqueue(held("paid", 10)).await;
    let stays = case.enqueue(held("signed", 10)).await;
    let others = case.enqueue_all((0..7).map(|_| held("paid", 30)).collect());
    let all = [vec![early, late], others.await].concat();
    let clears = all.iter().map(|id| Effect::Clear {
        job: *id,
        name: "paid".into(),
    });
    complete_with(&case, &release, clears.collect()).await;
    assert_eq!(case.listed(JobState::Held).await, [stays]);
    assert_eq!(case.listed(JobState::Scheduled).await.len(), all.len());
    assert_eq!(case.counts().await.of(JobState::Held), 1);
}
