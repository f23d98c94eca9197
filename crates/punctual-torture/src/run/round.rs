//! What a round came to, and all rounds of a run.

use serde::{Deserialize, Serialize};

use crate::cell::CellKind;
use crate::check::{self, Findings};

/// What one round of a cell came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) cell: CellKind,
    pub(crate) seed: u64,
    pub(crate) round: u64,
    /// How long the round took until the snapshot was made, in milliseconds.
    pub(crate) took: u64,
    /// How much of that went by between the last job that was sent and rest, in milliseconds.
    #[serde(default)]
    pub(crate) drained: u64,
    /// Of the histories and the snapshot.
    pub(crate) hash: String,
    pub(crate) findings: Findings,
}

impl Round {
    /// Whether nothing promised was broken.
    pub(crate) fn is_clean(&self) -> bool {
        // Whatever is lost, nothing comes early.
        self.findings.tally.early == 0 && self.broken().next().is_none()
    }

    /// Whether what is broken, if anything is, came too late: nothing was lost, doubled or early.
    fn is_only_late(&self) -> bool {
        self.findings.tally.early == 0 && self.broken().all(|it| check::is_of_time(&it.name))
    }

    /// Verdicts that are broken, but for those that its setting does not promise.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &check::Verdict> {
        let verdicts = self.findings.verdicts.iter();
        verdicts.filter(|verdict| !verdict.holds() && self.cell.promises(&verdict.name))
    }
}

/// What rounds came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing promised was broken.
    Nothing,
    /// Only waits and recoveries took too long, which a machine that stood still may cause.
    Late,
    Broken,
}

impl Found {
    pub(crate) fn of(rounds: &[Round]) -> Self {
        match rounds {
            _ if rounds.iter().all(Round::is_clean) => Self::Nothing,
            _ if rounds.iter().all(Round::is_only_late) => Self::Late,
            _ => Self::Broken,
        }
    }
}
