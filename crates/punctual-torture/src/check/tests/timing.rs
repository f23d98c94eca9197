//! Tests of the checker: dues and clocks.

use punctual::JobState;

use super::scenario::{CLAIMED, DUE, ENOUGH, JOB, MS, SENT, Scenario, completed};
use crate::event::{Event, Verdict};
use crate::plan::Kind;

const NOTHING: [&str; 0] = [];

#[test]
fn a_due_before_the_delay_that_was_asked_for_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| match event {
        Event::EnqueueOk { receipts, .. } => receipts[0].due -= 1,
        Event::ClaimOk { leases, .. } => leases[0].jobs[0].due -= 1,
        _ => {}
    });
    assert_eq!(scenario.broken(), ["I5"]);
}

#[test]
fn a_due_that_is_not_the_one_of_the_receipt_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| {
        if let Event::ClaimOk { leases, .. } = event {
            leases[0].jobs[0].due += 1;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
}

#[test]
fn a_wait_that_ran_out_and_a_fault_that_was_never_over_are_found() {
    let mut scenario = Scenario::one_job();
    let what = "worker-1 to end".to_owned();
    scenario.say("nemesis", ENOUGH, Event::Stuck { what });
    assert_eq!(scenario.broken(), ["W"]);
    let mut scenario = Scenario::one_job();
    scenario.fault("F02", CLAIMED - 9 * MS, CLAIMED - 5 * MS);
    scenario.forget(|event| matches!(event, Event::Healed { .. }));
    assert_eq!(scenario.broken(), ["W"]);
}

#[test]
fn a_claim_before_the_due_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| {
        if let Event::ClaimOk { now, .. } = event {
            *now = DUE - 1;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
}

#[test]
fn a_claim_before_a_retry_is_due_is_found() {
    let mut scenario = Scenario::a_retry();
    scenario.change(|event| {
        if let Event::SettleOk { verdicts, .. } = event
            && let Verdict::Settled(_, Some(due)) = &mut verdicts[0]
        {
            *due += 2 * MS;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
}

#[test]
fn a_retry_or_a_snooze_that_is_due_before_its_span_is_over_is_found() {
    // It is answered 6 ms after the claim, and due again a second after that.
    let span = (1_000 - 6) * MS;
    let asked = |outcome: &str, after: Option<u64>, of_the_job: Option<u64>| {
        let mut scenario = Scenario::a_retry();
        scenario.change(|event| match event {
            Event::SettleInvoke { ends, .. } if ends[0].attempt == 1 => {
                (ends[0].outcome, ends[0].after) = (outcome.into(), after);
            }
            Event::EnqueueInvoke { jobs, .. } => jobs[0].backoff = of_the_job,
            _ => {}
        });
        scenario.broken().contains(&"I5".to_owned())
    };
    for outcome in ["retry", "snooze"] {
        assert!(!asked(outcome, Some(span), None), "{outcome}");
        assert!(asked(outcome, Some(span + 1), None), "{outcome}");
    }
    assert!(!asked("retry", None, Some(span)));
    assert!(asked("retry", None, Some(span + 1)));
    assert!(
        !asked("retry", Some(span), Some(span + 1)),
        "its own is asked for"
    );
    assert!(!asked("released", None, Some(span + 1)), "its due stays");
}

#[test]
fn a_handler_that_starts_before_the_due_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| {
        if let Event::Start { wall, .. } = event {
            *wall = DUE - 1;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
    assert_eq!(scenario.judged().tally.early, 1);
}

/// The machine's clock reads less than the engine's, which a fault set.
#[test]
fn with_wrong_clocks_only_the_engines_is_asked() {
    let scenario = |id: &str| {
        let mut scenario = Scenario::one_job();
        scenario.fault(id, CLAIMED - MS, CLAIMED);
        scenario.change(|event| match event {
            Event::Start { wall, .. } => *wall = 0,
            Event::EnqueueInvoke { wall, .. } => *wall += 9 * MS,
            _ => {}
        });
        scenario
    };
    assert_eq!(scenario("F02").broken(), ["I5"]);
    assert_eq!(scenario("F14").broken(), NOTHING);
    let mut early = scenario("F14");
    early.change(|event| {
        if let Event::EnqueueOk { now, .. } = event {
            *now = DUE - 1;
        }
    });
    assert_eq!(early.broken(), ["I5"]);
}

/// The job is sent and not answered, and claimed and run at an instant, which is said to be its
/// due.
fn unanswered(at: u64) -> Scenario {
    let mut scenario = Scenario::nothing();
    let call = scenario.call();
    scenario.invokes(JOB, call, SENT);
    scenario.claims("worker", at, 1, (0, 0));
    scenario.runs("worker", at, 1);
    scenario.settles("worker", at + 5 * MS, 1, "completed", completed());
    scenario.ends_as(JobState::Completed, 1);
    scenario.change(|event| match event {
        Event::ClaimOk { leases, .. } => leases[0].jobs[0].due = at,
        Event::Start { due, .. } => *due = at,
        _ => {}
    });
    scenario
}

#[test]
fn a_job_that_was_not_answered_and_runs_before_its_delay_is_over_is_found() {
    let early = unanswered(DUE - 1);
    assert_eq!(early.broken(), ["I5"]);
    assert_eq!(early.judged().tally.early, 1);
    assert_eq!(unanswered(DUE).broken(), NOTHING);
}

/// The engine's time goes on from what it answered last before the job was sent, whatever that
/// reads.
#[test]
fn with_wrong_clocks_an_unanswered_job_waits_in_engine_time() {
    let scenario = |due: u64| {
        let mut scenario = unanswered(DUE + 90 * MS);
        scenario.fault("F14", ENOUGH - 9 * MS, ENOUGH - 8 * MS);
        scenario.answers_others(SENT - MS, SENT);
        scenario.change(|event| match event {
            Event::ClaimOk { now, leases, .. } if leases.is_empty() => *now = SENT + 90 * MS,
            Event::ClaimOk { now, leases, .. } => (*now, leases[0].jobs[0].due) = (due, due),
            _ => {}
        });
        scenario.broken()
    };
    assert_eq!(scenario(DUE + 90 * MS - 1), ["I5"]);
    assert_eq!(scenario(DUE + 90 * MS), NOTHING);
}

#[test]
fn of_an_engine_on_another_machine_only_its_own_time_is_asked() {
    let mut scenario = Scenario::one_job();
    scenario.change(|event| {
        if let Event::Start { wall, .. } = event {
            *wall = 0;
        }
    });
    assert_eq!(scenario.broken(), ["I5"]);
    scenario.is_elsewhere = true;
    assert_eq!(scenario.broken(), NOTHING);
    assert_eq!(scenario.judged().tally.early, 0);
}

/// An engine at an address whose clock is off by so many microseconds, either way: all that it says
/// is in its time.
fn at_a_foreign_clock(off: i64) -> Scenario {
    let mut scenario = Scenario::a_retry();
    scenario.is_elsewhere = true;
    let theirs = |at: &mut u64| *at = at.saturating_add_signed(off);
    scenario.change(|event| match event {
        Event::EnqueueOk { now, receipts, .. } => {
            theirs(now);
            theirs(&mut receipts[0].due);
        }
        Event::ClaimOk { now, leases, .. } => {
            theirs(now);
            theirs(&mut leases[0].deadline);
            theirs(&mut leases[0].jobs[0].due);
        }
        Event::SettleOk { now, verdicts, .. } => {
            theirs(now);
            if let Verdict::Settled(_, Some(due)) = &mut verdicts[0] {
                theirs(due);
            }
        }
        Event::Start { due, .. } => theirs(due),
        _ => {}
    });
    scenario
}

#[test]
fn an_engine_whose_clock_is_wrong_is_judged_by_that_clock() {
    for off in [3_600_000 * MS as i64, -3] {
        let scenario = || at_a_foreign_clock(off);
        assert_eq!(scenario().broken(), NOTHING, "{off}");
        let lateness = scenario().judged().lateness.0;
        assert!(lateness.is_empty(), "it is unknown how late it was");
        let mut here = scenario();
        here.is_elsewhere = false;
        assert_eq!(here.broken(), ["I5"], "{off}: as if it kept our time");
        let broken = |how: fn(&mut Event)| {
            let mut scenario = scenario();
            scenario.change(how);
            scenario.broken()
        };
        let claimed_early = broken(|event| {
            if let Event::ClaimOk { now, leases, .. } = event
                && leases[0].jobs[0].attempt == 1
            {
                *now = leases[0].jobs[0].due - 1;
            }
        });
        assert!(
            claimed_early.contains(&"I5".into()),
            "{off}: {claimed_early:?}"
        );
        let due_early = broken(|event| {
            if let Event::EnqueueOk { now, .. } = event {
                *now += 2 * MS;
            }
        });
        assert_eq!(
            due_early,
            ["I5"],
            "{off}: less than the delay after the step"
        );
        let retried_early = broken(|event| {
            if let Event::SettleOk { verdicts, .. } = event
                && let Verdict::Settled(_, Some(due)) = &mut verdicts[0]
            {
                *due += 2 * MS;
            }
        });
        assert_eq!(retried_early, ["I5"], "{off}");
    }
}

/// Which step answered a job for the first time is unknown once it is sent again.
#[test]
fn a_duplicate_at_a_foreign_clock_is_not_held_to_the_time_of_its_answer() {
    let mut scenario = Scenario::one_job();
    scenario.is_elsewhere = true;
    scenario.change(|event| {
        if let Event::EnqueueOk { now, receipts, .. } = event {
            *now += 2 * MS;
            receipts[0].verdict = "duplicate".into();
        }
    });
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn jobs_that_could_not_be_deleted_are_named_and_no_others_excused() {
    let mut scenario = Scenario::one_job();
    scenario.snapshot.uncleared = Some("it went away".into());
    assert_eq!(scenario.broken(), ["W"]);
    assert!(!scenario.judged().is_cleared);
}

/// A job is sent early, and claimed first so long after a fault has healed.
fn claimed_after(heals: u64, claimed: u64) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(JOB, "created");
    scenario.fault("F02", heals - 10 * MS, heals);
    scenario.claims("worker", claimed, 1, (0, 0));
    scenario.ends_as(punctual::JobState::Dead, 1);
    scenario
}

#[test]
fn a_first_claim_more_than_five_seconds_after_a_fault_is_found() {
    let heals = CLAIMED;
    assert_eq!(claimed_after(heals, heals + 4_999 * MS).broken(), NOTHING);
    assert_eq!(claimed_after(heals, heals + 5_001 * MS).broken(), ["I6"]);
}

#[test]
fn time_in_which_another_fault_holds_is_not_counted() {
    let heals = CLAIMED;
    let mut scenario = claimed_after(heals, heals + 7_000 * MS);
    scenario.fault("F12", heals + 1_000 * MS, heals + 3_500 * MS);
    assert_eq!(scenario.broken(), NOTHING);
    let mut briefly = claimed_after(heals, heals + 7_000 * MS);
    briefly.fault("F12", heals + 1_000 * MS, heals + 1_500 * MS);
    assert_eq!(briefly.broken(), ["I6"]);
}

#[test]
fn a_stopped_worker_or_a_rogue_client_keeps_no_other_from_claiming() {
    let heals = CLAIMED;
    for id in ["F01", "F08", "F27", "F28", "F31"] {
        let mut scenario = claimed_after(heals, heals + 7_000 * MS);
        scenario.fault(id, heals + 1_000 * MS, heals + 4_000 * MS);
        assert_eq!(scenario.broken(), ["I6"], "{id}");
    }
}

#[test]
fn of_what_is_hit_only_what_keeps_all_from_claiming_is_not_counted() {
    let heals = CLAIMED;
    let beside = |id: &str, what: &str| {
        let mut scenario = claimed_after(heals, heals + 7_000 * MS);
        scenario.fault(id, heals + 1_000 * MS, heals + 4_000 * MS);
        scenario.change(|event| {
            if let Event::Fault {
                id: of, what: says, ..
            } = event
                && of.as_str() == id
            {
                *says = what.into();
            }
        });
        scenario.broken()
    };
    for one in [
        "F01", "F08", "F11", "F14", "F16", "F27", "F28", "F31", "F36",
    ] {
        assert_eq!(beside(one, "a fault"), ["I6"], "{one}");
    }
    for all in ["F04", "F06", "F07", "F09", "F10", "F12", "F20", "F29"] {
        assert_eq!(beside(all, "a fault"), NOTHING, "{all}");
    }
    assert_eq!(beside("F11", Kind::NoReplies.what()), NOTHING);
    assert_eq!(beside("F11", Kind::CutReply.what()), ["I6"]);
    assert_eq!(beside("F14", Kind::ClockBack.what()), NOTHING);
    assert_eq!(beside("F14", Kind::ClientClock.what()), ["I6"]);
}

#[test]
fn a_claim_of_a_latecomer_is_no_sign_that_workers_live() {
    let heals = CLAIMED;
    let claimed = |by_latecomer: bool| {
        let mut scenario = claimed_after(heals, heals + 7_000 * MS);
        scenario.claims("another", heals + 1_000 * MS, 2, (0, 0));
        if by_latecomer {
            let token = super::scenario::token(2);
            scenario.say("another", heals + 1_001 * MS, Event::Late { token });
        }
        scenario.broken().contains(&"I6".to_owned())
    };
    assert!(!claimed(false));
    assert!(claimed(true));
}

#[test]
fn the_last_fault_of_a_round_is_judged_by_claims_after_the_last_send() {
    let heals = ENOUGH - MS;
    assert_eq!(claimed_after(heals, heals + 9_999 * MS).broken(), NOTHING);
    assert_eq!(claimed_after(heals, heals + 10_001 * MS).broken(), ["I6"]);
}

#[test]
fn a_fault_after_which_nothing_is_claimed_any_more_is_found() {
    let mut scenario = claimed_after(CLAIMED, CLAIMED + MS);
    let heals = ENOUGH - 20_000 * MS;
    scenario.fault("F02", heals - MS, heals);
    assert_eq!(scenario.broken(), ["I6"]);
    let mut late = claimed_after(CLAIMED, CLAIMED + MS);
    late.fault("F02", ENOUGH - 2 * MS, ENOUGH - MS);
    assert_eq!(late.broken(), NOTHING, "there was no time left to see it");
}

/// A power cut before the first sync takes all there was.
#[test]
fn a_caller_that_learns_of_lost_data_has_nothing_to_claim() {
    let heals = CLAIMED;
    let scenario = |after: u64| {
        let mut scenario = claimed_after(heals, heals + 20_000 * MS);
        let (call, error) = (scenario.call(), "gone (engine_data_missing)".to_owned());
        scenario.say(
            "producer",
            heals + after,
            Event::EnqueueUnknown { call, error },
        );
        scenario.broken()
    };
    assert_eq!(scenario(4_999 * MS), NOTHING);
    assert_eq!(scenario(5_001 * MS), ["I6"]);
}
