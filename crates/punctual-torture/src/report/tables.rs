//! The tables of the pages, between their marks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::cell::CellKind;
use crate::check::{Lateness, Tally};
use crate::totals::{Run, Totals};

/// Faults by their number: in a few words, and how many were asked for before there were any
/// totals, of all their kinds together; none where so much time was asked for.
const KINDS: [(&str, &str, u64); 28] = [
    ("F01", "a worker killed", 1_000),
    ("F02", "Redis killed, `always`", 1_000),
    ("F03", "Redis killed, `everysec`", 1_200),
    ("F04", "power cut", 500),
    ("F05", "power cut, may lose", 250),
    ("F06", "gateway killed", 1_000),
    ("F07", "embedded engine killed", 1_000),
    ("F08", "a worker stopped", 300),
    ("F09", "engine stopped", 100),
    ("F10", "gateway stopped", 100),
    ("F11", "cut or swallowed", 1_500),
    ("F12", "no, few or late bytes", 1_000),
    ("F13", "connections closed", 500),
    ("F14", "wrong clocks", 300),
    ("F16", "functions gone", 200),
    ("F17", "data emptied", 20),
    ("F18", "memory full", 50),
    ("F20", "disk full, failing, slow", 200),
    ("F21", "failover", 300),
    ("F22", "old master back", 50),
    ("F23", "slot moved, master killed", 170),
    ("F27", "clients that read no answer", 0),
    ("F28", "slow-sending clients", 0),
    ("F29", "all workers stopped", 10),
    ("F30", "a handler ends its process", 200),
    ("F31", "SIGTERM to a worker", 200),
    ("F35", "a call given up", 100_000),
    ("F36", "newer functions beside", 20),
];

impl Totals {
    /// The page with its tables as these totals have them.
    pub(crate) fn fill(&self, page: &str) -> String {
        let mut page = page.to_owned();
        for (name, table) in [
            ("torture", self.by_cell()),
            ("torture-brief", self.by_engine()),
            ("torture-lossy", self.by_loss()),
            ("torture-faults", self.by_fault()),
            ("torture-by-fault", self.by_fault_briefly()),
            ("torture-seeds", self.by_seed()),
            ("torture-kinds", super::kinds::table(&self.runs)),
            ("torture-quiet-periods", self.by_rest()),
            ("torture-excused", self.by_excuse()),
            ("torture-lateness", self.by_lateness()),
            ("torture-runs", self.by_run()),
        ] {
            let (from, to) = (
                format!("<!-- {name} -->\n"),
                format!("<!-- end of {name} -->"),
            );
            if let (Some(start), Some(end)) = (page.find(&from), page.find(&to)) {
                page.replace_range(start + from.len()..end, &table);
            }
        }
        page
    }

    fn by_cell(&self) -> String {
        let mut cells: BTreeMap<_, (u64, Tally)> = BTreeMap::new();
        let mut all = (0, Tally::default());
        for run in self.runs.iter().filter(|run| !run.cell.may_lose()) {
            let cell = cells.entry((run.cell, run.cell.durability())).or_default();
            for (broken, tally) in [cell, &mut all] {
                *broken += run.broken();
                tally.add(&run.tally);
            }
        }
        let mut table = String::from(
            "| engine | acknowledged after | faults | effective faults | jobs acknowledged | not judged | lost | doubled effects | second tries | early | stale settlements accepted | verdicts broken |\n\
             | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
        );
        for ((cell, durability), totals) in &cells {
            row(
                &mut table,
                &format!("`{}`", cell.name()),
                &format!("`{durability}`"),
                totals,
            );
        }
        row(&mut table, "all", "", &all);
        table
    }

