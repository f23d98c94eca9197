//! What is known of each job, gathered from the lines of all processes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual::JobId;
use punctual::engine::Token;

use super::clock::Clock;
use super::effective::{self, Busy};
pub(crate) use super::job_timeline::FaultSpan;
pub(super) use super::job_timeline::{
    Answer, Extension, Grant, Handed, JobTimeline, Receipt, Start,
};
use super::losses::{self, Synced};
use super::missing::EnqueueAnswer;
use crate::event::Event;
use crate::history::Account;
use crate::snapshot::Snapshot;

/// A round.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) jobs: BTreeMap<JobId, JobTimeline>,
    pub(crate) snapshot: Snapshot,
    pub(crate) faults: Vec<FaultSpan>,
    /// Since when, and until when, nothing was broken on purpose.
    pub(crate) quiet_periods: Vec<(u64, u64)>,
    /// Calls under way and leases that were held, of every process.
    pub(super) busy: Vec<Busy>,
    /// Stamps of claims of workers that answered jobs, in order; and of each process, with when
    /// that was gone.
    pub(crate) claims: Vec<u64>,
    pub(super) claims_by: BTreeMap<String, (Vec<u64>, Option<u64>)>,
    /// Answers to extends.
    pub(super) extends: Vec<Extension>,
    /// When the last jobs were asked for, and whether all were done with at the end.
    pub(crate) enough: Option<u64>,
    pub(crate) drained: bool,
    /// Stamps at which Redis, about to be killed, had answered bytes that it had not written yet.
    pub(crate) unwritten: Vec<u64>,
    /// Syncs of the engine's log: when it was noted, when each began, and when it was over.
    pub(super) syncs: Vec<(u64, u64, Option<u64>)>,
    pub(super) clock: Clock,
    /// What shows of claims that they were synced.
    pub(super) synced: Synced,
    /// Stamps at which a gateway had ended.
    pub(super) gateways_gone: BTreeSet<u64>,
    /// Answers to enqueues.
    pub(super) answers: Vec<EnqueueAnswer>,
    /// Answers that do not fit their calls.
    pub(super) misfits: Vec<String>,
    /// Waits of the harness that ran out.
    pub(crate) stuck: Vec<String>,
    /// Processes that ended although no fault had killed them, or that did not end well when asked
    /// to, and how.
    pub(super) ended_oddly: Vec<(String, String)>,
    /// Processes of which a handler ended them.
    pub(super) aborted: HashSet<String>,
    /// Calls that were given up by their callers.
    pub(crate) dropped: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Whether claims are answered before they are synced: a power cut may take them.
    pub(crate) forgets_claims: bool,
    /// How long before a power cut, or a kill of Redis, a job was acknowledged, at most, that may
    /// be lost by it, but for syncs, in microseconds; `None` if no bound is promised, as where
    /// nothing may be lost.
    pub(crate) loses_at_most: Option<u64>,
    /// Whether what was acknowledged may be lost at all.
    pub(super) may_lose: bool,
    /// Whether the engine may keep the time of another machine.
    pub(crate) is_elsewhere: bool,
    /// Tokens that some claim was answered.
    pub(crate) granted: HashSet<Token>,
    /// Leases that may have been prolonged by a call without an answer, and when the last of those
    /// was given up.
    pub(super) unsure: HashMap<Token, u64>,
    /// Leases of latecomers.
    late: HashSet<Token>,
    /// Instants of engine time at which the engine answered, in order.
    pub(super) answered_at: BTreeSet<u64>,
    /// By token: when an extend was sent, and until when it prolonged the lease.
    pub(super) prolonged: HashMap<Token, Vec<(u64, u64)>>,
}

/// How errors of data that are gone are named.
const DATA_MISSING: &str = "(engine_data_missing";

