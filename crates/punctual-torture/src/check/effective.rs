//! Which faults met something: a call under way, a lease that was held. One that met nothing shows
//! nothing.

use std::collections::{BTreeMap, HashMap};

use punctual::JobId;

use super::job_timelines::{Case, FaultSpan};
use crate::call_log::Account;
use crate::event::{End, Event};

/// A call of a process to the engine, or a lease that it held; stamps.
#[derive(Debug)]
pub(crate) struct Busy {
    process: String,
    from: u64,
    until: u64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Enqueue,
    Call,
    Lease,
}

/// A call without an answer may have been given up: it counts as under way for so long at most.
const UNANSWERED_US: u64 = 1_000_000;
/// What is left behind by these meets the next call, within a second.
const LASTING: [&str; 4] = ["F14", "F16", "F17", "F36"];
const NEXT_US: u64 = 1_000_000;
/// A server whose memory is full affects only calls that send jobs.
const OF_ENQUEUES: &str = "F18";

impl Case {
    /// How many faults of each number were caused; handlers that ended their process are F30,
    /// calls that were given up F35.
    pub(crate) fn count_faults(&self) -> BTreeMap<String, u64> {
        let faults = self.faults.iter().filter(|fault| fault.done);
        let mut counts = BTreeMap::new();
        for fault in faults {
            *counts.entry(fault.id.clone()).or_insert(0) += 1;
        }
        counts.extend(self.of_themselves());
        counts
    }

    /// Of how many faults of each number it was checked whether they met something, and how many
    /// did.
    pub(crate) fn count_effective(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for fault in self.faults.iter().filter(|fault| fault.done) {
            let (checked, effective) = counts.entry(fault.id.clone()).or_default();
            *checked += 1;
            *effective += u64::from(self.is_effective(fault));
        }
        let of_themselves = self.of_themselves().into_iter();
        counts.extend(of_themselves.map(|(id, count)| (id, (count, count))));
        counts
    }

    /// Faults that exist only where they meet a process.
    fn of_themselves(&self) -> Vec<(String, u64)> {
        let aborts: u64 = self.jobs.values().map(|timeline| timeline.aborts).sum();
        let counts = [("F30", aborts), ("F35", self.dropped)].into_iter();
        let counts = counts.filter(|(_, count)| *count > 0);
        counts.map(|(id, count)| (id.to_owned(), count)).collect()
    }

    fn is_effective(&self, fault: &FaultSpan) -> bool {
        let lasting = LASTING.contains(&&*fault.id);
        let until = match lasting {
            true => fault.until.saturating_add(NEXT_US),
            false => fault.until,
        };
        let is_then = |busy: &&Busy| busy.from <= until && fault.from <= busy.until;
        let meets = |busy: &Busy| {
            let is_hit = match busy.what {
                _ if fault.id == OF_ENQUEUES => busy.what == What::Enqueue,
                // A lease is lost with its holder; a server that is away takes none.
                What::Lease => !fault.on.is_empty(),
                What::Enqueue | What::Call => true,
            };
            let is_of = |name: &String| {
                let rest = busy.process.strip_prefix(&**name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_there = fault.on.is_empty() || fault.on.iter().any(is_of);
            is_hit && is_there
        };
        fault.met || self.busy.iter().filter(is_then).any(meets)
    }
}

/// A message that relays of that name had on its way.
pub(super) fn of_messages((process, from, until): (String, u64, u64)) -> Busy {
    Busy {
        process,
        from,
        until,
        what: What::Call,
    }
}

/// What every process was at, by its lines; and when it died, if it did.
pub(super) fn busy(accounts: &[Account], gone: &HashMap<String, u64>) -> Vec<Busy> {
    let mut all = Vec::new();
    for account in accounts {
        let died = gone.get(&account.process).copied();
        let mut of_process = OfProcess::default();
        for line in &account.lines {
            of_process.read(line.at, &line.event);
        }
        all.extend(of_process.spans(&account.process, died));
    }
    all
}

/// The calls and leases of one process.
#[derive(Debug, Default)]
struct OfProcess {
    /// By verb and number: since when, and what is settled.
    open: HashMap<(Verb, u64), (u64, Vec<Attempt>)>,
    /// By job and attempt: since when, and until when at most.
    held: HashMap<Attempt, (u64, u64)>,
    over: Vec<(u64, u64, What)>,
}

/// A job, and which attempt of it.
type Attempt = (JobId, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verb {
    Enqueue,
    Settle,
    Cancel,
}

impl OfProcess {
    fn read(&mut self, at: u64, event: &Event) {
        match event {
            Event::EnqueueInvoke { call, .. } => self.begin(Verb::Enqueue, *call, at, &[]),
            Event::SettleInvoke { call, ends } => self.begin(Verb::Settle, *call, at, ends),
            Event::CancelInvoke { call, .. } => self.begin(Verb::Cancel, *call, at, &[]),
            Event::EnqueueOk { call, .. }
            | Event::EnqueueUnknown { call, .. }
            | Event::EnqueueFail { call, .. } => self.end(Verb::Enqueue, *call, at),
            Event::SettleOk { call, .. }
            | Event::SettleUnknown { call, .. }
            | Event::SettleFail { call, .. } => self.end(Verb::Settle, *call, at),
            Event::CancelOk { call, .. } | Event::CancelUnknown { call, .. } => {
                self.end(Verb::Cancel, *call, at);
            }
            Event::ExtendOk { invoked, .. }
            | Event::ExtendUnknown { invoked, .. }
            | Event::Failed { invoked, .. } => self.over.push((*invoked, at, What::Call)),
            Event::ClaimOk {
                invoked,
                now,
                leases,
                ..
            } => {
                self.over.push((*invoked, at, What::Call));
                for lease in leases {
                    let until = at + lease.deadline.saturating_sub(*now);
                    let jobs = lease.jobs.iter().map(|job| (job.id, job.attempt));
                    self.held.extend(jobs.map(|job| (job, (at, until))));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, verb: Verb, call: u64, at: u64, ends: &[End]) {
        let ends = ends.iter().map(|end| (end.id, end.attempt)).collect();
        self.open.insert((verb, call), (at, ends));
    }

    fn end(&mut self, verb: Verb, call: u64, at: u64) {
        let Some((from, ends)) = self.open.remove(&(verb, call)) else {
            return;
        };
        self.over.push((from, at, of(verb)));
        for end in ends {
            if let Some((since, until)) = self.held.remove(&end) {
                self.over.push((since, until.min(at), What::Lease));
            }
        }
    }

    fn spans(self, process: &str, died: Option<u64>) -> Vec<Busy> {
        let open = self.open.into_iter();
        let open = open.map(|((verb, _), (from, _))| (from, from + UNANSWERED_US, of(verb)));
        let held = self.held.into_values();
        let held = held.map(|(from, until)| (from, until, What::Lease));
        let all = self.over.into_iter().chain(open).chain(held);
        let spans = all.map(|(from, until, what)| Busy {
            process: process.to_owned(),
            from,
            until: until.min(died.unwrap_or(u64::MAX)),
            what,
        });
        spans.collect()
    }
}

fn of(verb: Verb) -> What {
    match verb {
        Verb::Enqueue => What::Enqueue,
        Verb::Settle | Verb::Cancel => What::Call,
    }
}
