//! R: each message that a source accepted became one job, not early, or is in quarantine.

use std::collections::{BTreeMap, BTreeSet};

use punctual::{JobId, JobState};
use serde::{Deserialize, Serialize};

use super::Verdict;
use super::job_timelines::Case;
use crate::event::Event;
use crate::relayed::{QUEUE, SeenRelayed, System};

/// What the histories say of messages.
#[derive(Debug, Default)]
pub(crate) struct Relayed {
    messages: BTreeMap<String, Message>,
    /// Starts of their jobs, by the name of the message.
    starts: BTreeMap<String, Vec<Start>>,
}

#[derive(Debug)]
struct Message {
    system: System,
    is_bad: bool,
    due: Option<u64>,
    /// The stamp at which it was sent.
    sent: u64,
    result: SendResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendResult {
    /// Its sender had no answer: it may be there or not.
    Unknown,
    Accepted,
    RolledBack,
}

/// Instants are engine time, which is that of this machine.
#[derive(Debug)]
struct Start {
    id: JobId,
    attempt: u32,
    due: u64,
    started: u64,
    wall: u64,
    enqueued: u64,
    /// The stamp at which its job was enqueued.
    enqueued_at: u64,
}

/// What came of messages, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayTally {
    /// Messages that a source accepted and that are jobs.
    pub(crate) sent: u64,
    /// Those that ran.
    pub(crate) arrived: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) early: u64,
    /// Messages in quarantine.
    pub(crate) refused: u64,
}

impl RelayTally {
    /// The numbers, in the order of the fields.
    pub(crate) fn counts(&self) -> [u64; 6] {
        let Self {
            sent,
            arrived,
            lost,
            doubled,
            early,
            refused,
        } = *self;
        [sent, arrived, lost, doubled, early, refused]
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.early += other.early;
        self.refused += other.refused;
    }
}

impl Relayed {
    /// Notes what happened to a message; returns an event of another kind.
    pub(super) fn note(&mut self, at: u64, event: Event) -> Option<Event> {
        match event {
            Event::MessageSend {
                name,
                system,
                is_bad,
                due,
            } => {
                let message = Message {
                    system,
                    is_bad,
                    due,
                    sent: at,
                    result: SendResult::Unknown,
                };
                self.messages.insert(name, message);
            }
            Event::MessageOk { name } => self.ends(&name, SendResult::Accepted),
            Event::MessageNone { name } => self.ends(&name, SendResult::RolledBack),
            Event::MessageStart {
                id,
                attempt,
                name,
                due,
                enqueued,
                started,
                wall,
            } => {
                let start = Start {
                    id,
                    attempt,
                    due,
                    started,
                    wall,
                    enqueued,
                    enqueued_at: at.saturating_sub(wall.saturating_sub(enqueued)),
                };
                self.starts.entry(name).or_default().push(start);
            }
            other => return Some(other),
        }
        None
    }

    fn ends(&mut self, name: &str, result: SendResult) {
        if let Some(message) = self.messages.get_mut(name) {
            message.result = result;
        }
    }

    /// Since when and until when each message was on its way, and by relays of which name.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = (String, u64, u64)> {
        self.starts.iter().filter_map(|(name, starts)| {
            let message = self.messages.get(name)?;
            let until = starts.iter().map(|start| start.enqueued_at).min()?;
            Some((message.system.process(), message.sent, until))
        })
    }

    /// The jobs of each message: those that started, and those that are there.
    fn jobs(&self, seen: &SeenRelayed) -> BTreeMap<String, BTreeSet<JobId>> {
        let mut jobs: BTreeMap<String, BTreeSet<JobId>> = BTreeMap::new();
        for (name, starts) in &self.starts {
            let ids = starts.iter().map(|start| start.id);
            jobs.entry(name.clone()).or_default().extend(ids);
        }
        let there = seen.jobs.iter().filter(|job| job.queue == QUEUE);
        for job in there {
            if let Some(name) = &job.name {
                jobs.entry(name.clone()).or_default().insert(job.id);
            }
        }
        jobs
    }
}

/// The verdicts about messages.
pub(super) fn judge(case: &Case) -> ([Verdict; 4], RelayTally) {
    let (relayed, mut tally) = (&case.relayed, RelayTally::default());
    // Of an engine that cannot be read, only what ran is known.
    let none = SeenRelayed::default();
    let seen = case.snapshot.relayed.as_ref();
    let jobs = relayed.jobs(seen.unwrap_or(&none));
    let verdicts = [
        none_lost(relayed, seen.is_some(), &jobs, &mut tally),
        none_twice(relayed, &jobs, &mut tally),
        none_early(relayed, &mut tally),
        refused_are_kept(relayed, seen, &jobs, &mut tally),
    ];
    (verdicts, tally)
}

