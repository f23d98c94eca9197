//! Tests of the checker: histories that tests share.

use std::collections::BTreeMap;

use punctual::engine::Token;
use punctual::{JobId, JobState, UniquePolicy};

use crate::call_log::Account;
use crate::check::job_timelines::Case;
use crate::check::{Findings, judge};
use crate::event::{Claimed, End, Event, Extended, Granted, Line, Received, Sent, Verdict};
use crate::scripted_outcome::ScriptedOutcome;
use crate::sink::Rows;
use crate::snapshot::{Seen, Snapshot};

/// The job that histories are about, and one beside it.
pub(super) const JOB: JobId = JobId::from_bytes([1; 16]);
pub(super) const OTHER: JobId = JobId::from_bytes([2; 16]);

/// All clocks read the same, in microseconds.
pub(super) const MS: u64 = 1_000;
pub(super) const LEASE_DURATION: u64 = 1_000 * MS;
/// When the job is sent, due, first claimed, and when no more are sent.
pub(super) const SENT: u64 = 10 * MS;
pub(super) const DUE: u64 = SENT + 500 * MS;
pub(super) const CLAIMED: u64 = DUE + 10 * MS;
pub(super) const ENOUGH: u64 = 60_000 * MS;

/// A history that is being made.
#[derive(Clone)]
pub(super) struct Scenario {
    accounts: BTreeMap<&'static str, Vec<Line>>,
    pub(super) snapshot: Snapshot,
    /// What the engine says that a fault takes at most, in microseconds.
    pub(super) loses_at_most: Option<u64>,
    /// Whether what was acknowledged may be lost at all.
    pub(super) may_lose: bool,
    /// Whether the engine may keep another machine's time.
    pub(super) is_elsewhere: bool,
    calls: u64,
    faults: u64,
}

impl Scenario {
    /// Nothing happened.
    pub(super) fn nothing() -> Self {
        let mut scenario = Self {
            accounts: BTreeMap::new(),
            snapshot: Snapshot::default(),
            loses_at_most: None,
            may_lose: false,
            is_elsewhere: false,
            calls: 0,
            faults: 0,
        };
        (scenario.snapshot.keys, scenario.snapshot.counts) = (1, 7);
        scenario.say("nemesis", ENOUGH, Event::Enough);
        scenario.say("nemesis", ENOUGH + MS, Event::Drained);
        scenario
    }

    /// The job is acknowledged, and no more is known of it.
    pub(super) fn unsettled() -> Self {
        let mut scenario = Self::nothing();
        scenario.sends(JOB, "created");
        scenario
    }

    /// The job is sent, runs once and completes.
    pub(super) fn one_job() -> Self {
        let mut scenario = Self::nothing();
        scenario.sends(JOB, "created");
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.runs("worker", CLAIMED + MS, 1);
        scenario.settles("worker", CLAIMED + 5 * MS, 1, "completed", completed());
        scenario.ends_as(JobState::Completed, 1);
        scenario
    }

    /// It fails once before, and is due again a second later.
    pub(super) fn a_retry() -> Self {
        let mut scenario = Self::nothing();
        let again = CLAIMED + 1_000 * MS;
        scenario.sends(JOB, "created");
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.runs("worker", CLAIMED + MS, 1);
        let retried = Verdict::Settled(JobState::Scheduled, Some(again));
        scenario.settles("worker", CLAIMED + 5 * MS, 1, "retry", Some(retried));
        scenario.claims("worker", again + MS, 2, (1, 0));
        scenario.runs("worker", again + 2 * MS, 2);
        scenario.settles("worker", again + 5 * MS, 2, "completed", completed());
        scenario.ends_as(JobState::Completed, 2);
        scenario
    }

    /// The first lease runs out, and another worker completes it.
    pub(super) fn a_crash() -> Self {
        let mut scenario = Self::nothing();
        scenario.sends(JOB, "created");
        scenario.claims("worker", CLAIMED, 1, (0, 0));
        scenario.runs("worker", CLAIMED + MS, 1);
        scenario.claims("another", AFTER_CRASH, 2, (0, 1));
        scenario.runs("another", AFTER_CRASH + MS, 2);
        scenario.settles("another", AFTER_CRASH + 5 * MS, 2, "completed", completed());
        scenario.ends_as(JobState::Completed, 2);
        scenario
    }

    /// A line of a process.
    pub(super) fn say(&mut self, process: &'static str, at: u64, event: Event) {
        let lines = self.accounts.entry(process).or_default();
        lines.push(Line { at, event });
    }

    /// Takes lines away.
    pub(super) fn forget(&mut self, which: impl Fn(&Event) -> bool) {
        for lines in self.accounts.values_mut() {
            lines.retain(|line| !which(&line.event));
        }
    }

    /// Changes lines.
    pub(super) fn change(&mut self, mut how: impl FnMut(&mut Event)) {
        for lines in self.accounts.values_mut() {
            lines.iter_mut().for_each(|line| how(&mut line.event));
        }
    }

