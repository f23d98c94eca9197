//! Tests of the checker: the state of each job in the snapshot.

use punctual::{JobId, JobState, UniquePolicy};

use super::scenario::{AFTER_CRASH, CLAIMED, JOB, MS, OTHER, SENT, Scenario};
use crate::event::{Event, Verdict};
use crate::scripted_outcome::ScriptedOutcome;

const NOTHING: [&str; 0] = [];

/// Whether I1 has something to say of a job.
fn reports(scenario: &Scenario, id: JobId) -> bool {
    let first = scenario.judged().verdicts.remove(0);
    let mut examples = first.examples.iter();
    examples.any(|example| example.starts_with(&id.to_string()))
}

/// The job is cancelled, and another one under its key was answered so; with what each does about
/// the key.
fn beside(verdict: &str, named: Option<JobId>, job: UniquePolicy, other: UniquePolicy) -> Scenario {
    let mut scenario = Scenario::unsettled();
    scenario.share_a_key(job);
    let call = scenario.call();
    scenario.invokes(OTHER, call, SENT + 2 * MS);
    scenario.answers(call, SENT + 3 * MS, verdict, named);
    scenario.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event
            && jobs[0].id == OTHER
        {
            (jobs[0].unique, jobs[0].policy) = (Some("key-1".into()), Some(other));
        }
    });
    scenario.is_seen(JOB, JobState::Cancelled);
    scenario
}

/// A client that repeats a call by itself is answered that the job is there, and not whose place it
/// took; and a receipt names the holder of the key, not the one that waits behind it.
#[test]
fn a_job_may_be_cancelled_by_one_that_replaces_holders() {
    use UniquePolicy::{After, Keep, Replace};
    let is_found = |verdict, named, job, other| reports(&beside(verdict, named, job, other), JOB);
    assert!(!is_found("duplicate", None, Keep, Replace));
    assert!(!is_found("replaced", Some(JOB), Keep, Replace));
    assert!(is_found("created", None, Keep, Replace));
    assert!(is_found("merged", None, Keep, Replace));
    assert!(is_found("duplicate", None, Replace, Keep));
    assert!(is_found("duplicate", None, Replace, After));
    let third = Some(JobId::from_bytes([3; 16]));
    assert!(is_found("replaced", third, Keep, Replace));
    assert!(
        !is_found("replaced", third, After, Replace),
        "it waited behind that one"
    );
}

#[test]
fn neither_itself_nor_an_earlier_job_excuses_a_cancelled_job() {
    let unanswered = |id: JobId| {
        let mut scenario = Scenario::unsettled();
        let call = scenario.call();
        scenario.invokes(id, call, SENT + 2 * MS);
        scenario.share_a_key(UniquePolicy::Replace);
        scenario.is_seen(JOB, JobState::Cancelled);
        reports(&scenario, JOB)
    };
    assert!(unanswered(JOB), "it was sent twice");
    assert!(!unanswered(OTHER));
    let mut before = Scenario::nothing();
    let call = before.call();
    before.invokes(OTHER, call, MS);
    before.answers(call, 2 * MS, "duplicate", None);
    before.sends(JOB, "created");
    before.share_a_key(UniquePolicy::Replace);
    before.is_seen(JOB, JobState::Cancelled);
    assert!(reports(&before, JOB));
}

#[test]
fn a_cancel_that_came_to_nothing_excuses_nothing() {
    let cancelled = |verdict: &str| {
        let mut scenario = Scenario::unsettled();
        let call = scenario.call();
        scenario.cancels(call, SENT + 2 * MS, verdict);
        scenario.is_seen(JOB, JobState::Cancelled);
        scenario.broken()
    };
    for verdict in ["done", "cancel_requested", "already_cancelled"] {
        assert_eq!(cancelled(verdict), NOTHING, "{verdict}");
    }
    for verdict in ["wrong_state", "not_found"] {
        assert_eq!(cancelled(verdict), ["I1"], "{verdict}");
    }
}

#[test]
fn a_job_may_be_dead_of_twenty_failures_and_of_no_fewer() {
    let failed = |times: u32| {
        let mut scenario = Scenario::unsettled();
        scenario.is_seen(JOB, JobState::Dead);
        for attempt in 1..=times {
            let at = CLAIMED + u64::from(attempt) * 2_000 * MS;
            scenario.claims("worker", at, attempt, (attempt - 1, 0));
            let retried = Verdict::Settled(JobState::Ready, None);
            scenario.settles("worker", at + MS, attempt, "retry", Some(retried));
        }
        scenario.broken()
    };
    assert_eq!(failed(20), NOTHING);
    assert_eq!(failed(19), ["I1"]);
}