/// R1: each message that was accepted has a job, which ran unless the round did not drain.
fn none_lost(
    relayed: &Relayed,
    can_see: bool,
    jobs: &BTreeMap<String, BTreeSet<JobId>>,
    tally: &mut RelayTally,
) -> Verdict {
    let mut verdict = Verdict::new("R1 no message lost");
    let mut arrived: BTreeMap<System, u64> = BTreeMap::new();
    for (name, message) in &relayed.messages {
        if message.is_bad || message.result != SendResult::Accepted {
            continue;
        }
        tally.sent += 1;
        *arrived.entry(message.system).or_default() += 0;
        if jobs.contains_key(name) {
            tally.arrived += 1;
            *arrived.entry(message.system).or_default() += 1;
        } else if can_see {
            tally.lost += 1;
        }
        verdict.check(!can_see || jobs.contains_key(name), || {
            format!("{name} was accepted and became no job")
        });
    }
    for (system, arrived) in arrived {
        verdict.check(arrived > 0, || format!("no message of {system:?} arrived"));
    }
    verdict.check(tally.sent > 0, || "no message was sent".into());
    verdict
}

/// R2: no message became two jobs, and what was rolled back became none.
fn none_twice(
    relayed: &Relayed,
    jobs: &BTreeMap<String, BTreeSet<JobId>>,
    tally: &mut RelayTally,
) -> Verdict {
    let mut verdict = Verdict::new("R2 no message twice");
    for (name, ids) in jobs {
        tally.doubled += ids.len().saturating_sub(1) as u64;
        verdict.check(ids.len() == 1, || format!("{name} became {ids:?}"));
        let message = relayed.messages.get(name);
        let may_be = message.is_some_and(|message| message.result != SendResult::RolledBack);
        verdict.check(may_be, || format!("{name} was not sent, and became a job"));
    }
    verdict
}

/// R3: no job of a message starts before the instant that its sender named, which is its due.
fn none_early(relayed: &Relayed, tally: &mut RelayTally) -> Verdict {
    let mut verdict = Verdict::new("R3 no message early");
    for (name, starts) in &relayed.starts {
        let due = relayed.messages.get(name).and_then(|message| message.due);
        for start in starts {
            let first = due.unwrap_or(start.due);
            let is_early = start.started < first || start.wall < first;
            tally.early += u64::from(is_early);
            verdict.check(!is_early, || {
                format!(
                    "{name} was due at {first}, and started at {}",
                    start.started
                )
            });
            // What is late is due at once; what runs again may be due later.
            let is_its = start.due == first.max(start.enqueued) || start.attempt > 1;
            verdict.check(is_its, || {
                format!("{name} was due at {first}, its job at {}", start.due)
            });
        }
    }
    verdict
}

/// R4: each message that is no job is in quarantine once, none of them ran, and no other is there.
fn refused_are_kept(
    relayed: &Relayed,
    seen: Option<&SeenRelayed>,
    jobs: &BTreeMap<String, BTreeSet<JobId>>,
    tally: &mut RelayTally,
) -> Verdict {
    let mut verdict = Verdict::new("R4 refused are kept");
    let Some(seen) = seen else { return verdict };
    let mut kept: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &seen.refused_rows {
        *kept.entry(row).or_default() += 1;
    }
    for job in seen.jobs.iter().filter(|job| job.queue != QUEUE) {
        let name = job.name.as_deref();
        *kept.entry(name.unwrap_or_default()).or_default() += 1;
        let system = name.and_then(|name| relayed.messages.get(name));
        let is_its = system.is_some_and(|message| message.system.quarantine() == job.queue);
        verdict.check(is_its && job.state == JobState::Dead, || {
            format!(
                "{} in {} is {} and of {name:?}",
                job.id, job.queue, job.state
            )
        });
    }
    for (name, message) in relayed.messages.iter().filter(|(_, one)| one.is_bad) {
        let times = kept.remove(name.as_str()).unwrap_or(0);
        tally.refused += times;
        let is_right = match message.result {
            SendResult::Accepted => times == 1,
            SendResult::Unknown => times <= 1,
            SendResult::RolledBack => times == 0,
        };
        verdict.check(is_right, || {
            format!(
                "{name} is no job ({:?}), and is in quarantine {times} times",
                message.result
            )
        });
        verdict.check(!jobs.contains_key(name), || {
            format!("{name} is no job, and became one")
        });
    }
    for name in kept.keys() {
        verdict.check(false, || format!("{name:?} is in quarantine, and is a job"));
    }
    verdict
}