impl Case {
    pub(crate) fn new(accounts: Vec<Account>, snapshot: Snapshot) -> Self {
        let mut case = Self {
            jobs: BTreeMap::new(),
            snapshot,
            faults: Vec::new(),
            quiet_periods: Vec::new(),
            busy: Vec::new(),
            claims: Vec::new(),
            claims_by: BTreeMap::new(),
            extends: Vec::new(),
            enough: None,
            drained: false,
            unwritten: Vec::new(),
            syncs: Vec::new(),
            clock: Clock::default(),
            synced: Synced::default(),
            gateways_gone: BTreeSet::new(),
            answers: Vec::new(),
            misfits: Vec::new(),
            stuck: Vec::new(),
            ended_oddly: Vec::new(),
            aborted: HashSet::new(),
            dropped: 0,
            began: u64::MAX,
            ended: 0,
            forgets_claims: true,
            loses_at_most: None,
            may_lose: false,
            is_elsewhere: false,
            granted: HashSet::new(),
            unsure: HashMap::new(),
            late: HashSet::new(),
            answered_at: BTreeSet::new(),
            prolonged: HashMap::new(),
        };
        let mut gone = HashMap::new();
        for account in &accounts {
            for line in &account.lines {
                match &line.event {
                    Event::Gone { process } => drop(gone.insert(process.clone(), line.at)),
                    Event::Late { token } => drop(case.late.insert(*token)),
                    Event::Abort { .. } => drop(case.aborted.insert(account.process.clone())),
                    Event::Ended { process, how } => {
                        case.ended_oddly.push((process.clone(), how.clone()));
                    }
                    _ => {}
                }
            }
        }
        case.busy = effective::busy(&accounts, &gone);
        let lines = accounts.iter().flat_map(|account| &account.lines);
        let answers = lines.filter_map(|line| Some((line.at, line.event.engine_time()?)));
        case.clock = Clock::of(answers.collect());
        case.synced = Synced::of(&accounts);
        case.gateways_gone = losses::gateways_gone(&accounts);
        for (number, account) in accounts.into_iter().enumerate() {
            let died = gone.get(&account.process).copied();
            case.hear(number, account, died);
        }
        case.claims.sort_unstable();
        case.faults.sort_by_key(|fault| fault.from);
        case.judge_latecomers();
        for extension in &case.extends {
            if let Some(deadline) = extension.deadline {
                let known = case.prolonged.entry(extension.token).or_default();
                known.push((extension.invoked, deadline));
            }
        }
        for timeline in case.jobs.values_mut() {
            timeline
                .grants
                .sort_by_key(|grant| (grant.attempt, grant.now));
            timeline.starts.sort_by_key(|start| start.at);
            timeline.ends.sort_by_key(|end| end.invoked);
            (case.granted).extend(timeline.grants.iter().map(|grant| grant.token));
        }
        case.admit_losses(false);
        case
    }

    /// Whether clocks were wrong: then those of the engine and of the machine do not compare.
    pub(crate) fn has_wrong_clocks(&self) -> bool {
        self.faults.iter().any(|fault| fault.id == "F14")
    }

    /// Whether this machine's clock says nothing of engine time.
    pub(super) fn keeps_other_time(&self) -> bool {
        self.is_elsewhere || self.has_wrong_clocks()
    }

