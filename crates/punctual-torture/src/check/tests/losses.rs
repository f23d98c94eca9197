//! Tests of the checker: claims that may be lost.

use punctual::JobState;

use super::scenario::{
    AFTER_CRASH, CLAIMED, DUE, ENOUGH, LEASE_DURATION, MS, OTHER, Scenario, completed, token,
};
use crate::event::{Event, Verdict};
use crate::sink::Rows;

const NOTHING: [&str; 0] = [];

/// The job is claimed, that is lost by a kill, and it is claimed again: as the first attempt, for
/// all that the engine knows, and under another nonce. Its end is settled by the second.
fn forgotten() -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.may_lose = true;
    scenario.sends(super::scenario::JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.runs("worker", CLAIMED + MS, 1);
    scenario.fault("F02", CLAIMED + 50 * MS, CLAIMED + 90 * MS);
    scenario.claims("another", AGAIN, 1, (0, 0));
    scenario.runs("another", AGAIN + MS, 1);
    // Another nonce for the second.
    scenario.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && *now == AGAIN
        {
            leases[0].token.nonce = SECOND;
        }
    });
    scenario.ends_as(JobState::Completed, 1);
    scenario
}

const AGAIN: u64 = CLAIMED + 200 * MS;
const SECOND: u64 = 777;

/// The end of the attempt is settled under a nonce, and answered so.
fn ends(scenario: &mut Scenario, at: u64, nonce: u64, answer: Option<Verdict>) {
    scenario.settles("worker", at, 1, "completed", answer);
    scenario.change(|event| {
        if let Event::SettleInvoke { ends, .. } = event
            && ends[0].token.nonce == token(1).nonce
        {
            ends[0].token.nonce = nonce;
        }
    });
}

#[test]
fn a_lost_claim_may_come_again_where_losses_are_admitted() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 5 * MS, SECOND, completed());
    assert_eq!(scenario.broken(), NOTHING);
    scenario.may_lose = false;
    let broken = scenario.broken();
    assert!(broken.contains(&"I2".to_owned()), "{broken:?}");
}

#[test]
fn a_settle_under_a_lease_from_before_a_loss_is_found() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 5 * MS, token(1).nonce, completed());
    assert_eq!(scenario.broken(), ["I3"]);
    assert_eq!(scenario.judged().tally.stale_accepted, 1);
    let mut refused = forgotten();
    let lost = Some(Verdict::LeaseLost);
    ends(&mut refused, AGAIN + 5 * MS, token(1).nonce, lost);
    assert_eq!(refused.broken(), NOTHING);
    assert_eq!(refused.judged().tally.stale_refused, 1);
    // The second claim may be lost by another kill, and the first one is back.
    let mut back = forgotten();
    back.fault("F02", AGAIN + 2 * MS, AGAIN + 3 * MS);
    back.answers_others(AGAIN + 20 * MS, AGAIN + 30 * MS);
    ends(&mut back, AGAIN + 5 * MS, token(1).nonce, completed());
    assert_eq!(back.broken(), NOTHING);
    // Nothing is lost by one of a worker.
    let mut kept = forgotten();
    kept.fault("F01", AGAIN + 2 * MS, AGAIN + 3 * MS);
    kept.answers_others(AGAIN + 20 * MS, AGAIN + 30 * MS);
    ends(&mut kept, AGAIN + 5 * MS, token(1).nonce, completed());
    assert_eq!(kept.broken(), ["I3"]);
}

#[test]
fn an_extension_of_a_lease_from_before_a_loss_is_found() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 50 * MS, SECOND, completed());
    assert_eq!(scenario.broken(), NOTHING);
    scenario.extends(
        "worker",
        AGAIN + 9 * MS,
        token(1),
        Some(AGAIN + LEASE_DURATION),
    );
    assert_eq!(scenario.broken(), ["I3"]);
}

#[test]
fn a_forged_end_is_found_over_a_loss_too() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 5 * MS, 31, completed());
    assert_eq!(scenario.broken(), ["I3"]);
}

