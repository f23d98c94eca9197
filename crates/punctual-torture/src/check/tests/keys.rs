//! Tests of the checker: unique keys.

use punctual::engine::Token;
use punctual::{JobState, UniquePolicy};

use super::scenario::{CLAIMED, JOB, MS, OTHER, SENT, Scenario, completed};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

#[test]
fn a_job_that_was_merged_into_one_that_had_settled_is_found() {
    let merged_at = |at| {
        let mut scenario = Scenario::one_job();
        let call = scenario.call();
        scenario.invokes(OTHER, call, at);
        scenario.answers(call, at + MS, "merged", Some(JOB));
        scenario.share_a_key(UniquePolicy::Keep);
        scenario
    };
    assert_eq!(merged_at(CLAIMED).broken(), NOTHING);
    assert_eq!(merged_at(CLAIMED + 7 * MS).broken(), ["I8"]);
}

/// The other one is never answered; the job's receipt names it as the holder of their key.
fn merged_into_the_other(other_sent: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = Scenario::nothing();
    other_sent(&mut scenario);
    let call = scenario.call();
    scenario.invokes(JOB, call, SENT + 2 * MS);
    scenario.answers(call, SENT + 3 * MS, "merged", Some(OTHER));
    scenario.share_a_key(UniquePolicy::Keep);
    scenario
}

#[test]
fn a_job_that_holds_a_key_by_anothers_receipt_is_acknowledged() {
    let sent = |scenario: &mut Scenario| {
        let call = scenario.call();
        scenario.invokes(OTHER, call, SENT);
    };
    let mut scenario = merged_into_the_other(sent);
    assert_eq!(scenario.broken(), ["I1"], "the holder is gone");
    let tally = scenario.judged().tally;
    assert_eq!((tally.acknowledged, tally.lost), (1, 1));
    // It ran.
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.runs("worker", CLAIMED + MS, 1);
    scenario.settles("worker", CLAIMED + 5 * MS, 1, "completed", completed());
    scenario.ends_as(JobState::Completed, 1);
    scenario.is_of(OTHER);
    let seen = scenario.snapshot.jobs.remove(&JOB).expect("it was seen");
    scenario.snapshot.jobs.insert(OTHER, seen);
    let rows = scenario
        .snapshot
        .rows
        .remove(&JOB)
        .expect("it has an effect");
    scenario.snapshot.rows.insert(OTHER, rows);
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn a_job_merged_into_none_or_under_another_key_is_found() {
    assert_eq!(merged_into_the_other(|_| {}).broken(), ["I8"]);
    let later = |scenario: &mut Scenario| {
        let call = scenario.call();
        scenario.invokes(OTHER, call, SENT + 4 * MS);
    };
    let broken = merged_into_the_other(later).broken();
    assert!(broken.contains(&"I8".to_owned()), "{broken:?}");
    let mut scenario = Scenario::one_job();
    let call = scenario.call();
    scenario.invokes(OTHER, call, CLAIMED);
    scenario.answers(call, CLAIMED + MS, "merged", Some(JOB));
    assert_eq!(scenario.broken(), ["I8"]);
}

#[test]
fn a_job_that_was_merged_into_one_that_was_cancelled_is_found() {
    let merged_at = |at: u64, verdict: &str| {
        let mut scenario = Scenario::unsettled();
        let call = scenario.call();
        scenario.cancels(call, SENT + 20 * MS, verdict);
        scenario.is_seen(JOB, JobState::Cancelled);
        let call = scenario.call();
        scenario.invokes(OTHER, call, at);
        scenario.answers(call, at + MS, "merged", Some(JOB));
        scenario.share_a_key(UniquePolicy::Keep);
        scenario.broken()
    };
    assert_eq!(merged_at(SENT + 20 * MS, "done"), NOTHING, "at once");
    assert_eq!(merged_at(SENT + 22 * MS, "done"), ["I8"]);
    assert_eq!(merged_at(SENT + 22 * MS, "cancel_requested"), NOTHING);
}

/// The other job is claimed `at`, and the job at `CLAIMED`; it completes 100 ms later, and that is
/// answered so.
fn beside(at: u64, answer: Option<Verdict>, share: impl FnOnce(&mut Scenario)) -> Vec<String> {
    let mut scenario = Scenario::nothing();
    let call = scenario.call();
    scenario.invokes(OTHER, call, SENT);
    scenario.answers(call, SENT + MS, "created", None);
    scenario.claims("another", at, 1, (0, 0));
    scenario.runs("another", at + MS, 1);
    scenario.settles("another", at + 2 * MS, 1, "completed", completed());
    scenario.is_of(OTHER);
    scenario.sends(JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.runs("worker", CLAIMED + MS, 1);
    scenario.settles("worker", CLAIMED + 100 * MS, 1, "completed", answer);
    let fence = |token: &mut Token| token.fence = if token.nonce > 1_000 { at } else { CLAIMED };
    scenario.change(|event| match event {
        Event::ClaimOk { leases, .. } => fence(&mut leases[0].token),
        Event::SettleInvoke { ends, .. } => fence(&mut ends[0].token),
        Event::Start { token, .. } => fence(token),
        _ => {}
    });
    scenario.ends_as(JobState::Completed, 1);
    scenario.is_seen(OTHER, JobState::Completed);
    let rows = scenario.snapshot.rows[&JOB];
    scenario.snapshot.rows.insert(OTHER, rows);
    share(&mut scenario);
    scenario.broken()
}

fn in_a_group(scenario: &mut Scenario) {
    scenario.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event {
            jobs[0].group = Some("group-1".into());
        }
    });
}

