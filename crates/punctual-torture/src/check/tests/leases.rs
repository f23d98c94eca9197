//! Tests of the checker: leases.

use punctual::JobState;
use punctual::engine::Token;

use super::scenario::{
    AFTER_CRASH, CLAIMED, ENOUGH, LEASE_DURATION, MS, Scenario, completed, token,
};
use crate::event::{Event, Verdict};

const NOTHING: [&str; 0] = [];

/// The second claim comes before the first lease is over.
fn overtaken() -> Scenario {
    let mut scenario = Scenario::a_crash();
    scenario.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && leases[0].jobs[0].attempt == 1
        {
            leases[0].deadline = *now + 2 * LEASE_DURATION;
        }
    });
    scenario
}

#[test]
fn a_claim_before_the_end_of_the_lease_is_found() {
    assert_eq!(overtaken().broken(), ["I2"]);
}

#[test]
fn a_claim_before_the_end_of_a_prolonged_lease_is_found() {
    let mut scenario = Scenario::a_crash();
    let until = Some(AFTER_CRASH + 100 * MS);
    scenario.extends("worker", CLAIMED + 300 * MS, token(1), until);
    assert_eq!(scenario.broken(), ["I2"]);
}

#[test]
fn a_lease_that_was_handed_back_is_over() {
    let mut scenario = overtaken();
    scenario.settles(
        "worker",
        CLAIMED + 5 * MS,
        1,
        "released",
        Some(Verdict::Settled(JobState::Ready, None)),
    );
    assert_eq!(
        scenario.broken(),
        ["I7"],
        "it was no crash then; but its lease was over"
    );
}

#[test]
fn a_lease_whose_end_has_no_answer_may_be_over() {
    let ended = |at, answer| {
        let mut scenario = overtaken();
        scenario.settles("worker", at, 1, "retry", answer);
        scenario.broken()
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
            let mut scenario = overtaken();
            scenario.settles("worker", CLAIMED + 5 * MS, 1, outcome, answer);
            let broken = scenario.broken();
            assert!(broken.contains(&"I2".to_owned()), "{outcome}: {broken:?}");
        }
    }
}

/// The next claim was taken by a power cut; what was prolonged after that says nothing of it.
#[test]
fn a_lease_extended_after_the_next_claim_had_ended_before() {
    let mut scenario = Scenario::a_crash();
    // Its end was not answered, which would show that it was synced.
    scenario.forget(|event| matches!(event, Event::SettleOk { .. }));
    scenario.fault("F04", ENOUGH - 60 * MS, ENOUGH - 50 * MS);
    scenario.extends(
        "worker",
        ENOUGH - 40 * MS,
        token(1),
        Some(ENOUGH + LEASE_DURATION),
    );
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn a_lease_ends_with_an_engine_that_dies_with_its_holder() {
    let mut scenario = overtaken();
    scenario.say("worker", 0, Event::Began { solo: true });
    assert_eq!(scenario.broken(), ["I2"], "it is not dead yet");
    let process = "worker".into();
    scenario.say("nemesis", ENOUGH, Event::Gone { process });
    assert_eq!(scenario.broken(), ["I2"], "it died after the next claim");
    scenario = Scenario::nothing();
    scenario.say("worker", 0, Event::Began { solo: true });
    scenario.sends(super::scenario::JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.say(
        "nemesis",
        CLAIMED + MS,
        Event::Gone {
            process: "worker".into(),
        },
    );
    scenario.claims("another", CLAIMED + 2 * MS, 2, (0, 1));
    scenario.runs("another", CLAIMED + 3 * MS, 2);
    scenario.settles("another", CLAIMED + 4 * MS, 2, "completed", completed());
    scenario.ends_as(JobState::Completed, 2);
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn a_fence_that_does_not_grow_is_found() {
    let mut scenario = Scenario::a_crash();
    scenario.change(|event| match event {
        Event::ClaimOk { leases, .. } => leases[0].token.fence = 7,
        Event::SettleInvoke { ends, .. } => ends[0].token.fence = 7,
        _ => {}
    });
    assert_eq!(scenario.broken(), ["I2"]);
}

#[test]
fn an_attempt_that_is_used_twice_is_found() {
    let mut scenario = Scenario::a_crash();
    scenario.change(|event| {
        if let Event::ClaimOk { leases, .. } = event
            && leases[0].jobs[0].attempt == 2
        {
            (leases[0].jobs[0].attempt, leases[0].jobs[0].crashes) = (1, 0);
        }
    });
    assert!(
        scenario.broken().contains(&"I2".to_owned()),
        "{:?}",
        scenario.broken()
    );
}

#[test]
fn a_handler_that_begins_twice_under_one_lease_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.runs("worker", CLAIMED + 3 * MS, 1);
    assert_eq!(scenario.broken(), ["I2"]);
}

#[test]
fn a_handler_that_begins_under_no_lease_of_its_job_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| {
        if let Event::Start { token, .. } = event {
            token.nonce += 1;
        }
    });
    assert_eq!(scenario.broken(), ["I2"]);
}

