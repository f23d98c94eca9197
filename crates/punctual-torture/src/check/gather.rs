//! Reads the history of one process into the case: each event into the jobs, calls and faults that
//! it belongs to.

use std::collections::HashMap;

use punctual::JobId;
use punctual::engine::Token;

use super::job_timelines::{
    Answer, Case, Extension, FaultSpan, Grant, Handed, JobTimeline, Receipt, Start,
};
use super::missing::EnqueueAnswer;
use crate::call_log::Account;
use crate::event::{Claimed, End, Event, Extended, Granted, Line, Received, Sent, Verdict};

/// Reads the account of one process; `died` is the stamp at which the process was gone.
pub(super) fn read(case: &mut Case, process: usize, account: Account, died: Option<u64>) {
    let mut reader = Reader::new(case, process, died);
    for line in account.lines {
        reader.line(line);
    }
    let claims = reader.claims;
    if !claims.is_empty() {
        case.claims_by.insert(account.process, (claims, died));
    }
    if let Some(died) = died {
        end_handlers(case, process, died);
    }
}

/// Handlers end with their process.
fn end_handlers(case: &mut Case, process: usize, died: u64) {
    for timeline in case.jobs.values_mut() {
        let begun: Vec<u32> = timeline
            .starts
            .iter()
            .filter(|start| start.process == process)
            .map(|start| start.attempt)
            .collect();
        timeline
            .finishes
            .extend(begun.into_iter().map(|attempt| (died, attempt)));
    }
}

/// Where an answer goes: the job, and the place in its list of ends or cancels.
type Places = Vec<(JobId, usize)>;

/// What is remembered between the lines of one process.
struct Reader<'case> {
    case: &'case mut Case,
    process: usize,
    died: Option<u64>,
    /// Whether the engine lives and dies with this process.
    solo: bool,
    /// Calls without an answer so far, by number.
    enqueues: HashMap<u64, (u64, Vec<JobId>)>,
    settles: HashMap<u64, Places>,
    cancels: HashMap<u64, Places>,
    /// Places of the faults that hold, by number.
    open: HashMap<u64, usize>,
    quiet_since: Option<u64>,
    /// Stamps of claims of workers that answered jobs.
    claims: Vec<u64>,
}

/// What a claim says of all its leases.
struct ClaimAnswer {
    invoked: u64,
    at: u64,
    now: u64,
    alone: bool,
    lease_duration: Option<u64>,
}

impl<'case> Reader<'case> {
    fn new(case: &'case mut Case, process: usize, died: Option<u64>) -> Self {
        Self {
            case,
            process,
            died,
            solo: false,
            enqueues: HashMap::new(),
            settles: HashMap::new(),
            cancels: HashMap::new(),
            open: HashMap::new(),
            quiet_since: None,
            claims: Vec::new(),
        }
    }

    fn job(&mut self, id: JobId) -> &mut JobTimeline {
        self.case.jobs.entry(id).or_default()
    }

    fn line(&mut self, line: Line) {
        let at = line.at;
        self.case.began = self.case.began.min(at);
        self.case.ended = self.case.ended.max(at);
        if let Some(now) = line.event.engine_time() {
            self.case.answered_at.insert(now);
        }
        let rest = self.call(at, line.event);
        let rest = rest.and_then(|event| self.handler(at, event));
        let rest = rest.and_then(|event| self.case.flows.note(at, event));
        let rest = rest.and_then(|event| self.case.relayed.note(at, event));
        let died = self.died.filter(|_| self.solo);
        let rest = rest.and_then(|event| self.case.limits.note(at, event, died));
        let rest = rest.and_then(|event| self.case.schedules.note(event));
        if let Some(event) = rest {
            self.round(at, event);
        }
    }

