//! Laws of signals as effects: an outcome and the signals that it causes stand or fall together.

use super::case::*;
use super::memos::holds;
use crate::engine::{SettleVerdict, Settlement};
use crate::error::ErrorKind;
use crate::job::{Effect, JobId, JobState, MEMO_BYTES_MAX, Memo, MemoSource, Outcome};

fn signals(job: JobId, name: &str, value: &str) -> Effect {
    Effect::Signal {
        job,
        name: name.into(),
        payload: bytes(value),
    }
}

fn completed_with(attempt: &Attempt, effects: Vec<Effect>) -> Settlement {
    Settlement {
        effects,
        ..attempt.ended(Outcome::Completed)
    }
}

/// The names and values of the signals of a job.
fn values(memos: &[Memo]) -> Vec<(&str, &[u8])> {
    let signals = memos.iter().filter(|one| one.source == MemoSource::Signal);
    let pair = |one| -> (&str, &[u8]) {
        let one: &Memo = one;
        (&one.name, &one.value)
    };
    signals.map(pair).collect()
}

/// A job that waits.
async fn waiting(case: &Case) -> JobId {
    let attempt = case.active(job()).await;
    case.end(&attempt, holds("approved")).await;
    assert_eq!(case.state(attempt.id()).await, JobState::Held);
    attempt.id()
}

/// A job that waits for a signal is ready in the step that settles the job that sends it.
pub(super) async fn a_signal_is_an_effect(case: Case) {
    let waits = waiting(&case).await;
    let sender = case.active(job()).await;
    let effects = vec![
        signals(waits, "other", "1"),
        signals(waits, "approved", "\"ann\""),
    ];
    let settlement = completed_with(&sender, effects);
    assert_eq!(case.end_as(&sender, settlement).await, JobState::Completed);
    assert_eq!(case.state(waits).await, JobState::Ready);
    let again = case.claim_one().await;
    assert_eq!(again.id(), waits);
    let expected: [(&str, &[u8]); 2] = [("other", b"1"), ("approved", b"\"ann\"")];
    assert_eq!(values(&again.job.memos), expected);
}

/// A signal that comes while the job runs counts once it waits; the first value stays.
pub(super) async fn a_signal_of_an_effect_may_come_before_the_wait(case: Case) {
    let waits = case.active(job()).await;
    let sender = case.active(job()).await;
    let effects = vec![
        signals(waits.id(), "approved", "1"),
        signals(waits.id(), "approved", "2"),
    ];
    case.end_as(&sender, completed_with(&sender, effects)).await;
    assert_eq!(case.end(&waits, holds("approved")).await, JobState::Ready);
    let again = case.claim_one().await;
    assert_eq!(values(&again.job.memos), [("approved", &b"1"[..])]);
}

/// A worker that lost its lease signals nothing.
pub(super) async fn a_signal_of_a_lost_lease_does_not_happen(case: Case) {
    let waits = waiting(&case).await;
    let late = case.active(job()).await;
    case.leases_run_out().await;
    let settlement = completed_with(&late, vec![signals(waits, "approved", "1")]);
    let verdict = case.settle_as(late.token, settlement).await;
    assert_eq!(verdict, SettleVerdict::LeaseLost);
    let job = case.get(waits).await;
    assert_eq!((job.state, job.memos), (JobState::Held, vec![]));
}

/// A settlement that is sent again signals no job that waits anew.
pub(super) async fn a_repeated_settlement_signals_once(case: Case) {
    let waits = case.active(job()).await;
    let sender = case.active(job()).await;
    let settlement = completed_with(&sender, vec![signals(waits.id(), "approved", "1")]);
    case.end_as(&sender, settlement.clone()).await;
    let again = case.settle_as(sender.token, settlement).await;
    assert_eq!(again, SettleVerdict::Repeated);
    let job = case.get(waits.id()).await;
    assert_eq!(values(&job.memos), [("approved", &b"1"[..])]);
}

/// An unknown job, a settled one and one without room are left as they are; the outcome counts.
pub(super) async fn a_signal_that_reaches_no_job_is_ignored(case: Case) {
    let settled = case.job_in_state(JobState::Completed).await;
    let full = waiting(&case).await;
    for nth in 0..crate::job::MEMOS_MAX {
        super::memos::signal(&case, full, &format!("s{nth}"), "1").await;
    }
    let before = case.get(full).await;
    let sender = case.active(job()).await;
    let effects = [job().id, settled, full].map(|id| signals(id, "approved", "1"));
    let settlement = completed_with(&sender, effects.to_vec());
    assert_eq!(case.end_as(&sender, settlement).await, JobState::Completed);
    assert_eq!(case.state(settled).await, JobState::Completed);
    assert_eq!(case.get(full).await, before);
}

/// A signal over its bounds refuses the whole call, before anything is changed.
pub(super) async fn a_hostile_signal_refuses_the_settle(case: Case) {
    let waits = waiting(&case).await;
    let sender = case.active(job()).await;
    let long = "x".repeat(MEMO_BYTES_MAX + 1);
    let name = "n".repeat(257);
    let hostile = [
        (signals(waits, "", "1"), ErrorKind::InvalidName),
        (signals(waits, &name, "1"), ErrorKind::InvalidName),
        (
            signals(waits, "approved", &long),
            ErrorKind::PayloadTooLarge,
        ),
    ];
    for (effect, kind) in hostile {
        let effects = vec![signals(waits, "approved", "1"), effect];
        let settlement = completed_with(&sender, effects);
        let refused = case.try_settle(sender.token, vec![settlement]).await;
        assert_eq!(refused.expect_err("it is refused").kind(), kind);
        assert_eq!(case.state(sender.id()).await, JobState::Active);
        assert_eq!(case.get(waits).await.memos, []);
    }
    let longest = "x".repeat(MEMO_BYTES_MAX);
    let settlement = completed_with(&sender, vec![signals(waits, "approved", &longest)]);
    case.end_as(&sender, settlement).await;
    assert_eq!(case.get(waits).await.memos[0].value.len(), MEMO_BYTES_MAX);
}
