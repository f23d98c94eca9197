//! Tests of the checker: power cuts.

use punctual::JobState;

use super::scenario::{
    AFTER_CRASH, CLAIMED, DUE, JOB, LEASE_DURATION, MS, OTHER, SENT, Scenario, completed, token,
};
use crate::event::{Event, Verdict};

/// When the power is cut, and what was claimed last before.
const CUT: u64 = AFTER_CRASH + 1_000 * MS;

/// Two claim the job, one after the other; the power is cut, and the end of the first one's attempt
/// is accepted.
fn overruled() -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(JOB, "created");
    scenario.claims("worker", CLAIMED, 1, (0, 0));
    scenario.claims("another", AFTER_CRASH, 2, (0, 1));
    scenario.fault("F04", CUT, CUT + 100 * MS);
    scenario.settles("worker", CUT + 200 * MS, 1, "completed", completed());
    scenario
}

/// Another job is sent, and answered so.
fn acknowledges(scenario: &mut Scenario, invoked: u64, answered: u64, verdict: &str) {
    let call = scenario.call();
    scenario.invokes(OTHER, call, invoked);
    scenario.answers(call, answered, verdict, None);
}

fn breaks(scenario: &Scenario, invariant: &str) -> bool {
    scenario.broken().contains(&invariant.to_owned())
}

/// The log is one: what was answered as synced has the claims before it with it.
#[test]
fn a_claim_synced_with_an_acknowledged_call_outlives_the_cut() {
    assert!(!breaks(&overruled(), "I3"), "the cut may have taken it");
    let after = |invoked, answered, verdict: &str| {
        let mut scenario = overruled();
        acknowledges(&mut scenario, invoked, answered, verdict);
        breaks(&scenario, "I3")
    };
    let (claimed, soon) = (AFTER_CRASH, AFTER_CRASH + 9 * MS);
    assert!(after(claimed + 1, soon, "created"));
    assert!(after(claimed + 1, CUT - 1, "replaced"));
    let same = claimed + MS;
    assert!(!after(claimed, same, "created"), "it may have come before");
    assert!(!after(claimed + 1, CUT, "created"), "nor been synced");
    assert!(!after(claimed + 1, soon, "duplicate"), "it changed nothing");
    assert!(!after(claimed + 1, soon, "merged"), "it changed nothing");
}

#[test]
fn a_claim_that_was_synced_with_an_end_or_a_cancel_is_not_forgotten() {
    let ended = |answer| {
        let mut scenario = overruled();
        scenario.settles("another", AFTER_CRASH + 5 * MS, 2, "retry", answer);
        breaks(&scenario, "I3")
    };
    assert!(ended(Some(Verdict::Settled(JobState::Ready, None))));
    assert!(!ended(None));
    let cancelled = |verdict: &str| {
        let mut scenario = overruled();
        let call = scenario.call();
        scenario.cancels(call, AFTER_CRASH + 5 * MS, verdict);
        breaks(&scenario, "I3")
    };
    assert!(cancelled("cancel_requested"));
    assert!(!cancelled("wrong_state"));
}

/// The same attempt under another lease, at once.
#[test]
fn a_lease_that_was_synced_before_the_cut_lasts_over_it() {
    let again = |acknowledged: bool| {
        let mut scenario = Scenario::nothing();
        scenario.sends(JOB, "created");
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.fault("F04", CLAIMED + 20 * MS, CLAIMED + 30 * MS);
        scenario.claims("another", CLAIMED + 90 * MS, 1, (0, 0));
        scenario.change(|event| {
            if let Event::ClaimOk { now, leases, .. } = event
                && *now > CLAIMED
            {
                leases[0].token = token(2);
            }
        });
        if acknowledged {
            acknowledges(&mut scenario, CLAIMED + MS, CLAIMED + 5 * MS, "created");
        }
        breaks(&scenario, "I2")
    };
    assert!(!again(false));
    assert!(again(true));
}

/// A worker is stopped before it reads the answer to a claim, which was sent at a stamp; the power
/// is cut, which takes the claim and the job, of which nothing was acknowledged; it is sent again,
/// due later, and claimed by another.
fn read_late(sent: u64) -> Scenario {
    let (cut, over) = (CLAIMED + 20 * MS, CLAIMED + 40 * MS);
    let mut scenario = Scenario::nothing();
    let call = scenario.call();
    scenario.invokes(JOB, call, SENT);
    scenario.claims("worker", over + 60 * MS, 1, (0, 0));
    scenario.change(|event| {
        if let Event::ClaimOk {
            invoked,
            now,
            leases,
            ..
        } = event
        {
            (*invoked, *now) = (sent, CLAIMED);
            leases[0].deadline = CLAIMED + LEASE_DURATION;
            leases[0].jobs[0].started = Some(CLAIMED);
        }
    });
    scenario.fault("F04", cut, over);
    let process = "gateway.0".into();
    scenario.say("nemesis", GONE, Event::Gone { process });
    let call = scenario.call();
    scenario.invokes(JOB, call, over + MS);
    scenario.answers(call, over + 3 * MS, "created", None);
    let again = over + 30 * MS;
    scenario.claims("another", again, 1, (0, 0));
    scenario.runs("another", again + MS, 1);
    scenario.settles("another", again + 5 * MS, 1, "completed", completed());
    scenario.ends_as(JobState::Completed, 1);
    let due = DUE + 50 * MS;
    scenario.change(|event| match event {
        Event::ClaimOk { now, leases, .. } if *now > CLAIMED => {
            (leases[0].token, leases[0].jobs[0].due) = (token(2), due);
        }
        Event::Start {
            token: of, due: at, ..
        } => (*of, *at) = (token(2), due),
        Event::SettleInvoke { ends, .. } => ends[0].token = token(2),
        Event::EnqueueOk { receipts, .. } => receipts[0].due = due,
        _ => {}
    });
    scenario
}

/// When the process that has the engine was gone.
const GONE: u64 = CLAIMED + 30 * MS;

#[test]
fn a_claim_whose_answer_is_read_after_the_cut_may_have_come_before_it() {
    let broken = |sent| read_late(sent).broken();
    assert_eq!(broken(CLAIMED - MS), Vec::<String>::new());
    assert_eq!(broken(GONE), Vec::<String>::new());
    assert_eq!(broken(GONE + 1), ["I2", "I5"], "there was no engine to ask");
}

#[test]
fn a_claim_read_late_and_synced_before_the_cut_is_kept() {
    let broken = |later| {
        let mut scenario = read_late(CLAIMED - MS);
        acknowledges(&mut scenario, CLAIMED, CLAIMED + MS + later, "created");
        breaks(&scenario, "I2")
    };
    assert!(!broken(0), "it may have come before");
    assert!(broken(1));
}

/// Two cuts: what was synced between them says nothing of what the first one may have taken.
#[test]
fn what_is_acknowledged_after_a_cut_proves_nothing_of_claims_before_it() {
    let mut scenario = overruled();
    acknowledges(&mut scenario, CUT + 110 * MS, CUT + 120 * MS, "created");
    scenario.fault("F04", CUT + 130 * MS, CUT + 140 * MS);
    assert!(!breaks(&scenario, "I3"));
}
