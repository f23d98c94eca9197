//! What all runs came to, in one file in the tree; the tables of the pages are made from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::cell::CellKind;
use crate::check::{Lateness, Tally};
use crate::run::Round;

/// Every run that was added.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) runs: Vec<Run>,
    /// How late handlers started by fault, over all runs.
    pub(crate) lateness: BTreeMap<CellKind, Lateness>,
}

/// The rounds of one cell under one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) commit: String,
    pub(crate) cell: CellKind,
    pub(crate) seed: u64,
    pub(crate) rounds: u64,
    /// Milliseconds.
    pub(crate) took: u64,
    /// Each round's hash, by which `verify` knows its histories; of runs before it was kept whole
    /// its first sixteen digits.
    pub(crate) hashes: Vec<String>,
    /// By invariant: things checked, and those that broke it.
    pub(crate) verdicts: BTreeMap<String, (u64, u64)>,
    pub(crate) tally: Tally,
}

/// Tombstones last two minutes, and the snapshot itself takes its time.
const JUDGED_MILLIS_MAX: u64 = 110_000;

impl Totals {
    /// The totals in a file; none if there is none yet.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes them, a line per run, so that what was added is seen.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let lines: Result<Vec<_>, _> = self.runs.iter().map(serde_json::to_string).collect();
        let lateness = serde_json::to_string(&self.lateness)?;
        let text = format!(
            "{{\"runs\": [\n{}\n],\n\"lateness\": {lateness}}}\n",
            lines?.join(",\n")
        );
        let beside = path.with_extension("new");
        fs::write(&beside, text)?;
        fs::rename(beside, path)
    }

    /// Refuses a run that these totals have rounds of already: what is repeated proves nothing
    /// more.
    pub(crate) fn take_new(
        &self,
        commit: &str,
        cells: &[CellKind],
        seed: u64,
    ) -> Result<(), String> {
        let is_known =
            |run: &&Run| run.commit == commit && run.seed == seed && cells.contains(&run.cell);
        match self.runs.iter().find(is_known) {
            None => Ok(()),
            Some(run) => Err(format!(
                "the totals have rounds of {} under seed {seed} at {commit} already; take another --seed",
                run.cell.name()
            )),
        }
    }

    /// Adds a round to the run that it is part of, so that a run that is ended counts as far as it
    /// came.
    pub(crate) fn add(&mut self, commit: &str, round: &Round) {
        let ours =
            |run: &Run| run.commit == commit && run.cell == round.cell && run.seed == round.seed;
        let at = self.runs.iter().position(ours).unwrap_or_else(|| {
            self.runs.push(Run::new(commit, round));
            self.runs.len() - 1
        });
        self.runs[at].add(round);
        let lateness = self.lateness.entry(round.cell).or_default();
        lateness.merge(&round.findings.lateness);
    }

    /// Adds a round to the totals in a file; not one without a finding that took longer than
    /// tombstones of settled jobs last: its snapshot came too late to prove anything.
    pub(crate) fn add_to(path: &Path, commit: &str, round: &Round) -> io::Result<()> {
        if round.took > JUDGED_MILLIS_MAX && round.is_clean() {
            return Ok(());
        }
        let mut totals = Self::read(path)?;
        totals.add(commit, round);
        totals.write(path)
    }
}

impl Run {
    fn new(commit: &str, round: &Round) -> Self {
        Self {
            commit: commit.into(),
            cell: round.cell,
            seed: round.seed,
            rounds: 0,
            took: 0,
            hashes: Vec::new(),
            verdicts: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// How often something broke a verdict that the cell promises.
    pub(crate) fn broken(&self) -> u64 {
        let verdicts = self.verdicts.iter();
        let promised = verdicts.filter(|(name, _)| self.cell.promises(name));
        promised.map(|(_, (_, broken))| broken).sum()
    }

    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.took += round.took;
        self.hashes.push(round.hash.clone());
        for verdict in &round.findings.verdicts {
            let sum = self.verdicts.entry(verdict.name.clone()).or_default();
            *sum = (sum.0 + verdict.checked, sum.1 + verdict.broken);
        }
        self.tally.add(&round.findings.tally);
    }
}
