//! Laws of the payload update: what it takes, what a resend is compared with, and its bounds.

use super::case::*;
use crate::engine::EditVerdict::{Done, JobActive, NotFound, WrongState};
use crate::engine::{Action, EnqueueVerdict, Filter, ListBy, Select, Target};
use crate::error::ErrorKind;
use crate::job::{Due, Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{days, minutes, seconds};

fn update(text: &str) -> Action {
    Action::UpdatePayload(bytes(text))
}

/// A payload update takes what waits, and nothing else.
pub(super) async fn update_by_state(case: Case) {
    for state in JobState::ALL {
        let id = case.job_in_state(state).await;
        let before = case.get(id).await;
        let verdict = case.edit(id, update("new")).await;
        let after = case.get(id).await;
        let expected = match state {
            JobState::Active => JobActive,
            state if state.is_settled() => WrongState(state),
            state => Done(state),
        };
        assert_eq!(verdict, expected, "update of a {state} job");
        if state.is_pending() {
            assert_eq!(after.payload, bytes("new"), "update of a {state} job");
            let same = crate::job::JobRecord {
                payload: after.payload.clone(),
                ..before
            };
            assert_eq!(after, same, "an update changes the payload only");
            case.cancel(id).await;
        } else {
            assert_eq!(after, before, "update of a {state} job");
        }
    }
    assert_eq!(case.edit(JobId::new(), update("new")).await, NotFound);
}

/// A resend of what was sent first is a duplicate after an update, while the job waits and once it
/// has settled; a send of the new payload under that id is another content.
pub(super) async fn a_resend_is_compared_with_what_was_sent_first(case: Case) {
    let sent = NewJob {
        due: Due::After(minutes(1)),
        ..NewJob::new(QUEUE, "first")
    };
    let with = |text: &str| NewJob {
        payload: bytes(text),
        ..sent.clone()
    };
    let receipt = case.send(sent.clone()).await;
    for text in [
        "second",
        "a payload that is a good deal longer than the others",
    ] {
        assert_eq!(
            case.edit(sent.id, update(text)).await,
            Done(JobState::Scheduled)
        );
        case.advance(seconds(1)).await;
        let again = case.send(sent.clone()).await;
        assert_eq!(again.verdict, EnqueueVerdict::Duplicate);
        assert_eq!((again.due, again.late), (receipt.due, receipt.late));
        assert_eq!(case.verdict(with(text)).await, EnqueueVerdict::IdConflict);
        assert_eq!(case.get(sent.id).await.payload, bytes(text));
    }
    case.edit(sent.id, Action::RunNow).await;
    case.drain().await;
    assert_eq!(case.verdict(sent.clone()).await, EnqueueVerdict::Duplicate);
    assert_eq!(
        case.verdict(with("second")).await,
        EnqueueVerdict::IdConflict
    );
}

/// A worker gets the new payload, in the order in which it would have got the old one.
pub(super) async fn an_updated_job_keeps_its_place(case: Case) {
    let group = Some(Group {
        key: "g".into(),
        on_retry: OnRetry::Hold,
    });
    let of_group = || NewJob {
        group: group.clone(),
        ..job()
    };
    for make in [job as fn() -> NewJob, || job_in(seconds(5))] {
        let sent = case.enqueue_all((0..5).map(|_| make()).collect()).await;
        for id in [sent[1], sent[3]] {
            case.edit(id, update("a longer payload")).await;
        }
        case.advance(seconds(5)).await;
        let claimed = case.claim(10).await;
        let got: Vec<_> = claimed.iter().map(Attempt::id).collect();
        assert_eq!(got, sent);
        for (nth, attempt) in claimed.iter().enumerate() {
            let expected = if nth % 2 == 1 {
                "a longer payload"
            } else {
                "{}"
            };
            assert_eq!(attempt.job.payload, bytes(expected), "job {nth}");
            case.complete(attempt).await;
        }
    }
    let sent = case.enqueue_all(vec![of_group(), of_group()]).await;
    case.edit(sent[0], update("new")).await;
    assert_eq!(case.claim_ids(10).await, [sent[0]]);
}

/// A released job that is updated is still at the front of its line.
pub(super) async fn an_updated_job_stays_in_front(case: Case) {
    let first = case.enqueue(job()).await;
    let attempt = case.claim_one().await;
    let earlier = NewJob {
        due: Due::At(super::START),
        ..job()
    };
    case.enqueue(earlier).await;
    case.end(&attempt, Outcome::Released).await;
    case.edit(first, update("new")).await;
    assert_eq!(case.claim_one().await.id(), first);
}

/// A job that lies far ahead is updated, found by its new text, and runs when it is due.
pub(super) async fn a_far_job_is_updated(case: Case) {
    let id = case.enqueue(job_in(days(40))).await;
    assert_eq!(
        case.edit(id, update("needle")).await,
        Done(JobState::Scheduled)
    );
    let by_text = |text: &str| Filter {
        text: Some(text.into()),
        ..Filter::default()
    };
    let found = case.list_by(ListBy::All, by_text("needle"), 10).await;
    assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(case.list_by(ListBy::All, by_text("{}"), 10).await, []);
    case.advance(days(40)).await;
    assert_eq!(case.drain().await, [id]);
}

/// A payload over its limit, too many bytes for all jobs, and a filter are refused and change
/// nothing.
pub(super) async fn an_update_has_the_bounds_of_an_enqueue(case: Case) {
    let case = case
        .limited(|limits| {
            limits.payload_bytes = 100;
            limits.batch_bytes = 250;
        })
        .await;
    let ids = case.enqueue_all((0..3).map(|_| job()).collect()).await;
    let targets = |n: usize| Select::Targets(ids[..n].iter().copied().map(Target::Id).collect());
    let filter = Select::Filter {
        filter: Filter::default(),
        cursor: None,
        limit: 10,
    };
    let payload = |n: usize| Action::UpdatePayload(vec![b'x'; n].into());
    for (select, bytes, kind) in [
        (targets(1), 101, ErrorKind::PayloadTooLarge),
        (targets(3), 100, ErrorKind::BatchTooLarge),
        (filter, 10, ErrorKind::InvalidInput),
    ] {
        let answer = case.edit_as(select, payload(bytes), false).await;
        assert_eq!(answer.expect_err("over a bound").kind(), kind);
    }
    for id in &ids {
        assert_eq!(case.get(*id).await.payload, bytes("{}"));
    }
    let answer = case.edit_as(targets(2), payload(100), false).await;
    assert_eq!(answer.expect("within the bounds").matched, 2);
}
