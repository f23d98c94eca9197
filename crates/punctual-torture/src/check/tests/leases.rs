//! Tests of the checker: leases.

use punctual::State;
use punctual::engine::Token;

use super::told::{AFTER_CRASH, CLAIMED, ENOUGH, LEASE_DURATION, MS, Told, completed, token};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

/// The second claim comes before the first lease is over.
fn overtaken() -> Told {
    let mut told = Told::a_crash();
    told.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && leases[0].jobs[0].attempt == 1
        {
            leases[0].deadline = *now + 2 * LEASE_DURATION;
        }
    });
    told
}

#[test]
fn a_claim_before_the_end_of_the_lease_is_found() {
    assert_eq!(overtaken().broken(), ["I2"]);
}

#[test]
fn a_claim_before_the_end_of_a_prolonged_lease_is_found() {
    let mut told = Told::a_crash();
    let until = Some(AFTER_CRASH + 100 * MS);
    told.extends("worker", CLAIMED + 300 * MS, token(1), until);
    assert_eq!(told.broken(), ["I2"]);
}

#[test]
fn a_lease_that_was_handed_back_is_over() {
    let mut told = overtaken();
    told.settles(
        "worker",
        CLAIMED + 5 * MS,
        1,
        "released",
        Some(Verdict::Settled(State::Ready, None)),
    );
    assert_eq!(
        told.broken(),
        ["I7"],
        "it was no crash then; but its lease was over"
    );
}

#[test]
fn a_lease_whose_end_has_no_answer_may_be_over() {
    let ended = |at, answer| {
        let mut told = overtaken();
        told.settles("worker", at, 1, "retry", answer);
        told.broken()
    };
    for answer in [None, Some(Verdict::Repeated)] {
        assert_eq!(ended(CLAIMED + 5 * MS, answer.clone()), NOTHING);
        let late = ended(AFTER_CRASH + 9 * MS, answer);
        assert_eq!(late, ["I2"], "it came after the next claim");
    }
    let refused = Some(Verdict::LeaseLost);
    assert_eq!(ended(CLAIMED + 5 * MS, refused), ["I2"]);
}

/// It would not have been claimed again if that had been taken.
#[test]
fn a_lease_is_not_over_by_an_end_for_good_without_an_answer() {
    for outcome in ["completed", "dead", "cancelled"] {
        for answer in [None, Some(Verdict::Repeated)] {
            let mut told = overtaken();
            told.settles("worker", CLAIMED + 5 * MS, 1, outcome, answer);
            let broken = told.broken();
            assert!(broken.contains(&"I2".to_owned()), "{outcome}: {broken:?}");
        }
    }
}

/// The next claim was taken by a power cut; what was prolonged after that says nothing of it.
#[test]
fn a_lease_extended_after_the_next_claim_had_ended_before() {
    let mut told = Told::a_crash();
    // Its end was not answered, which would show that it was synced.
    told.forget(|event| matches!(event, Event::SettleOk { .. }));
    told.fault("F04", ENOUGH - 60 * MS, ENOUGH - 50 * MS);
    told.extends(
        "worker",
        ENOUGH - 40 * MS,
        token(1),
        Some(ENOUGH + LEASE_DURATION),
    );
    assert_eq!(told.broken(), NOTHING);
}

#[test]
fn a_lease_ends_with_an_engine_that_dies_with_its_holder() {
    let mut told = overtaken();
    told.say("worker", 0, Event::Began { solo: true });
    assert_eq!(told.broken(), ["I2"], "it is not dead yet");
    let process = "worker".into();
    told.say("nemesis", ENOUGH, Event::Gone { process });
    assert_eq!(told.broken(), ["I2"], "it died after the next claim");
    told = Told::nothing();
    told.say("worker", 0, Event::Began { solo: true });
    told.sends(super::told::JOB, "created");
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.say(
        "nemesis",
        CLAIMED + MS,
        Event::Gone {
            process: "worker".into(),
        },
    );
    told.claims("another", CLAIMED + 2 * MS, 2, (0, 1));
    told.runs("another", CLAIMED + 3 * MS, 2);
    told.settles("another", CLAIMED + 4 * MS, 2, "completed", completed());
    told.ends_as(State::Completed, 2);
    assert_eq!(told.broken(), NOTHING);
}

#[test]
fn a_fence_that_does_not_grow_is_found() {
    let mut told = Told::a_crash();
    told.change(|event| match event {
        Event::ClaimOk { leases, .. } => leases[0].token.fence = 7,
        Event::SettleInvoke { ends, .. } => ends[0].token.fence = 7,
        _ => {}
    });
    assert_eq!(told.broken(), ["I2"]);
}

