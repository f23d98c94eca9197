//! Tests of the checker: cancels.

use punctual::JobState;

use super::scenario::{CLAIMED, DUE, ENOUGH, JOB, MS, SENT, Scenario, completed};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

/// The same with a cancel that is answered so.
fn cancelled(mut scenario: Scenario, at: u64, verdict: &str) -> Scenario {
    let call = scenario.call();
    scenario.cancels(call, at, verdict);
    scenario
}

/// An active job answers that it is asked to stop: what answers `done` waited, and never ends in
/// another way.
#[test]
fn a_job_whose_cancel_was_answered_as_done_and_that_completes_is_found() {
    for at in [CLAIMED, CLAIMED + 9 * MS] {
        for verdict in ["done", "already_cancelled"] {
            let scenario = cancelled(Scenario::one_job(), at, verdict);
            assert_eq!(scenario.broken(), ["I1"], "{verdict}");
        }
        let asked = cancelled(Scenario::one_job(), at, "cancel_requested");
        assert_eq!(asked.broken(), NOTHING);
    }
}

/// Its cancel was lost with the rest.
#[test]
fn a_cancel_that_may_be_lost_says_nothing_of_what_comes_after_the_loss() {
    let scenario = |may_lose| {
        let mut scenario = cancelled(Scenario::one_job(), SENT + 20 * MS, "done");
        scenario.may_lose = may_lose;
        scenario.fault("F02", DUE - 20 * MS, DUE - 10 * MS);
        scenario.judged().verdicts.remove(0)
    };
    // That it was claimed is found, which is not promised there.
    assert_eq!(scenario(true).broken, 1);
    assert_eq!(scenario(false).broken, 3);
}

#[test]
fn a_cancelled_job_seen_in_another_state_is_found() {
    let seen = |state| {
        let mut scenario = Scenario::unsettled();
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.settles("worker", CLAIMED + 5 * MS, 1, "dead", None);
        scenario.is_seen(JOB, state);
        cancelled(scenario, CLAIMED + 9 * MS, "done").broken()
    };
    assert_eq!(seen(JobState::Dead), ["I1"]);
    assert_eq!(seen(JobState::Cancelled), NOTHING);
}

#[test]
fn an_end_that_is_accepted_after_a_cancel_is_found() {
    let retried = |at, answer| {
        let mut scenario = Scenario::unsettled();
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.settles("worker", at, 1, "retry", Some(answer));
        scenario.is_seen(JOB, JobState::Cancelled);
        cancelled(scenario, CLAIMED + 9 * MS, "done").broken()
    };
    let taken = || Verdict::Settled(JobState::Ready, None);
    assert_eq!(retried(CLAIMED + 11 * MS, taken()), ["I1"]);
    assert_eq!(retried(CLAIMED + 11 * MS, Verdict::LeaseLost), NOTHING);
    assert_eq!(retried(CLAIMED + 5 * MS, taken()), NOTHING, "it came first");
    let beside = retried(CLAIMED + 10 * MS, taken());
    assert_eq!(beside, NOTHING, "the cancel was not answered yet");
}

/// It answered that it was cancelled already: by the end that its handler had settled.
#[test]
fn a_job_that_its_handler_cancelled_is_cancelled_already() {
    let mut scenario = Scenario::unsettled();
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    let scenario = cancelled(scenario, CLAIMED + MS, "cancel_requested");
    let ended = |verdict| {
        let mut scenario = scenario.clone();
        let taken = Some(Verdict::Settled(JobState::Cancelled, None));
        scenario.settles("worker", CLAIMED + 5 * MS, 1, "cancelled", taken);
        scenario.is_seen(JOB, JobState::Cancelled);
        cancelled(scenario, CLAIMED + 9 * MS, verdict).broken()
    };
    assert_eq!(ended("already_cancelled"), NOTHING);
    assert_eq!(ended("done"), ["I1"], "it was settled, and waited no more");
}