#[test]
fn a_lease_asked_for_again_stays_one_lease() {
    let mut scenario = Scenario::one_job();
    scenario.claims("worker", CLAIMED + MS, 1, (0, 0));
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn handlers_at_the_same_time_are_counted_and_no_break() {
    let crash = Scenario::a_crash();
    assert_eq!(crash.judged().tally.overlaps, 1);
    let mut dead = Scenario::a_crash();
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
        let mut scenario = Scenario::a_crash();
        scenario.settles("worker", AFTER_CRASH + 2 * MS, 1, "completed", answer);
        scenario
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
    let mut scenario = forgotten();
    scenario.settles(
        "worker",
        CLAIMED + 20 * MS,
        1,
        "retry",
        Some(Verdict::LeaseLost),
    );
    let broken = scenario.broken();
    assert!(!broken.contains(&"I3".to_owned()), "{broken:?}");
    assert_eq!(scenario.judged().tally.stale_refused, 1);
    scenario.change(|event| {
        if let Event::SettleOk { verdicts, .. } = event {
            verdicts[0] = Verdict::Settled(JobState::Ready, None);
        }
    });
    let broken = scenario.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
}

#[test]
fn an_extended_old_lease_of_the_same_attempt_is_found_by_its_fence() {
    let prolonged = |until| {
        let mut scenario = forgotten();
        scenario.extends("worker", CLAIMED + 20 * MS, token(1), until);
        scenario.broken().contains(&"I3".to_owned())
    };
    assert!(prolonged(Some(CLAIMED + LEASE_DURATION)));
    assert!(!prolonged(None));
}

#[test]
fn an_attempt_that_is_settled_twice_is_found() {
    let again = |answer| {
        let mut scenario = Scenario::one_job();
        scenario.settles("worker", CLAIMED + 8 * MS, 1, "completed", answer);
        scenario
    };
    assert_eq!(again(completed()).broken(), ["I3"]);
    assert_eq!(again(Some(Verdict::Repeated)).broken(), NOTHING);
}

#[test]
fn a_job_that_was_settled_for_good_and_is_claimed_again_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.claims("another", AFTER_CRASH, 2, (0, 1));
    assert_eq!(scenario.broken(), ["I3"]);
}

/// An engine knows an attempt again by its lease, whatever is settled: so that says nothing if
/// something else was.
#[test]
fn an_end_that_was_settled_before_settles_for_good_too() {
    let again = |outcome: &str, other: Option<&str>| {
        let mut scenario = Scenario::nothing();
        scenario.sends(super::scenario::JOB, "created");
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        if let Some(other) = other {
            scenario.settles("worker", CLAIMED + 3 * MS, 1, other, None);
        }
        scenario.settles(
            "worker",
            CLAIMED + 5 * MS,
            1,
            outcome,
            Some(Verdict::Repeated),
        );
        scenario.claims("another", AFTER_CRASH, 2, (0, 1));
        scenario.broken().contains(&"I3".to_owned())
    };
    for outcome in ["completed", "dead"] {
        assert!(again(outcome, None), "{outcome}");
        assert!(again(outcome, Some(outcome)), "{outcome}");
        assert!(!again(outcome, Some("released")), "{outcome}");
    }
    assert!(!again("retry", None));
}