    /// A job is sent to be due at `DUE`, and answered so.
    pub(super) fn sends(&mut self, id: JobId, verdict: &str) {
        let call = self.call();
        self.invokes(id, call, SENT);
        self.answers(call, SENT + MS, verdict, None);
    }

    /// A job is sent and not answered yet.
    pub(super) fn invokes(&mut self, id: JobId, call: u64, at: u64) {
        let job = Sent {
            id,
            queue: "orders".into(),
            after: DUE - SENT,
            unique: None,
            policy: None,
            group: None,
            backoff: None,
            content: None,
            scripted: ScriptedOutcome::Completes,
        };
        let (wall, jobs) = (at, vec![job]);
        self.say("producer", at, Event::EnqueueInvoke { call, wall, jobs });
    }

    pub(super) fn answers(&mut self, call: u64, at: u64, verdict: &str, other: Option<JobId>) {
        let receipt = Received {
            verdict: verdict.into(),
            other,
            due: DUE,
        };
        let receipts = vec![receipt];
        self.say(
            "producer",
            at,
            Event::EnqueueOk {
                call,
                // The step was a millisecond before its answer.
                now: at - MS,
                receipts,
            },
        );
    }

    /// A claim answers the job, with its failures and crashes.
    pub(super) fn claims(
        &mut self,
        process: &'static str,
        at: u64,
        attempt: u32,
        counted: (u32, u32),
    ) {
        let job = Claimed {
            id: JOB,
            attempt,
            failures: counted.0,
            crashes: counted.1,
            due: DUE,
            started: Some(at),
            content: None,
        };
        let lease = Granted {
            token: token(attempt),
            deadline: at + LEASE_DURATION,
            jobs: vec![job],
        };
        let claim = Event::ClaimOk {
            invoked: at - MS,
            now: at,
            alone: false,
            lease_duration: None,
            leases: vec![lease],
        };
        self.say(process, at, claim);
    }

    /// Another worker claims every ten milliseconds, and gets nothing.
    pub(super) fn answers_others(&mut self, from: u64, until: u64) {
        for at in (from..until).step_by(10 * MS as usize) {
            let claim = Event::ClaimOk {
                invoked: at - MS,
                now: at,
                alone: false,
                lease_duration: None,
                leases: Vec::new(),
            };
            self.say("another", at, claim);
        }
    }

    pub(super) fn runs(&mut self, process: &'static str, at: u64, attempt: u32) {
        let start = Event::Start {
            id: JOB,
            attempt,
            token: token(attempt),
            wall: at,
            due: DUE,
            content: None,
        };
        self.say(process, at, start);
    }

    /// An end is settled, and answered a millisecond later; `None` for no answer.
    pub(super) fn settles(
        &mut self,
        process: &'static str,
        at: u64,
        attempt: u32,
        outcome: &str,
        answer: Option<Verdict>,
    ) {
        let call = self.call();
        let end = End {
            id: JOB,
            attempt,
            token: token(attempt),
            outcome: outcome.into(),
            after: None,
        };
        let ends = vec![end];
        self.say(process, at, Event::SettleInvoke { call, ends });
        let (at, now) = (at + MS, at + MS);
        self.say(
            process,
            at,
            match answer {
                Some(verdict) => Event::SettleOk {
                    call,
                    now,
                    verdicts: vec![verdict],
                },
                None => Event::SettleUnknown {
                    call,
                    error: "away".into(),
                },
            },
        );
    }

    /// The lease of an attempt is prolonged until an instant, or `None`: refused.
    pub(super) fn extends(
        &mut self,
        process: &'static str,
        at: u64,
        token: Token,
        until: Option<u64>,
    ) {
        let lease = Extended {
            token,
            lease_duration: None,
            deadline: until,
            asked: vec![JOB],
            lost: Vec::new(),
        };
        let (invoked, now, leases) = (at - MS, at, vec![lease]);
        self.say(
            process,
            at,
            Event::ExtendOk {
                invoked,
                now,
                leases,
            },
        );
    }

    /// Every lease so far was asked for to last so long.
    pub(super) fn asks_for(&mut self, span: u64) {
        self.change(|event| match event {
            Event::ClaimOk { lease_duration, .. } => *lease_duration = Some(span),
            Event::ExtendOk { leases, .. } => leases[0].lease_duration = Some(span),
            _ => {}
        });
    }

    /// A fault that holds for a while.
    pub(super) fn fault(&mut self, id: &str, from: u64, until: u64) {
        self.fault_on(&[], id, from, until);
    }

