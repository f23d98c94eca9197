//! L: where an engine says how much a fault takes, it takes no more, and nothing else takes any.

use std::iter::once;

use super::Verdict;
use super::job_timelines::{Case, FaultSpan};
use super::kept::is_lost;

/// The verdict that what is lost was acknowledged shortly before a fault that may take it.
pub(super) const BOUNDED: &str = "L no more is lost than said";

/// L: a job that is lost was acknowledged so shortly before a power cut, or a kill that met what
/// Redis had delayed to write; or while that was under way.
pub(super) fn loses_no_more(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(BOUNDED);
    let Some(most) = case.loses_at_most else {
        return verdict;
    };
    let syncs = syncs(case);
    let bound = Bound { case, most, syncs };
    for (id, timeline) in &case.jobs {
        let Some(receipt) = timeline.stored() else {
            continue;
        };
        let at = receipt.at;
        let taken = || case.faults.iter().any(|fault| bound.may_take(fault, at));
        verdict.check(!is_lost(case, id, timeline) || taken(), || {
            let takes = |fault: &&FaultSpan| bound.reach(fault).is_some() && fault.from > at;
            let before = match case.faults.iter().find(takes) {
                Some(fault) => format!(
                    "{} ms before {} ({}), {} of which count",
                    (fault.from - at) / 1_000,
                    fault.id,
                    fault.what,
                    bound.awake(at, fault.from) / 1_000
                ),
                None => "before nothing that takes any".into(),
            };
            format!("{id} was acknowledged {before}, and is lost")
        });
    }
    verdict
}

/// How long after its instant a thread may come to its turn, in microseconds.
pub(super) const TURN: u64 = 500_000;
/// So much of a silence counts: in the rest of it the machine had other work, for others too.
pub(super) const SILENCE: u64 = 100_000;

struct Bound<'a> {
    case: &'a Case,
    most: u64,
    /// In which a sync was under way, in order, apart from each other.
    syncs: Vec<(u64, u64)>,
}

impl Bound<'_> {
    /// Whether a fault may have taken what was acknowledged at a stamp.
    fn may_take(&self, fault: &FaultSpan, at: u64) -> bool {
        let reaches = |reach| fault.from <= at || self.awake(at, fault.from) <= reach;
        at <= fault.until && self.reach(fault).is_some_and(reaches)
    }

    /// How far before its beginning a fault takes something; `None` if it takes nothing.
    fn reach(&self, fault: &FaultSpan) -> Option<u64> {
        let span = fault.from..=fault.until;
        match &*fault.id {
            "F05" => Some(self.most + TURN),
            "F03" if self.case.unwritten.iter().any(|met| span.contains(met)) => {
                Some(self.most + TURN)
            }
            // What comes after Redis was asked what it has delayed.
            "F03" => Some(0),
            _ => None,
        }
    }

    /// Microseconds between two stamps that count: no sync was under way, and the engine
    /// answered.
    fn awake(&self, from: u64, until: u64) -> u64 {
        let ends = self.case.clock.answers(from, until).chain(once(until));
        let mut begins = from;
        let gaps = ends.map(|end| {
            let begin = std::mem::replace(&mut begins, end);
            end.saturating_sub(begin) - self.synced(begin, end)
        });
        gaps.map(|gap| gap.min(SILENCE)).sum()
    }

    /// Microseconds between two stamps in which a sync was under way.
    fn synced(&self, from: u64, until: u64) -> u64 {
        let first = self.syncs.partition_point(|(_, ended)| *ended <= from);
        let within = self.syncs[first..]
            .iter()
            .take_while(|(began, _)| *began < until);
        let overlap = within.map(|(began, ended)| (*ended).min(until) - (*began).max(from));
        overlap.sum()
    }
}

/// Faults that end the process of the engine, and the sync in it.
const ENDS: [&str; 2] = ["F05", "F06"];

/// Spans in which a sync was under way, in order and apart.
fn syncs(case: &Case) -> Vec<(u64, u64)> {
    let ended = |began: u64, noted: u64| {
        let ends = |fault: &&FaultSpan| ENDS.contains(&&*fault.id) && fault.until >= began;
        let end = case.faults.iter().find(ends).map(|fault| fault.until);
        end.unwrap_or(noted).min(noted)
    };
    let known = case.syncs.iter();
    let known = known.map(|(noted, began, end)| (*began, end.unwrap_or(ended(*began, *noted))));
    let mut spans: Vec<(u64, u64)> = known.collect();
    spans.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
    for (began, ended) in spans {
        match apart.last_mut() {
            Some((_, last)) if began <= *last => *last = ended.max(*last),
            _ => apart.push((began, ended)),
        }
    }
    apart
}
