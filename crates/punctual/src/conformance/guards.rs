//! Laws of guards: what depends on a record happens while it has its version, or not at all.

use super::case::*;
use crate::engine::{
    Action, Control, Controlled, EnqueueVerdict, Guard, OnFull, QueueSettings, RecordValue,
    SettleVerdict, Settlement, VersionedRecord,
};
use crate::error::ErrorKind;
use crate::job::{Effect, JobState, NewJob, Outcome};
use crate::time::{hours, minutes};
use crate::topic::TOPICS;

/// The record of these laws.
const RECORD: &str = "offsets";

fn opaque(text: &str) -> RecordValue {
    RecordValue::Opaque(bytes(text))
}

fn enqueues(job: &NewJob) -> Effect {
    Effect::Enqueue(Box::new(job.clone()))
}

/// Writes the record of these laws; its version.
async fn write(case: &Case, text: &str, expected: u64) -> u64 {
    let write = Control::Write {
        name: RECORD.into(),
        expected,
        value: Some(opaque(text)),
    };
    match case.control(write).await {
        Controlled::Written(version) => version,
        other => panic!("a write answers its version, got {other:?}"),
    }
}

async fn read(case: &Case) -> Option<VersionedRecord> {
    let name = RECORD.into();
    match case.control(Control::Read { name }).await {
        Controlled::Record(record) => record,
        other => panic!("a read answers a record, got {other:?}"),
    }
}

fn guarded(version: u64, value: Option<&str>, effects: Vec<Effect>) -> Control {
    Control::Guarded {
        guard: Guard::new(RECORD, version),
        value: value.map(opaque),
        effects,
    }
}

/// The version and verdicts of guarded effects that happened.
async fn happened(case: &Case, control: Control) -> (u64, Vec<Option<EnqueueVerdict>>) {
    match case.control(control).await {
        Controlled::Guarded { version, verdicts } => (version, verdicts),
        other => panic!("the guard holds, got {other:?}"),
    }
}