    /// The same, which hits some processes and no others.
    pub(super) fn fault_on(&mut self, processes: &[&str], id: &str, from: u64, until: u64) {
        let (id, what) = (id.to_owned(), "a fault".to_owned());
        let on = processes.iter().map(|name| (*name).to_owned()).collect();
        let (number, done, met) = (self.faults, true, false);
        self.faults += 1;
        let fault = Event::Fault {
            number,
            id,
            what,
            on,
        };
        self.say("nemesis", from, fault);
        self.say("nemesis", until, Event::Healed { number, done, met });
    }

    /// Nothing is broken on purpose.
    pub(super) fn rest(&mut self, from: u64, until: u64) {
        self.say("nemesis", from, Event::Rest);
        self.say("nemesis", until, Event::Rested);
    }

    /// The snapshot finds the job in this state, with what brings that about: an effect if it is
    /// completed, an end without an answer if it is dead, a cancel.
    pub(super) fn ends_as(&mut self, state: JobState, attempt: u32) {
        match state {
            JobState::Dead => self.settles("worker", ENOUGH, attempt, "dead", None),
            JobState::Cancelled => {
                let call = self.call();
                self.cancels(call, SENT + 2 * MS, "done");
            }
            _ => {}
        }
        let seen = Seen {
            state,
            poison: false,
            attempt: Some(attempt),
        };
        self.snapshot.jobs.insert(JOB, seen);
        if state == JobState::Completed {
            self.snapshot.rows.insert(
                JOB,
                Rows {
                    effects: 1,
                    business: 1,
                },
            );
        }
    }

    /// The snapshot finds a job in this state, after one attempt and whatever brought that about.
    pub(super) fn is_seen(&mut self, id: JobId, state: JobState) {
        let (poison, attempt) = (false, Some(1));
        let seen = Seen {
            state,
            poison,
            attempt,
        };
        self.snapshot.jobs.insert(id, seen);
    }

    /// The job is asked to be cancelled, and that is answered a millisecond later.
    pub(super) fn cancels(&mut self, call: u64, at: u64, verdict: &str) {
        let ids = vec![JOB];
        self.say("producer", at, Event::CancelInvoke { call, ids });
        let (now, verdicts) = (Some(at), vec![verdict.to_owned()]);
        let answer = Event::CancelOk {
            call,
            now,
            verdicts,
        };
        self.say("producer", at + MS, answer);
    }

    /// Every job that was sent so far is under one unique key, with this policy.
    pub(super) fn share_a_key(&mut self, policy: UniquePolicy) {
        self.change(|event| {
            if let Event::EnqueueInvoke { jobs, .. } = event {
                jobs[0].unique = Some("key-1".into());
                jobs[0].policy = Some(policy);
            }
        });
    }

    /// What was claimed and run of the job so far is of another one, under leases of their own.
    pub(super) fn is_of(&mut self, id: JobId) {
        let theirs = |token: &mut Token| token.nonce += 1_000;
        self.change(|event| match event {
            Event::ClaimOk { leases, .. } => leases.iter_mut().for_each(|lease| {
                theirs(&mut lease.token);
                lease.jobs.iter_mut().for_each(|job| job.id = id);
            }),
            Event::SettleInvoke { ends, .. } => ends.iter_mut().for_each(|end| {
                theirs(&mut end.token);
                end.id = id;
            }),
            Event::Start { id: of, token, .. } => {
                theirs(token);
                *of = id;
            }
            _ => {}
        });
    }

    pub(super) fn call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    pub(super) fn judged(&self) -> Findings {
        judge(&self.case())
    }

    pub(super) fn case(&self) -> Case {
        let accounts = self.accounts.iter().map(|(process, lines)| Account {
            process: (*process).into(),
            lines: lines.clone(),
        });
        let mut case = Case::new(accounts.collect(), self.snapshot.clone());
        case.admit_losses(self.may_lose);
        case.loses_at_most = self.loses_at_most;
        case.is_elsewhere = self.is_elsewhere;
        case
    }

    /// The numbers of the invariants that it breaks.
    pub(super) fn broken(&self) -> Vec<String> {
        let verdicts = self.judged().verdicts;
        let broken = verdicts.iter().filter(|verdict| !verdict.holds());
        broken.map(|verdict| number(&verdict.name)).collect()
    }

    /// How many things an invariant checked.
    pub(super) fn checked(&self, invariant: &str) -> u64 {
        let verdicts = self.judged().verdicts;
        let mut of_that = verdicts
            .iter()
            .filter(|verdict| number(&verdict.name) == invariant);
        of_that.next().expect("there is such an invariant").checked
    }
}

/// When a crashed job is claimed again.
pub(super) const AFTER_CRASH: u64 = CLAIMED + LEASE_DURATION + MS;

fn number(name: &str) -> String {
    name.split(' ').next().unwrap_or_default().to_owned()
}

/// The token of an attempt.
pub(super) fn token(attempt: u32) -> Token {
    Token::new(attempt.into(), 100 + u64::from(attempt))
}

pub(super) fn completed() -> Option<Verdict> {
    Some(Verdict::Settled(JobState::Completed, None))
}
