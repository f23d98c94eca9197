//! Tests of the checker: recovery without help.

use punctual::JobState;

use super::scenario::{CLAIMED, JOB, MS, SENT, Scenario};
use crate::check::Verdict;
use crate::check::heal::were_judged;
use crate::event::Event;

const NOTHING: [&str; 0] = [];

/// A rest begins a moment before the job is due.
const QUIET_PERIODS: u64 = CLAIMED;

/// A job is sent at once, and claimed first so long after a quiet period began, which no
/// fault disturbs.
fn claimed_in_a_rest_after(span: u64) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.sends(JOB, "created");
    scenario.rest(QUIET_PERIODS, QUIET_PERIODS + 6_000 * MS);
    scenario.claims("worker", QUIET_PERIODS + span, 1, (0, 0));
    scenario.ends_as(JobState::Dead, 1);
    scenario
}

#[test]
fn a_quiet_period_without_a_claim_for_five_seconds_is_found() {
    assert_eq!(claimed_in_a_rest_after(4_900 * MS).broken(), NOTHING);
    let scenario = claimed_in_a_rest_after(5_001 * MS);
    assert_eq!(scenario.broken(), ["I6"]);
    let verdicts = scenario.judged().verdicts;
    let says = |what: &str| verdicts.iter().any(|it| it.examples == [what]);
    let since = |at: u64| (at - SENT) / MS;
    let expected = format!(
        "nothing is broken from {} to {} ms of the round, and the first claim is at {} ms",
        since(QUIET_PERIODS),
        since(QUIET_PERIODS + 6_000 * MS),
        since(QUIET_PERIODS + 5_001 * MS)
    );
    assert!(says(&expected), "{verdicts:?}");
}

#[test]
fn a_rest_in_which_no_worker_claims_any_more_is_found() {
    let mut scenario = claimed_in_a_rest_after(MS);
    scenario.forget(|event| matches!(event, Event::ClaimOk { .. }));
    assert!(scenario.broken().contains(&"I6".to_owned()));
}

/// Producers wait while many jobs stand ready, so that none may be sent for long.
#[test]
fn a_rest_in_which_only_jobs_of_long_before_are_ready_is_judged() {
    let quiet_periods = 30_000 * MS;
    let scenario = |left: JobState| {
        let mut scenario = Scenario::unsettled();
        scenario.rest(quiet_periods, quiet_periods + 6_000 * MS);
        scenario.ends_as(left, 0);
        scenario
    };
    let found = |scenario: &Scenario| {
        let examples = scenario
            .judged()
            .verdicts
            .into_iter()
            .flat_map(|it| it.examples);
        let mut of_quiet_periods = examples.filter(|it| it.starts_with("nothing is broken from"));
        of_quiet_periods.next().is_some()
    };
    assert!(found(&scenario(JobState::Ready)));
    assert!(
        !found(&scenario(JobState::Cancelled)),
        "no worker is to claim it"
    );
    let mut late = scenario(JobState::Dead);
    late.claims("worker", quiet_periods + 7_000 * MS, 1, (0, 0));
    assert!(found(&late));
}

/// In time in which a fault holds I6 judges by what is left: a quiet period is to have none.
#[test]
fn a_rest_that_sentinels_disturb_or_that_is_cut_short_is_not_judged() {
    let judged = |scenario: &Scenario| scenario.judged().tally.quiet_periods.count();
    assert_eq!(judged(&claimed_in_a_rest_after(MS)), 1);
    let disturbed = |span| {
        let mut scenario = claimed_in_a_rest_after(span);
        scenario.fault(
            "F21",
            QUIET_PERIODS + 5_000 * MS,
            QUIET_PERIODS + 5_500 * MS,
        );
        scenario
    };
    assert_eq!(judged(&disturbed(5_800 * MS)), 0);
    assert_eq!(judged(&disturbed(MS)), 1, "a worker claimed nevertheless");
    let mut short = claimed_in_a_rest_after(MS);
    short.forget(|event| matches!(event, Event::Rested));
    assert_eq!(judged(&short), 0);
    short.say("nemesis", QUIET_PERIODS + 4_999 * MS, Event::Rested);
    assert_eq!(judged(&short), 0);
}

