//! Compares histories with what was promised.
//!
//! A verdict says how many things it checked: one that checked none proves nothing.

mod bounded;
mod cancels;
mod clock;
mod effective;
mod ends;
mod exits;
mod flows;
mod gather;
mod handed;
mod heal;
mod job_timeline;
mod job_timelines;
mod kept;
mod keys;
mod last;
mod lateness;
mod leases;
mod limits;
mod losses;
mod missing;
mod overdue;
mod relayed;
mod schedules;
mod spans;
mod starts;
mod timeline;
mod timing;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::call_log;
use crate::setting::Setting;
use crate::snapshot::Snapshot;
pub(crate) use job_timelines::{Case, FaultSpan};
pub(crate) use lateness::{Lateness, Spread};
pub(crate) use relayed::RelayTally;
pub(crate) use timeline::Timeline;
#[cfg(test)]
pub(crate) use timeline::{Second, Span};
pub(crate) use timing::is_of_time;

/// Verdicts that a setting does not promise which may lose what was acknowledged; all others hold
/// there too, for jobs that no loss came over since they were claimed. What was deleted may be
/// back, too, in the next round.
pub(crate) const LOSABLE: [&str; 2] = [kept::KEPT, kept::BASE];

/// What one invariant came to in one round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Its number and name, such as `I1 nothing lost`.
    pub(crate) name: String,
    /// How many things were checked.
    pub(crate) checked: u64,
    /// How many of them break it.
    pub(crate) broken: u64,
    /// The first few of those, in words.
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            checked: 0,
            broken: 0,
            examples: Vec::new(),
        }
    }

    /// Checks one thing; `why` says what is wrong with it.
    fn check(&mut self, holds: bool, why: impl FnOnce() -> String) {
        self.checked += 1;
        if holds {
            return;
        }
        self.broken += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(why());
        }
    }

    /// Whether nothing breaks it.
    pub(crate) fn holds(&self) -> bool {
        self.broken == 0
    }
}

const EXAMPLES_MAX: usize = 10;

/// What a round came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) tally: Tally,
    pub(crate) lateness: Lateness,
    pub(crate) timeline: Timeline,
    /// Whether the engine could not be read in the end.
    #[serde(default)]
    pub(crate) is_blind: bool,
    /// Whether the jobs of the round were deleted in the end, so that another one may begin.
    #[serde(default = "yes")]
    pub(crate) is_cleared: bool,
}

fn is_unknown((_, of): &(u64, u64)) -> bool {
    *of == 0
}

fn yes() -> bool {
    true
}

/// What was done and seen in a round, in numbers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Jobs whose enqueue was acknowledged, under any of the verdicts that store a job, and that
    /// were judged.
    pub(crate) acknowledged: u64,
    /// Those that could not be judged: the engine could not be read, or they were not settled
    /// when the time to come to rest ran out.
    #[serde(default)]
    pub(crate) unjudged: u64,
    /// Those without a terminal state at the end.
    pub(crate) lost: u64,
    /// How long the oldest of those had been acknowledged when the next fault came, in
    /// microseconds.
    #[serde(default)]
    pub(crate) oldest_lost: u64,
    /// Kills of Redis that met bytes which it had answered and not written yet.
    #[serde(default)]
    pub(crate) unwritten: u64,
    /// Jobs with more than one effect.
    pub(crate) doubled: u64,
    /// Jobs that were claimed or started before they were due.
    pub(crate) early: u64,
    /// Ends, extensions of holders whose lease had passed on that the engine accepted.
    pub(crate) stale_accepted: u64,
    /// Those that it refused.
    pub(crate) stale_refused: u64,
    /// Ends and extensions that came when their lease was over for sure, whether its jobs had been
    /// claimed since or not.
    #[serde(default)]
    pub(crate) late_judged: u64,
    /// Those that were accepted after the end that their lease was known to have, where it may have
    /// been longer.
    #[serde(default)]
    pub(crate) late_excused: u64,
    /// Jobs whose enqueue was never answered and that were there all the same.
    pub(crate) recovered: u64,
    /// Handlers of an ended lease that were still at work when the next one began.
    pub(crate) overlaps: u64,
    /// Jobs that ended no process and were buried as poison: they ran alone when their process was
    /// killed.
    pub(crate) buried: u64,
    /// Effects that a handler tried once more, and the sink kept out by its key.
    #[serde(default)]
    pub(crate) second_tries: u64,
    /// Handler starts.
    pub(crate) starts: u64,
    /// How long it took in each quiet period until a worker claimed.
    #[serde(default, skip_serializing_if = "Spread::is_empty")]
    pub(crate) quiet_periods: Spread,
    /// Microseconds in which a fault held, and of how many.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub(crate) held: (u64, u64),
    /// Faults caused, by their number.
    pub(crate) faults: BTreeMap<String, u64>,
    /// By number: of how many faults it was checked whether they met something, and how many did.
    #[serde(default)]
    pub(crate) effective: BTreeMap<String, (u64, u64)>,
    /// Faults caused, by what they do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kinds: BTreeMap<String, u64>,
    /// Jobs that are lost, by the number of the next fault that may take any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lost_by: BTreeMap<String, u64>,
    /// Messages that came in by relays.
    #[serde(default, skip_serializing_if = "RelayTally::is_empty")]
    pub(crate) relayed: RelayTally,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.unjudged += other.unjudged;
        self.lost += other.lost;
        self.oldest_lost = self.oldest_lost.max(other.oldest_lost);
        self.unwritten += other.unwritten;
        self.doubled += other.doubled;
        self.early += other.early;
        self.stale_accepted += other.stale_accepted;
        self.stale_refused += other.stale_refused;
        self.late_judged += other.late_judged;
        self.late_excused += other.late_excused;
        self.recovered += other.recovered;
        self.overlaps += other.overlaps;
        self.buried += other.buried;
        self.second_tries += other.second_tries;
        self.starts += other.starts;
        self.quiet_periods.merge(&other.quiet_periods);
        self.held = (self.held.0 + other.held.0, self.held.1 + other.held.1);
        self.relayed.add(&other.relayed);
        for (id, count) in &other.faults {
            *self.faults.entry(id.clone()).or_insert(0) += count;
        }
        for (id, (checked, effective)) in &other.effective {
            let ours = self.effective.entry(id.clone()).or_default();
            *ours = (ours.0 + checked, ours.1 + effective);
        }
        for (what, count) in &other.kinds {
            *self.kinds.entry(what.clone()).or_insert(0) += count;
        }
        for (id, count) in &other.lost_by {
            *self.lost_by.entry(id.clone()).or_insert(0) += count;
        }
    }
}