    fn hear(&mut self, process: usize, account: Account, died: Option<u64>) {
        let mut solo = false;
        let mut enqueues: HashMap<u64, (u64, Vec<JobId>)> = HashMap::new();
        let mut settles: HashMap<u64, Vec<(JobId, usize)>> = HashMap::new();
        let mut cancels_of: HashMap<u64, Vec<(JobId, usize)>> = HashMap::new();
        let mut open: HashMap<u64, usize> = HashMap::new();
        let (mut quiet_periods_since, mut claims) = (None, Vec::new());
        for line in account.lines {
            let at = line.at;
            self.began = self.began.min(at);
            self.ended = self.ended.max(at);
            if let Some(now) = line.event.engine_time() {
                self.answered_at.insert(now);
            }
            match line.event {
                Event::Began { solo: is_solo } => solo = is_solo,
                Event::EnqueueInvoke { call, wall, jobs } => {
                    let ids = jobs.iter().map(|job| job.id).collect();
                    for job in jobs {
                        let timeline = self.jobs.entry(job.id).or_default();
                        timeline.unknown += 1;
                        if timeline.sent.as_ref().is_none_or(|(first, ..)| at < *first) {
                            timeline.sent = Some((at, wall, job));
                        }
                    }
                    enqueues.insert(call, (at, ids));
                }
                Event::EnqueueOk {
                    call,
                    now,
                    receipts,
                } => {
                    let (invoked, ids) = enqueues.remove(&call).unwrap_or_default();
                    self.hold("jobs", ids.len(), receipts.len());
                    self.answers.push(EnqueueAnswer {
                        process,
                        invoked,
                        at,
                        stored: true,
                        missing: false,
                    });
                    for (id, received) in ids.into_iter().zip(receipts) {
                        let timeline = self.jobs.entry(id).or_default();
                        timeline.unknown -= 1;
                        timeline.receipts.push(Receipt {
                            at,
                            now,
                            invoked,
                            received,
                        });
                    }
                }
                Event::EnqueueUnknown { call, error } => {
                    let invoked = enqueues.get(&call).map_or(at, |(invoked, _)| *invoked);
                    self.answers.push(EnqueueAnswer {
                        process,
                        invoked,
                        at,
                        stored: false,
                        missing: error.contains(DATA_MISSING),
                    });
                }
                Event::EnqueueFail { call, .. } => {
                    for id in enqueues.remove(&call).unwrap_or_default().1 {
                        self.jobs.entry(id).or_default().unknown -= 1;
                    }
                }
                Event::ClaimOk {
                    invoked,
                    now,
                    alone,
                    lease_duration,
                    leases,
                } => {
                    if !leases.iter().any(|lease| self.late.contains(&lease.token)) {
                        self.claims.push(at);
                        claims.push(at);
                    }
                    for lease in leases {
                        for job in lease.jobs {
                            self.jobs.entry(job.id).or_default().grants.push(Grant {
                                invoked,
                                at,
                                now,
                                attempt: job.attempt,
                                failures: job.failures,
                                crashes: job.crashes,
                                due: job.due,
                                token: lease.token,
                                lease_duration,
                                deadline: lease.deadline,
                                alone,
                                started: job.started,
                                content: job.content,
                                died: died.filter(|_| solo),
                            });
                        }
                    }
                }
                Event::ExtendUnknown { tokens, .. } => {
                    self.unsure.extend(tokens.into_iter().map(|it| (it, at)));
                }
                Event::ExtendOk {
                    invoked,
                    now,
                    leases,
                } => {
                    self.extends
                        .extend(leases.into_iter().map(|lease| Extension {
                            invoked,
                            answered: at,
                            now,
                            token: lease.token,
                            lease_duration: lease.lease_duration,
                            deadline: lease.deadline,
                            asked: lease.asked,
                            lost: lease.lost,
                        }));
                }
                Event::SettleInvoke { call, ends } => {
                    let mut places = Vec::with_capacity(ends.len());
                    for end in ends {
                        let timeline = self.jobs.entry(end.id).or_default();
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
                    settles.insert(call, places);
                }
                Event::SettleOk {
                    call,
                    now,
                    verdicts,
                } => {
                    let places = settles.remove(&call).unwrap_or_default();
                    self.hold("ends", places.len(), verdicts.len());
                    for ((id, place), verdict) in places.into_iter().zip(verdicts) {
                        self.answer(id, place, at, Answer::Known(now, verdict));
                    }
                }
                Event::SettleFail { call, .. } => {
                    for (id, place) in settles.remove(&call).unwrap_or_default() {
                        self.answer(id, place, at, Answer::Refused);
                    }
                }
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
                        process,
                    };
                    self.jobs.entry(id).or_default().starts.push(start);
                }
                Event::Finish {
                    id, attempt, new, ..
                } => {
                    self.jobs.entry(id).or_default().tried_again += u64::from(new == Some(false));
                    self.finish(id, at, attempt);
                }
                Event::CancelInvoke { call, ids } => {
                    let mut places = Vec::with_capacity(ids.len());
                    for id in ids {
                        let cancels = &mut self.jobs.entry(id).or_default().cancels;
                        places.push((id, cancels.len()));
                        cancels.push((at, None));
                    }
                    cancels_of.insert(call, places);
                }
                Event::CancelOk {
                    call,
                    now,
                    verdicts,
                } => {
                    let places = cancels_of.remove(&call).unwrap_or_default();
                    self.hold("cancels", places.len(), verdicts.len());
                    for ((id, place), verdict) in places.into_iter().zip(verdicts) {
                        let timeline = self.jobs.entry(id).or_default();
                        if verdict == "cancel_requested" {
                            timeline.stop_asked = timeline.stop_asked.into_iter().chain(now).min();
                        }
                        timeline.cancels[place].1 = Some((at, verdict));
                    }
                }
                Event::Abort { id, attempt } => {
                    self.jobs.entry(id).or_default().aborts += 1;
                    self.finish(id, at, attempt);
                }
                Event::Fault {
                    number,
                    id,
                    what,
                    on,
                } => {
                    open.insert(number, self.faults.len());
                    self.faults.push(FaultSpan {
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
                    if let Some(fault) = open
                        .remove(&number)
                        .and_then(|place| self.faults.get_mut(place))
                    {
                        (fault.until, fault.done, fault.met) = (at, done, met);
                    }
                }
                // It may have taken what a planned one may.
                Event::FailedOver { since } => self.faults.push(FaultSpan {
                    id: "F21".into(),
                    what: "a failover that no fault caused".into(),
                    from: since,
                    until: at,
                    done: false,
                    on: Vec::new(),
                    met: false,
                }),
                Event::Rest => quiet_periods_since = Some(at),
                Event::Rested => self
                    .quiet_periods
                    .extend(quiet_periods_since.take().map(|from| (from, at))),
                Event::Enough => self.enough = Some(at),
                Event::Drained => self.drained = true,
                Event::Dropped => self.dropped += 1,
                Event::Misfit { what } => self.misfits.push(what),
                Event::Stuck { what } => self.stuck.push(what),
                Event::Unwritten { bytes: 1.., .. } => self.unwritten.push(at),
                Event::Syncs { spans } => {
                    let noted = spans.into_iter().map(|(began, ended)| (at, began, ended));
                    self.syncs.extend(noted);
                }
                _ => {}
            }
        }
        if !claims.is_empty() {
            self.claims_by.insert(account.process, (claims, died));
        }
        // Handlers end with their process.
        if let Some(died) = died {
            for timeline in self.jobs.values_mut() {
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
    }

    fn judge_latecomers(&mut self) {
        for timeline in self.jobs.values_mut() {
            let mut completes = timeline
                .ends
                .iter()
                .filter(|end| end.outcome == "completed");
            timeline.completed_late =
                completes.any(|end| self.late.contains(&end.token) && !end.is_refused());
        }
    }

    fn answer(&mut self, id: JobId, place: usize, at: u64, answer: Answer) {
        if let Some(end) = self
            .jobs
            .get_mut(&id)
            .and_then(|timeline| timeline.ends.get_mut(place))
        {
            (end.answer, end.answered) = (answer, at);
        }
    }

    /// Notes a call that was answered for more or fewer than were asked about.
    fn hold(&mut self, what: &str, asked: usize, answered: usize) {
        if asked != answered {
            let text = format!("a call with {asked} {what} was answered for {answered}");
            self.misfits.push(text);
        }
    }

    fn finish(&mut self, id: JobId, at: u64, attempt: u32) {
        self.jobs
            .entry(id)
            .or_default()
            .finishes
            .push((at, attempt));
    }
}