    /// The same for the README: one short row per engine, its cells added up.
    fn by_engine(&self) -> String {
        let mut engines: BTreeMap<_, Tally> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| !run.cell.may_lose()) {
            let name = run.cell.name();
            let engine = name.split('-').next().unwrap_or_default().to_owned();
            let durability = run.cell.durability().to_string();
            let tally = engines.entry((engine, durability)).or_default();
            tally.add(&run.tally);
        }
        let mut table = String::from(
            "| engine | acknowledged after | faults | jobs acknowledged | lost | done twice | early |\n\
             | --- | --- | --: | --: | --: | --: | --: |\n",
        );
        for ((engine, durability), tally) in engines {
            let faults = grouped(tally.faults.values().sum());
            let [jobs, lost, doubled, early] =
                [tally.acknowledged, tally.lost, tally.doubled, tally.early].map(grouped);
            writeln!(
                table,
                "| `{engine}` | `{durability}` | {faults} | {jobs} | {lost} | {doubled} | {early} |"
            )
            .expect("a string takes any text");
        }
        table
    }

    /// What settings lost that may lose: of all that was judged, and by which fault.
    fn by_loss(&self) -> String {
        let mut cells: BTreeMap<_, Tally> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.cell.may_lose()) {
            cells.entry(run.cell).or_default().add(&run.tally);
        }
        let mut table = String::from(
            "| engine | acknowledged after | faults | effective faults | jobs acknowledged | lost | of all | by | the oldest, before its fault | second tries | early | stale settlements accepted |\n\
             | --- | --- | --: | --: | --: | --: | --: | --- | --: | --: | --: | --: |\n",
        );
        for (cell, tally) in cells {
            let (faults, effective) = super::faults(&tally);
            let share = 100.0 * tally.lost as f64 / tally.acknowledged.max(1) as f64;
            let by = tally.lost_by.iter();
            let by = by.map(|(fault, count)| format!("{fault} {}", grouped(*count)));
            let by = by.collect::<Vec<_>>().join(", ");
            let oldest = match tally.lost {
                0 => String::new(),
                _ => span(tally.oldest_lost),
            };
            let (name, durability) = (cell.name(), cell.durability());
            let [jobs, lost, tries, early, stale] = [
                tally.acknowledged,
                tally.lost,
                tally.second_tries,
                tally.early,
                tally.stale_accepted,
            ]
            .map(grouped);
            writeln!(
                table,
                "| `{name}` | `{durability}` | {faults} | {effective} | {jobs} | {lost} | {share:.1} % | {by} | {oldest} | {tries} | {early} | {stale} |"
            )
            .expect("a string takes any text");
        }
        table
    }

    /// How soon a worker claimed once all was healed, and how much of the time something was not.
    fn by_rest(&self) -> String {
        let mut cells: BTreeMap<_, Tally> = BTreeMap::new();
        for run in &self.runs {
            cells.entry(run.cell).or_default().add(&run.tally);
        }
        let names = cells.keys().map(|cell| format!("`{}`", cell.name()));
        let names: Vec<_> = names.collect();
        quiet_periods(names.iter().map(String::as_str).zip(cells.values()))
    }

    /// What breaks nothing, and is not to be hidden: handlers beside each other, and what was let
    /// pass.
    fn by_excuse(&self) -> String {
        let mut cells: BTreeMap<_, Tally> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| !run.cell.may_lose()) {
            cells.entry(run.cell).or_default().add(&run.tally);
        }
        let mut table = String::from(
            "| engine | handler starts | began while the last one still ran | buried by a kill from outside | ends after the lease judged | accepted, and excused |\n\
             | --- | --: | --: | --: | --: | --: |\n",
        );
        for (cell, tally) in cells {
            let [starts, overlaps, buried, judged, excused] = [
                tally.starts,
                tally.overlaps,
                tally.buried,
                tally.late_judged,
                tally.late_excused,
            ]
            .map(grouped);
            let name = cell.name();
            writeln!(
                table,
                "| `{name}` | {starts} | {overlaps} | {buried} | {judged} | {excused} |"
            )
            .expect("a string takes any text");
        }
        table
    }

    fn by_fault(&self) -> String {
        let mut all = Tally::default();
        for run in &self.runs {
            all.add(&run.tally);
        }
        let mut table = String::from(
            "| fault | times | asked | checked | effective |\n| --- | --: | --: | --: | --: |\n",
        );
        for (id, count) in all.faults {
            let (checked, effective) = all.effective.get(&id).copied().unwrap_or_default();
            let [count, checked, effective] = [count, checked, effective].map(grouped);
            let asked = match kind(&id) {
                Some((_, _, asked @ 1..)) => grouped(*asked),
                _ => super::UNKNOWN.into(),
            };
            writeln!(
                table,
                "| {id} | {count} | {asked} | {checked} | {effective} |"
            )
            .expect("a string takes any text");
        }
        table
    }

    /// The same for a reader in a hurry: where nothing may be lost, how often, and how late
    /// handlers started meanwhile.
    fn by_fault_briefly(&self) -> String {
        let mut all = Tally::default();
        for run in self.runs.iter().filter(|run| !run.cell.may_lose()) {
            all.add(&run.tally);
        }
        let mut lateness = Lateness::default();
        let sure = |cell: &CellKind| !cell.may_lose();
        for (_, of_cell) in self.lateness.iter().filter(|(cell, _)| sure(cell)) {
            lateness.merge(of_cell);
        }
        let mut table = String::from(
            "| | fault | times | late by p50 | p99 | max |\n| --- | --- | --: | --: | --: | --: |\n",
        );
        let named = |(id, count): (&String, &u64)| (id.clone(), grouped(*count));
        let rows = all.faults.iter().map(named);
        for (id, count) in rows.chain([("quiet".into(), String::new())]) {
            let [p50, p99, max] = match lateness.0.get(&id) {
                Some(spread) => [0.5, 0.99, 1.0].map(|share| span(spread.share(share))),
                None => [super::UNKNOWN; 3].map(Into::into),
            };
            let (id, name) = match (&*id, kind(&id)) {
                ("quiet", _) => ("", "none"),
                (id, kind) => (id, kind.map_or("", |(_, name, _)| name)),
            };
            writeln!(table, "| {id} | {name} | {count} | {p50} | {p99} | {max} |")
                .expect("a string takes any text");
        }
        table
    }

    /// Which seeds ran where nothing may be lost, on the engines of which commits.
    fn by_seed(&self) -> String {
        let mut commits: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| !run.cell.may_lose()) {
            commits.entry(&run.commit).or_default().insert(run.seed);
        }
        let mut table = String::from("| commit | seeds |\n| --- | --- |\n");
        for (commit, seeds) in commits {
            let seeds: Vec<_> = seeds.iter().map(u64::to_string).collect();
            writeln!(table, "| `{commit}` | {} |", seeds.join(" "))
                .expect("a string takes any text");
        }
        table
    }

    fn by_lateness(&self) -> String {
        let mut table = String::from(
            "| engine | while | first starts | p50 | p99 | max |\n| --- | --- | --: | --: | --: | --: |\n",
        );
        for (cell, lateness) in &self.lateness {
            for (fault, spread) in &lateness.0 {
                let count: u64 = spread.0.values().sum();
                let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| span(spread.share(share)));
                let cell = cell.name();
                writeln!(
                    table,
                    "| `{cell}` | {fault} | {} | {p50} | {p99} | {max} |",
                    grouped(count)
                )
                .expect("a string takes any text");
            }
        }
        table
    }

    fn by_run(&self) -> String {
        let mut commits: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in &self.runs {
            commits.entry(&run.commit).or_default().push(run);
        }
        let mut table = String::from(
            "| commit | engine | seeds | minutes | faults | jobs acknowledged |\n| --- | --- | --- | --: | --: | --: |\n",
        );
        for (commit, runs) in commits {
            let mut cells: BTreeMap<_, Vec<&Run>> = BTreeMap::new();
            for run in runs {
                cells.entry(run.cell).or_default().push(run);
            }
            for (cell, runs) in cells {
                let seeds: Vec<_> = runs.iter().map(|run| run.seed.to_string()).collect();
                let took: u64 = runs.iter().map(|run| run.took).sum();
                let faults: u64 = runs.iter().flat_map(|run| run.tally.faults.values()).sum();
                let jobs: u64 = runs.iter().map(|run| run.tally.acknowledged).sum();
                let cell = cell.name();
                let (seeds, minutes) = (seeds.join(" "), took / 60_000);
                writeln!(
                    table,
                    "| `{commit}` | `{cell}` | {seeds} | {minutes} | {} | {} |",
                    grouped(faults),
                    grouped(jobs)
                )
                .expect("a string takes any text");
            }
        }
        table
    }
}

