//! Kinds of faults that share a number of which each was asked for by itself.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::tables::grouped;
use crate::cell::CellKind;
use crate::plan::Kind;
use crate::totals::Run;

/// One of those: under which number, in which words and which cells, and how many were asked for.
struct Asked {
    id: &'static str,
    what: &'static str,
    /// What causes it; nothing yet does if there is none.
    kind: Option<Kind>,
    cells: &'static [CellKind],
    asked: u64,
}

const fn asked(
    id: &'static str,
    what: &'static str,
    kind: Option<Kind>,
    cells: &'static [CellKind],
    asked: u64,
) -> Asked {
    Asked {
        id,
        what,
        kind,
        cells,
        asked,
    }
}

const EMBEDDED: &[CellKind] = &[CellKind::EmbeddedPower, CellKind::EmbeddedDisk];
const ALWAYS: &[CellKind] = &[CellKind::RedisPower, CellKind::RedisDisk];
const CLUSTER: &[CellKind] = &[CellKind::Cluster];

const ASKED: [Asked; 12] = [
    asked("F12", "no byte passes", Some(Kind::BlackHole), &[], 200),
    asked("F12", "reset", Some(Kind::Reset), &[], 200),
    asked("F12", "half closed", Some(Kind::HalfClose), &[], 200),
    asked("F12", "late bytes", Some(Kind::Slow), &[], 200),
    asked("F12", "few bytes", Some(Kind::Thin), &[], 200),
    asked("F20", "full: embedded", Some(Kind::FullDisk), EMBEDDED, 50),
    asked(
        "F20",
        "full: Redis, `always`",
        Some(Kind::FullDisk),
        ALWAYS,
        50,
    ),
    asked("F20", "full: Redis, `everysec`", None, &[], 50),
    asked("F20", "full: MariaDB", None, &[], 50),
    asked("F23", "slot moved", Some(Kind::MoveSlot), CLUSTER, 100),
    asked("F23", "bare node added", None, CLUSTER, 20),
    asked("F23", "master killed", Some(Kind::KillEngine), CLUSTER, 50),
];

/// How often each was caused; unknown for runs before kinds were counted.
pub(super) fn table(runs: &[Run]) -> String {
    let mut table = String::from("| fault | kind | times | asked |\n| --- | --- | --: | --: |\n");
    for asked in ASKED {
        let of_cells = runs
            .iter()
            .filter(|run| asked.cells.is_empty() || asked.cells.contains(&run.cell));
        let counted: Vec<&BTreeMap<String, u64>> = of_cells
            .map(|run| &run.tally.kinds)
            .filter(|kinds| !kinds.is_empty())
            .collect();
        let times = match asked.kind {
            None => "0".into(),
            Some(_) if counted.is_empty() => super::UNKNOWN.into(),
            Some(kind) => {
                let times = counted.iter().filter_map(|kinds| kinds.get(kind.what()));
                grouped(times.sum())
            }
        };
        writeln!(
            table,
            "| {} | {} | {times} | {} |",
            asked.id, asked.what, asked.asked
        )
        .expect("a string takes any text");
    }
    table
}
