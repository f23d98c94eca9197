//! L: limits hold by the stamps of what ran, and small shares do not wait for a flood.

use std::collections::HashMap;

use punctual::JobId;

use super::Verdict;
use super::job_timelines::Case;
use crate::event::Event;
use crate::limits::*;
use crate::setting::LEASE_DURATION;

/// What the histories say of queues with limits.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    ran: HashMap<(JobId, u32), Ran>,
}

/// An attempt, by the machine's wall clock, which is the clock of engine time here.
#[derive(Debug)]
struct Ran {
    queue: String,
    share: Option<String>,
    is_narrow: bool,
    due: u64,
    /// Engine time of the step that claimed it.
    started: u64,
    /// The claim was answered before.
    from: u64,
    /// Neither was its end settled before, nor its lease over.
    until: u64,
}

impl Limits {
    /// Notes what happened to a job with limits; returns an event of another kind. `died` is the
    /// stamp at which the engine died with the process.
    pub(super) fn note(&mut self, at: u64, event: Event, died: Option<u64>) -> Option<Event> {
        match event {
            Event::LimitSend { .. } => {}
            Event::LimitStart {
                id,
                attempt,
                queue,
                share,
                is_narrow,
                due,
                started,
                wall,
            } => {
                let lease_end = started + LEASE_DURATION.as_micros() as u64;
                let died = died.map(|died| wall + died.saturating_sub(at));
                let ran = Ran {
                    queue,
                    share,
                    is_narrow,
                    due,
                    started,
                    from: wall,
                    until: died.map_or(lease_end, |died| died.min(lease_end)),
                };
                self.ran.insert((id, attempt), ran);
            }
            Event::LimitFinish { id, attempt, wall } => {
                if let Some(ran) = self.ran.get_mut(&(id, attempt)) {
                    ran.until = ran.until.min(wall);
                }
            }
            other => return Some(other),
        }
        None
    }

    fn of(&self, queue: &str) -> impl Iterator<Item = &Ran> {
        self.ran.values().filter(move |ran| ran.queue == queue)
    }

    /// Engine time at which attempts of a queue were claimed, in order.
    fn starts(&self, queue: &str) -> Vec<u64> {
        let mut starts: Vec<u64> = self.of(queue).map(|ran| ran.started).collect();
        starts.sort_unstable();
        starts
    }
}

/// The verdicts about limits.
pub(super) fn judge(case: &Case) -> [Verdict; 3] {
    let limits = &case.limits;
    [
        no_more_at_once(limits),
        no_fuller_window(limits),
        small_shares_first(limits),
    ]
}

/// L1: no more jobs run at once than a queue or a named limit allows.
fn no_more_at_once(limits: &Limits) -> Verdict {
    let mut verdict = Verdict::new("L1 no more at once");
    let narrow = |ran: &&Ran| ran.is_narrow;
    let judged = [
        (CAPPED, ACTIVE_MAX, overlaps(limits.of(CAPPED))),
        (SHARED, ACTIVE_MAX, overlaps(limits.of(SHARED))),
        (
            NARROW.0,
            NARROW.1,
            overlaps(limits.of(CAPPED).filter(narrow)),
        ),
    ];
    for (what, most, overlaps) in judged {
        let greatest = overlaps.iter().max().copied().unwrap_or_default();
        verdict.check(greatest >= most, || {
            format!("{what} was never full: {greatest} of {most} ran at once")
        });
        for overlap in overlaps {
            verdict.check(overlap <= most, || {
                format!("{overlap} of {what} ran at once, which allows {most}")
            });
        }
    }
    verdict
}

/// At each beginning of an attempt, how many run.
fn overlaps<'a>(ran: impl Iterator<Item = &'a Ran>) -> Vec<usize> {
    // At one instant ends come first.
    let edges = ran.filter(|ran| ran.from < ran.until);
    let mut edges: Vec<(u64, bool)> = edges
        .flat_map(|ran| [(ran.from, true), (ran.until, false)])
        .collect();
    edges.sort_unstable();
    let mut running = 0;
    let mut overlaps = Vec::new();
    for (_, begins) in edges {
        match begins {
            true => {
                running += 1;
                overlaps.push(running);
            }
            false => running -= 1,
        }
    }
    overlaps
}

/// L2: no window has more starts than the rate.
fn no_fuller_window(limits: &Limits) -> Verdict {
    let mut verdict = Verdict::new("L2 no fuller window");
    let window = WINDOW.as_micros() as u64;
    let starts = limits.starts(RATED);
    let mut fullest = 0;
    for (first, from) in starts.iter().enumerate() {
        let next = starts.partition_point(|start| *start < from + window);
        let held = next - first;
        fullest = fullest.max(held);
        verdict.check(held <= STARTS_MAX, || {
            format!("{held} started in the window from {from}, which allows {STARTS_MAX}")
        });
    }
    verdict.check(fullest >= STARTS_MAX, || {
        format!("no window was full: at most {fullest} of {STARTS_MAX} started in one")
    });
    verdict
}

/// L3: a job of a small share starts before the flood has had more than its turn.
fn small_shares_first(limits: &Limits) -> Verdict {
    let mut verdict = Verdict::new("L3 small shares first");
    let is_flood = |ran: &&Ran| ran.share.as_deref() == Some(FLOOD);
    let flood = limits.of(SHARED).filter(is_flood);
    let mut flood: Vec<u64> = flood.map(|ran| ran.started).collect();
    flood.sort_unstable();
    verdict.check(!flood.is_empty(), || "nothing of the flood started".into());
    for ((id, attempt), ran) in &limits.ran {
        // What a worker took with it waits for the end of its lease.
        let is_first = *attempt == 1 && ran.queue == SHARED && !is_flood(&ran);
        if !is_first {
            continue;
        }
        let from = flood.partition_point(|start| *start <= ran.due);
        let until = flood.partition_point(|start| *start < ran.started);
        let between = until.saturating_sub(from);
        verdict.check(between <= TURNS_MAX, || {
            format!("{id} of a small share was due, and {between} of the flood started before it")
        });
    }
    verdict
}
