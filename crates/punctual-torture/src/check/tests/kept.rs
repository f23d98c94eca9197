//! Tests of the checker: acknowledged jobs are kept.

use punctual::JobState;

use super::scenario::{CLAIMED, JOB, MS, OTHER, SENT, Scenario};
use crate::event::Event;
use crate::sink::Rows;
use crate::snapshot::Seen;

const NOTHING: [&str; 0] = [];

#[test]
fn whole_histories_break_nothing_and_are_read_by_each_invariant() {
    for scenario in [
        Scenario::one_job(),
        Scenario::a_retry(),
        Scenario::a_crash(),
    ] {
        assert_eq!(scenario.broken(), NOTHING);
        for invariant in ["I1", "I3", "I4", "I5", "I7", "I8", "I10"] {
            assert!(
                scenario.checked(invariant) > 0,
                "{invariant} checked nothing"
            );
        }
    }
    assert!(Scenario::a_crash().checked("I2") > 0);
    let mut scenario = Scenario::one_job();
    scenario.fault("F02", CLAIMED - 9 * MS, CLAIMED - 5 * MS);
    assert!(scenario.checked("I6") > 0 && scenario.broken().is_empty());
}

#[test]
fn an_acknowledged_job_that_is_gone_is_lost() {
    let scenario = Scenario::unsettled();
    assert_eq!(scenario.broken(), ["I1"]);
    let tally = scenario.judged().tally;
    assert_eq!((tally.acknowledged, tally.lost), (1, 1));
}

/// It may have taken effect, and then its tombstone has lapsed by the snapshot.
#[test]
fn one_whose_end_was_not_answered_two_minutes_before_the_end_may_be_gone() {
    let settled = |ended: u64| {
        let mut scenario = Scenario::unsettled();
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.settles("worker", CLAIMED + 5 * MS, 1, "completed", None);
        scenario.say("nemesis", ended, Event::Drained);
        scenario.broken()
    };
    let lapsed = CLAIMED + 5 * MS + 120_000 * MS;
    assert_eq!(settled(lapsed), NOTHING);
    assert_eq!(settled(lapsed - MS), ["I1"]);
}

#[test]
fn an_acknowledged_job_that_waits_at_the_end_is_lost() {
    for state in [
        JobState::Held,
        JobState::Scheduled,
        JobState::Ready,
        JobState::Active,
    ] {
        let mut scenario = Scenario::unsettled();
        scenario.ends_as(state, 1);
        assert_eq!(scenario.broken(), ["I1"], "{state}");
    }
}

#[test]
fn an_acknowledged_job_that_was_cancelled_or_buried_is_not_lost() {
    for state in [JobState::Cancelled, JobState::Dead] {
        let mut scenario = Scenario::unsettled();
        scenario.ends_as(state, 1);
        assert_eq!(scenario.broken(), NOTHING, "{state}");
    }
}

#[test]
fn a_job_that_died_or_was_cancelled_for_no_reason_is_found() {
    for state in [JobState::Dead, JobState::Cancelled] {
        let mut scenario = Scenario::unsettled();
        scenario.is_seen(JOB, state);
        assert_eq!(scenario.broken(), ["I1"], "{state}");
    }
}

#[test]
fn what_comes_out_as_something_else_than_went_in_is_found() {
    let scenario = |claimed: u64, begun: u64| {
        let mut scenario = Scenario::one_job();
        scenario.change(|event| match event {
            Event::EnqueueInvoke { jobs, .. } => jobs[0].content = Some(7),
            Event::ClaimOk { leases, .. } => leases[0].jobs[0].content = Some(claimed),
            Event::Start { content, .. } => *content = Some(begun),
            _ => {}
        });
        scenario.broken()
    };
    assert_eq!(scenario(7, 7), NOTHING);
    assert_eq!(scenario(8, 7), ["I1"]);
    assert_eq!(scenario(7, 8), ["I1"]);
}

#[test]
fn an_answer_for_fewer_than_were_asked_about_is_found() {
    let mut jobs = Scenario::one_job();
    jobs.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event {
            let mut other = jobs[0].clone();
            other.id = OTHER;
            jobs.push(other);
        }
    });
    assert_eq!(jobs.broken(), ["I1"]);
    let mut ends = Scenario::one_job();
    ends.change(|event| {
        if let Event::SettleInvoke { ends, .. } = event {
            ends.push(ends[0].clone());
        }
    });
    assert_eq!(ends.broken(), ["I1"]);
    let mut more = Scenario::one_job();
    let call = more.call();
    more.cancels(call, CLAIMED + 20 * MS, "wrong_state");
    assert_eq!(more.broken(), NOTHING);
    more.change(|event| {
        if let Event::CancelOk { verdicts, .. } = event {
            verdicts.push("done".into());
        }
    });
    assert_eq!(more.broken(), ["I1"]);
    let mut scenario = Scenario::one_job();
    let what = "two leases were asked about".to_owned();
    scenario.say("worker", CLAIMED, Event::Misfit { what });
    assert_eq!(scenario.broken(), ["I1"]);
}