    /// Notes a call or its answer; returns an event of another kind.
    fn call(&mut self, at: u64, event: Event) -> Option<Event> {
        match event {
            Event::EnqueueInvoke { call, wall, jobs } => self.enqueue(call, at, wall, jobs),
            Event::EnqueueOk {
                call,
                now,
                receipts,
            } => self.enqueued(call, at, now, receipts),
            Event::EnqueueUnknown { call, error } => self.enqueue_unknown(call, at, &error),
            Event::EnqueueFail { call, .. } => {
                for id in self.enqueues.remove(&call).unwrap_or_default().1 {
                    self.job(id).unknown -= 1;
                }
            }
            Event::ClaimOk {
                invoked,
                now,
                alone,
                lease_duration,
                leases,
            } => {
                let answer = ClaimAnswer {
                    invoked,
                    at,
                    now,
                    alone,
                    lease_duration,
                };
                self.claimed(&answer, leases);
            }
            Event::ExtendUnknown { tokens, .. } => {
                let unsure = tokens.into_iter().map(|token| (token, at));
                self.case.unsure.extend(unsure);
            }
            Event::ExtendOk {
                invoked,
                now,
                leases,
            } => self.extended(invoked, at, now, leases),
            Event::SettleInvoke { call, ends } => self.settle(call, at, ends),
            Event::SettleOk {
                call,
                now,
                verdicts,
            } => self.settled(call, at, now, verdicts),
            Event::SettleFail { call, .. } => {
                for (id, place) in self.settles.remove(&call).unwrap_or_default() {
                    self.answer(id, place, at, Answer::Refused);
                }
            }
            Event::CancelInvoke { call, ids } => self.cancel(call, at, ids),
            Event::CancelOk {
                call,
                now,
                verdicts,
            } => self.cancelled(call, at, now, verdicts),
            other => return Some(other),
        }
        None
    }

    /// Notes what a handler did; returns an event of another kind.
    fn handler(&mut self, at: u64, event: Event) -> Option<Event> {
        match event {
            Event::Began { solo } => self.solo = solo,
            Event::Start {
                id,
                attempt,
                token,
                wall,
                due,
                content,
            } => {
                let start = Start {
                    at,
                    wall,
                    due,
                    attempt,
                    token,
                    content,
                    process: self.process,
                };
                self.job(id).starts.push(start);
            }
            Event::Finish {
                id, attempt, new, ..
            } => {
                let timeline = self.job(id);
                timeline.tried_again += u64::from(new == Some(false));
                timeline.finishes.push((at, attempt));
            }
            Event::Abort { id, attempt } => {
                let timeline = self.job(id);
                timeline.aborts += 1;
                timeline.finishes.push((at, attempt));
            }
            other => return Some(other),
        }
        None
    }

    /// Notes what the harness did: faults, quiet periods, the end of the round.
    fn round(&mut self, at: u64, event: Event) {
        let case = &mut *self.case;
        match event {
            Event::Fault {
                number,
                id,
                what,
                on,
            } => {
                self.open.insert(number, case.faults.len());
                case.faults.push(FaultSpan {
                    id,
                    what,
                    from: at,
                    until: u64::MAX,
                    done: false,
                    on,
                    met: false,
                });
            }
            Event::Healed { number, done, met } => {
                let place = self.open.remove(&number);
                if let Some(fault) = place.and_then(|place| case.faults.get_mut(place)) {
                    (fault.until, fault.done, fault.met) = (at, done, met);
                }
            }
            // It may have taken what a planned one may.
            Event::FailedOver { since } => case.faults.push(FaultSpan {
                id: "F21".into(),
                what: "a failover that no fault caused".into(),
                from: since,
                until: at,
                done: false,
                on: Vec::new(),
                met: false,
            }),
            Event::Rest => self.quiet_since = Some(at),
            Event::Rested => {
                let period = self.quiet_since.take().map(|from| (from, at));
                case.quiet_periods.extend(period);
            }
            Event::Enough => case.enough = Some(at),
            Event::Drained => case.drained = true,
            Event::Dropped => case.dropped += 1,
            Event::Misfit { what } => case.misfits.push(what),
            Event::Stuck { what } => case.stuck.push(what),
            Event::Unwritten { bytes: 1.., .. } => case.unwritten.push(at),
            Event::Syncs { spans } => {
                let noted = spans.into_iter().map(|(began, ended)| (at, began, ended));
                case.syncs.extend(noted);
            }
            _ => {}
        }
    }

    fn enqueue(&mut self, call: u64, at: u64, wall: u64, jobs: Vec<Sent>) {
        let ids = jobs.iter().map(|job| job.id).collect();
        for job in jobs {
            let timeline = self.job(job.id);
            timeline.unknown += 1;
            if timeline.sent.as_ref().is_none_or(|(first, ..)| at < *first) {
                timeline.sent = Some((at, wall, job));
            }
        }
        self.enqueues.insert(call, (at, ids));
    }

    fn enqueued(&mut self, call: u64, at: u64, now: u64, receipts: Vec<Received>) {
        let (invoked, ids) = self.enqueues.remove(&call).unwrap_or_default();
        self.compare("jobs", ids.len(), receipts.len());
        self.case.answers.push(EnqueueAnswer {
            process: self.process,
            invoked,
            at,
            stored: true,
            missing: false,
        });
        for (id, received) in ids.into_iter().zip(receipts) {
            let timeline = self.job(id);
            timeline.unknown -= 1;
            timeline.receipts.push(Receipt {
                at,
                now,
                invoked,
                received,
            });
        }
    }

