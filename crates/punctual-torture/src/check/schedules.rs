//! S: every instant of a schedule is accounted for, once.

use std::collections::{BTreeMap, BTreeSet};

use punctual::{JobId, JobState};

use super::Verdict;
use super::job_timelines::Case;
use crate::event::Event;
use crate::schedules::{QUEUES, SeenRun, interval};

/// So late, in microseconds, a series may be behind when it is removed: an engine that was down a
/// moment before catches up call by call.
const BEHIND_MAX: u64 = 3_000_000;

/// What the histories say of schedules, by the machine's wall clock, which is the clock of engine
/// time here.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    /// When it was there for sure, and when its removal was asked for, by schedule.
    set: BTreeMap<String, u64>,
    removed: BTreeMap<String, u64>,
    /// Runs that began: instant and how often under each attempt.
    ran: BTreeMap<JobId, (u64, BTreeMap<u32, u32>)>,
}

impl Schedules {
    /// Notes what happened to a schedule; returns an event of another kind.
    pub(super) fn note(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::ScheduleSet { name, wall } => {
                let first = self.set.entry(name).or_insert(wall);
                *first = wall.min(*first);
            }
            Event::ScheduleRemove { name, wall } => drop(self.removed.insert(name, wall)),
            Event::ScheduleRun {
                id,
                instant,
                attempt,
                ..
            } => {
                let new = || (instant, BTreeMap::new());
                let (_, attempts) = self.ran.entry(id).or_insert_with(new);
                *attempts.entry(attempt).or_insert(0) += 1;
            }
            other => return Some(other),
        }
        None
    }
}

/// The verdicts about schedules.
pub(super) fn judge(case: &Case) -> [Verdict; 3] {
    [
        every_instant_once(case),
        each_ran_or_says_why(case),
        some_of_each(case),
    ]
}

fn runs<'a>(case: &'a Case, name: &str) -> &'a [SeenRun] {
    let runs = case.snapshot.runs.get(name);
    runs.map_or(&[], Vec::as_slice)
}

/// How long a schedule was there, as far as its writers say.
fn lasted(case: &Case, name: &str) -> Option<u64> {
    let Schedules { set, removed, .. } = &case.schedules;
    Some(removed.get(name)?.saturating_sub(*set.get(name)?))
}

/// S1: each instant from the write of a schedule to its removal has one run.
fn every_instant_once(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("S1 every instant once");
    for name in QUEUES {
        let step = interval(name).as_micros() as u64;
        let mut instants: Vec<u64> = runs(case, name).iter().map(|run| run.at).collect();
        instants.sort_unstable();
        for pair in instants.windows(2) {
            let gap = pair[1] - pair[0];
            verdict.check(gap == step, || match gap {
                0 => format!("the instant {} of {name} has two runs", pair[0]),
                _ => format!("{name} has no run between {} and {}", pair[0], pair[1]),
            });
        }
        let (first, last) = (instants.first(), instants.last());
        let set = case.schedules.set.get(name);
        let begins = |set: &u64| first.is_some_and(|at| *at <= set + step);
        let was_short = lasted(case, name).is_some_and(|span| span <= step);
        verdict.check(was_short || set.is_none_or(begins), || {
            format!("{name} was set at {set:?}, and its first run is of {first:?}")
        });
        let removed = case.schedules.removed.get(name);
        let reaches = |removed: &u64| last.is_some_and(|at| at + step + BEHIND_MAX >= *removed);
        verdict.check(was_short || removed.is_none_or(reaches), || {
            format!("{name} was removed at {removed:?}, and its last run is of {last:?}")
        });
    }
    verdict
}

/// S2: each run has begun and completed, or was cancelled for a reason that a schedule has; what
/// began is known.
fn each_ran_or_says_why(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("S2 each run ran or says why not");
    let mut known = BTreeSet::new();
    for name in QUEUES {
        for run in runs(case, name) {
            known.insert(run.id);
            let began = case.schedules.ran.contains_key(&run.id);
            let is_accounted = match run.state {
                JobState::Completed => began,
                JobState::Cancelled => {
                    let why = run.cancelled.as_deref();
                    !began && matches!(why, Some("skipped" | "missed" | "requested"))
                }
                _ => false,
            };
            verdict.check(is_accounted, || {
                format!(
                    "{run:?} of {name}, which {}",
                    if began { "began" } else { "never began" }
                )
            });
        }
    }
    for (id, (at, attempts)) in &case.schedules.ran {
        verdict.check(known.contains(id), || format!("run {id} of {at} is gone"));
        let twice = attempts.values().any(|times| *times > 1);
        verdict.check(!twice, || {
            format!("run {id} of {at} began twice in an attempt")
        });
    }
    verdict
}

/// S3: both policies were met: of each schedule that was there for a while some runs ran, and some
/// were skipped.
fn some_of_each(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("S3 runs and skips");
    for name in QUEUES {
        let step = interval(name).as_micros() as u64;
        if lasted(case, name).is_some_and(|span| span < 6 * step + BEHIND_MAX) {
            continue;
        }
        let of = |state| {
            runs(case, name)
                .iter()
                .filter(|run| run.state == state)
                .count()
        };
        let (ran, skipped) = (of(JobState::Completed), of(JobState::Cancelled));
        verdict.check(ran > 0, || format!("no run of {name} ran"));
        verdict.check(skipped > 0, || format!("no run of {name} was skipped"));
    }
    verdict
}