#[test]
fn an_attempt_that_is_used_twice_is_found() {
    let mut told = Told::a_crash();
    told.change(|event| {
        if let Event::ClaimOk { leases, .. } = event
            && leases[0].jobs[0].attempt == 2
        {
            (leases[0].jobs[0].attempt, leases[0].jobs[0].crashes) = (1, 0);
        }
    });
    assert!(
        told.broken().contains(&"I2".to_owned()),
        "{:?}",
        told.broken()
    );
}

#[test]
fn a_handler_that_begins_twice_under_one_lease_is_found() {
    let mut told = Told::one_job();
    told.runs("worker", CLAIMED + 3 * MS, 1);
    assert_eq!(told.broken(), ["I2"]);
}

#[test]
fn a_handler_that_begins_under_no_lease_of_its_job_is_found() {
    let mut told = Told::one_job();
    told.change(|event| {
        if let Event::Start { token, .. } = event {
            token.nonce += 1;
        }
    });
    assert_eq!(told.broken(), ["I2"]);
}

#[test]
fn a_lease_asked_for_again_stays_one_lease() {
    let mut told = Told::one_job();
    told.claims("worker", CLAIMED + MS, 1, (0, 0));
    assert_eq!(told.broken(), NOTHING);
}

#[test]
fn handlers_at_the_same_time_are_counted_and_no_break() {
    let crash = Told::a_crash();
    assert_eq!(crash.judged().tally.overlaps, 1);
    let mut dead = Told::a_crash();
    dead.say(
        "nemesis",
        CLAIMED + 9 * MS,
        Event::Gone {
            process: "worker".into(),
        },
    );
    assert_eq!(dead.judged().tally.overlaps, 0);
}

#[test]
fn a_stale_end_that_is_accepted_is_found() {
    let late = |answer| {
        let mut told = Told::a_crash();
        told.settles("worker", AFTER_CRASH + 2 * MS, 1, "completed", answer);
        told
    };
    let accepted = late(completed());
    assert_eq!(accepted.broken(), ["I3"]);
    assert_eq!(accepted.judged().tally.stale_accepted, 1);
    let refused = late(Some(Verdict::LeaseLost));
    assert_eq!(refused.broken(), NOTHING);
    assert_eq!(refused.judged().tally.stale_refused, 1);
}

/// The first claim of that number was taken by the power cut; the second one was not.
#[test]
fn a_stale_end_of_the_same_attempt_is_found_by_its_fence() {
    let mut told = forgotten();
    told.settles(
        "worker",
        CLAIMED + 20 * MS,
        1,
        "retry",
        Some(Verdict::LeaseLost),
    );
    let broken = told.broken();
    assert!(!broken.contains(&"I3".to_owned()), "{broken:?}");
    assert_eq!(told.judged().tally.stale_refused, 1);
    told.change(|event| {
        if let Event::SettleOk { verdicts, .. } = event {
            verdicts[0] = Verdict::Settled(State::Ready, None);
        }
    });
    let broken = told.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
}

#[test]
fn an_extended_old_lease_of_the_same_attempt_is_found_by_its_fence() {
    let prolonged = |until| {
        let mut told = forgotten();
        told.extends("worker", CLAIMED + 20 * MS, token(1), until);
        told.broken().contains(&"I3".to_owned())
    };
    assert!(prolonged(Some(CLAIMED + LEASE_DURATION)));
    assert!(!prolonged(None));
}

#[test]
fn an_attempt_that_is_settled_twice_is_found() {
    let again = |answer| {
        let mut told = Told::one_job();
        told.settles("worker", CLAIMED + 8 * MS, 1, "completed", answer);
        told
    };
    assert_eq!(again(completed()).broken(), ["I3"]);
    assert_eq!(again(Some(Verdict::Repeated)).broken(), NOTHING);
}

#[test]
fn a_job_that_was_settled_for_good_and_is_claimed_again_is_found() {
    let mut told = Told::one_job();
    told.claims("another", AFTER_CRASH, 2, (0, 1));
    assert_eq!(told.broken(), ["I3"]);
}

/// An engine knows an attempt again by its lease, whatever is settled: so that says nothing if
/// something else was.
#[test]
fn an_end_that_was_settled_before_settles_for_good_too() {
    let again = |outcome: &str, other: Option<&str>| {
        let mut told = Told::nothing();
        told.sends(super::told::JOB, "created");
        told.claims("worker", CLAIMED, 1, (0, 0));
        if let Some(other) = other {
            told.settles("worker", CLAIMED + 3 * MS, 1, other, None);
        }
        told.settles(
            "worker",
            CLAIMED + 5 * MS,
            1,
            outcome,
            Some(Verdict::Repeated),
        );
        told.claims("another", AFTER_CRASH, 2, (0, 1));
        told.broken().contains(&"I3".to_owned())
    };
    for outcome in ["completed", "dead"] {
        assert!(again(outcome, None), "{outcome}");
        assert!(again(outcome, Some(outcome)), "{outcome}");
        assert!(!again(outcome, Some("released")), "{outcome}");
    }
    assert!(!again("retry", None));
}