    fn enqueue_unknown(&mut self, call: u64, at: u64, error: &str) {
        let invoked = self.enqueues.get(&call).map_or(at, |(invoked, _)| *invoked);
        self.case.answers.push(EnqueueAnswer {
            process: self.process,
            invoked,
            at,
            stored: false,
            missing: error.contains(DATA_MISSING),
        });
    }

    fn claimed(&mut self, answer: &ClaimAnswer, leases: Vec<Granted>) {
        if !(leases.iter()).any(|lease| self.case.late.contains(&lease.token)) {
            self.case.claims.push(answer.at);
            self.claims.push(answer.at);
        }
        for lease in leases {
            for job in lease.jobs {
                self.granted(answer, lease.token, lease.deadline, job);
            }
        }
    }

    fn granted(&mut self, answer: &ClaimAnswer, token: Token, deadline: u64, job: Claimed) {
        let died = self.died.filter(|_| self.solo);
        self.job(job.id).grants.push(Grant {
            invoked: answer.invoked,
            at: answer.at,
            now: answer.now,
            attempt: job.attempt,
            failures: job.failures,
            crashes: job.crashes,
            due: job.due,
            token,
            lease_duration: answer.lease_duration,
            deadline,
            alone: answer.alone,
            started: job.started,
            content: job.content,
            died,
        });
    }

    fn extended(&mut self, invoked: u64, answered: u64, now: u64, leases: Vec<Extended>) {
        let extensions = leases.into_iter().map(|lease| Extension {
            invoked,
            answered,
            now,
            token: lease.token,
            lease_duration: lease.lease_duration,
            deadline: lease.deadline,
            asked: lease.asked,
            lost: lease.lost,
        });
        self.case.extends.extend(extensions);
    }

    fn settle(&mut self, call: u64, at: u64, ends: Vec<End>) {
        let mut places = Vec::with_capacity(ends.len());
        for end in ends {
            let timeline = self.job(end.id);
            places.push((end.id, timeline.ends.len()));
            timeline.ends.push(Handed {
                invoked: at,
                attempt: end.attempt,
                token: end.token,
                outcome: end.outcome,
                after: end.after,
                answer: Answer::Unknown,
                answered: u64::MAX,
            });
        }
        self.settles.insert(call, places);
    }

    fn settled(&mut self, call: u64, at: u64, now: u64, verdicts: Vec<Verdict>) {
        let places = self.settles.remove(&call).unwrap_or_default();
        self.compare("ends", places.len(), verdicts.len());
        for ((id, place), verdict) in places.into_iter().zip(verdicts) {
            self.answer(id, place, at, Answer::Known(now, verdict));
        }
    }

    fn answer(&mut self, id: JobId, place: usize, at: u64, answer: Answer) {
        let timeline = self.case.jobs.get_mut(&id);
        if let Some(end) = timeline.and_then(|timeline| timeline.ends.get_mut(place)) {
            (end.answer, end.answered) = (answer, at);
        }
    }

    fn cancel(&mut self, call: u64, at: u64, ids: Vec<JobId>) {
        let mut places = Vec::with_capacity(ids.len());
        for id in ids {
            let cancels = &mut self.job(id).cancels;
            places.push((id, cancels.len()));
            cancels.push((at, None));
        }
        self.cancels.insert(call, places);
    }

    fn cancelled(&mut self, call: u64, at: u64, now: Option<u64>, verdicts: Vec<String>) {
        let places = self.cancels.remove(&call).unwrap_or_default();
        self.compare("cancels", places.len(), verdicts.len());
        for ((id, place), verdict) in places.into_iter().zip(verdicts) {
            let timeline = self.job(id);
            if verdict == "cancel_requested" {
                timeline.stop_asked = timeline.stop_asked.into_iter().chain(now).min();
            }
            timeline.cancels[place].1 = Some((at, verdict));
        }
    }

    /// Notes a call whose answer has more or fewer parts than the call.
    fn compare(&mut self, what: &str, asked: usize, answered: usize) {
        if asked != answered {
            let text = format!("a call with {asked} {what} was answered for {answered}");
            self.case.misfits.push(text);
        }
    }
}

/// How errors of data that are gone are named.
const DATA_MISSING: &str = "(engine_data_missing";
