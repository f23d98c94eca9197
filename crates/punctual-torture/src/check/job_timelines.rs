//! What is known of each job, gathered from the lines of all processes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual::JobId;
use punctual::engine::Token;

use super::clock::Clock;
use super::effective::{self, Busy};
use super::flows::Flows;
use super::gather;
pub(crate) use super::job_timeline::FaultSpan;
pub(super) use super::job_timeline::{
    Answer, Extension, Grant, Handed, JobTimeline, Receipt, Start,
};
use super::limits::Limits;
use super::losses::{self, Synced};
use super::missing::EnqueueAnswer;
use super::relayed::Relayed;
use super::schedules::Schedules;
use crate::call_log::Account;
use crate::event::Event;
use crate::snapshot::Snapshot;

/// A round.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) jobs: BTreeMap<JobId, JobTimeline>,
    pub(crate) snapshot: Snapshot,
    pub(super) flows: Flows,
    pub(super) limits: Limits,
    pub(super) relayed: Relayed,
    pub(super) schedules: Schedules,
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
    pub(super) late: HashSet<Token>,
    /// Instants of engine time at which the engine answered, in order.
    pub(super) answered_at: BTreeSet<u64>,
    /// By token: when an extend was sent, and until when it prolonged the lease.
    pub(super) prolonged: HashMap<Token, Vec<(u64, u64)>>,
}

impl Case {
    pub(crate) fn new(accounts: Vec<Account>, snapshot: Snapshot) -> Self {
        let mut case = Self {
            jobs: BTreeMap::new(),
            flows: Flows::default(),
            limits: Limits::default(),
            relayed: Relayed::default(),
            schedules: Schedules::default(),
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
            gather::read(&mut case, number, account, died);
        }
        let on_their_way = case.relayed.on_their_way();
        case.busy.extend(on_their_way.map(effective::of_messages));
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
}