/// Its tombstone would last for two minutes.
#[test]
fn a_completed_job_that_is_gone_too_early_or_has_no_effect_is_found() {
    let gone = |ended: u64| {
        let mut scenario = Scenario::one_job();
        scenario.snapshot.jobs.clear();
        scenario.say("nemesis", ended, Event::Snapshot);
        scenario
    };
    let lapsed = CLAIMED + 5 * MS + 120_000 * MS;
    assert_eq!(gone(lapsed).broken(), NOTHING);
    assert_eq!(gone(lapsed - MS).broken(), ["I1"]);
    let mut wrong_clock = gone(lapsed - MS);
    wrong_clock.fault("F14", CLAIMED - 9 * MS, CLAIMED - 8 * MS);
    assert_eq!(
        wrong_clock.broken(),
        NOTHING,
        "it is unknown when it lapsed"
    );
    let mut without = gone(lapsed);
    without.snapshot.rows.clear();
    assert_eq!(without.broken(), ["I4"]);
}

#[test]
fn an_engine_that_cannot_be_read_is_one_finding_of_the_round() {
    let mut scenario = Scenario::one_job();
    scenario.snapshot.jobs.clear();
    scenario.snapshot.blind = Some("it does not open".into());
    assert_eq!(scenario.broken(), ["B"]);
    let findings = scenario.judged();
    assert!(findings.is_blind);
    let tally = &findings.tally;
    assert_eq!((tally.acknowledged, tally.unjudged, tally.lost), (0, 1, 0));
    let last = findings.verdicts.last().expect("there are verdicts");
    assert!(last.examples[0].contains("it does not open"));
}

#[test]
fn an_effect_that_was_tried_again_is_counted_and_no_break() {
    let mut scenario = Scenario::one_job();
    let (id, attempt, how) = (JOB, 1, "completes".to_owned());
    let new = Some(false);
    scenario.say(
        "worker",
        CLAIMED + 4 * MS,
        Event::Finish {
            id,
            attempt,
            new,
            how,
        },
    );
    assert_eq!(scenario.broken(), NOTHING);
    assert_eq!(scenario.judged().tally.second_tries, 1);
}

#[test]
fn a_duplicate_and_one_that_took_anothers_place_are_acknowledged_too() {
    for verdict in ["duplicate", "replaced"] {
        let mut scenario = Scenario::nothing();
        scenario.sends(JOB, verdict);
        assert_eq!(scenario.broken(), ["I1"], "{verdict}");
    }
}

#[test]
fn a_loss_is_as_old_as_it_was_when_the_next_fault_came() {
    let mut scenario = Scenario::unsettled();
    scenario.fault("F05", SENT + 41 * MS, SENT + 50 * MS);
    assert_eq!(scenario.judged().tally.oldest_lost, 40 * MS);
}

#[test]
fn a_job_that_completed_without_a_handler_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.forget(|event| matches!(event, Event::Start { .. }));
    assert_eq!(scenario.broken(), ["I1"]);
}

#[test]
fn a_job_that_was_never_sent_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.forget(|event| matches!(event, Event::EnqueueInvoke { .. }));
    assert_eq!(scenario.broken(), ["I1", "I4"]);
}

#[test]
fn a_job_without_an_answer_is_whole_or_not_there() {
    let mut absent = Scenario::nothing();
    let call = absent.call();
    absent.invokes(JOB, call, SENT);
    assert_eq!(absent.broken(), NOTHING);
    let mut whole = absent.clone();
    whole.ends_as(JobState::Dead, 1);
    assert_eq!(whole.broken(), NOTHING);
    assert_eq!(whole.judged().tally.recovered, 1);
    let mut half = absent.clone();
    half.ends_as(JobState::Ready, 1);
    assert_eq!(half.broken(), ["I1"]);
    let mut claimed = absent;
    claimed.claims("worker", CLAIMED, 1, (0, 0));
    assert_eq!(claimed.broken(), ["I1"]);
}

#[test]
fn a_job_that_was_refused_or_merged_and_ran_is_found() {
    let mut merged = Scenario::one_job();
    merged.change(|event| {
        if let Event::EnqueueOk { receipts, .. } = event {
            receipts[0].verdict = "merged".into();
        }
    });
    assert_eq!(merged.broken(), ["I1"]);
    let mut refused = Scenario::one_job();
    refused.forget(|event| matches!(event, Event::EnqueueOk { .. }));
    refused.say(
        "producer",
        SENT + MS,
        Event::EnqueueFail {
            call: 1,
            error: "full".into(),
        },
    );
    assert_eq!(refused.broken(), ["I1"]);
}

