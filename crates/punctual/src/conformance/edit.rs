//! Laws of edit: each action by each state, by id, key and filter, dry or not.

use super::START;
use super::case::*;
use crate::engine::EditVerdict::{self, Done, JobActive, NotFound, WrongState};
use crate::engine::{Action, Filter, ListBy, Select, Target};
use crate::error::ErrorKind;
use crate::job::{Due, Group, JobId, JobState, NewJob, OnRetry, Outcome, Unique, UniquePolicy};
use crate::time::{Timestamp, hours, minutes, seconds};

/// What an action answers for a job in each state, and that it leaves it in that state.
async fn assert_by_state(case: &Case, action: Action, expected: [EditVerdict; 7]) {
    for (state, verdict) in JobState::ALL.into_iter().zip(expected) {
        let id = case.job_in_state(state).await;
        let before = case.get(id).await;
        assert_eq!(
            case.edit(id, action.clone()).await,
            verdict,
            "{action:?} of a {state} job"
        );
        match verdict {
            Done(after) => {
                assert_eq!(case.state(id).await, after, "{action:?}, {state} before");
                case.cancel(id).await;
            }
            _ => assert_eq!(
                case.get(id).await,
                before,
                "{action:?} changed a {state} job"
            ),
        }
    }
    assert_eq!(case.edit(JobId::new(), action).await, NotFound);
}

const SETTLED: [EditVerdict; 3] = [
    WrongState(JobState::Completed),
    WrongState(JobState::Cancelled),
    WrongState(JobState::Dead),
];

/// Reschedule gives another due to what waits, and to nothing else.
pub(super) async fn reschedule_by_state(case: Case) {
    use JobState::{Held, Ready, Scheduled};
    let [completed, cancelled, dead] = SETTLED;
    let waiting = [Done(Held), Done(Scheduled), Done(Scheduled), JobActive];
    let [held, scheduled, ready, active] = waiting;
    let expected = [held, scheduled, ready, active, completed, cancelled, dead];
    assert_by_state(&case, Action::Reschedule(Due::After(minutes(5))), expected).await;
    let expected = [
        Done(Held),
        Done(Ready),
        Done(Ready),
        active,
        completed,
        cancelled,
        dead,
    ];
    assert_by_state(&case, Action::Reschedule(Due::Now), expected).await;
}