#[test]
fn a_lease_that_no_claim_got_and_that_is_extended_is_found() {
    let forged = Token::new(token(1).fence, 0);
    let mut scenario = Scenario::one_job();
    scenario.extends(
        "another",
        CLAIMED + 3 * MS,
        forged,
        Some(CLAIMED + LEASE_DURATION),
    );
    assert_eq!(scenario.broken(), ["I3"]);
    assert_eq!(scenario.judged().tally.stale_accepted, 1);
    let mut refused = Scenario::one_job();
    refused.extends("another", CLAIMED + 3 * MS, forged, None);
    assert_eq!(refused.broken(), NOTHING);
}

#[test]
fn an_accepted_end_under_a_lease_that_no_claim_got_is_found() {
    let ended = |answer| {
        let mut scenario = Scenario::one_job();
        scenario.settles("another", CLAIMED + 2 * MS, 1, "retry", answer);
        scenario.change(|event| {
            if let Event::SettleInvoke { ends, .. } = event
                && ends[0].outcome == "retry"
            {
                ends[0].token.nonce = 0;
            }
        });
        scenario
    };
    let accepted = Some(Verdict::Settled(JobState::Ready, None));
    let broken = ended(accepted).broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
    let refused = ended(Some(Verdict::LeaseLost));
    assert_eq!(refused.broken(), NOTHING);
    assert_eq!(refused.judged().tally.stale_refused, 1);
}

#[test]
fn an_old_lease_that_is_prolonged_after_a_later_claim_is_found() {
    let prolonged = |until| {
        let mut scenario = Scenario::a_crash();
        scenario.extends("worker", AFTER_CRASH + 2 * MS, token(1), until);
        scenario
    };
    assert_eq!(prolonged(Some(CLAIMED + LEASE_DURATION)).broken(), ["I3"]);
    assert_eq!(prolonged(None).broken(), NOTHING);
}

#[test]
fn a_claim_that_a_power_cut_may_have_taken_is_not_judged_a_loss_is() {
    let mut scenario = overtaken();
    scenario.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    assert_eq!(scenario.broken(), NOTHING);
    scenario.snapshot.jobs.clear();
    scenario.forget(|event| matches!(event, Event::SettleInvoke { .. }));
    assert_eq!(scenario.broken(), ["I1"]);
}

/// The claim that a power cut took, and the same attempt claimed again.
fn forgotten() -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(super::scenario::JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    scenario.claims("another", CLAIMED + 9 * MS, 1, (0, 0));
    scenario.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && *now > CLAIMED
        {
            leases[0].token = token(2);
        }
    });
    scenario
}

#[test]
fn an_attempt_lost_by_a_power_cut_may_come_again_with_a_later_fence() {
    let mut scenario = forgotten();
    scenario.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && *now > CLAIMED
        {
            leases[0].token.fence = 0;
        }
    });
    let broken = scenario.broken();
    assert!(broken.contains(&"I2".to_owned()), "{broken:?}");
    let broken = forgotten().broken();
    assert!(!broken.contains(&"I2".to_owned()), "{broken:?}");
}

#[test]
fn a_power_cut_excuses_nothing_that_lies_on_one_side_of_it() {
    let mut scenario = overtaken();
    scenario.fault("F04", ENOUGH - 2 * MS, ENOUGH - MS);
    assert_eq!(scenario.broken(), ["I2"], "both claims came before the cut");
    let mut scenario = Scenario::a_crash();
    scenario.fault("F04", CLAIMED + 2 * MS, CLAIMED + 3 * MS);
    scenario.settles("worker", AFTER_CRASH + 2 * MS, 1, "completed", completed());
    assert_eq!(scenario.broken(), ["I3"], "the claim after the cut stands");
}

#[test]
fn an_end_that_was_accepted_is_never_forgotten() {
    let mut scenario = Scenario::one_job();
    scenario.fault("F04", CLAIMED + 6 * MS, CLAIMED + 7 * MS);
    scenario.claims("another", AFTER_CRASH, 2, (0, 1));
    let broken = scenario.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
    let mut scenario = Scenario::one_job();
    scenario.fault("F04", CLAIMED + 6 * MS, CLAIMED + 7 * MS);
    scenario.settles("worker", CLAIMED + 8 * MS, 1, "completed", completed());
    let broken = scenario.broken();
    assert!(broken.contains(&"I3".to_owned()), "{broken:?}");
}