#[test]
fn a_lease_of_nobody_that_is_prolonged_is_found() {
    let forged = Token {
        nonce: 0,
        ..token(1)
    };
    let mut told = Told::one_job();
    told.extends(
        "another",
        CLAIMED + 3 * MS,
        forged,
        Some(CLAIMED + LEASE_DURATION),
    );
    assert_eq!(told.broken(), ["I3"]);
    assert_eq!(told.judged().tally.stale_accepted, 1);
    let mut refused = Told::one_job();
    refused.extends("another", CLAIMED + 3 * MS, forged, None);
    assert_eq!(refused.broken(), NOTHING);
}

#[test]
fn an_end_under_a_lease_of_nobody_that_is_accepted_is_found() {
    let ended = |answer| {
        let mut told = Told::one_job();
        told.settles("another", CLAIMED + 2 * MS, 1, "retry", answer);
        told.change(|event| {
            if let Event::SettleInvoke { ends, .. } = event
                && ends[0].outcome == "retry"
            {
                ends[0].token.nonce = 0;
            }
        });
        told
    };
    let accepted = Some(Verdict::Settled(State::Ready, None));
    let broken = ended(accepted).broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
    let refused = ended(Some(Verdict::LeaseLost));
    assert_eq!(refused.broken(), NOTHING);
    assert_eq!(refused.judged().tally.stale_refused, 1);
}

#[test]
fn an_old_lease_that_is_prolonged_after_a_later_claim_is_found() {
    let prolonged = |until| {
        let mut told = Told::a_crash();
        told.extends("worker", AFTER_CRASH + 2 * MS, token(1), until);
        told
    };
    assert_eq!(prolonged(Some(CLAIMED + LEASE_DURATION)).broken(), ["I3"]);
    assert_eq!(prolonged(None).broken(), NOTHING);
}

#[test]
fn a_claim_that_a_power_cut_may_have_taken_is_not_judged_a_loss_is() {
    let mut told = overtaken();
    told.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    assert_eq!(told.broken(), NOTHING);
    told.look.jobs.clear();
    told.forget(|event| matches!(event, Event::SettleInvoke { .. }));
    assert_eq!(told.broken(), ["I1"]);
}

/// The claim that a power cut took, and the same attempt claimed again.
fn forgotten() -> Told {
    let mut told = Told::nothing();
    told.sends(super::told::JOB, "created");
    told.claims("worker", CLAIMED, 1, (0, 0));
    told.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    told.claims("another", CLAIMED + 9 * MS, 1, (0, 0));
    told.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && *now > CLAIMED
        {
            leases[0].token = token(2);
        }
    });
    told
}

#[test]
fn an_attempt_lost_by_a_power_cut_may_come_again_with_a_later_fence() {
    let mut told = forgotten();
    told.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && *now > CLAIMED
        {
            leases[0].token.fence = 0;
        }
    });
    let broken = told.broken();
    assert!(broken.contains(&"I2".to_owned()), "{broken:?}");
    let broken = forgotten().broken();
    assert!(!broken.contains(&"I2".to_owned()), "{broken:?}");
}

#[test]
fn a_power_cut_excuses_nothing_that_lies_on_one_side_of_it() {
    let mut told = overtaken();
    told.fault("F04", ENOUGH - 2 * MS, ENOUGH - MS);
    assert_eq!(told.broken(), ["I2"], "both claims came before the cut");
    let mut told = Told::a_crash();
    told.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    told.settles("worker", AFTER_CRASH + 2 * MS, 1, "completed", completed());
    assert_eq!(told.broken(), ["I3"], "the claim after the cut stands");
}

#[test]
fn an_end_that_was_accepted_is_never_forgotten() {
    let mut told = Told::one_job();
    told.fault("F04", CLAIMED + 6 * MS, CLAIMED + 7 * MS);
    told.claims("another", AFTER_CRASH, 2, (0, 1));
    let broken = told.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
    let mut told = Told::one_job();
    told.fault("F04", CLAIMED + 6 * MS, CLAIMED + 7 * MS);
    told.settles("worker", CLAIMED + 8 * MS, 1, "completed", completed());
    let broken = told.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
}