/// A reschedule counts from now, and one into the past is due now.
pub(super) async fn a_reschedule_counts_from_now(case: Case) {
    let id = case.enqueue(job_in(hours(1))).await;
    case.advance(minutes(10)).await;
    case.edit(id, Action::Reschedule(Due::After(minutes(1))))
        .await;
    assert_eq!(case.get(id).await.due, START + minutes(11));
    case.edit(id, Action::Reschedule(Due::At(START + hours(2))))
        .await;
    assert_eq!(case.get(id).await.due, START + hours(2));
    case.edit(id, Action::Reschedule(Due::At(Timestamp::ZERO)))
        .await;
    assert_eq!(case.get(id).await.due, START + minutes(10));
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// Run now makes due what is held or scheduled; a ready job stays as it is.
pub(super) async fn run_now_by_state(case: Case) {
    let ready = Done(JobState::Ready);
    let [completed, cancelled, dead] = SETTLED;
    let expected = [ready, ready, ready, JobActive, completed, cancelled, dead];
    assert_by_state(&case, Action::RunNow, expected).await;
}

/// Run now clears every name that a held job waits for.
pub(super) async fn run_now_clears_every_name(case: Case) {
    let wait_for = vec!["paid".into(), "packed".into()];
    let held = case
        .enqueue(NewJob {
            wait_for,
            ..job_in(hours(1))
        })
        .await;
    case.edit(held, Action::RunNow).await;
    let ready = case.get(held).await;
    assert_eq!((ready.wait_for.len(), ready.due), (0, START));
    assert_eq!(case.claim_ids(10).await, [held]);
}

/// Run now leaves a ready job where it stands, at the front of its line too.
pub(super) async fn run_now_of_a_ready_job_changes_nothing(case: Case) {
    let earlier = case
        .enqueue(NewJob {
            priority: 9,
            ..job()
        })
        .await;
    case.advance(seconds(1)).await;
    let id = case.enqueue(job()).await;
    let attempt = case.claim_one().await;
    case.edit(earlier, Action::Reprioritise(5)).await;
    case.end(&attempt, Outcome::Released).await;
    case.advance(seconds(1)).await;
    case.edit(id, Action::RunNow).await;
    assert_eq!(case.get(id).await.due, START + seconds(1));
    assert_eq!(case.claim_ids(10).await, [id, earlier]);
}

/// A follower cannot be made to run: its holder is active.
pub(super) async fn a_follower_is_not_run_now(case: Case) {
    let with_key = |policy| {
        let (key, hold) = ("k".into(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    case.active(with_key(UniquePolicy::Keep)).await;
    let follower = case.enqueue(with_key(UniquePolicy::After)).await;
    assert_eq!(
        case.edit(follower, Action::RunNow).await,
        WrongState(JobState::Held)
    );
    assert_eq!(case.claim_ids(10).await, []);
}

/// Reprioritise gives another priority to what waits, and to nothing else.
pub(super) async fn reprioritise_by_state(case: Case) {
    use JobState::{Held, Ready, Scheduled};
    let [completed, cancelled, dead] = SETTLED;
    let expected = [
        Done(Held),
        Done(Scheduled),
        Done(Ready),
        JobActive,
        completed,
        cancelled,
        dead,
    ];
    assert_by_state(&case, Action::Reprioritise(7), expected).await;
    let id = case.job_in_state(Held).await;
    case.edit(id, Action::Reprioritise(2)).await;
    assert_eq!(case.get(id).await.priority, 2);
}

/// Redrive sends back every settled job that is kept, and nothing else.
pub(super) async fn redrive_by_state(case: Case) {
    let wrong = WrongState;
    let expected = [
        wrong(JobState::Held),
        wrong(JobState::Scheduled),
        wrong(JobState::Ready),
        JobActive,
        Done(JobState::Ready),
        Done(JobState::Ready),
        Done(JobState::Ready),
    ];
    assert_by_state(&case, Action::Redrive, expected).await;
}

/// A completed or cancelled job that is redriven shows nothing of its end, runs, and ends again.
pub(super) async fn a_redriven_job_of_any_end_runs_again(case: Case) {
    for outcome in [Outcome::Completed, Outcome::Cancelled] {
        let kept = NewJob {
            retention: hours(1),
            ..job()
        };
        let attempt = case.active(kept).await;
        let mut settlement = attempt.ended(outcome.clone());
        settlement.result = Some(bytes("seven"));
        case.end_as(&attempt, settlement).await;
        let id = attempt.id();
        assert_eq!(case.edit(id, Action::Redrive).await, Done(JobState::Ready));
        let back = case.get(id).await;
        assert_eq!((back.finished_at, back.result), (None, None), "{outcome:?}");
        assert_eq!((back.cancelled, back.stopped), (None, None), "{outcome:?}");
        let counts = case.counts().await;
        let settled = [JobState::Completed, JobState::Cancelled].map(|state| counts.of(state));
        assert_eq!((settled, counts.of(JobState::Ready)), ([0, 0], 1));
        let again = case.claim_one().await;
        assert_eq!((again.id(), again.job.attempt), (id, 2));
        case.complete(&again).await;
        assert_eq!(
            case.edit(id, Action::Delete).await,
            Done(JobState::Completed)
        );
    }
}

/// A job that was cancelled while it was held waits for nothing once it is redriven.
pub(super) async fn a_redriven_held_job_waits_for_nothing(case: Case) {
    let (key, hold) = (String::from("k"), Default::default());
    let with_key = |policy| NewJob {
        unique: Some(Unique {
            key: key.clone(),
            policy,
            hold,
        }),
        ..job()
    };
    let named = case.job_in_state(JobState::Held).await;
    case.cancel(named).await;
    let holder = case.active(with_key(UniquePolicy::Keep)).await;
    let follower = case.enqueue(with_key(UniquePolicy::After)).await;
    case.cancel(follower).await;
    let held = EditVerdict::UniqueHeld(holder.id());
    assert_eq!(case.edit(follower, Action::Redrive).await, held);
    case.end(&holder, Outcome::Completed).await;
    for id in [named, follower] {
        assert_eq!(case.edit(id, Action::Redrive).await, Done(JobState::Ready));
        assert_eq!(case.get(id).await.wait_for.len(), 0);
        assert_eq!(case.drain().await, [id]);
    }
}

/// An expired job that is redriven expires no more.
pub(super) async fn a_redriven_expired_job_runs(case: Case) {
    let expires_at = Some(START + minutes(1));
    let id = case
        .enqueue(NewJob {
            expires_at,
            ..job()
        })
        .await;
    case.advance(minutes(2)).await;
    assert_eq!(case.state(id).await, JobState::Cancelled);
    assert_eq!(case.edit(id, Action::Redrive).await, Done(JobState::Ready));
    assert_eq!(case.get(id).await.expires_at, None);
    assert_eq!(case.drain().await, [id]);
}

/// A redriven job starts over: no failures, no crashes, no error, no expiry that has passed.
pub(super) async fn a_redriven_job_starts_over(case: Case) {
    let expires_at = Some(START + minutes(1));
    let id = case
        .suspect(NewJob {
            max_attempts: 1,
            expires_at,
            ..job()
        })
        .await;
    let attempt = case.claim_alone().await.remove(0);
    let mut settlement = attempt.ended(Outcome::Retry { after: None });
    settlement.error = Some("bank is closed".into());
    assert_eq!(case.end_as(&attempt, settlement).await, JobState::Dead);
    case.advance(hours(1)).await;
    assert_eq!(case.edit(id, Action::Redrive).await, Done(JobState::Ready));
    let back = case.get(id).await;
    assert_eq!((back.failures, back.crashes, back.attempt), (0, 0, 3));
    assert_eq!(
        (back.last_error, back.dead, back.finished_at),
        (None, None, None)
    );
    assert_eq!((back.due, back.expires_at), (case.clock(), None));
    assert_eq!(case.drain().await, [id]);
}

/// A redriven job is dead no more: not listed or counted, and not pruned as one.
pub(super) async fn a_redriven_job_is_dead_no_more(case: Case) {
    let id = case.job_in_state(JobState::Dead).await;
    case.pause().await;
    case.edit(id, Action::Redrive).await;
    assert_eq!(case.listed(JobState::Dead).await, []);
    let counts = case.counts().await;
    assert_eq!(
        (counts.of(JobState::Dead), counts.of(JobState::Ready)),
        (0, 1)
    );
    case.advance(hours(24 * 31)).await;
    case.maintain().await;
    assert_eq!(case.get(id).await.state, JobState::Ready);
}

/// A redriven job expires at its instant, if that is still to come.
pub(super) async fn a_redriven_job_expires(case: Case) {
    let expires_at = Some(START + minutes(1));
    let sent = NewJob {
        expires_at,
        ..job()
    };
    let id = case.ended_job(sent, Outcome::Dead).await;
    case.edit(id, Action::Redrive).await;
    assert_eq!(case.get(id).await.expires_at, expires_at);
    case.advance(minutes(1)).await;
    let counts = case.counts().await;
    assert_eq!(
        (counts.of(JobState::Ready), counts.of(JobState::Cancelled)),
        (0, 1)
    );
}

/// A redriven job is of its group again: listed, and one of those that run one at a time.
pub(super) async fn a_redriven_job_is_of_its_group_again(case: Case) {
    let (key, on_retry) = (String::from("a"), OnRetry::Hold);
    let group = Some(Group {
        key: key.clone(),
        on_retry,
    });
    let of_group = NewJob { group, ..job() };
    let id = case.ended_job(of_group, Outcome::Dead).await;
    case.edit(id, Action::Redrive).await;
    let by = ListBy::Group {
        queue: QUEUE.into(),
        key,
    };
    let listed = case.list_by(by, Filter::default(), 10).await;
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(case.drain().await, [id]);
}

/// A redriven job that had been asked to stop is asked no more.
pub(super) async fn a_redriven_job_is_not_asked_to_stop(case: Case) {
    let attempt = case.active(job()).await;
    case.cancel(attempt.id()).await;
    assert_eq!(case.end(&attempt, Outcome::Dead).await, JobState::Dead);
    case.edit(attempt.id(), Action::Redrive).await;
    assert!(!case.get(attempt.id()).await.cancel_requested);
    let again = case.claim_one().await;
    assert_eq!(case.retry(&again, seconds(0)).await, JobState::Ready);
}

/// Delete removes what has settled, tombstone and all, and nothing else.
pub(super) async fn delete_by_state(case: Case) {
    for state in JobState::ALL {
        let id = case.job_in_state(state).await;
        let verdict = case.edit(id, Action::Delete).await;
        let expected = match state {
            JobState::Active => JobActive,
            state if state.is_settled() => Done(state),
            state => WrongState(state),
        };
        assert_eq!(verdict, expected, "delete of a {state} job");
        assert_eq!(
            case.is_unknown(id).await,
            state.is_settled(),
            "delete of a {state} job"
        );
    }
}

/// A job of which only the tombstone is left is deleted; nothing else can be done to it.
pub(super) async fn a_tombstone_is_only_deleted(case: Case) {
    let id = case.ended_job(job(), Outcome::Completed).await;
    for action in [
        Action::RunNow,
        Action::Redrive,
        Action::Reprioritise(1),
        Action::Reschedule(Due::Now),
        Action::UpdatePayload(bytes("new")),
    ] {
        assert_eq!(
            case.edit(id, action.clone()).await,
            WrongState(JobState::Completed),
            "{action:?}"
        );
    }
    assert_eq!(
        case.edit(id, Action::Delete).await,
        Done(JobState::Completed)
    );
    assert!(case.is_unknown(id).await);
    assert_eq!(case.edit(id, Action::Delete).await, NotFound);
}

/// Verdicts come in the order of the targets, ids and keys mixed.
pub(super) async fn verdicts_come_in_the_order_of_targets(case: Case) {
    let (key, policy, hold) = ("k".into(), UniquePolicy::Keep, Default::default());
    let unique = Some(Unique { key, policy, hold });
    let keyed = case
        .enqueue(NewJob {
            unique,
            ..job_in(hours(1))
        })
        .await;
    let active = case.active(job()).await.id();
    let targets: Vec<Target> = vec![JobId::new().into(), active.into(), by_key("k"), by_key("l")];
    let answer = case
        .edit_as(Select::Targets(targets), Action::RunNow, false)
        .await;
    let answer = answer.expect("edit");
    let verdicts: Vec<_> = answer
        .verdicts
        .iter()
        .map(|(_, verdict)| *verdict)
        .collect();
    assert_eq!(
        verdicts,
        [NotFound, JobActive, Done(JobState::Ready), NotFound]
    );
    assert_eq!(answer.verdicts[2].0, Some(keyed));
    assert_eq!(answer.matched, 2);
}

/// A dry run answers what would be done, and does nothing.
pub(super) async fn a_dry_run_changes_nothing(case: Case) {
    let actions = [
        Action::Cancel,
        Action::Reschedule(Due::After(minutes(5))),
        Action::RunNow,
        Action::Reprioritise(1),
        Action::Redrive,
        Action::Delete,
        Action::UpdatePayload(bytes("new")),
    ];
    for state in JobState::ALL {
        let id = case.job_in_state(state).await;
        let before = case.get(id).await;
        for action in actions.clone() {
            let select = Select::Targets(vec![id.into()]);
            let dry = case
                .edit_as(select.clone(), action.clone(), true)
                .await
                .expect("edit");
            assert_eq!(
                case.get(id).await,
                before,
                "dry {action:?} of a {state} job"
            );
            assert_eq!(dry.verdicts[0].0, Some(id));
            let other = case.job_in_state(state).await;
            let wet = case.edit(other, action.clone()).await;
            assert_eq!(dry.verdicts[0].1, wet, "{action:?} of a {state} job");
            case.cancel(other).await;
        }
    }
}

/// An edit by filter walks with a cursor, a bounded number per call, and finds each job once.
pub(super) async fn an_edit_by_filter_walks_with_a_cursor(case: Case) {
    let kind = |kind: &str| NewJob {
        kind: kind.into(),
        ..job_in(hours(1))
    };
    let jobs = (0..50).map(|nth| kind(if nth % 5 == 0 { "bill" } else { "mail" }));
    let sent = case.enqueue_all(jobs.collect()).await;
    let filter = Filter {
        kind: Some("bill".into()),
        ..Filter::default()
    };
    let (mut cursor, mut matched, mut cancelled) = (None, 0, Vec::new());
    loop {
        let select = Select::Filter {
            filter: filter.clone(),
            cursor,
            limit: 7,
        };
        let part = case
            .edit_as(select, Action::Cancel, false)
            .await
            .expect("edit");
        assert!(part.examined <= 7, "{} examined", part.examined);
        assert_eq!(part.verdicts.len(), part.matched);
        matched += part.matched;
        cancelled.extend(part.verdicts.iter().filter_map(|(id, _)| *id));
        cursor = part.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(matched, 10);
    cancelled.sort_unstable();
    let mut expected: Vec<_> = sent.iter().copied().step_by(5).collect();
    expected.sort_unstable();
    assert_eq!(cancelled, expected);
    assert_eq!(case.counts().await.of(JobState::Scheduled), 40);
}

/// A malformed edit is refused whole and changes nothing.
pub(super) async fn a_malformed_edit_is_refused(case: Case) {
    let id = case.enqueue(job()).await;
    let before = case.get(id).await;
    for (action, kind) in [
        (Action::Reprioritise(10), ErrorKind::InvalidInput),
        (
            Action::Reschedule(Due::After(hours(24 * 366 * 9_000))),
            ErrorKind::InvalidDelay,
        ),
    ] {
        let answer = case
            .edit_as(Select::Targets(vec![id.into()]), action, false)
            .await;
        let error = answer.expect_err("a malformed edit is refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(case.get(id).await, before);
    }
}

/// A redrive is refused by no `max_pending`.
pub(super) async fn a_redrive_is_not_refused_by_a_full_queue(case: Case) {
    let dead = case.job_in_state(JobState::Dead).await;
    let full = crate::engine::QueueSettings::new().max_pending(0);
    case.configure(full, 0).await;
    assert_eq!(
        case.edit(dead, Action::Redrive).await,
        Done(JobState::Ready)
    );
    assert_eq!(case.claim_ids(10).await, [dead]);
}
