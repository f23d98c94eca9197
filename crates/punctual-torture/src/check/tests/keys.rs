//! Tests of the checker: unique keys.

use punctual::engine::Token;
use punctual::{State, UniquePolicy};

use super::told::{CLAIMED, JOB, MS, OTHER, SENT, Told, completed};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

#[test]
fn a_job_that_was_merged_into_one_that_had_settled_is_found() {
    let merged_at = |at| {
        let mut told = Told::one_job();
        let call = told.call();
        told.invokes(OTHER, call, at);
        told.answers(call, at + MS, "merged", Some(JOB));
        told.share_a_key(UniquePolicy::Keep);
        told
    };
    assert_eq!(merged_at(CLAIMED).broken(), NOTHING);
    assert_eq!(merged_at(CLAIMED + 7 * MS).broken(), ["I8"]);
}

/// The other one is never answered; the job's receipt names it as the holder of their key.
fn merged_into_the_other(other_sent: impl FnOnce(&mut Told)) -> Told {
    let mut told = Told::nothing();
    other_sent(&mut told);
    let call = told.call();
    told.invokes(JOB, call, SENT + 2 * MS);
    told.answers(call, SENT + 3 * MS, "merged", Some(OTHER));
    told.share_a_key(UniquePolicy::Keep);
    told
}

#[test]
fn a_job_that_holds_a_key_by_anothers_receipt_is_acknowledged() {
    let sent = |told: &mut Told| {
        let call = told.call();
        told.invokes(OTHER, call, SENT);
    };
    let mut told = merged_into_the_other(sent);
    assert_eq!(told.broken(), ["I1"], "the holder is gone");
    let tally = told.judged().tally;
    assert_eq!((tally.acknowledged, tally.lost), (1, 1));
    // It ran.
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.runs("worker", CLAIMED + MS, 1);
    told.settles("worker", CLAIMED + 5 * MS, 1, "completed", completed());
    told.ends_as(State::Completed, 1);
    told.is_of(OTHER);
    let seen = told.look.jobs.remove(&JOB).expect("it was seen");
    told.look.jobs.insert(OTHER, seen);
    let rows = told.look.rows.remove(&JOB).expect("it has an effect");
    told.look.rows.insert(OTHER, rows);
    assert_eq!(told.broken(), NOTHING);
}

#[test]
fn a_job_that_was_merged_into_nobody_or_under_another_key_is_found() {
    assert_eq!(merged_into_the_other(|_| {}).broken(), ["I8"]);
    let later = |told: &mut Told| {
        let call = told.call();
        told.invokes(OTHER, call, SENT + 4 * MS);
    };
    let broken = merged_into_the_other(later).broken();
    assert!(broken.contains(&"I8".to_owned()), "{broken:?}");
    let mut told = Told::one_job();
    let call = told.call();
    told.invokes(OTHER, call, CLAIMED);
    told.answers(call, CLAIMED + MS, "merged", Some(JOB));
    assert_eq!(told.broken(), ["I8"]);
}

#[test]
fn a_job_that_was_merged_into_one_that_was_cancelled_is_found() {
    let merged_at = |at: u64, verdict: &str| {
        let mut told = Told::unsettled();
        let call = told.call();
        told.cancels(call, SENT + 20 * MS, verdict);
        told.is_seen(JOB, State::Cancelled);
        let call = told.call();
        told.invokes(OTHER, call, at);
        told.answers(call, at + MS, "merged", Some(JOB));
        told.share_a_key(UniquePolicy::Keep);
        told.broken()
    };
    assert_eq!(merged_at(SENT + 20 * MS, "done"), NOTHING, "at once");
    assert_eq!(merged_at(SENT + 22 * MS, "done"), ["I8"]);
    assert_eq!(merged_at(SENT + 22 * MS, "cancel_requested"), NOTHING);
}

/// The other job is claimed `at`, and the job at `CLAIMED`; it completes 100 ms later, and that is
/// answered so.
fn beside(at: u64, answer: Option<Verdict>, share: impl FnOnce(&mut Told)) -> Vec<String> {
    let mut told = Told::nothing();
    let call = told.call();
    told.invokes(OTHER, call, SENT);
    told.answers(call, SENT + MS, "created", None);
    told.claims("another", at, 1, (0, 0));
    told.runs("another", at + MS, 1);
    told.settles("another", at + 2 * MS, 1, "completed", completed());
    told.is_of(OTHER);
    told.sends(JOB, "created");
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.runs("worker", CLAIMED + MS, 1);
    told.settles("worker", CLAIMED + 100 * MS, 1, "completed", answer);
    let fence = |token: &mut Token| token.fence = if token.nonce > 1_000 { at } else { CLAIMED };
    told.change(|event| match event {
        Event::ClaimOk { leases, .. } => fence(&mut leases[0].token),
        Event::SettleInvoke { ends, .. } => fence(&mut ends[0].token),
        Event::Start { token, .. } => fence(token),
        _ => {}
    });
    told.ends_as(State::Completed, 1);
    told.is_seen(OTHER, State::Completed);
    let rows = told.look.rows[&JOB];
    told.look.rows.insert(OTHER, rows);
    share(&mut told);
    told.broken()
}

fn in_a_group(told: &mut Told) {
    told.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event {
            jobs[0].group = Some("group-1".into());
        }
    });
}

fn under_a_key(told: &mut Told) {
    told.share_a_key(UniquePolicy::After);
}

#[test]
fn two_jobs_of_a_group_that_are_active_at_once_are_found() {
    let claimed = |at, share: fn(&mut Told)| beside(at, completed(), share);
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
    let mut told = Told::nothing();
    let call = told.call();
    told.invokes(OTHER, call, SENT);
    told.answers(call, SENT + MS, "created", None);
    told.claims("another", CLAIMED, 1, (0, 0));
    told.runs("another", CLAIMED + MS, 1);
    told.settles("another", CLAIMED + 2 * MS, 1, "completed", completed());
    told.is_of(OTHER);
    told.sends(JOB, "created");
    told.claims("worker", CLAIMED + 5 * MS, 2, (0, 0));
    told.change(|event| {
        if let Event::ClaimOk { now, .. } = event {
            *now = CLAIMED;
        }
        if let Event::SettleOk { now, .. } = event {
            *now = CLAIMED - MS;
        }
    });
    in_a_group(&mut told);
    let broken = told.broken();
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
        let mut told = Told::one_job();
        let call = told.call();
        told.invokes(OTHER, call, at);
        told.answers(call, at + MS, verdict, Some(JOB));
        told.share_a_key(policy);
        told.is_seen(OTHER, State::Cancelled);
        let broken = told.broken();
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