/// By stamps that is unknown: the answer to a claim may have been lost, and the lease asked for
/// again.
#[test]
fn a_job_that_is_claimed_after_it_was_asked_to_stop_is_found() {
    let claimed = |step: u64| {
        let mut scenario = Scenario::a_crash();
        let call = scenario.call();
        scenario.cancels(call, CLAIMED + 9 * MS, "cancel_requested");
        scenario.change(|event| {
            if let Event::ClaimOk { leases, .. } = event
                && leases[0].jobs[0].attempt == 2
            {
                leases[0].jobs[0].started = Some(step);
            }
        });
        scenario.broken()
    };
    assert_eq!(claimed(AFTER_CRASH), ["I1"]);
    assert_eq!(
        claimed(CLAIMED + 8 * MS),
        NOTHING,
        "it was active under that"
    );
}

#[test]
fn a_job_that_is_claimed_after_another_took_its_place_is_found() {
    let mut scenario = Scenario::one_job();
    let call = scenario.call();
    scenario.invokes(OTHER, call, SENT + 2 * MS);
    scenario.answers(call, SENT + 3 * MS, "replaced", Some(JOB));
    scenario.share_a_key(UniquePolicy::Replace);
    assert!(reports(&scenario, JOB));
}

/// A history of one handler, that settles something else than what the job is in the snapshot.
#[test]
fn a_job_that_ended_otherwise_than_was_settled_is_found() {
    use JobState::{Cancelled, Completed, Dead};
    let ended = |outcome: &str, answer: Option<Verdict>, state| {
        let mut scenario = Scenario::one_job();
        scenario
            .forget(|event| matches!(event, Event::SettleInvoke { .. } | Event::SettleOk { .. }));
        scenario.settles("worker", CLAIMED + 5 * MS, 1, outcome, answer);
        scenario.is_seen(JOB, state);
        reports(&scenario, JOB)
    };
    let taken = |state| Some(Verdict::Settled(state, None));
    let (retried, repeated) = (taken(JobState::Scheduled), Some(Verdict::Repeated));
    assert!(!ended("completed", taken(Completed), Completed));
    assert!(ended("retry", retried, Completed), "it was to run again");
    assert!(ended("completed", taken(Completed), Dead));
    assert!(ended("completed", taken(Completed), Cancelled));
    assert!(ended("dead", taken(Dead), Completed));
    assert!(!ended("completed", repeated.clone(), Completed));
    assert!(ended("completed", repeated.clone(), Dead));
    assert!(!ended("dead", repeated, Dead));
    assert!(!ended("completed", None, Completed));
    assert!(ended("completed", None, Dead));
    assert!(!ended("dead", None, Dead));
    assert!(ended("completed", Some(Verdict::LeaseLost), Completed));
}

/// The end of the first attempt was not answered; then it was claimed again, and failed.
#[test]
fn an_unanswered_end_explains_nothing_after_a_new_claim() {
    let mut scenario = Scenario::a_crash();
    scenario.settles("worker", CLAIMED + 5 * MS, 1, "completed", None);
    assert_eq!(scenario.broken(), NOTHING);
    scenario.change(|event| match event {
        Event::SettleInvoke { ends, .. } if ends[0].attempt == 2 => {
            ends[0].outcome = "retry".into()
        }
        Event::SettleOk { verdicts, .. } => {
            verdicts[0] = Verdict::Settled(JobState::Scheduled, None);
        }
        _ => {}
    });
    assert_eq!(scenario.broken(), ["I1"]);
}

#[test]
fn a_job_that_would_die_and_never_ran_is_not_dead_of_that() {
    let mut scenario = Scenario::unsettled();
    scenario.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event {
            jobs[0].scripted = ScriptedOutcome::Dies;
        }
    });
    scenario.is_seen(JOB, JobState::Dead);
    assert_eq!(scenario.broken(), ["I1"]);
}

#[test]
fn a_job_that_is_claimed_after_its_cancel_was_answered_is_found() {
    let claimed = |at| {
        let mut scenario = Scenario::unsettled();
        let call = scenario.call();
        scenario.cancels(call, CLAIMED - 9 * MS, "done");
        scenario.claims("worker", at, 1, (0, 0));
        scenario.is_seen(JOB, JobState::Cancelled);
        scenario.broken()
    };
    assert_eq!(claimed(CLAIMED), ["I1"]);
    let beside = claimed(CLAIMED - 8 * MS);
    assert_eq!(beside, NOTHING, "the cancel was not answered yet");
}
