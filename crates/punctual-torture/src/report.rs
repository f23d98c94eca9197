//! What came of a run, for people.

mod html;
mod kinds;
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
        second_tries,
        ..
    } = round.findings.tally;
    let (faults, effective) = faults(&round.findings.tally);
    let mut text = format!(
        "{:<14} seed {} round {}: {} s, drained in {} s, {faults} faults, {effective} effective faults, {acknowledged} acknowledged, {unjudged} not judged, {lost} lost, {doubled} doubled, \
         {second_tries} second tries, {early} early, {stale_accepted} stale accepted",
        round.cell.name(),
        round.seed,
        round.round,
        round.took / 1_000,
        round.drained / 1_000,
    );
    let relayed = round.findings.tally.relayed;
    if !relayed.is_empty() {
        let [sent, arrived, lost, doubled, early, refused] = relayed.counts();
        write!(
            text,
            "; of {sent} messages by relays {arrived} arrived, {lost} lost, {doubled} doubled, {early} early, \
             {refused} in quarantine"
        )
        .expect("a string takes any text");
    }
    let quiet_periods = &round.findings.tally.quiet_periods;
    if quiet_periods.count() > 0 {
        let (count, most) = (
            quiet_periods.count(),
            tables::span(quiet_periods.share(1.0)),
        );
        write!(
            text,
            ", {count} quiet periods, a claim in each after {most} at most"
        )
        .expect("a string takes any text");
    }
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

/// Faults that were caused, and how many of them met something: of all of them, unless it is of
/// fewer that were checked for this.
fn faults(tally: &Tally) -> (String, String) {
    let (checked, effective) = tally.all_effective();
    let all = tally.all_faults();
    let effective = match checked {
        0 if all > 0 => UNKNOWN.into(),
        _ if checked == all => tables::grouped(effective),
        _ => format!(
            "{} of {}",
            tables::grouped(effective),
            tables::grouped(checked)
        ),
    };
    (tables::grouped(all), effective)
}

/// Not checked.
const UNKNOWN: &str = "–";

/// A verdict with its first examples.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = match (verdict.holds(), verdict.checked) {
        (true, 0) => format!("{}: nothing to check", verdict.name),
        (true, checked) => format!("{}: holds, {checked} checked", verdict.name),
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
        "| cell | rounds | faults | effective faults | acknowledged | not judged | lost | doubled effects | second tries | early | stale accepted | stale refused |\n\
         | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
    );
    let mut cells: BTreeMap<String, (u64, Tally)> = BTreeMap::new();
    for round in rounds {
        let (count, sum) = cells.entry(round.cell.name()).or_default();
        *count += 1;
        sum.add(&round.findings.tally);
    }
    for (cell, (rounds, sum)) in &cells {
        let (faults, effective) = faults(sum);
        let cells = [
            sum.acknowledged,
            sum.unjudged,
            sum.lost,
            sum.doubled,
            sum.second_tries,
            sum.early,
            sum.stale_accepted,
            sum.stale_refused,
        ];
        let cells = cells.map(|count| count.to_string()).join(" | ");
        writeln!(
            text,
            "| {cell} | {rounds} | {faults} | {effective} | {cells} |"
        )
        .expect("a string takes any text");
    }
    text.push('\n');
    text.push_str(&tables::quiet_periods(
        cells.iter().map(|(cell, (_, sum))| (cell.as_str(), sum)),
    ));
    text.push_str(&relays(&cells));
    for round in rounds.iter().filter(|round| !round.is_clean()) {
        write!(text, "\n{}\n", line(round)).expect("a string takes any text");
    }
    text
}

/// What came of messages by relays, of cells that have any.
fn relays(cells: &BTreeMap<String, (u64, Tally)>) -> String {
    let mut table = String::new();
    for (cell, (_, sum)) in cells.iter().filter(|(_, (_, sum))| !sum.relayed.is_empty()) {
        if table.is_empty() {
            table.push_str(
                "\n| cell | messages by relays | arrived | lost | doubled | early | in quarantine |\n\
                 | --- | --: | --: | --: | --: | --: | --: |\n",
            );
        }
        let cells = sum.relayed.counts().map(|count| count.to_string());
        writeln!(table, "| {cell} | {} |", cells.join(" | ")).expect("a string takes any text");
    }
    table
}

#[cfg(test)]
pub(crate) mod tests;
