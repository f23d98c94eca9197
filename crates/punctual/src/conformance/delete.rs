//! Laws of the delete of a queue: it needs a queue without jobs, and leaves nothing of it.

use super::case::*;
use crate::engine::{
    Action, Control, Controlled, EnqueueVerdict, OnFull, QueueSettings, RecordValue,
    SETTINGS_PREFIX, StatsRequest,
};
use crate::error::{ErrorKind, Result};
use crate::job::{Hold, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes};

impl Case {
    /// Lets so many hours go by, with a maintenance in each.
    async fn hours_go_by(&self, count: u64) {
        for _ in 0..count {
            self.advance(hours(1)).await;
            self.maintain().await;
        }
    }

    async fn delete_queue(&self) -> Result<Controlled> {
        let queue = QUEUE.into();
        self.try_control(Control::DeleteQueue { queue }).await
    }

    /// Nothing of [`QUEUE`] is listed.
    async fn assert_no_queue(&self) {
        let request = StatsRequest {
            history: true,
            due: true,
            ..StatsRequest::default()
        };
        let stats = self.stats_of(request.clone()).await;
        assert_eq!(stats.queues, [], "a deleted queue is not listed");
        let queues = vec![QUEUE.into()];
        let stats = self.stats_of(StatsRequest { queues, ..request }).await;
        assert_eq!(stats.queues, [], "a deleted queue is not found by name");
        assert_eq!(self.names("queue/").await, [""; 0]);
        let read = Control::Read {
            name: format!("queue/{QUEUE}"),
        };
        assert_eq!(self.control(read).await, Controlled::Record(None));
        for state in JobState::ALL {
            assert_eq!(self.listed(state).await, [], "{state}");
        }
    }
}

/// A queue with a job in any state is not deleted; what is said names the queue, and nothing
/// changes.
pub(super) async fn a_queue_with_jobs_is_not_deleted(case: Case) {
    for state in JobState::ALL {
        let id = case.job_in_state(state).await;
        let before = case.stats().await.queues;
        let error = case.delete_queue().await.expect_err("it has a job");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{state}: {error}");
        assert!(error.message().contains(QUEUE), "{error}");
        assert_eq!(case.stats().await.queues, before, "{state}");
        match state {
            JobState::Active => {
                // The only one that is claimed: what is left of it is kept a while.
                case.leases_run_out().await;
                case.cancel(id).await;
            }
            state if state.is_pending() => {
                case.cancel(id).await;
            }
            _ => {}
        }
        case.edit(id, Action::Delete).await;
        assert_eq!(
            case.delete_queue().await.expect("it has no job"),
            Controlled::Done(true),
            "{state}"
        );
        case.assert_no_queue().await;
    }
    let again = case.delete_queue().await.expect("there is none");
    assert_eq!(again, Controlled::Done(false));
}

/// Pause, settings and history go with the queue: one of that name is as new.
pub(super) async fn a_deleted_queue_leaves_nothing(case: Case) {
    case.ended_job(job(), Outcome::Completed).await;
    let far = case.enqueue(job_in(hours(24 * 40))).await;
    case.cancel(far).await;
    case.edit(far, Action::Delete).await;
    let bounded = QueueSettings::new().max_pending(0).on_full(OnFull::Refuse);
    let version = case.configure(bounded.clone(), 0).await;
    case.pause().await;
    assert_eq!(
        case.delete_queue().await.expect("it has no job"),
        Controlled::Done(true)
    );
    case.assert_no_queue().await;
    let id = case.enqueue(job()).await;
    let request = StatsRequest {
        history: true,
        ends: true,
        ..StatsRequest::default()
    };
    let queue = case.stats_of(request).await.queues.remove(0);
    assert!(!queue.paused, "the pause is gone");
    assert_eq!(queue.ends, [], "the last ends are gone");
    assert_eq!(queue.counts.of(JobState::Ready), 1);
    let minutes = queue.history.iter();
    let counted = minutes.map(|minute| (minute.enqueued, minute.completed));
    assert_eq!(counted.collect::<Vec<_>>(), [(1, 0)], "the history is gone");
    assert!(case.configure(bounded, 0).await > version);
    assert_eq!(case.drain().await, [id]);
}

/// A unique key that a settled job held for a period is free once its queue is deleted, and what
/// comes then holds it for its own period.
pub(super) async fn a_deleted_queue_frees_its_keys(case: Case) {
    let with_key = |key: &str| NewJob {
        unique: Some(Unique {
            key: key.into(),
            policy: UniquePolicy::Keep,
            hold: Hold::For(minutes(10)),
        }),
        ..job()
    };
    case.ended_job(with_key("k"), Outcome::Completed).await;
    let elsewhere = NewJob {
        queue: "mail".into(),
        ..with_key("k")
    };
    let other = case.enqueue(elsewhere.clone()).await;
    let merged = case.verdict(with_key("k")).await;
    assert!(matches!(merged, EnqueueVerdict::Merged(_)), "{merged:?}");
    case.delete_queue().await.expect("it has no job");
    case.advance(minutes(5)).await;
    let id = case.enqueue(with_key("k")).await;
    let again = |job: NewJob| NewJob {
        id: crate::job::JobId::new(),
        ..job
    };
    assert_eq!(
        case.verdict(again(elsewhere)).await,
        EnqueueVerdict::Merged(other)
    );
    // Past the end of the first period, not of the second.
    case.advance(minutes(6)).await;
    case.maintain().await;
    assert_eq!(
        case.verdict(with_key("k")).await,
        EnqueueVerdict::Merged(id)
    );
}

/// Of a queue that has had neither jobs nor settings for a day nothing is left.
pub(super) async fn an_idle_queue_is_forgotten_after_a_day(case: Case) {
    case.ended_job(job(), Outcome::Completed).await;
    case.hours_go_by(23).await;
    let queues = case.stats().await.queues;
    assert_eq!(queues.len(), 1, "its history is of the last day");
    case.hours_go_by(30).await;
    case.assert_no_queue().await;
    let id = case.enqueue(job()).await;
    assert_eq!(case.drain().await, [id], "it begins anew");
}

/// A queue that has settings, is paused or holds a key for a period stays as it is, however long it
/// is idle.
pub(super) async fn an_idle_queue_keeps_its_settings_and_keys(case: Case) {
    let with_key = || NewJob {
        unique: Some(Unique {
            key: "k".into(),
            policy: UniquePolicy::Keep,
            hold: Hold::For(hours(100)),
        }),
        ..job()
    };
    let holder = case.ended_job(with_key(), Outcome::Completed).await;
    let in_queue = |name: &str| NewJob {
        queue: name.into(),
        ..job()
    };
    for name in ["bounded", "paused"] {
        let id = case.enqueue(in_queue(name)).await;
        case.cancel(id).await;
    }
    let bounded = QueueSettings::new().max_pending(7).on_full(OnFull::Refuse);
    case.control(Control::Write {
        name: format!("{SETTINGS_PREFIX}bounded"),
        expected: 0,
        value: Some(RecordValue::Queue(bounded)),
    })
    .await;
    let queue = "paused".into();
    case.control(Control::Pause { queue }).await;
    case.hours_go_by(60).await;
    let queues = case.stats().await.queues;
    for name in ["bounded", "paused"] {
        assert!(queues.iter().any(|seen| seen.queue == name), "{name}");
    }
    let merged = case.verdict(with_key()).await;
    assert_eq!(merged, EnqueueVerdict::Merged(holder));
}