#[test]
fn a_rest_in_which_there_is_nothing_to_claim_is_not_judged() {
    let mut scenario = Scenario::nothing();
    scenario.rest(QUIET_PERIODS, QUIET_PERIODS + 6_000 * MS);
    assert_eq!(scenario.judged().tally.quiet_periods.count(), 0);
    // Due after the rest.
    scenario.sends(JOB, "created");
    scenario.change(|event| {
        if let Event::EnqueueInvoke { jobs, .. } = event {
            jobs[0].after = 9_000 * MS;
        }
    });
    assert_eq!(scenario.judged().tally.quiet_periods.count(), 0);
    assert!(!scenario.broken().contains(&"I6".to_owned()));
}

#[test]
fn a_round_without_a_judged_quiet_period_is_reported() {
    let broken = |scenario: &Scenario, quiet_periods| {
        let mut done = Verdict::new("D");
        were_judged(
            quiet_periods,
            &scenario.case(),
            &scenario.judged().tally,
            &mut done,
        );
        !done.holds()
    };
    let mut disturbed = claimed_in_a_rest_after(5_800 * MS);
    disturbed.fault(
        "F21",
        QUIET_PERIODS + 5_000 * MS,
        QUIET_PERIODS + 5_500 * MS,
    );
    assert!(!broken(&disturbed, 1), "sentinels disturbed the only one");
    assert!(!broken(&claimed_in_a_rest_after(MS), 2));
    assert!(broken(&Scenario::one_job(), 2));
    assert!(!broken(&Scenario::one_job(), 0), "it is too short for one");
}

#[test]
fn the_time_in_which_any_fault_held_counts_once() {
    let mut scenario = Scenario::nothing();
    scenario.say("worker", 0, Event::Began { solo: false });
    scenario.fault("F01", 1_000 * MS, 3_000 * MS);
    scenario.fault("F02", 2_000 * MS, 4_000 * MS);
    scenario.fault("F12", 2_000 * MS, 2_500 * MS);
    scenario.fault("F02", 59_000 * MS, 61_000 * MS);
    assert_eq!(
        scenario.judged().tally.held,
        (4_000_000, 60_000_000),
        "until no more jobs are sent"
    );
}

/// Many jobs are claimed in a quiet period, by two workers that claimed before; one may be gone
/// before it is over.
fn claimed_by_two(of_another: u32, gone: Option<u64>) -> Scenario {
    let mut scenario = Scenario::nothing();
    scenario.rest(QUIET_PERIODS, QUIET_PERIODS + 6_000 * MS);
    let mut claims = |process, at| {
        let leases = Vec::new();
        let (invoked, now, alone, lease_duration) = (at, at, false, None);
        let claim = Event::ClaimOk {
            invoked,
            now,
            alone,
            lease_duration,
            leases,
        };
        scenario.say(process, at, claim);
    };
    for (process, count) in [("worker-0.0", 40), ("worker-1.0", of_another)] {
        claims(process, QUIET_PERIODS - MS);
        (1..=u64::from(count)).for_each(|nth| claims(process, QUIET_PERIODS + 100 * nth * MS));
    }
    if let Some(at) = gone {
        let process = "worker-1.0".into();
        scenario.say("nemesis", at, Event::Gone { process });
    }
    scenario
}

#[test]
fn a_worker_that_claims_nothing_in_a_rest_beside_others_is_found() {
    assert_eq!(claimed_by_two(1, None).broken(), NOTHING);
    let deaf = claimed_by_two(0, None);
    assert_eq!(deaf.broken(), ["I6"]);
    let after = claimed_by_two(0, Some(QUIET_PERIODS + 7_000 * MS));
    assert_eq!(after.broken(), ["I6"]);
    let meanwhile = claimed_by_two(0, Some(QUIET_PERIODS + 5_000 * MS));
    assert_eq!(meanwhile.broken(), NOTHING, "it was gone before the end");
}