#[test]
fn a_job_that_was_claimed_after_the_last_loss_is_judged_as_anywhere() {
    let mut scenario = Scenario::a_crash();
    scenario.may_lose = true;
    scenario.fault("F02", DUE, DUE + MS);
    assert_eq!(scenario.broken(), NOTHING);
    let mut early = scenario.clone();
    early.change(|event| {
        if let Event::ClaimOk { now, leases, .. } = event
            && leases[0].jobs[0].attempt == 1
        {
            leases[0].deadline = *now + 2 * LEASE_DURATION;
        }
    });
    assert_eq!(early.broken(), ["I2"]);
    let mut miscounted = scenario.clone();
    miscounted.change(|event| {
        if let Event::ClaimOk { leases, .. } = event {
            leases[0].jobs[0].failures = 1;
        }
    });
    assert!(miscounted.broken().contains(&"I7".to_owned()));
    let mut stale = scenario;
    stale.settles("worker", AFTER_CRASH + 9 * MS, 1, "retry", completed());
    assert_eq!(stale.broken(), ["I3"]);
}

#[test]
fn nothing_comes_early_whatever_was_lost() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 5 * MS, SECOND, completed());
    let mut claimed = scenario.clone();
    claimed.change(|event| {
        if let Event::ClaimOk { now, .. } = event {
            *now = DUE - 1;
        }
    });
    assert!(claimed.broken().contains(&"I5".to_owned()));
    scenario.change(|event| {
        if let Event::Start { wall, .. } = event {
            *wall = DUE - 1;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
}

/// The end that delayed it is lost, and its lease runs out.
#[test]
fn a_retry_that_was_lost_does_not_put_a_job_off() {
    let scenario = |may_lose| {
        let mut scenario = Scenario::a_retry();
        scenario.may_lose = may_lose;
        scenario.fault("F02", CLAIMED + 10 * MS, CLAIMED + 20 * MS);
        scenario.change(|event| {
            if let Event::SettleOk { verdicts, .. } = event
                && let Verdict::Settled(_, Some(due)) = &mut verdicts[0]
            {
                *due += 500 * MS;
            }
        });
        scenario.broken()
    };
    assert_eq!(scenario(true), NOTHING);
    assert_eq!(scenario(false), ["I5"]);
}

#[test]
fn a_silence_after_a_fault_is_found_where_something_may_be_lost_too() {
    let mut scenario = Scenario::nothing();
    scenario.may_lose = true;
    scenario.sends(super::scenario::JOB, "created");
    scenario.fault("F02", CLAIMED - 10 * MS, CLAIMED);
    scenario.claims("worker", CLAIMED + 5_001 * MS, 1, (0, 0));
    scenario.ends_as(JobState::Dead, 1);
    assert_eq!(scenario.broken(), ["I6"]);
}

/// It was deleted after the round before, and that was lost.
#[test]
fn a_job_of_the_round_before_may_be_back() {
    let scenario = |may_lose| {
        let mut scenario = Scenario::one_job();
        scenario.may_lose = may_lose;
        scenario.snapshot.rogue_clients = vec!["another".into()];
        let (effects, business) = (1, 1);
        scenario
            .snapshot
            .rows
            .insert(OTHER, Rows { effects, business });
        scenario.broken()
    };
    assert_eq!(scenario(true), NOTHING);
    assert_eq!(scenario(false), ["I4", "I8"]);
}

#[test]
fn what_is_lost_is_counted_by_the_fault_that_may_have_taken_it() {
    let mut scenario = Scenario::nothing();
    scenario.may_lose = true;
    scenario.sends(super::scenario::JOB, "created");
    scenario.fault("F12", DUE, DUE + MS);
    scenario.fault("F21", DUE + 10 * MS, DUE + 20 * MS);
    scenario.fault("F02", ENOUGH - 9 * MS, ENOUGH - 8 * MS);
    let tally = scenario.judged().tally;
    assert_eq!(tally.lost, 1);
    assert_eq!(tally.lost_by, [("F21".to_owned(), 1)].into());
}

/// Sentinels of a slow machine may take a master for gone that no fault had touched.
#[test]
fn a_failover_without_a_fault_may_lose_the_same() {
    let mut scenario = forgotten();
    ends(&mut scenario, AGAIN + 5 * MS, SECOND, completed());
    scenario.forget(|event| matches!(event, Event::Fault { .. } | Event::Healed { .. }));
    assert!(scenario.broken().contains(&"I2".to_owned()));
    let since = CLAIMED + 20 * MS;
    scenario.say("nemesis", CLAIMED + 90 * MS, Event::FailedOver { since });
    assert_eq!(scenario.broken(), NOTHING);
    assert!(scenario.judged().tally.faults.is_empty());
    scenario.may_lose = false;
    assert!(scenario.broken().contains(&"I2".to_owned()));
}
