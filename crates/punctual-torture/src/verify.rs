//! Kept histories are judged again, and held against what was said of them then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::roles::Failed;
use crate::run::{self, Round};
use crate::totals::Totals;
use crate::{call_log, report, snapshot};

/// Judges every round whose history was kept below a folder; answers whether all say what they
/// said, and nothing promised was broken; and, held against totals, whether those have every round.
///
/// # Errors
/// If there is no such round, or one cannot be read.
pub(crate) fn below(folder: &Path, totals: Option<&Totals>) -> Result<bool, Failed> {
    let mut came = Came::default();
    walk(folder, totals, &mut came)?;
    if came.judged == 0 {
        let text = "nothing was judged: no round with its history is below";
        return Err(format!("{text} {}; name the folder of a run", folder.display()).into());
    }
    Ok(came.failed == 0)
}

/// Rounds that were judged, and those of them that were not clean or say something else than they
/// did.
#[derive(Debug, Default)]
struct Came {
    judged: u64,
    failed: u64,
}

fn walk(folder: &Path, totals: Option<&Totals>, came: &mut Came) -> Result<(), Failed> {
    if folder.join(snapshot::FILE).exists() {
        if folder.join(call_log::FOLDER).exists() {
            came.judged += 1;
            came.failed += u64::from(!is_true(folder, totals)?);
        } else {
            println!("{}: its history was not kept", folder.display());
        }
        return Ok(());
    }
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut below: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    below.sort();
    let folders = below.iter().filter(|path| path.is_dir());
    folders
        .into_iter()
        .try_for_each(|folder| walk(folder, totals, came))
}

/// Whether one round is what was judged then, says the same, is clean, and is in the totals.
fn is_true(folder: &Path, totals: Option<&Totals>) -> Result<bool, Failed> {
    let kept: Round = serde_json::from_slice(&fs::read(folder.join(run::FILE))?)?;
    let (findings, hash) = run::verify(folder)?;
    println!("{}: {hash}", folder.display());
    let is_same = kept.hash == hash;
    if !is_same {
        println!("  it is not what was judged then: {}", kept.hash);
    }
    let is_summed = totals.is_none_or(|totals| has(totals, &kept, &hash));
    if !is_summed {
        let (cell, seed) = (kept.cell.name(), kept.seed);
        println!("  it is in no row of the totals of {cell} under seed {seed}");
    }
    let agrees = kept.findings.verdicts == findings.verdicts;
    for (then, now) in kept.findings.verdicts.iter().zip(&findings.verdicts) {
        if then != now {
            println!("  it was said then: {}", report::verdict(then));
        }
    }
    for verdict in &findings.verdicts {
        println!("  {}", report::verdict(verdict));
    }
    Ok(is_same && is_summed && agrees && Round { findings, ..kept }.is_clean())
}

/// Of rounds before hashes were kept whole there are so many digits.
const DIGITS: usize = 16;

/// Whether totals have a round, by what its histories hash to now.
fn has(totals: &Totals, round: &Round, hash: &str) -> bool {
    let rows = totals.runs.iter();
    let mut rows = rows.filter(|row| row.cell == round.cell && row.seed == round.seed);
    let is_that = |known: &String| known.len() >= DIGITS && hash.starts_with(&**known);
    rows.any(|row| row.hashes.iter().any(is_that))
}