/// How long it took in quiet periods until a worker claimed, by cell; not measured in runs before
/// there were any.
pub(super) fn quiet_periods<'a>(cells: impl Iterator<Item = (&'a str, &'a Tally)>) -> String {
    let mut table = String::from(
        "| cell | quiet periods | first claim after p50 | p99 | max | a fault held |\n| --- | --: | --: | --: | --: | --: |\n",
    );
    for (cell, tally) in cells {
        let (quiet_periods, [p50, p99, max]) = match tally.quiet_periods.count() {
            0 => (super::UNKNOWN.into(), [super::UNKNOWN; 3].map(Into::into)),
            count => (
                grouped(count),
                [0.5, 0.99, 1.0].map(|share| span(tally.quiet_periods.share(share))),
            ),
        };
        let held = match tally.held {
            (_, 0) => super::UNKNOWN.into(),
            (held, of) => format!("{:.0} %", 100.0 * held as f64 / of as f64),
        };
        writeln!(
            table,
            "| {cell} | {quiet_periods} | {p50} | {p99} | {max} | {held} |"
        )
        .expect("a string takes any text");
    }
    table
}

fn kind(id: &str) -> Option<&'static (&'static str, &'static str, u64)> {
    KINDS.iter().find(|(known, _, _)| *known == id)
}

fn row(table: &mut String, name: &str, durability: &str, (broken, tally): &(u64, Tally)) {
    let (faults, effective) = super::faults(tally);
    let [jobs, unjudged, lost, doubled, tries, early, stale, broken] = [
        tally.acknowledged,
        tally.unjudged,
        tally.lost,
        tally.doubled,
        tally.second_tries,
        tally.early,
        tally.stale_accepted,
        *broken,
    ]
    .map(grouped);
    writeln!(
        table,
        "| {name} | {durability} | {faults} | {effective} | {jobs} | {unjudged} | {lost} | {doubled} | {tries} | {early} | {stale} | {broken} |"
    )
    .expect("a string takes any text");
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn span(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}