impl Tally {
    /// Faults that were caused.
    pub(crate) fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Of how many of them it was checked whether they met something, and how many did.
    pub(crate) fn all_effective(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), one: &(u64, u64)| (sum.0 + one.0, sum.1 + one.1);
        self.effective.values().fold((0, 0), add)
    }
}

/// Checks the histories of a round.
pub(crate) fn check(round: &Path) -> io::Result<Findings> {
    let mut case = Case::new(call_log::read(round)?, Snapshot::read(round)?);
    // Redis syncs a claim before it answers; the embedded engine writes it, and syncs it with what
    // comes next.
    let setting = Setting::of(round)?;
    case.forgets_claims = !setting.engine.starts_with("redis");
    case.is_elsewhere = setting.is_elsewhere;
    case.admit_losses(setting.may_lose);
    case.loses_at_most = setting.loses_at_most.map(|span| span.as_micros() as u64);
    let mut findings = judge(&case);
    if setting.flows {
        findings.verdicts.extend(flows::judge(&case));
    }
    if setting.limits {
        findings.verdicts.extend(limits::judge(&case));
    }
    if setting.relayed.is_some() {
        let (verdicts, tally) = relayed::judge(&case);
        findings.verdicts.extend(verdicts);
        findings.tally.relayed = tally;
    }
    if setting.schedules {
        findings.verdicts.extend(schedules::judge(&case));
    }
    let mut done = something_was_done(&findings.tally);
    heal::were_judged(setting.quiet_periods, &case, &findings.tally, &mut done);
    findings.verdicts.push(done);
    Ok(findings)
}

/// D: a round in which nothing was sent or run, or in which no fault met anything, proves nothing.
/// What was lost could not run: of that I1 judges.
fn something_was_done(tally: &Tally) -> Verdict {
    let mut verdict = Verdict::new(DONE);
    let effective = tally
        .effective
        .values()
        .map(|(_, effective)| effective)
        .sum();
    for (what, done) in [
        ("sent", tally.acknowledged + tally.unjudged),
        ("run", tally.starts + tally.lost),
        ("met by a fault", effective),
    ] {
        verdict.check(done > 0, || format!("nothing was {what}"));
    }
    verdict
}

/// The verdict that is on the round itself.
const DONE: &str = "D something was done";

/// Every invariant.
pub(crate) fn judge(case: &Case) -> Findings {
    let mut tally = Tally {
        faults: case.count_faults(),
        effective: case.count_effective(),
        unwritten: case.unwritten.len() as u64,
        held: heal::held(case),
        kinds: heal::kinds(case),
        ..Tally::default()
    };
    let verdicts = vec![
        kept::nothing_lost(case, &mut tally),
        leases::one_valid(case, &mut tally),
        leases::stale_are_powerless(case, &mut tally),
        kept::effect_once(case, &mut tally),
        timing::not_early(case, &mut tally),
        timing::alive_again(case, &mut tally),
        ends::attempts(case, &mut tally),
        kept::no_orphans(case),
        kept::back_to_base(case),
        kept::counts(case),
        missing::loss_is_reported(case),
        bounded::loses_no_more(case),
        exits::as_asked(case),
        timing::ended(case),
        timing::engine_answered(case),
    ];
    Findings {
        verdicts,
        tally,
        lateness: Lateness::of(case),
        timeline: Timeline::of(case),
        is_blind: case.snapshot.blind.is_some(),
        is_cleared: case.snapshot.uncleared.is_none(),
    }
}

#[cfg(test)]
mod tests;