/// The job was acknowledged, and is gone without a trace.
fn gone(ended: u64) -> Scenario {
    let mut scenario = Scenario::unsettled();
    scenario.say("nemesis", ended, Event::Snapshot);
    scenario
}

/// When its tombstone may lapse if it was cancelled at once.
const LAPSED: u64 = SENT + 2 * MS + 120_000 * MS;

#[test]
fn a_cancel_without_effect_excuses_no_missing_job() {
    let is_lost = |fault: &str, verdict: &str| {
        let mut scenario = cancelled(gone(LAPSED), SENT + 2 * MS, verdict);
        scenario.fault(fault, DUE, DUE + 500 * MS);
        scenario.judged().tally.lost == 1
    };
    for fault in ["F02", "F14"] {
        for verdict in ["not_found", "wrong_state"] {
            assert!(is_lost(fault, verdict), "{fault}, {verdict}");
        }
        for verdict in ["done", "cancel_requested", "already_cancelled"] {
            assert!(!is_lost(fault, verdict), "{fault}, {verdict}");
        }
    }
    let mut unanswered = cancelled(gone(LAPSED), SENT + 2 * MS, "done");
    unanswered.forget(|event| matches!(event, Event::CancelOk { .. }));
    assert_eq!(unanswered.broken(), NOTHING);
}

/// An engine whose clock reads an hour less while it is first asked, and then does not, takes an
/// hour's tombstones.
#[test]
fn a_tombstone_lapses_as_much_earlier_as_the_engine_s_clock_leapt() {
    let gone_after = |at: u64, early: u64, leap: u64| {
        let ended = at + 120_000 * MS - early;
        let mut scenario = cancelled(gone(ended), at, "done");
        scenario.fault("F14", DUE, DUE + 500 * MS);
        scenario.answers_others(ENOUGH, ENOUGH + 10 * MS);
        scenario.change(|event| {
            if let Event::ClaimOk { now, .. } = event {
                *now += leap;
            }
        });
        scenario.broken().contains(&"I1".to_owned())
    };
    let (seconds, first) = (1_000 * MS, SENT + 2 * MS);
    let early = |early: u64, leap: u64| gone_after(first, early, leap);
    assert!(early(10 * seconds, 0));
    assert!(!early(10 * seconds, HOUR));
    assert!(early(10 * seconds, 5 * seconds));
    assert!(!early(MS, 0), "a step ahead that no answer showed");
    let since = gone_after(ENOUGH + 20 * MS, 10 * seconds, HOUR);
    assert!(since, "it was cancelled after the leap");
}

const HOUR: u64 = 3_600_000 * MS;

#[test]
fn a_job_that_was_not_found_and_is_back_is_found() {
    let missed = |at| cancelled(Scenario::one_job(), at, "not_found");
    assert_eq!(missed(SENT).broken(), NOTHING, "it was not answered yet");
    for at in [SENT + 2 * MS, CLAIMED + 2 * MS, CLAIMED + 9 * MS] {
        assert_eq!(missed(at).broken(), ["I1"]);
    }
    let tombstone = CLAIMED + 5 * MS + 120_000 * MS;
    assert_eq!(missed(tombstone - 2 * MS).broken(), ["I1"]);
    assert_eq!(
        missed(tombstone).broken(),
        NOTHING,
        "its tombstone had lapsed"
    );
    let mut lossy = missed(CLAIMED + 9 * MS);
    lossy.may_lose = true;
    assert_eq!(lossy.broken(), NOTHING, "its loss is admitted");
    let mut unanswered = Scenario::unsettled();
    unanswered.forget(|event| matches!(event, Event::EnqueueOk { .. }));
    unanswered.claims("worker", CLAIMED, 1, (0, 0));
    unanswered.settles("worker", CLAIMED + 5 * MS, 1, "completed", completed());
    unanswered.ends_as(JobState::Completed, 1);
    let early = cancelled(unanswered, SENT + 2 * MS, "not_found");
    assert!(!early.broken().contains(&"I1".to_owned()));
}