/// Writes the record of topics, which every shard has; its version.
async fn write_topics(case: &Case, expected: u64) -> u64 {
    let write = Control::Write {
        name: TOPICS.into(),
        expected,
        value: Some(opaque(r#"{"subscriptions":[]}"#)),
    };
    match case.control(write).await {
        Controlled::Written(version) => version,
        other => panic!("a write answers its version, got {other:?}"),
    }
}

/// The settlement of a completed job that the record of topics guards.
fn completed(attempt: &Attempt, version: u64, effects: Vec<Effect>) -> Settlement {
    Settlement {
        guard: Some(Guard::new(TOPICS, version)),
        effects,
        ..attempt.ended(Outcome::Completed)
    }
}

/// Guarded jobs are enqueued like others, each with a verdict, while the record is as named.
pub(super) async fn a_guard_that_holds_lets_its_effects_happen(case: Case) {
    let version = write(&case, "7", 0).await;
    let (now, later) = (job(), job_in(minutes(5)));
    let sent = [&now, &later, &now].map(enqueues).to_vec();
    let (after, verdicts) = happened(&case, guarded(version, None, sent.clone())).await;
    assert_eq!(after, version, "a guard alone changes no record");
    let expected = [
        EnqueueVerdict::Created,
        EnqueueVerdict::Created,
        EnqueueVerdict::Duplicate,
    ];
    assert_eq!(verdicts, expected.map(Some));
    let (_, again) = happened(&case, guarded(version, None, sent)).await;
    assert_eq!(again, [Some(EnqueueVerdict::Duplicate); 3]);
    assert_eq!(case.get(later.id).await.due, case.clock() + minutes(5));
    assert_eq!(case.drain().await, [now.id]);
    let (_, none) = happened(&case, guarded(version, None, Vec::new())).await;
    assert_eq!(none, []);
}

/// With another version nothing happens, and the answer has the record as it is.
pub(super) async fn a_guard_that_does_not_hold_changes_nothing(case: Case) {
    let waiting = case.enqueue(job().unique("7")).await;
    let first = write(&case, "1", 0).await;
    let second = write(&case, "2", first).await;
    let sent = job();
    let cancel = Effect::Cancel {
        queue: QUEUE.into(),
        key: "7".into(),
    };
    for (version, value) in [(first, None), (0, Some("3")), (second + 1, Some("3"))] {
        let effects = vec![enqueues(&sent), cancel.clone()];
        let answer = case.control(guarded(version, value, effects)).await;
        let record = read(&case).await;
        assert_eq!(answer, Controlled::GuardConflict(record.clone()));
        let record = record.expect("it is there");
        assert_eq!((record.version, record.value), (second, opaque("2")));
        assert!(case.is_unknown(sent.id).await);
        assert_eq!(case.state(waiting).await, JobState::Ready);
    }
}

/// A record advances in the step that enqueues what it stands for.
pub(super) async fn a_record_and_jobs_advance_together(case: Case) {
    let sent = job();
    let effects = vec![enqueues(&sent)];
    let (first, _) = happened(&case, guarded(0, Some("1"), effects)).await;
    let record = read(&case).await.expect("it was written");
    assert_eq!((record.version, record.value), (first, opaque("1")));
    assert!(!case.is_unknown(sent.id).await);
    let (second, _) = happened(&case, guarded(first, Some("2"), Vec::new())).await;
    assert!(second > first, "{second} comes after {first}");
    assert_eq!(read(&case).await.map(|one| one.value), Some(opaque("2")));
}

/// Of two that start from the same version one advances it.
pub(super) async fn the_first_writer_of_a_record_wins(case: Case) {
    let (mine, other) = (job(), job());
    happened(&case, guarded(0, Some("mine"), vec![enqueues(&mine)])).await;
    let late = guarded(0, Some("other"), vec![enqueues(&other)]);
    match case.control(late).await {
        Controlled::GuardConflict(Some(record)) => assert_eq!(record.value, opaque("mine")),
        other => panic!("the record exists, got {other:?}"),
    }
    assert_eq!(case.drain().await, [mine.id]);
}

/// A settle that met another version changes nothing; its lease holds, and the next one counts.
pub(super) async fn a_guarded_settle_compares_in_its_step(case: Case) {
    let version = write_topics(&case, 0).await;
    let attempt = case.active(job()).await;
    let other = case.active(job()).await;
    let now = write_topics(&case, version).await;
    let next = job();
    let stale = completed(&attempt, version, vec![enqueues(&next)]);
    let verdict = case.settle_as(attempt.token, stale).await;
    assert_eq!(verdict, SettleVerdict::GuardConflict { version: now });
    assert_eq!(case.state(attempt.id()).await, JobState::Active);
    assert!(case.is_unknown(next.id).await);
    case.complete(&other).await;
    let fresh = completed(&attempt, now, vec![enqueues(&next)]);
    assert_eq!(case.end_as(&attempt, fresh).await, JobState::Completed);
    assert_eq!(case.drain().await, [next.id]);
}

/// A settle that causes nothing, as no subscription matched, depends on its record all the same.
pub(super) async fn a_guarded_settle_without_effects_compares_too(case: Case) {
    let attempt = case.active(job()).await;
    let version = write_topics(&case, 0).await;
    let verdict = case
        .settle_as(attempt.token, completed(&attempt, 0, Vec::new()))
        .await;
    assert_eq!(verdict, SettleVerdict::GuardConflict { version });
    case.end_as(&attempt, completed(&attempt, version, Vec::new()))
        .await;
}

/// What was settled is repeated, whatever became of the record since.
pub(super) async fn a_repeated_guarded_settle_is_repeated(case: Case) {
    let version = write_topics(&case, 0).await;
    let attempt = case.active(job()).await;
    let settlement = completed(&attempt, version, vec![enqueues(&job())]);
    case.end_as(&attempt, settlement.clone()).await;
    write_topics(&case, version).await;
    let again = case.settle_as(attempt.token, settlement).await;
    assert_eq!(again, SettleVerdict::Repeated);
}

/// A lost lease is lost, whatever the record is.
pub(super) async fn an_old_token_is_refused_before_the_guard(case: Case) {
    let attempt = case.active(job()).await;
    case.leases_run_out().await;
    let settlement = completed(&attempt, 7, Vec::new());
    let verdict = case.settle_as(attempt.token, settlement).await;
    assert_eq!(verdict, SettleVerdict::LeaseLost);
}

/// A guard sees the record of its namespace only.
pub(super) async fn a_guard_is_of_a_namespace(case: Case) {
    let version = write(&case, "1", 0).await;
    let case = case.tenant("other");
    let answer = case.control(guarded(version, None, Vec::new())).await;
    assert_eq!(answer, Controlled::GuardConflict(None));
    happened(&case, guarded(0, None, vec![enqueues(&job())])).await;
    assert_eq!(case.drain().await.len(), 1);
}

/// A guarded job is no outcome: a full queue refuses it, and nothing else of the call.
pub(super) async fn a_full_queue_refuses_one_guarded_job(case: Case) {
    let settings = QueueSettings::new().max_pending(1).on_full(OnFull::Refuse);
    case.configure(settings, 0).await;
    let mail = NewJob::new("mail", "{}");
    let sent = [&job(), &job(), &mail].map(enqueues).to_vec();
    let (_, verdicts) = happened(&case, guarded(0, None, sent)).await;
    let expected = [
        EnqueueVerdict::Created,
        EnqueueVerdict::Full,
        EnqueueVerdict::Created,
    ];
    assert_eq!(verdicts, expected.map(Some));
}

/// A cancel by key is an effect: a waiting job ends, an active one is asked, none is ignored.
pub(super) async fn a_cancel_is_an_effect(case: Case) {
    let cancels = |key: &str| Effect::Cancel {
        queue: QUEUE.into(),
        key: key.into(),
    };
    let asked = case.active(job().unique("active")).await;
    let attempt = case.active(job()).await;
    let waiting = case.enqueue(job().unique("waits")).await;
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.effects = ["waits", "active", "unknown"].map(cancels).to_vec();
    match case.settle_as(attempt.token, settlement).await {
        SettleVerdict::Settled { effects, .. } => assert_eq!(effects, [None; 3]),
        other => panic!("the lease is valid, got {other:?}"),
    }
    assert_eq!(case.state(waiting).await, JobState::Cancelled);
    assert!(case.get(asked.id()).await.cancel_requested);
    let later = case.enqueue(job_in(hours(1)).unique("waits")).await;
    let (_, none) = happened(&case, guarded(0, None, vec![cancels("waits")])).await;
    assert_eq!(none, [None]);
    assert_eq!(case.state(later).await, JobState::Cancelled);
    case.edit(later, Action::Delete).await;
}

/// Guards of settings, malformed effects and too many of them are refused whole.
pub(super) async fn a_hostile_guard_is_refused(case: Case) {
    for name in ["queue/mail", "schedule/beat"] {
        let control = Control::Guarded {
            guard: Guard::new(name, 0),
            value: None,
            effects: Vec::new(),
        };
        let error = case.try_control(control).await.expect_err("it is obeyed");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let control = Control::Guarded {
        guard: Guard::new("{a}", 0),
        value: None,
        effects: Vec::new(),
    };
    let error = case.try_control(control).await.expect_err("a bad name");
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    let good = job();
    let bad = Effect::Enqueue(Box::new(job().priority(10)));
    let sent = guarded(0, Some("1"), vec![enqueues(&good), bad]);
    let error = case.try_control(sent).await.expect_err("a bad job");
    assert_names(&error, ErrorKind::InvalidInput, 1);
    assert!(case.is_unknown(good.id).await);
    assert_eq!(read(&case).await, None);
    let many = (0..1_001).map(|_| enqueues(&job())).collect();
    let error = case.try_control(guarded(0, None, many)).await;
    let error = error.expect_err("more than a batch");
    assert_eq!(error.kind(), ErrorKind::BatchTooLarge, "{error}");
}
