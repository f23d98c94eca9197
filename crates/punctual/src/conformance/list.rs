//! Laws of get and list: what is there is found, once, in the order promised.

use super::START;
use super::case::*;
use crate::engine::{Action, Edit, Filter, LeaseReport, List, ListBy, Select, Settle, Target};
use crate::job::{Group, JobId, JobState, NewJob, OnRetry, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes, seconds};

fn in_state(state: JobState) -> ListBy {
    let queue = QUEUE.into();
    ListBy::State { queue, state }
}

/// Every state lists the jobs that are in it, as `get` answers them, and no others.
pub(super) async fn every_state_lists_its_jobs(case: Case) {
    let mut sent = Vec::new();
    // Ready comes last: what is claimed for the others would be the ready one.
    let order = [0, 1, 3, 4, 5, 6, 2].map(|nth| JobState::ALL[nth]);
    for state in order {
        sent.push((state, case.job_in_state(state).await));
    }
    for (state, id) in sent {
        let listed = case.list_by(in_state(state), Filter::default(), 100).await;
        assert_eq!(listed, [case.get(id).await], "{state}");
    }
}

/// Scheduled jobs are listed by due.
pub(super) async fn scheduled_jobs_are_listed_by_due(case: Case) {
    let delays = [5, 3, 9, 1, 7];
    let sent = case
        .enqueue_all(delays.map(|s| job_in(seconds(s))).to_vec())
        .await;
    let expected = [3, 1, 0, 4, 2].map(|nth| sent[nth]);
    assert_eq!(case.listed(JobState::Scheduled).await, expected);
}

/// Ready jobs are listed line by line in the order of their priority.
pub(super) async fn ready_jobs_are_listed_by_priority(case: Case) {
    let of = |priority| NewJob { priority, ..job() };
    let sent = case.enqueue_all([5, 9, 0, 5].map(of).to_vec()).await;
    assert_eq!(
        case.listed(JobState::Ready).await,
        [2, 0, 3, 1].map(|nth| sent[nth])
    );
}

/// Settled jobs are listed the latest first.
pub(super) async fn settled_jobs_are_listed_the_latest_first(case: Case) {
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(case.ended_job(job(), Outcome::Dead).await);
        case.advance(seconds(1)).await;
    }
    sent.reverse();
    assert_eq!(case.listed(JobState::Dead).await, sent);
}

/// A list walks with a cursor, a bounded number per call, and finds each job of a state once.
pub(super) async fn every_state_is_walked_with_a_cursor(case: Case) {
    let mut sent = Vec::new();
    for state in [0, 1, 3, 4, 5, 6].map(|nth| JobState::ALL[nth]) {
        for _ in 0..10 {
            sent.push((state, case.job_in_state(state).await));
        }
    }
    let grouped = (0..10).map(|nth| in_group(["a", "b"][nth % 2]));
    let free = (0..10).map(|nth| NewJob {
        priority: nth % 3,
        ..job()
    });
    let ready = case.enqueue_all(grouped.chain(free).collect()).await;
    sent.extend(ready.iter().map(|id| (JobState::Ready, *id)));
    let mut all: Vec<JobId> = sent.iter().map(|(_, id)| *id).collect();
    for state in JobState::ALL {
        let listed = case.list_by(in_state(state), Filter::default(), 3).await;
        let mut listed: Vec<_> = listed.iter().map(|job| job.id).collect();
        let of_state = sent.iter().filter(|(of, _)| *of == state);
        let mut expected: Vec<_> = of_state.map(|(_, id)| *id).collect();
        listed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{state}");
    }
    let listed = case.list_by(ListBy::All, Filter::default(), 3).await;
    let mut listed: Vec<_> = listed.iter().map(|job| job.id).collect();
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all, "each once");
}

fn in_group(key: &str) -> NewJob {
    let (key, on_retry) = (key.into(), OnRetry::Hold);
    NewJob {
        group: Some(Group { key, on_retry }),
        ..job()
    }
}

/// A walk goes on rightly while jobs leave the list under it.
pub(super) async fn a_walk_goes_on_while_jobs_leave(case: Case) {
    let sent = case
        .enqueue_all((1..=30).map(|s| job_in(hours(s))).collect())
        .await;
    let mut cursor = None;
    let mut found = Vec::new();
    loop {
        let list = List {
            by: in_state(JobState::Scheduled),
            filter: Filter::default(),
            cursor,
            limit: 4,
            payloads: false,
        };
        let part = case.list_as(list).await.expect("list");
        for job in &part.jobs {
            case.cancel(job.id).await;
        }
        found.extend(part.jobs.iter().map(|job| job.id));
        cursor = part.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, sent);
}

