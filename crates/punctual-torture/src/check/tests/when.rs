//! Tests of the checker: instants of a history.

use super::scenario::{DUE, ENOUGH, JOB, MS, SENT, Scenario, token};
use crate::check::lateness::Spread;
use crate::event::Event;

/// Histories begin when the job is sent.
const BEGAN: u64 = SENT;
const SECOND: u64 = 1_000 * MS;

/// A handler of an attempt starts so late after its due.
fn starts(scenario: &mut Scenario, attempt: u32, due: u64, late: u64) {
    let wall = due + late;
    let start = Event::Start {
        id: JOB,
        attempt,
        token: token(attempt),
        wall,
        due,
        content: None,
    };
    scenario.say("worker", wall, start);
}

/// How many first starts there were, and the worst of them: buckets are a fourth root of two wide.
fn is_of(spread: &Spread, count: u64, worst: u64) -> bool {
    let bound = spread.share(1.0);
    spread.0.values().sum::<u64>() == count && (worst..=worst * 6 / 5).contains(&bound)
}

#[test]
fn a_late_start_is_blamed_on_faults_from_a_second_before_its_due() {
    let (from, until) = (10 * SECOND, 20 * SECOND);
    let mut scenario = Scenario::unsettled();
    scenario.fault("F02", from, until);
    scenario.fault("F02", 11 * SECOND, 12 * SECOND);
    scenario.fault("F08", 15 * SECOND, 16 * SECOND);
    // Before any of them, and then in the first and its like: counted once.
    starts(&mut scenario, 1, 9 * SECOND, 100 * MS);
    starts(&mut scenario, 1, from + SECOND, 300 * MS);
    // In both kinds, and from within them until long after.
    starts(&mut scenario, 1, 15 * SECOND, 500 * MS);
    starts(&mut scenario, 1, until - SECOND, 30 * SECOND);
    // Due 0.9 s after it, and 1.1 s; another attempt has no due.
    starts(&mut scenario, 1, until + 900 * MS, 700 * MS);
    starts(&mut scenario, 1, until + 1_100 * MS, 200 * MS);
    starts(&mut scenario, 2, until - SECOND, 2 * SECOND);
    let lateness = scenario.judged().lateness.0;
    let kinds: Vec<&str> = lateness.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["F02", "F08", "quiet"]);
    assert!(is_of(&lateness["F02"], 4, 30 * SECOND), "{lateness:?}");
    assert!(is_of(&lateness["F08"], 1, 500 * MS), "{lateness:?}");
    assert!(is_of(&lateness["quiet"], 2, 200 * MS), "{lateness:?}");
    let half = lateness["F02"].share(0.5);
    assert!((500 * MS..=700 * MS).contains(&half), "{half}");
}

#[test]
fn rounds_add_their_lateness_up() {
    let mut scenario = Scenario::unsettled();
    starts(&mut scenario, 1, DUE, 100 * MS);
    let one = scenario.judged().lateness;
    let mut sum = one.clone();
    scenario.fault("F02", SENT, DUE);
    sum.merge(&one);
    sum.merge(&scenario.judged().lateness);
    assert!(is_of(&sum.0["quiet"], 2, 100 * MS), "{sum:?}");
    assert!(is_of(&sum.0["F02"], 1, 100 * MS), "{sum:?}");
}

#[test]
fn a_timeline_has_what_each_second_saw_and_what_held_when() {
    let mut scenario = Scenario::unsettled();
    let at = |second: u64| BEGAN + second * SECOND;
    starts(&mut scenario, 1, at(2) + 100 * MS, 50 * MS);
    starts(&mut scenario, 1, at(2) + 200 * MS, 700 * MS);
    starts(&mut scenario, 2, at(1), 1_950 * MS);
    starts(&mut scenario, 1, at(4), 0);
    scenario.fault("F02", at(1), at(3));
    scenario.fault("F08", at(5), at(6));
    // It was planned, and brought nothing about.
    scenario.change(|event| {
        if let Event::Healed {
            number: 1, done, ..
        } = event
        {
            *done = false;
        }
    });
    scenario.fault("F12", at(7), ENOUGH + 5 * SECOND);
    let timeline = scenario.judged().timeline;
    let seconds = timeline.seconds.iter();
    let seen: Vec<_> = seconds
        .map(|second| (second.acknowledged, second.started, second.worst / MS))
        .collect();
    assert_eq!(
        seen,
        [(1, 0, 0), (0, 0, 0), (0, 3, 700), (0, 0, 0), (0, 1, 0)]
    );
    let faults = timeline.faults.iter();
    let held: Vec<_> = faults
        .map(|fault| (&*fault.id, &*fault.what, fault.from, fault.until))
        .collect();
    let last = (ENOUGH + 5 * SECOND - BEGAN) / MS;
    assert_eq!(
        held,
        [
            ("F02", "a fault", 1_000, 3_000),
            ("F12", "a fault", 7_000, last)
        ]
    );
}
