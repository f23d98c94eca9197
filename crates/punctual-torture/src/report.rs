//! What came of a run, for people.

mod html;
mod tables;

use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) use html::html;

use crate::check::{Tally, Verdict};
use crate::run::Round;

/// One line about a round.
pub(crate) fn line(round: &Round) -> String {
    let Tally {
        acknowledged,
        unjudged,
        lost,
        doubled,
        early,
        stale_accepted,
        ..
    } = round.findings.tally;
    let faults: u64 = round.findings.tally.faults.values().sum();
    let mut text = format!(
        "{:<14} seed {} round {}: {} s, drained in {} s, {faults} faults, {acknowledged} acknowledged, {unjudged} not judged, {lost} lost, {doubled} doubled, \
         {early} early, {stale_accepted} stale accepted",
        round.cell.name(),
        round.seed,
        round.round,
        round.took / 1_000,
        round.drained / 1_000,
    );
    if round.cell.may_lose() {
        let oldest = round.findings.tally.oldest_lost / 1_000;
        if round.cell.is_everysec() {
            let unwritten = round.findings.tally.unwritten;
            write!(text, ", {unwritten} kills met answers not yet written")
                .expect("a string takes any text");
        }
        write!(
            text,
            ", the oldest {oldest} ms before its fault; it may lose"
        )
        .expect("a string takes any text");
    }
    for verdict in round.broken() {
        write!(text, "\n  {}", self::verdict(verdict)).expect("a string takes any text");
    }
    text
}

/// A verdict with its first examples.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = match (verdict.holds(), verdict.checked) {
        (true, 0) => format!("{}: nothing to look at", verdict.name),
        (true, checked) => format!("{}: holds, {checked} looked at", verdict.name),
        (false, checked) => format!(
            "{}: BROKEN by {} of {checked}",
            verdict.name, verdict.broken
        ),
    };
    for example in &verdict.examples {
        write!(text, "\n    {example}").expect("a string takes any text");
    }
    text
}

/// The report of one run.
pub(crate) fn markdown(rounds: &[Round]) -> String {
    let mut text = String::from(
        "| cell | rounds | faults | acknowledged | not judged | lost | doubled effects | early | stale accepted | stale refused |\n\
         | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
    );
    let mut cells: BTreeMap<String, (u64, Tally)> = BTreeMap::new();
    for round in rounds {
        let (count, sum) = cells.entry(round.cell.name()).or_default();
        *count += 1;
        sum.add(&round.findings.tally);
    }
    for (cell, (rounds, sum)) in &cells {
        let faults: u64 = sum.faults.values().sum();
        writeln!(
            text,
            "| {cell} | {rounds} | {faults} | {} | {} | {} | {} | {} | {} | {} |",
            sum.acknowledged,
            sum.unjudged,
            sum.lost,
            sum.doubled,
            sum.early,
            sum.stale_accepted,
            sum.stale_refused
        )
        .expect("a string takes any text");
    }
    for round in rounds.iter().filter(|round| !round.is_clean()) {
        write!(text, "\n{}\n", line(round)).expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests;