#[test]
fn a_job_whose_second_sending_is_called_another_job_is_found() {
    let mut scenario = Scenario::one_job();
    let call = scenario.call();
    scenario.invokes(JOB, call, SENT + 2 * MS);
    scenario.answers(call, SENT + 3 * MS, "id_conflict", None);
    assert_eq!(scenario.broken(), ["I1"]);
}

#[test]
fn a_backlog_that_does_not_drain_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.forget(|event| matches!(event, Event::Drained));
    assert_eq!(scenario.broken(), ["W"]);
    let mut scenario = Scenario::unsettled();
    scenario.forget(|event| matches!(event, Event::Drained));
    scenario.ends_as(JobState::Ready, 1);
    assert_eq!(scenario.broken(), ["W"], "it waits, and is not lost");
}

#[test]
fn two_effects_or_two_business_rows_are_found() {
    for (effects, business) in [(2, 1), (1, 2), (1, 0), (0, 1)] {
        let mut scenario = Scenario::one_job();
        scenario
            .snapshot
            .rows
            .insert(JOB, Rows { effects, business });
        assert_eq!(scenario.broken(), ["I4"], "{effects} and {business}");
        let doubled = scenario.judged().tally.doubled;
        assert_eq!(doubled, u64::from(effects + business > 2));
    }
}

#[test]
fn an_effect_without_a_job_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.snapshot.rows.insert(
        OTHER,
        Rows {
            effects: 1,
            business: 1,
        },
    );
    assert_eq!(scenario.broken(), ["I4"]);
}

#[test]
fn a_job_that_completed_without_an_effect_is_found() {
    let mut scenario = Scenario::one_job();
    scenario.snapshot.rows.clear();
    assert_eq!(scenario.broken(), ["I4"]);
}

#[test]
fn a_job_that_is_buried_as_poison_had_run_alone() {
    let buried = |alone_in_its_last| {
        let mut scenario = Scenario::unsettled();
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.change(|event| {
            if let Event::ClaimOk { alone, .. } = event {
                *alone = alone_in_its_last;
            }
        });
        let (state, poison, attempt) = (JobState::Dead, true, Some(1));
        scenario.snapshot.jobs.insert(
            JOB,
            Seen {
                state,
                poison,
                attempt,
            },
        );
        scenario
    };
    assert_eq!(buried(true).broken(), NOTHING);
    assert_eq!(buried(true).judged().tally.buried, 1);
    assert_eq!(buried(false).broken(), ["I4"]);
}

#[test]
fn what_is_left_over_is_found() {
    let mut scenario = Scenario::one_job();
    scenario
        .snapshot
        .leftovers
        .push("unique key key-1 of orders is held".into());
    assert_eq!(scenario.broken(), ["I8"]);
}

#[test]
fn jobs_that_are_left_where_nothing_drained_are_no_orphans() {
    let mut scenario = Scenario::one_job();
    scenario
        .snapshot
        .unsettled
        .push("a job of orders is ready".into());
    assert_eq!(scenario.broken(), ["I8"]);
    scenario.forget(|event| matches!(event, Event::Drained));
    assert_eq!(scenario.broken(), ["W"]);
}

#[test]
fn bytes_that_no_request_could_have_are_reported() {
    let mut scenario = Scenario::one_job();
    scenario.snapshot.unmeasured = Some("ERR".into());
    assert_eq!(scenario.broken(), ["B"]);
    assert!(!scenario.judged().is_blind);
}

#[test]
fn bytes_that_are_left_from_round_to_round_are_found() {
    let left = |now| {
        let mut scenario = Scenario::one_job();
        scenario.snapshot.remains = Some((100_000, now));
        scenario
    };
    assert_eq!(left(150_000).broken(), NOTHING);
    assert_eq!(left(200_000).broken(), ["I9"]);
}

#[test]
fn tombstones_of_rounds_shortly_before_may_be_left_after_a_short_one() {
    let left = |tombstones| {
        let mut scenario = Scenario::one_job();
        scenario.snapshot.remains = Some((100_000, 400_000));
        scenario.snapshot.tombstones = Some(tombstones);
        scenario
    };
    assert_eq!(left(1_000).broken(), NOTHING);
    assert_eq!(left(800).broken(), ["I9"]);
}

#[test]
fn a_count_that_a_walk_does_not_find_is_found() {
    let mut scenario = Scenario::one_job();
    scenario
        .snapshot
        .miscounts
        .push("orders: 2 ready counted, 1 found".into());
    assert_eq!(scenario.broken(), ["I10"]);
}
