//! Laws of debounce: of events under one key one job runs, with the last content.

use std::time::Duration;

use super::case::*;
use crate::engine::EnqueueVerdict::{Created, Duplicate, IdConflict, Merged, Refreshed};
use crate::engine::{Filter, List, ListBy, Receipt};
use crate::error::ErrorKind;
use crate::job::{Due, Hold, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::{days, minutes, seconds};

const KEY: &str = "doc:7";
const QUIET: Duration = seconds(5);
const MAX_WAIT: Duration = seconds(20);

/// An event that reindexes the document.
fn event(content: &str) -> NewJob {
    NewJob {
        payload: bytes(content),
        unique: Some(Unique {
            key: KEY.into(),
            policy: UniquePolicy::Refresh { max_wait: MAX_WAIT },
            hold: Hold::UntilSettled,
        }),
        ..job_in(QUIET)
    }
}

async fn send(case: &Case, content: &str) -> Receipt {
    case.send(event(content)).await
}

/// A waiting holder keeps its id and takes kind, payload, headers and due of the last event.
pub(super) async fn the_last_content_runs(case: Case) {
    let first = send(&case, "1").await;
    assert_eq!(first.verdict, Created);
    case.advance(seconds(3)).await;
    let mut last = event("2");
    last.kind = "other".into();
    last.content_type = "text/plain".into();
    last.headers = vec![("asked-by".into(), "ann".into())];
    last.priority = 9;
    let second = case.send(last.clone()).await;
    assert_eq!(second.verdict, Refreshed(first.id));
    assert_eq!(second.due, case.clock() + QUIET, "quiet time begins again");
    let seen = case.get(first.id).await;
    assert_eq!((seen.state, seen.due), (JobState::Scheduled, second.due));
    case.advance(QUIET - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    let attempt = case.claim_one().await;
    let ran = &attempt.job;
    assert_eq!((ran.id, &ran.payload), (first.id, &bytes("2")));
    assert_eq!(ran.kind, last.kind);
    assert_eq!(ran.content_type, last.content_type);
    assert_eq!(ran.headers, last.headers);
    assert_ne!(ran.priority, last.priority, "the rest stays as it was");
    case.complete(&attempt).await;
    assert_eq!(send(&case, "3").await.verdict, Created);
}

/// However often it is refreshed, it is due at most `max_wait` after the first enqueue.
pub(super) async fn max_wait_bounds_it(case: Case) {
    let first = send(&case, "0").await;
    let last = case.clock() + MAX_WAIT;
    for n in 1..=6 {
        case.advance(seconds(3)).await;
        let receipt = send(&case, &n.to_string()).await;
        assert_eq!(receipt.verdict, Refreshed(first.id));
        assert_eq!(receipt.due, (case.clock() + QUIET).min(last));
    }
    case.advance(seconds(2) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.clock(), last);
    // It is due and not claimed yet: it still takes what comes, and stays due.
    assert_eq!(send(&case, "7").await.due, last);
    assert_eq!(case.claim_one().await.job.payload, bytes("7"));
}

/// An event that comes while it runs makes one more job, which later events refresh.
pub(super) async fn an_event_while_it_runs_makes_one_more(case: Case) {
    let first = send(&case, "1").await;
    case.advance(QUIET).await;
    let attempt = case.claim_one().await;
    let second = send(&case, "2").await;
    assert_eq!(second.verdict, Created);
    assert_eq!(case.state(second.id).await, JobState::Held);
    let third = send(&case, "3").await;
    assert_eq!(third.verdict, Refreshed(second.id));
    case.complete(&attempt).await;
    assert_eq!(attempt.id(), first.id);
    assert_eq!(case.state(second.id).await, JobState::Scheduled);
    case.advance(QUIET).await;
    let more = case.claim_one().await;
    assert_eq!((more.id(), more.job.payload), (second.id, bytes("3")));
}

/// A job that only refreshed another is stored nowhere.
pub(super) async fn a_refreshed_job_leaves_no_record(case: Case) {
    let first = send(&case, "1").await;
    let second = send(&case, "2").await;
    assert!(case.is_unknown(second.id).await);
    let list = List {
        by: ListBy::All,
        filter: Filter::default(),
        cursor: None,
        limit: 10,
        payloads: false,
    };
    let all = case.list_as(list).await.expect("a list").jobs;
    assert_eq!(all.iter().map(|job| job.id).collect::<Vec<_>>(), [first.id]);
    assert_eq!(case.counts().await.pending(), 1);
}

/// A resend changes nothing twice: neither an event's own nor one of the job it refreshed.
pub(super) async fn a_resend_refreshes_once(case: Case) {
    let first = event("1");
    let due = case.send(first.clone()).await.due;
    let second = event("2");
    case.advance(seconds(1)).await;
    case.send(second.clone()).await;
    case.advance(seconds(1)).await;
    let third = send(&case, "3").await;
    case.advance(seconds(1)).await;
    let again = case.send(second.clone()).await;
    assert_eq!(again.verdict, Refreshed(first.id));
    assert_eq!(case.get(first.id).await.due, third.due);
    let again = case.send(first.clone()).await;
    assert_eq!((again.verdict, again.due), (Duplicate, due));
    let other = NewJob {
        payload: bytes("4"),
        ..first.clone()
    };
    assert_eq!(case.verdict(other).await, IdConflict);
    case.advance(QUIET).await;
    let attempt = case.claim_one().await;
    assert_eq!(attempt.job.payload, bytes("3"));
    assert_eq!(case.verdict(second).await, Refreshed(first.id));
    case.complete(&attempt).await;
    assert_eq!(case.counts().await.pending(), 0, "no more was made");
}

/// A holder that waits for its retry takes the content, and its wait stays.
pub(super) async fn a_refresh_keeps_the_due_of_a_retry(case: Case) {
    let first = send(&case, "1").await;
    case.advance(QUIET).await;
    let attempt = case.claim_one().await;
    case.retry(&attempt, minutes(1)).await;
    let due = case.clock() + minutes(1);
    let second = send(&case, "2").await;
    assert_eq!((second.verdict, second.due), (Refreshed(first.id), due));
    case.advance(minutes(1)).await;
    let again = case.claim_one().await;
    assert_eq!((again.id(), &again.job.payload), (first.id, &bytes("2")));
    assert_eq!(again.job.attempt, 2);
}

/// A key that is held for a period by a settled job merges, as with every policy.
pub(super) async fn a_settled_holder_is_not_refreshed(case: Case) {
    let mut holder = event("1");
    holder.due = Due::Now;
    holder.unique = Some(Unique {
        key: KEY.into(),
        policy: UniquePolicy::Keep,
        hold: Hold::For(minutes(1)),
    });
    let id = case.ended_job(holder, Outcome::Completed).await;
    let event = NewJob {
        due: Due::Now,
        ..event("2")
    };
    assert_eq!(case.verdict(event).await, Merged(id));
}

/// A `max_wait` of nothing, of more than a year, or shorter than the delay is refused.
pub(super) async fn a_max_wait_out_of_range_is_refused(case: Case) {
    for max_wait in [Duration::ZERO, days(366), QUIET - TICK] {
        let mut new = event("1");
        new.id = JobId::new();
        if let Some(unique) = &mut new.unique {
            unique.policy = UniquePolicy::Refresh { max_wait };
        }
        let refused = case.try_enqueue(vec![new]).await.expect_err("out of range");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("max_wait"), "{refused}");
    }
}
