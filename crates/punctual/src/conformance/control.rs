//! Laws of control: pause, purge, records, and queues with a bound.

use std::collections::BTreeSet;

use super::case::*;
use crate::engine::Controlled::{Done, Names, Purged, Record, Written};
use crate::engine::EnqueueVerdict::{Created, Full, Replaced};
use crate::engine::{Action, Control, Cursor, OnFull, QueueSettings, RecordValue, VersionedRecord};
use crate::error::ErrorKind;
use crate::job::{
    CancelReason, DeadReason, Group, JobId, JobState, NewJob, OnRetry, Outcome, Unique,
    UniquePolicy,
};
use crate::time::{hours, minutes, seconds};

impl Case {
    /// The names of all records that begin so, in order.
    pub(super) async fn names(&self, prefix: &str) -> Vec<String> {
        let (mut found, mut cursor) = (BTreeSet::new(), None);
        loop {
            let page = Control::Names {
                prefix: prefix.into(),
                cursor,
                limit: 1_000,
            };
            let Names {
                names,
                cursor: next,
            } = self.control(page).await
            else {
                panic!("names are answered");
            };
            found.extend(names);
            cursor = next;
            if cursor.is_none() {
                return found.into_iter().collect();
            }
        }
    }
}

/// Nothing of a paused queue is claimed; due jobs become ready; a resume lets them go.
pub(super) async fn a_paused_queue_is_not_claimed(case: Case) {
    let running = case.active(job()).await;
    assert_eq!(case.pause().await, Done(true));
    assert_eq!(case.pause().await, Done(false), "it was paused before");
    let id = case.enqueue(job_in(seconds(5))).await;
    case.advance(seconds(5)).await;
    assert_eq!(case.state(id).await, JobState::Ready);
    assert_eq!(case.claim_ids(10).await, []);
    case.complete(&running).await;
    assert_eq!(case.resume().await, Done(true));
    assert_eq!(case.resume().await, Done(false), "it was not paused");
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// A pause of one queue leaves the others alone, in one claim too.
pub(super) async fn a_pause_is_of_one_queue(case: Case) {
    case.enqueue(job()).await;
    let mail = case.enqueue(NewJob::new("mail", "{}")).await;
    case.pause().await;
    let queues = vec![QUEUE.into(), "mail".into()];
    let claim = crate::engine::Claim {
        queues,
        ..case.wants(10)
    };
    let claimed = attempts(&case.claim_as(claim).await);
    assert_eq!(claimed.iter().map(Attempt::id).collect::<Vec<_>>(), [mail]);
}

/// A paused queue has no instant at which a claim could answer more.
pub(super) async fn a_paused_queue_has_no_wake_at(case: Case) {
    case.enqueue_all(vec![job(), job_in(minutes(1))]).await;
    case.pause().await;
    assert_eq!(case.wake_at().await, None);
    case.resume().await;
    assert!(case.wake_at().await.is_some());
}

/// A purge cancels what waits, a bounded number per call, and leaves what runs.
pub(super) async fn a_purge_cancels_what_waits(case: Case) {
    let running = case.active(job()).await;
    let held = NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let jobs = (0..30).flat_map(|_| [job(), job_in(hours(1))]);
    let sent = case.enqueue_all(jobs.chain([held]).collect()).await;
    let other = case.enqueue(NewJob::new("mail", "{}")).await;
    assert_eq!(purge(&case, 7).await, 61);
    for id in sent {
        let job = case.get(id).await;
        assert_eq!(
            (job.state, job.cancelled),
            (JobState::Cancelled, Some(CancelReason::Purged))
        );
    }
    assert_eq!(case.state(other).await, JobState::Ready);
    case.complete(&running).await;
}

/// A purge goes on where its last call ended, past the places of groups, and refuses a cursor that
/// is of no purge.
pub(super) async fn a_purge_goes_on_at_its_cursor(case: Case) {
    let of = |group: usize| NewJob {
        group: Some(Group {
            key: format!("g{group}"),
            on_retry: OnRetry::Hold,
        }),
        ..job()
    };
    case.enqueue_all((0..40).map(|nth| of(nth % 20)).collect())
        .await;
    assert_eq!(purge(&case, 3).await, 40);
    let foreign = Control::Purge {
        queue: QUEUE.into(),
        cursor: Some(Cursor(bytes("\u{7f}"))),
        limit: 3,
    };
    let error = case.engine().control(&case.namespace, foreign).await;
    let error = error.expect_err("a cursor of no purge");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// Purges to the end, so many per call; answers how many were cancelled.
pub(super) async fn purge(case: &Case, limit: usize) -> usize {
    let (mut cursor, mut purged) = (None, 0);
    for _ in 0..200 {
        let queue = QUEUE.into();
        let answer = case
            .control(Control::Purge {
                queue,
                cursor,
                limit,
            })
            .await;
        let Purged {
            examined,
            matched,
            cursor: next,
        } = answer
        else {
            panic!("a purge answers what it purged, got {answer:?}");
        };
        assert!(
            examined <= limit && matched <= examined,
            "{examined} examined"
        );
        purged += matched;
        cursor = next;
        if cursor.is_none() {
            return purged;
        }
    }
    panic!("a purge comes to an end");
}

fn opaque(text: &str) -> Option<RecordValue> {
    Some(RecordValue::Opaque(bytes(text)))
}

async fn write(case: &Case, expected: u64, value: Option<RecordValue>) -> Result<u64, ErrorKind> {
    let name = "limits/mail".into();
    let answer = case
        .try_control(Control::Write {
            name,
            expected,
            value,
        })
        .await;
    match answer {
        Ok(Written(version)) => Ok(version),
        Ok(other) => panic!("a write answers its version, got {other:?}"),
        Err(error) => Err(error.kind()),
    }
}

async fn read(case: &Case) -> Option<VersionedRecord> {
    match case
        .control(Control::Read {
            name: "limits/mail".into(),
        })
        .await
    {
        Record(record) => record,
        other => panic!("a read answers a record, got {other:?}"),
    }
}

/// A record is written by a caller that read its present version, and by no other.
pub(super) async fn a_record_is_written_at_its_version(case: Case) {
    assert_eq!(read(&case).await, None);
    assert_eq!(
        write(&case, 1, opaque("a")).await,
        Err(ErrorKind::VersionConflict)
    );
    let first = write(&case, 0, opaque("a"))
        .await
        .expect("it does not exist");
    assert_eq!(
        write(&case, 0, opaque("b")).await,
        Err(ErrorKind::VersionConflict)
    );
    let second = write(&case, first, opaque("b")).await.expect("its version");
    assert!(second > first);
    assert_eq!(
        write(&case, first, opaque("c")).await,
        Err(ErrorKind::VersionConflict)
    );
    let value = RecordValue::Opaque(bytes("b"));
    assert_eq!(
        read(&case).await,
        Some(VersionedRecord {
            version: second,
            value
        })
    );
}

/// A record that was removed and written again has a version larger than any before.
pub(super) async fn a_version_is_never_used_again(case: Case) {
    let first = write(&case, 0, opaque("a")).await.expect("write");
    write(&case, first, None).await.expect("remove");
    assert_eq!(read(&case).await, None);
    let second = write(&case, 0, opaque("a")).await.expect("write again");
    assert!(second > first, "{second} after {first}");
    assert_eq!(
        write(&case, first, opaque("b")).await,
        Err(ErrorKind::VersionConflict)
    );
}

/// Names of records are found by prefix, in order.
pub(super) async fn record_names_are_found_by_prefix(case: Case) {
    for name in ["b/2", "a/1", "b/1", "ba"] {
        let (name, value) = (name.to_string(), opaque("{}"));
        case.control(Control::Write {
            name,
            expected: 0,
            value,
        })
        .await;
    }
    for (prefix, expected) in [
        ("b/", vec!["b/1", "b/2"]),
        ("", vec!["a/1", "b/1", "b/2", "ba"]),
        ("c", vec![]),
    ] {
        assert_eq!(case.names(prefix).await, expected, "{prefix:?}");
    }
}

/// All names are found however many there are, a bounded number per call; the cursor of another
/// prefix is refused.
pub(super) async fn many_records_are_found_by_cursor(case: Case) {
    const RECORDS: usize = 1_200;
    let name = |n: usize| format!("a/{n:04}");
    for n in 0..RECORDS {
        let write = Control::Write {
            name: name(n),
            expected: 0,
            value: opaque(&"x".repeat(100)),
        };
        case.control(write).await;
    }
    let first = Control::Names {
        prefix: "a/".into(),
        cursor: None,
        limit: 100,
    };
    let Names { names, cursor } = case.control(first).await else {
        panic!("names are answered");
    };
    assert!(names.len() < RECORDS && cursor.is_some(), "{}", names.len());
    assert!(names.is_sorted());
    let other = Control::Names {
        prefix: "b/".into(),
        cursor,
        limit: 100,
    };
    let refused = case.try_control(other).await.expect_err("of another");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let all: Vec<String> = (0..RECORDS).map(name).collect();
    assert_eq!(case.names("a/").await, all);
}

/// The settings of a queue are a record that is read back, and no opaque one.
pub(super) async fn queue_settings_are_a_record(case: Case) {
    let settings = QueueSettings::new()
        .max_pending(7)
        .on_full(OnFull::DeadLetterOldest);
    let version = case.configure(settings.clone(), 0).await;
    let name = format!("queue/{QUEUE}");
    let expected = VersionedRecord {
        version,
        value: RecordValue::Queue(settings),
    };
    assert_eq!(
        case.control(Control::Read { name: name.clone() }).await,
        Record(Some(expected))
    );
    let wrong = Control::Write {
        name,
        expected: version,
        value: opaque("{}"),
    };
    let error = case
        .try_control(wrong)
        .await
        .expect_err("settings are not opaque");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

const fn refuse(max_pending: u64) -> QueueSettings {
    QueueSettings::new().max_pending(max_pending)
}

pub(super) const fn dead_letter(max_pending: u64) -> QueueSettings {
    refuse(max_pending).on_full(OnFull::DeadLetterOldest)
}

/// A full queue refuses more; held, scheduled and ready jobs count, active ones do not.
pub(super) async fn a_full_queue_refuses(case: Case) {
    case.configure(refuse(3), 0).await;
    let held = NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let jobs = vec![held, job_in(hours(1)), job(), job()];
    let receipts = case.send_all(jobs).await;
    let verdicts: Vec<_> = receipts.iter().map(|receipt| receipt.verdict).collect();
    assert_eq!(verdicts, [Created, Created, Created, Full]);
    assert!(case.is_unknown(receipts[3].id).await);
    let attempt = case.claim_one().await;
    assert_eq!(
        case.verdict(job()).await,
        Created,
        "an active job does not count"
    );
    assert_eq!(case.verdict(job()).await, Full);
    assert_eq!(case.end(&attempt, Outcome::Released).await, JobState::Ready);
    assert_eq!(case.verdict(job()).await, Full, "a release is not refused");
}

/// A full queue answers a duplicate and a merge as ever: nothing is added.
pub(super) async fn a_full_queue_knows_its_jobs(case: Case) {
    let (key, policy, hold) = ("k".into(), UniquePolicy::Keep, Default::default());
    let first = NewJob {
        unique: Some(Unique { key, policy, hold }),
        ..job()
    };
    case.configure(refuse(1), 0).await;
    case.enqueue(first.clone()).await;
    assert_eq!(case.verdict(first.clone()).await.name(), "duplicate");
    let second = NewJob {
        id: JobId::new(),
        ..first.clone()
    };
    assert_eq!(case.verdict(second.clone()).await.name(), "merged");
    let mut third = second;
    third.unique = third.unique.map(|key| Unique {
        policy: UniquePolicy::Replace,
        ..key
    });
    assert_eq!(
        case.verdict(third).await,
        Replaced(first.id),
        "the replaced job does not count"
    );
}

/// A full queue of the other kind lets its oldest go as `dead: overflow`.
pub(super) async fn a_full_queue_lets_its_oldest_go(case: Case) {
    case.configure(dead_letter(3), 0).await;
    let sent = case
        .enqueue_all([3, 1, 2].map(|s| job_in(seconds(s))).to_vec())
        .await;
    let newest = case.enqueue(job_in(hours(1))).await;
    let oldest = case.get(sent[1]).await;
    assert_eq!(
        (oldest.state, oldest.dead),
        (JobState::Dead, Some(DeadReason::Overflow))
    );
    assert_eq!(case.counts().await.pending(), 3);
    case.advance(seconds(5)).await;
    case.enqueue(job()).await;
    assert_eq!(
        case.get(sent[2]).await.dead,
        Some(DeadReason::Overflow),
        "the ready one due first"
    );
    assert_eq!(case.state(newest).await, JobState::Scheduled);
}

/// What overflows is of the last priority that is ready, and never a held job.
pub(super) async fn what_overflows_is_of_the_last_priority(case: Case) {
    case.configure(dead_letter(3), 0).await;
    let held = NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let first = NewJob {
        priority: 0,
        ..job()
    };
    let last = NewJob {
        priority: 9,
        ..job()
    };
    let sent = case.enqueue_all(vec![held, first, last]).await;
    case.enqueue(job_in(hours(1))).await;
    let states = [JobState::Held, JobState::Ready, JobState::Dead];
    for (id, state) in sent.iter().zip(states) {
        assert_eq!(case.state(*id).await, state);
    }
}

/// A queue whose settings are removed has no bound any more.
pub(super) async fn removed_settings_bind_nothing(case: Case) {
    let version = case.configure(refuse(0), 0).await;
    assert_eq!(case.verdict(job()).await, Full);
    let name = format!("queue/{QUEUE}");
    case.control(Control::Write {
        name,
        expected: version,
        value: None,
    })
    .await;
    assert_eq!(case.verdict(job()).await, Created);
}

/// A bound is of one queue.
pub(super) async fn a_bound_is_of_one_queue(case: Case) {
    case.configure(refuse(0), 0).await;
    assert_eq!(case.verdict(NewJob::new("mail", "{}")).await, Created);
}

/// What overflows among ready jobs is the next in line, a returned one before an earlier due.
pub(super) async fn what_overflows_is_the_next_in_line(case: Case) {
    let earlier = case
        .enqueue(NewJob {
            priority: 9,
            ..job()
        })
        .await;
    case.advance(seconds(1)).await;
    case.enqueue(job()).await;
    let returned = case.claim_one().await;
    case.edit(earlier, Action::Reprioritise(5)).await;
    case.end(&returned, Outcome::Released).await;
    case.configure(dead_letter(2), 0).await;
    case.enqueue(job()).await;
    let overflowed = case.get(returned.id()).await;
    assert_eq!(overflowed.dead, Some(DeadReason::Overflow));
    assert_eq!(case.state(earlier).await, JobState::Ready);
}

/// What overflows is first what a claim could take, then what is to come, then what is kept back.
pub(super) async fn what_is_kept_back_overflows_last(case: Case) {
    let in_group = || {
        let (key, on_retry) = ("a".into(), OnRetry::Hold);
        let group = Some(Group { key, on_retry });
        NewJob { group, ..job() }
    };
    let active = case.active(in_group()).await;
    let kept_back = case.enqueue(in_group()).await;
    let to_come = case.enqueue(job_in(hours(1))).await;
    case.configure(dead_letter(2), 0).await;
    case.enqueue(in_group()).await;
    assert_eq!(case.get(to_come).await.dead, Some(DeadReason::Overflow));
    case.enqueue(in_group()).await;
    assert_eq!(case.get(kept_back).await.dead, Some(DeadReason::Overflow));
    case.complete(&active).await;
    assert_eq!(case.drain().await.len(), 2);
}
