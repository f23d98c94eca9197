//! Tests of the checker: limits.

use punctual::JobId;

use crate::call_log::Account;
use crate::check::{Case, limits};
use crate::event::{Event, Line};
use crate::limits::*;
use crate::snapshot::Snapshot;

const NOTHING: [&str; 0] = [];
const BEGAN: u64 = 1_000_000_000;
const LEASE: u64 = 1_000_000;

/// Queues that were full and broke no limit.
struct Scenario {
    lines: Vec<Line>,
    next: u128,
    solo: bool,
    /// When the process was gone.
    gone: Option<u64>,
}

impl Scenario {
    fn new() -> Self {
        let mut scenario = Self {
            lines: Vec::new(),
            next: 0,
            solo: false,
            gone: None,
        };
        for _ in 0..ACTIVE_MAX {
            scenario.runs(SHARED, Some(FLOOD), 0, Some(10));
        }
        for nth in 0..ACTIVE_MAX {
            scenario.starts(CAPPED, None, nth < NARROW.1, (0, 0), Some(10));
        }
        for _ in 0..STARTS_MAX {
            scenario.runs(RATED, None, 0, Some(1));
        }
        scenario.starts(SHARED, Some("small"), false, (5, 20), Some(30));
        scenario
    }

    fn runs(&mut self, queue: &str, share: Option<&str>, from: u64, until: Option<u64>) {
        self.starts(queue, share, false, (from, from), until);
    }

    /// An attempt that is due and claimed at these instants, and ends then, if it does.
    fn starts(
        &mut self,
        queue: &str,
        share: Option<&str>,
        is_narrow: bool,
        (due, started): (u64, u64),
        until: Option<u64>,
    ) {
        self.next += 1;
        let id = JobId::from_bytes(self.next.to_be_bytes());
        let start = Event::LimitStart {
            id,
            attempt: 1,
            queue: queue.into(),
            share: share.map(str::to_owned),
            is_narrow,
            due: BEGAN + due,
            started: BEGAN + started,
            wall: BEGAN + started,
        };
        self.says(started, start);
        if let Some(until) = until {
            let wall = BEGAN + until;
            self.says(
                until,
                Event::LimitFinish {
                    id,
                    attempt: 1,
                    wall,
                },
            );
        }
    }

    fn says(&mut self, at: u64, event: Event) {
        self.lines.push(Line { at, event });
    }

    /// The invariants that it breaks.
    fn broken(mut self) -> Vec<String> {
        let solo = self.solo;
        self.says(0, Event::Began { solo });
        self.lines.sort_by_key(|line| line.at);
        let gone = self.gone.map(|at| Line {
            at,
            event: Event::Gone {
                process: "worker".into(),
            },
        });
        let account = |process: &str, lines| Account {
            process: process.into(),
            lines,
        };
        let accounts = vec![
            account("worker", self.lines),
            account("harness", gone.into_iter().collect()),
        ];
        let verdicts = limits::judge(&Case::new(accounts, Snapshot::default()));
        let broken = verdicts.iter().filter(|verdict| !verdict.holds());
        broken.map(|verdict| verdict.name[..2].to_owned()).collect()
    }
}

#[test]
fn full_queues_within_their_limits_break_nothing() {
    assert_eq!(Scenario::new().broken(), NOTHING);
}

#[test]
fn queues_that_were_never_full_prove_nothing() {
    let mut scenario = Scenario::new();
    scenario.lines.clear();
    assert_eq!(scenario.broken(), ["L1", "L2", "L3"]);
}

#[test]
fn one_job_more_at_once_is_found() {
    for queue in [CAPPED, SHARED] {
        let mut scenario = Scenario::new();
        scenario.runs(queue, Some(FLOOD), 9, Some(20));
        assert_eq!(scenario.broken(), ["L1"], "{queue}");
        // The slot is free at the end of another.
        let mut scenario = Scenario::new();
        scenario.runs(queue, Some(FLOOD), 10, Some(20));
        assert_eq!(scenario.broken(), NOTHING, "{queue}");
    }
}

#[test]
fn one_job_more_of_a_named_limit_is_found() {
    let mut scenario = Scenario::new();
    for _ in 0..=NARROW.1 {
        scenario.starts(CAPPED, None, true, (50, 50), Some(60));
    }
    assert_eq!(scenario.broken(), ["L1"]);
}

#[test]
fn a_killed_worker_has_its_slots_until_its_leases_end() {
    for (from, broken) in [(LEASE + 99, &["L1"][..]), (LEASE + 100, &[])] {
        let mut scenario = Scenario::new();
        for _ in 0..ACTIVE_MAX {
            scenario.runs(CAPPED, None, 100, None);
        }
        scenario.runs(CAPPED, None, from, Some(from + 10));
        assert_eq!(scenario.broken(), broken, "{from}");
    }
}

#[test]
fn an_engine_that_dies_with_its_worker_has_its_slots_back() {
    let mut scenario = Scenario::new();
    (scenario.solo, scenario.gone) = (true, Some(150));
    for _ in 0..ACTIVE_MAX {
        scenario.runs(CAPPED, None, 100, None);
    }
    scenario.runs(CAPPED, None, 151, Some(160));
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn one_start_more_in_a_window_is_found() {
    let window = WINDOW.as_micros() as u64;
    for (from, broken) in [(window - 1, &["L2"][..]), (window, &[])] {
        let mut scenario = Scenario::new();
        scenario.runs(RATED, None, from, Some(from + 1));
        assert_eq!(scenario.broken(), broken, "{from}");
    }
}

#[test]
fn a_small_share_that_waits_for_the_flood_is_found() {
    for (turns, broken) in [(TURNS_MAX as u64 + 1, &["L3"][..]), (TURNS_MAX as u64, &[])] {
        let mut scenario = Scenario::new();
        for turn in 0..turns {
            scenario.runs(SHARED, Some(FLOOD), 101 + turn, Some(102 + turn));
        }
        scenario.starts(SHARED, Some("late"), false, (100, 200), Some(210));
        assert_eq!(scenario.broken(), broken, "{turns}");
    }
}