fn under_a_key(scenario: &mut Scenario) {
    scenario.share_a_key(UniquePolicy::After);
}

#[test]
fn two_jobs_of_a_group_that_are_active_at_once_are_found() {
    let claimed = |at, share: fn(&mut Scenario)| beside(at, completed(), share);
    assert_eq!(claimed(CLAIMED + 50 * MS, |_| {}), NOTHING);
    assert_eq!(claimed(CLAIMED + 50 * MS, in_a_group), ["I2"]);
    assert_eq!(claimed(CLAIMED + 102 * MS, in_a_group), NOTHING);
    assert_eq!(claimed(CLAIMED - 4 * MS, in_a_group), NOTHING);
}

#[test]
fn a_job_may_follow_an_unanswered_end_of_its_group_not_precede_it() {
    for answer in [None, Some(Verdict::Repeated)] {
        let claimed = |at| beside(at, answer.clone(), in_a_group);
        assert_eq!(claimed(CLAIMED + 150 * MS), NOTHING);
        assert_eq!(claimed(CLAIMED + 50 * MS), ["I2"]);
    }
}

/// Seed 908 of `embedded-clock`, opened just before its clock was set back.
#[test]
fn jobs_of_a_group_claimed_at_one_instant_follow_their_leases() {
    let mut scenario = Scenario::nothing();
    let call = scenario.call();
    scenario.invokes(OTHER, call, SENT);
    scenario.answers(call, SENT + MS, "created", None);
    scenario.claims("another", CLAIMED, 1, (0, 0));
    scenario.runs("another", CLAIMED + MS, 1);
    scenario.settles("another", CLAIMED + 2 * MS, 1, "completed", completed());
    scenario.is_of(OTHER);
    scenario.sends(JOB, "created");
    scenario.claims("worker", CLAIMED + 5 * MS, 2, (0, 0));
    scenario.change(|event| {
        if let Event::ClaimOk { now, .. } = event {
            *now = CLAIMED;
        }
        if let Event::SettleOk { now, .. } = event {
            *now = CLAIMED - MS;
        }
    });
    in_a_group(&mut scenario);
    let broken = scenario.broken();
    assert!(!broken.contains(&"I2".to_owned()), "{broken:?}");
}

#[test]
fn two_jobs_that_hold_a_key_at_once_are_found() {
    let claimed = |at| beside(at, completed(), under_a_key);
    assert_eq!(claimed(CLAIMED + 50 * MS), ["I2"]);
    assert_eq!(claimed(CLAIMED + 102 * MS), NOTHING);
}

#[test]
fn a_job_that_is_stored_beside_the_holder_of_its_key_is_found() {
    let stored = |policy: UniquePolicy, verdict: &str, at: u64| {
        let mut scenario = Scenario::one_job();
        let call = scenario.call();
        scenario.invokes(OTHER, call, at);
        scenario.answers(call, at + MS, verdict, Some(JOB));
        scenario.share_a_key(policy);
        scenario.is_seen(OTHER, JobState::Cancelled);
        let broken = scenario.broken();
        broken.contains(&"I2".to_owned())
    };
    let (before, after) = (SENT + 2 * MS, CLAIMED + 20 * MS);
    assert!(stored(UniquePolicy::Keep, "created", before));
    assert!(stored(UniquePolicy::Replace, "created", before));
    assert!(
        !stored(UniquePolicy::After, "created", before),
        "it comes after"
    );
    assert!(!stored(UniquePolicy::Keep, "merged", before));
    assert!(
        !stored(UniquePolicy::Keep, "created", after),
        "that had settled"
    );
}
