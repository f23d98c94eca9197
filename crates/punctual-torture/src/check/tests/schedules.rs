//! Tests of the checker: schedules.

use punctual::{JobId, JobState};

use crate::call_log::Account;
use crate::check::{Case, schedules};
use crate::event::{Event, Line};
use crate::schedules::*;
use crate::snapshot::Snapshot;

const BEGAN: u64 = 1_000_000_000;
const NOTHING: [&str; 0] = [];
/// Of each schedule.
const RUNS: u64 = 30;

/// Two schedules whose every instant is accounted for.
struct Scenario {
    lines: Vec<Line>,
    snapshot: Snapshot,
    next: u128,
}

impl Scenario {
    fn new() -> Self {
        let mut scenario = Self {
            lines: Vec::new(),
            snapshot: Snapshot::default(),
            next: 0,
        };
        for schedule in QUEUES {
            let (name, wall) = (schedule.to_owned(), BEGAN);
            scenario.says(0, Event::ScheduleSet { name, wall });
            let step = interval(schedule).as_micros() as u64;
            for nth in 1..=RUNS {
                match nth % 4 {
                    0 => scenario.skips(schedule, nth * step, Some("skipped")),
                    _ => scenario.runs(schedule, nth * step),
                }
            }
            let (name, wall) = (schedule.to_owned(), BEGAN + RUNS * step);
            scenario.says(RUNS * step, Event::ScheduleRemove { name, wall });
        }
        scenario
    }

    fn says(&mut self, at: u64, event: Event) {
        self.lines.push(Line { at, event });
    }

    fn seen(&mut self, name: &str, at: u64, state: JobState, why: Option<&str>) -> JobId {
        self.next += 1;
        let id = JobId::from_bytes(self.next.to_be_bytes());
        let run = SeenRun {
            id,
            at: BEGAN + at,
            state,
            cancelled: why.map(str::to_owned),
        };
        self.of(name).push(run);
        id
    }

    fn of(&mut self, name: &str) -> &mut Vec<SeenRun> {
        self.snapshot.runs.entry(name.to_owned()).or_default()
    }

    fn skips(&mut self, name: &str, at: u64, why: Option<&str>) {
        self.seen(name, at, JobState::Cancelled, why);
    }

    fn runs(&mut self, name: &str, at: u64) {
        let id = self.seen(name, at, JobState::Completed, None);
        self.begins(id, name, at, 1);
    }

    fn begins(&mut self, id: JobId, name: &str, at: u64, attempt: u32) {
        let (name, wall) = (name.to_owned(), BEGAN + at);
        let began = Event::ScheduleRun {
            id,
            name,
            instant: wall,
            attempt,
            wall,
        };
        self.says(at, began);
    }

    /// The invariants that it breaks.
    fn broken(mut self) -> Vec<String> {
        self.lines.sort_by_key(|line| line.at);
        let account = Account {
            process: "worker".into(),
            lines: self.lines,
        };
        let verdicts = schedules::judge(&Case::new(vec![account], self.snapshot));
        let broken = verdicts.iter().filter(|verdict| !verdict.holds());
        broken.map(|verdict| verdict.name[..2].to_owned()).collect()
    }
}

#[test]
fn accounted_instants_break_nothing() {
    assert_eq!(Scenario::new().broken(), NOTHING);
}

#[test]
fn an_instant_without_a_run_breaks_s1() {
    let mut scenario = Scenario::new();
    // One that was skipped, so that nothing is missed of what began.
    let skipped = |run: &SeenRun| run.state == JobState::Cancelled;
    let runs = scenario.of(BEATS);
    let at = runs.iter().position(skipped).expect("a skipped run");
    runs.remove(at);
    assert_eq!(scenario.broken(), ["S1"]);
}

#[test]
fn an_instant_with_two_runs_breaks_s1() {
    let mut scenario = Scenario::new();
    scenario.runs(BEATS, 200_000);
    assert_eq!(scenario.broken(), ["S1"]);
}

#[test]
fn a_series_that_ends_before_its_removal_breaks_s1() {
    let mut scenario = Scenario::new();
    scenario.of(TICKS).retain(|run| run.at <= BEGAN + 4_000_000);
    // What began of the others is gone, too.
    assert_eq!(scenario.broken(), ["S1", "S2"]);
}

#[test]
fn a_run_that_neither_ran_nor_says_why_breaks_s2() {
    for why in [None, Some("replaced")] {
        let mut scenario = Scenario::new();
        scenario.skips(BEATS, 6_200_000, why);
        assert_eq!(scenario.broken(), ["S2"], "{why:?}");
    }
    let mut scenario = Scenario::new();
    scenario.seen(BEATS, 6_200_000, JobState::Completed, None);
    assert_eq!(scenario.broken(), ["S2"], "it never began");
}

#[test]
fn a_run_that_is_gone_or_begins_twice_in_an_attempt_breaks_s2() {
    let mut scenario = Scenario::new();
    let gone = JobId::from_bytes([9; 16]);
    scenario.begins(gone, BEATS, 1_000, 1);
    assert_eq!(scenario.broken(), ["S2"]);
    let mut scenario = Scenario::new();
    let id = scenario.of(BEATS)[0].id;
    scenario.begins(id, BEATS, 300_000, 1);
    assert_eq!(scenario.broken(), ["S2"]);
    let mut scenario = Scenario::new();
    let id = scenario.of(BEATS)[0].id;
    scenario.begins(id, BEATS, 300_000, 2);
    assert_eq!(scenario.broken(), NOTHING, "another attempt");
}

#[test]
fn schedules_that_skip_nothing_prove_nothing_of_skips() {
    let mut scenario = Scenario::new();
    let skipped: Vec<u64> = (scenario.of(BEATS).iter())
        .filter(|run| run.state == JobState::Cancelled)
        .map(|run| run.at - BEGAN)
        .collect();
    scenario
        .of(BEATS)
        .retain(|run| run.state != JobState::Cancelled);
    for at in skipped {
        scenario.runs(BEATS, at);
    }
    assert_eq!(scenario.broken(), ["S3"]);
}
