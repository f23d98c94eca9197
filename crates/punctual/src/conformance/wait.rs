//! Laws of wait: a waiter is woken at once, and no client polls.

use super::START;
use super::case::*;
use super::polls::at_once;
use crate::engine::{Action, Change, WaitFor, Waited};
use crate::job::{Due, Effect, Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{hours, minutes, seconds};

fn for_work() -> WaitFor {
    WaitFor::Work(vec![QUEUE.into()])
}

/// A new job that is due wakes a waiter, whether it came before the wait began or after.
pub(super) async fn a_new_job_wakes_a_waiter(case: Case) {
    let wait = case.listens().await;
    case.enqueue(job()).await;
    assert_eq!(at_once(wait).await, Waited::Work);
    assert_eq!(case.drain().await.len(), 1);
    case.takes_every_wakeup().await;
    case.enqueue(job()).await;
    assert_eq!(
        case.wait(for_work()).await,
        Waited::Work,
        "between two waits"
    );
}

/// A wakeup that a gone waiter took is not the only sign of a job: the next poll finds it.
pub(super) async fn a_wakeup_that_a_gone_waiter_took_is_not_missed(case: Case) {
    let gone = case.listens().await;
    gone.abort();
    assert!(gone.await.is_err_and(|error| error.is_cancelled()));
    case.enqueue(job()).await;
    assert_eq!(case.wait_as_time_goes(for_work()).await, Waited::Work);
    assert_eq!(case.drain().await.len(), 1);
}

/// A job that is due earlier than what a waiter sleeps for wakes it in time.
pub(super) async fn an_earlier_job_wakes_a_waiter(case: Case) {
    case.enqueue(job_in(minutes(50))).await;
    assert_eq!(case.wake_at().await, Some(START + minutes(50)));
    let wait = case.listens().await;
    case.enqueue(job_in(seconds(10))).await;
    case.advance(seconds(10)).await;
    assert_eq!(at_once(wait).await, Waited::Work);
    assert_eq!(case.drain().await.len(), 1);
}

/// A job that is brought forward wakes a waiter in time.
pub(super) async fn a_job_brought_forward_wakes_a_waiter(case: Case) {
    let id = case.enqueue(job_in(minutes(50))).await;
    assert_eq!(case.wake_at().await, Some(START + minutes(50)));
    let wait = case.listens().await;
    case.edit(id, Action::Reschedule(Due::After(seconds(3))))
        .await;
    case.advance(seconds(3)).await;
    assert_eq!(at_once(wait).await, Waited::Work);
    assert_eq!(case.drain().await, [id]);
}

/// Who waits until `wake_at` is let go at that instant, and a claim then answers.
pub(super) async fn a_wait_until_wake_at_ends_with_work(case: Case) {
    let id = case.enqueue(job_in(minutes(5))).await;
    let until = case.wake_at().await.expect("a job is to come");
    let (engine, namespace) = (case.engine(), case.namespace.clone());
    let wait = tokio::spawn(async move { engine.wait(&namespace, for_work(), until).await });
    case.advance(minutes(5)).await;
    at_once(wait).await;
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// A wait ends at its instant with nothing.
pub(super) async fn a_wait_ends_at_its_instant(case: Case) {
    let wait = case.listens().await;
    case.advance(hours(1)).await;
    assert_eq!(at_once(wait).await, Waited::TimedOut);
    let now = case.clock();
    let over = case.engine().wait(&case.namespace, for_work(), now).await;
    assert_eq!(
        over.expect("wait"),
        Waited::TimedOut,
        "it is over when it begins"
    );
}

/// A job of another queue wakes no waiter, nor does one that is due after what is known.
pub(super) async fn what_brings_no_work_does_not_ring(case: Case) {
    case.enqueue(job_in(hours(2))).await;
    case.wake_at().await;
    let wait = case.listens().await;
    case.enqueue(NewJob::new("mail", "{}")).await;
    case.enqueue(job_in(hours(3))).await;
    case.advance(hours(1)).await;
    assert_eq!(at_once(wait).await, Waited::TimedOut);
}

/// A claim that leaves work wakes the next waiter.
pub(super) async fn a_claim_that_leaves_work_wakes_the_next(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let wait = case.listens().await;
    case.claim_one().await;
    assert_eq!(at_once(wait).await, Waited::Work);
}

/// A released job wakes a waiter.
pub(super) async fn a_release_wakes_a_waiter(case: Case) {
    let attempt = case.active(job()).await;
    let wait = case.listens().await;
    case.end(&attempt, Outcome::Released).await;
    assert_eq!(at_once(wait).await, Waited::Work);
}

/// A redriven job wakes a waiter.
pub(super) async fn a_redrive_wakes_a_waiter(case: Case) {
    let dead = case.job_in_state(JobState::Dead).await;
    let wait = case.listens().await;
    case.edit(dead, Action::Redrive).await;
    assert_eq!(at_once(wait).await, Waited::Work);
}

/// A job that is made to run now wakes a waiter.
pub(super) async fn run_now_wakes_a_waiter(case: Case) {
    let later = case.enqueue(job_in(hours(9))).await;
    case.wake_at().await;
    let wait = case.listens().await;
    case.edit(later, Action::RunNow).await;
    assert_eq!(at_once(wait).await, Waited::Work);
}

/// A resume wakes a waiter if the queue has work.
pub(super) async fn a_resume_wakes_a_waiter(case: Case) {
    case.pause().await;
    case.enqueue(job()).await;
    let wait = case.listens().await;
    case.resume().await;
    assert_eq!(at_once(wait).await, Waited::Work);
    assert_eq!(case.drain().await.len(), 1);
}

/// A job that frees its group wakes a waiter for the next of it.
pub(super) async fn a_freed_group_wakes_a_waiter(case: Case) {
    let in_group = || {
        let (key, on_retry) = ("a".into(), OnRetry::Hold);
        NewJob {
            group: Some(Group { key, on_retry }),
            ..job()
        }
    };
    let first = case.active(in_group()).await;
    let second = case.enqueue(in_group()).await;
    let wait = case.listens().await;
    case.complete(&first).await;
    assert_eq!(at_once(wait).await, Waited::Work);
    assert_eq!(case.drain().await, [second]);
}

/// An effect that lets a held job run wakes a waiter.
pub(super) async fn a_cleared_job_wakes_a_waiter(case: Case) {
    let held = case.job_in_state(JobState::Held).await;
    let attempt = case.active(job()).await;
    let wait = case.listens().await;
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.effects = vec![Effect::Clear {
        job: held,
        name: "paid".into(),
    }];
    case.end_as(&attempt, settlement).await;
    assert_eq!(at_once(wait).await, Waited::Work);
}

/// A wait for jobs ends when the last of them settles.
pub(super) async fn a_settled_wait_ends_with_the_last(case: Case) {
    let sent = case.enqueue_all(vec![job(), job()]).await;
    let wait = case.waits(WaitFor::Settled(sent.clone()));
    let first = case.claim_one().await;
    case.complete(&first).await;
    let second = case.claim_one().await;
    case.end(&second, Outcome::Dead).await;
    assert_eq!(at_once(wait).await, Waited::Settled);
    for id in &sent {
        assert!(case.state(*id).await.is_settled());
    }
    let over = case
        .wait(WaitFor::Settled(vec![sent[0], JobId::new()]))
        .await;
    assert_eq!(over, Waited::Settled, "settled before, or unknown");
}

/// A settled wait goes on while one of its jobs goes on.
pub(super) async fn a_settled_wait_waits_for_all(case: Case) {
    let sent = case.enqueue_all(vec![job(), job_in(hours(9))]).await;
    case.drain().await;
    let wait = case.waits(WaitFor::Settled(sent.clone()));
    case.advance(hours(1)).await;
    assert_eq!(at_once(wait).await, Waited::TimedOut);
    let until = case.clock();
    let what = WaitFor::Settled(sent);
    let over = case.engine().wait(&case.namespace, what, until).await;
    assert_eq!(over.expect("wait"), Waited::TimedOut, "over as it begins");
}

async fn watch(case: &Case, cursor: Option<u64>) -> (Vec<Change>, u64, bool) {
    match case.wait(WaitFor::Changes(cursor)).await {
        Waited::Changes {
            changes,
            cursor,
            gap,
        } => (changes, cursor, gap),
        other => panic!("changes are answered, got {other:?}"),
    }
}

/// Starts to watch: a wait without a cursor is answered with the first change.
async fn start_watching(case: &Case) -> u64 {
    // The wait may begin before or after any one job, so they go on until one was seen.
    let wait = case.waits(WaitFor::Changes(None));
    while !wait.is_finished() {
        case.enqueue(NewJob::new("elsewhere", "{}")).await;
        tokio::task::yield_now().await;
    }
    match at_once(wait).await {
        Waited::Changes { cursor, .. } => cursor,
        other => panic!("changes are answered, got {other:?}"),
    }
}

/// A watcher receives each step of a job's life, in order, once.
pub(super) async fn changes_report_each_step(case: Case) {
    let mut cursor = start_watching(&case).await;
    let mut reported = Vec::new();
    let id = case.enqueue(job()).await;
    reported.extend(next_states(&case, id, &mut cursor).await);
    let attempt = case.claim_one().await;
    reported.extend(next_states(&case, id, &mut cursor).await);
    case.complete(&attempt).await;
    reported.extend(next_states(&case, id, &mut cursor).await);
    assert_eq!(
        reported,
        [JobState::Ready, JobState::Active, JobState::Completed]
    );
}

/// The next changes of a job; those of others on the way are passed over.
async fn next_states(case: &Case, id: JobId, cursor: &mut u64) -> Vec<JobState> {
    loop {
        let (changes, next, gap) = watch(case, Some(*cursor)).await;
        assert!(!gap && next > *cursor, "gap {gap}, {next} after {cursor}");
        *cursor = next;
        let mine = changes.iter().filter(|change| change.id == id);
        let states: Vec<_> = mine.map(|change| change.state).collect();
        if !states.is_empty() {
            return states;
        }
    }
}

/// A watcher receives nothing of another namespace.
pub(super) async fn changes_are_of_a_namespace(case: Case) {
    let mut cursor = start_watching(&case).await;
    let case = case.tenant("other");
    let theirs = case.enqueue(job()).await;
    let case = case.tenant("default");
    let mine = case.enqueue(job()).await;
    let mut reported = Vec::new();
    while !reported.contains(&mine) {
        let (changes, next, _) = watch(&case, Some(cursor)).await;
        reported.extend(changes.iter().map(|change| change.id));
        cursor = next;
    }
    assert!(!reported.contains(&theirs));
}

/// A watcher that comes too late for what the feed remembers learns of the gap.
pub(super) async fn a_slow_watcher_learns_of_the_gap(case: Case) {
    let case = case.limited(|limits| limits.feed = 8).await;
    let cursor = start_watching(&case).await;
    case.enqueue_all((0..100).map(|_| job()).collect()).await;
    let (changes, next, gap) = watch(&case, Some(cursor)).await;
    assert!(gap, "100 changes into a feed of 8");
    assert!(changes.len() <= 8, "{} changes", changes.len());
    case.enqueue(job()).await;
    let mut cursor = next;
    loop {
        let (changes, next, gap) = watch(&case, Some(cursor)).await;
        assert!(!gap, "nothing was missed since");
        cursor = next;
        if !changes.is_empty() {
            break;
        }
    }
}
