//! Laws of names: a hostile one is refused everywhere, two that differ are never one.

use super::case::*;
use crate::engine::{
    Claim, Control, EnqueueVerdict, ListBy, Namespace, RecordValue, StatsRequest, WaitFor,
};
use crate::error::ErrorKind;
use crate::job::{Group, JobState, NewJob, OnRetry, Unique};

/// Names that no engine takes.
fn hostile_names() -> Vec<String> {
    let long = "x".repeat(129);
    let names = [
        "",
        " ",
        "a b",
        "{a}",
        "a\0b",
        "a\nb",
        "a\u{202e}b",
        "ü",
        "a*b",
        "a?b",
        "..",
        "a/../b",
        "a%2fb",
        "a\\b",
        "a\"b",
        "$a",
        "a|b",
        &long,
    ];
    names.iter().map(ToString::to_string).collect()
}

/// Keys that no engine takes.
fn hostile_keys() -> Vec<String> {
    let keys = ["", "a\0b", "a\nb", "\u{7f}", "a\u{202e}b", "a\u{2028}b"];
    let long = ["x".repeat(257), "ü".repeat(129)];
    keys.iter().map(ToString::to_string).chain(long).collect()
}

fn with_key(key: &str) -> NewJob {
    let (key, policy, hold) = (key.into(), Default::default(), Default::default());
    NewJob {
        unique: Some(Unique { key, policy, hold }),
        ..job()
    }
}

fn in_group(key: &str) -> NewJob {
    let (key, on_retry) = (key.into(), OnRetry::Hold);
    NewJob {
        group: Some(Group { key, on_retry }),
        ..job()
    }
}

/// A hostile queue or kind name is refused by every verb that takes one.
pub(super) async fn a_hostile_name_is_refused(case: Case) {
    for name in hostile_names() {
        let queue = NewJob {
            queue: name.clone(),
            kind: "a".into(),
            ..job()
        };
        let kind = NewJob {
            kind: name.clone(),
            ..job()
        };
        let mut errors = vec![
            case.enqueue_error(queue).await,
            case.enqueue_error(kind).await,
        ];
        errors.push(
            case.claim_error(Claim::new(case.worker, name.clone(), 1))
                .await,
        );
        let wait = WaitFor::Work(vec![name.clone()]);
        let until = case.clock();
        let waited = case.engine().wait(&case.namespace, wait, until).await;
        errors.push(waited.expect_err("a hostile name"));
        for control in [
            Control::Pause {
                queue: name.clone(),
            },
            Control::Resume {
                queue: name.clone(),
            },
            Control::DeleteQueue {
                queue: name.clone(),
            },
            Control::Purge {
                queue: name.clone(),
                cursor: None,
                limit: 1,
            },
            Control::Write {
                name: name.clone(),
                expected: 0,
                value: Some(RecordValue::Opaque(bytes("{}"))),
            },
        ] {
            errors.push(case.try_control(control).await.expect_err("a hostile name"));
        }
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{error} for {name:?}");
            let shown = error.to_string();
            assert!(
                !shown.chars().any(char::is_control),
                "{shown:?} lies in a log"
            );
        }
    }
    assert_eq!(case.stats_of(StatsRequest::default()).await.queues, []);
}

/// The settings of a queue with a hostile name are neither written nor removed.
pub(super) async fn hostile_queue_settings_are_refused(case: Case) {
    for value in [None, Some(RecordValue::Queue(Default::default()))] {
        let write = Control::Write {
            name: "queue/".into(),
            expected: 0,
            value,
        };
        let error = case
            .try_control(write)
            .await
            .expect_err("a queue without a name");
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    }
    assert_eq!(case.stats().await.queues, []);
}

/// A namespace with a hostile name cannot be made.
pub(super) async fn a_hostile_namespace_cannot_be_made(_: Case) {
    for name in hostile_names() {
        let error = Namespace::new(name).expect_err("a hostile name");
        assert_eq!(error.kind(), ErrorKind::InvalidName);
    }
}

/// A hostile unique key, group key or held name is refused.
pub(super) async fn a_hostile_key_is_refused(case: Case) {
    for key in hostile_keys() {
        let held = NewJob {
            wait_for: vec![key.clone()],
            ..job()
        };
        for bad in [with_key(&key), in_group(&key), held] {
            let error = case.enqueue_error(bad).await;
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{error} for {key:?}");
        }
    }
}

/// Any printable text is a key, kept and compared byte by byte.
pub(super) async fn any_printable_text_is_a_key(case: Case) {
    let keys = [
        "a b", "{a}", "A b", "ü", "u\u{308}", "单号 7", "*", "%00", "a:b", "'; DROP", " ",
    ];
    for key in keys {
        let id = case.enqueue(with_key(key)).await;
        assert_eq!(case.get(id).await.unique.expect("a key").key, key);
        assert_eq!(case.holder(key).await, Some(id), "{key:?}");
        let grouped = case.enqueue(in_group(key)).await;
        let by = ListBy::Group {
            queue: QUEUE.into(),
            key: key.into(),
        };
        let listed = case.list_by(by, Default::default(), 10).await;
        assert_eq!(
            listed.iter().map(|job| job.id).collect::<Vec<_>>(),
            [grouped],
            "{key:?}"
        );
    }
}

/// Names whose joined text is the same are two names all the same.
pub(super) async fn names_do_not_run_into_each_other(case: Case) {
    let pairs = [
        ("a", "b:c:d"),
        ("a:b", "c:d"),
        ("a:b:c", "d"),
        ("a/b", "c"),
        ("a", "b/c"),
    ];
    for (queue, key) in pairs {
        let of_pair = |job: NewJob| NewJob {
            queue: queue.into(),
            ..job
        };
        assert_eq!(
            case.verdict(of_pair(with_key(key))).await,
            EnqueueVerdict::Created
        );
        case.enqueue(of_pair(in_group(key))).await;
    }
    for (queue, key) in pairs {
        let by = ListBy::Group {
            queue: queue.into(),
            key: key.into(),
        };
        assert_eq!(
            case.list_by(by, Default::default(), 10).await.len(),
            1,
            "{queue} {key}"
        );
    }
    let claim = Claim::new(case.worker, "a:b", 10);
    assert_eq!(attempts(&case.claim_as(claim).await).len(), 2);
}

/// Names that differ in case only are two names.
pub(super) async fn names_differ_by_case(case: Case) {
    case.enqueue(NewJob::new("Orders", "{}")).await;
    let id = case.enqueue(job()).await;
    assert_eq!(case.listed(JobState::Ready).await, [id]);
    assert_eq!(case.claim_ids(10).await, [id]);
}