/// A list leaves payloads out unless they are asked for.
pub(super) async fn payloads_are_listed_when_asked_for(case: Case) {
    case.enqueue(job_in(hours(1))).await;
    for payloads in [false, true] {
        let list = List {
            by: in_state(JobState::Scheduled),
            filter: Filter::default(),
            cursor: None,
            limit: 10,
            payloads,
        };
        let listed = case.list_as(list).await.expect("list").jobs;
        assert_eq!(!listed[0].payload.is_empty(), payloads);
    }
}

/// A unique key lists its holder and its follower.
pub(super) async fn a_key_lists_holder_and_follower(case: Case) {
    let with_key = |policy| {
        let (key, hold) = ("k".into(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let holder = case.active(with_key(UniquePolicy::Keep)).await.id();
    let follower = case.enqueue(with_key(UniquePolicy::After)).await;
    case.enqueue(job()).await;
    let by = ListBy::Unique {
        queue: QUEUE.into(),
        key: "k".into(),
    };
    for limit in 1..4 {
        let listed = case.list_by(by.clone(), Filter::default(), limit).await;
        let listed: Vec<_> = listed.iter().map(|job| job.id).collect();
        assert_eq!(listed, [holder, follower], "in steps of {limit}");
    }
}

/// A group lists its unsettled jobs.
pub(super) async fn a_group_lists_its_unsettled_jobs(case: Case) {
    let of = |key: &str| {
        let (key, on_retry) = (key.into(), OnRetry::Hold);
        NewJob {
            group: Some(Group { key, on_retry }),
            retention: hours(1),
            ..job()
        }
    };
    case.ended_job(of("a"), Outcome::Completed).await;
    let mut expected = case.enqueue_all(vec![of("a"), of("a")]).await;
    case.enqueue(of("b")).await;
    let by = ListBy::Group {
        queue: QUEUE.into(),
        key: "a".into(),
    };
    let listed = case.list_by(by, Filter::default(), 10).await;
    let mut listed: Vec<_> = listed.iter().map(|job| job.id).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

/// A filter finds by the text of the last error, whatever the state; a job without one never
/// matches.
pub(super) async fn a_filter_finds_by_the_last_error(case: Case) {
    case.enqueue_all(vec![job(), job(), job(), job()]).await;
    let attempts = case.claim(3).await;
    let errors = [
        Some("timeout after 30 s (a.b)"),
        Some("refused; twice"),
        None,
    ];
    for (attempt, error) in attempts.iter().zip(errors) {
        let mut settlement = attempt.ended(Outcome::Dead);
        settlement.error = error.map(Into::into);
        let report = LeaseReport::new(attempt.token, vec![settlement]);
        let settle = Settle {
            leases: vec![report],
        };
        let settled = case.engine().settle(&case.namespace, settle).await;
        settled.expect("settle");
    }
    let found = async |error: &str| {
        let filter = Filter {
            error: Some(error.into()),
            ..Filter::default()
        };
        let found = case.list_by(ListBy::All, filter, 2).await;
        found.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(found("timeout").await, [attempts[0].job.id]);
    assert_eq!(found("(a.b)").await, [attempts[0].job.id], "no pattern");
    assert_eq!(found("; twice").await, [attempts[1].job.id]);
    assert_eq!(found("a-b").await, []);
    assert_eq!(found("").await.len(), 2, "those that have an error");
    let edit = Edit {
        select: Select::Filter {
            filter: Filter {
                error: Some("refused".into()),
                ..Filter::default()
            },
            cursor: None,
            limit: 100,
        },
        action: Action::Redrive,
        dry_run: false,
    };
    let edited = case.engine().edit(&case.namespace, edit).await;
    assert_eq!(edited.expect("edit").matched, 1);
    assert_eq!(case.listed(JobState::Dead).await.len(), 2);
}

/// A filter finds by queue, state, kind, text and due, each alone.
pub(super) async fn a_filter_finds_by_each_field(case: Case) {
    let sought = NewJob {
        kind: "bill".into(),
        payload: bytes(r#"{"order":4711}"#),
        ..NewJob {
            queue: "mail".into(),
            ..job_in(hours(2))
        }
    };
    let id = sought.id;
    let others = vec![job(), job(), job()];
    case.enqueue_all(others).await;
    case.enqueue(sought).await;
    let filters = [
        Filter {
            queue: Some("mail".into()),
            ..Filter::default()
        },
        Filter {
            state: Some(JobState::Scheduled),
            ..Filter::default()
        },
        Filter {
            kind: Some("bill".into()),
            ..Filter::default()
        },
        Filter {
            text: Some("4711".into()),
            ..Filter::default()
        },
        Filter {
            due_from: Some(START + hours(1)),
            ..Filter::default()
        },
        Filter {
            due_from: Some(START + hours(2)),
            due_before: Some(START + hours(2) + TICK),
            ..Filter::default()
        },
    ];
    for filter in filters {
        let found = case.list_by(ListBy::All, filter.clone(), 2).await;
        assert_eq!(
            found.iter().map(|job| job.id).collect::<Vec<_>>(),
            [id],
            "{filter:?}"
        );
    }
    let before = Filter {
        due_before: Some(START + hours(2)),
        ..Filter::default()
    };
    assert_eq!(case.list_by(ListBy::All, before, 2).await.len(), 3);
}

/// An age is counted by engine time: of a settled job from its end, of any other from its enqueue.
pub(super) async fn a_filter_finds_by_age(case: Case) {
    let older_than = |span| Filter {
        older_than: Some(span),
        ..Filter::default()
    };
    let waits = case.enqueue(job_in(hours(9))).await;
    let kept = NewJob {
        retention: hours(9),
        ..job()
    };
    case.advance(minutes(10)).await;
    let attempt = case.active(kept).await;
    case.advance_awake(seconds(4)).await;
    case.complete(&attempt).await;
    let ended = attempt.id();
    case.advance(minutes(5)).await;
    let found = async |span| -> Vec<JobId> {
        let jobs = case.list_by(ListBy::All, older_than(span), 1).await;
        jobs.iter().map(|job| job.id).collect()
    };
    assert_eq!(found(minutes(15) + seconds(5)).await, []);
    assert_eq!(found(minutes(15)).await, [waits]);
    assert_eq!(found(minutes(5) + TICK).await, [waits]);
    assert_eq!(found(minutes(5)).await.len(), 2);
    for (state, id) in [(JobState::Scheduled, waits), (JobState::Completed, ended)] {
        let by = ListBy::State {
            queue: QUEUE.into(),
            state,
        };
        let jobs = case.list_by(by, older_than(minutes(5)), 10).await;
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    }
}

/// A clean by age deletes what ended long ago, and cancels what has waited long, a bounded number
/// per call.
pub(super) async fn a_clean_by_age_spares_what_is_younger(case: Case) {
    let kept = || NewJob {
        retention: hours(9),
        ..job()
    };
    let mut ended = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.extend(
            case.enqueue_all((0..20).map(|_| job_in(hours(9))).collect())
                .await,
        );
        for _ in 0..20 {
            ended.push(case.ended_job(kept(), Outcome::Completed).await);
        }
        case.advance(minutes(10)).await;
    }
    for (state, action) in [
        (JobState::Completed, Action::Delete),
        (JobState::Scheduled, Action::Cancel),
    ] {
        let filter = Filter {
            queue: Some(QUEUE.into()),
            state: Some(state),
            older_than: Some(minutes(15)),
            ..Filter::default()
        };
        let (mut cursor, mut matched) = (None, 0);
        loop {
            let select = Select::Filter {
                filter: filter.clone(),
                cursor,
                limit: 7,
            };
            let part = case.edit_as(select, action.clone(), false).await;
            let part = part.expect("edit");
            assert!(part.examined <= 7, "{} examined", part.examined);
            matched += part.matched;
            cursor = part.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(matched, 20, "{state}");
    }
    let mut left = case.listed(JobState::Completed).await;
    left.reverse();
    assert_eq!(left, ended[20..]);
    assert_eq!(case.listed(JobState::Scheduled).await, waiting[20..]);
}

/// A get answers in the order asked, with nothing for what is unknown.
pub(super) async fn a_get_answers_in_the_order_asked(case: Case) {
    let sent = case.enqueue_all(vec![job(), job_in(hours(1))]).await;
    let targets: Vec<Target> = vec![
        sent[1].into(),
        JobId::new().into(),
        by_key("unknown"),
        sent[0].into(),
    ];
    let got = case
        .engine()
        .get(&case.namespace, targets, false)
        .await
        .expect("get");
    let found: Vec<_> = got
        .iter()
        .map(|got| got.as_ref().and_then(|got| got.job()).map(|job| job.id))
        .collect();
    assert_eq!(found, [Some(sent[1]), None, None, Some(sent[0])]);
}

/// A get and a list answer the state of that very instant, though no sweep has moved the job.
pub(super) async fn a_state_is_of_the_instant_asked(case: Case) {
    let case = case.limited(|limits| limits.sweep = 1).await;
    let sent = case
        .enqueue_all((0..50).map(|_| job_in(seconds(5))).collect())
        .await;
    case.advance(seconds(5)).await;
    assert_eq!(case.listed(JobState::Ready).await.len(), 50);
    assert_eq!(case.listed(JobState::Scheduled).await, []);
    for id in sent.iter().rev() {
        assert_eq!(case.state(*id).await, JobState::Ready);
    }
}
