//! `punctual repair`.

mod clock;

use std::path::Path;

use punctual::ErrorKind;
use punctual_embedded::{Cut, EmbeddedEngine, Options, Repaired};

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::output::{Output, counted, object};

/// Repair a damaged data directory, or engine time on Redis that is ahead
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual repair          shows what is damaged, and changes nothing
  punctual repair --yes    keeps the readable part, moves the damaged original aside
  punctual repair --clock --engine ADDRESS          shows how far engine time is ahead
  punctual repair --clock --yes --engine ADDRESS    sets it back, once all workers are stopped

Everything before the damage is kept; jobs acknowledged after it are lost, and the command prints how
much. A backup may have more: check it first. Exit code 6 if there is damage and --yes is missing.")]
pub(crate) struct Args {
    /// Do it
    #[arg(long)]
    yes: bool,

    /// Set engine time of the namespace back to the clocks of its Redis servers, after one of them
    /// was ahead: until it has caught up, nothing falls due and no lease ends
    #[arg(long)]
    clock: bool,

    /// With --clock: end the leases that are open, although workers may still run; stop all of them
    /// before
    #[arg(long, requires = "clock")]
    force: bool,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if self.clock {
            return clock::run(global, self.yes, self.force).await;
        }
        let address = global.address()?;
        let dir = address.directory("repair")?;
        let out = global.output();
        if self.yes {
            return announce(out, dir, &punctual_embedded::repair(dir)?);
        }
        match EmbeddedEngine::open(dir, Options::default().create(false)) {
            Ok(engine) => {
                drop(engine);
                punctual_embedded::verify(dir)?;
                announce(out, dir, &Repaired::default())
            }
            // Of other damage the error itself says what helps.
            Err(error)
                if error.kind() == ErrorKind::DataDamaged && error.message().contains("repair") =>
            {
                let reported = Failure::from(error);
                Err(reported.hint("a backup may have more; `punctual repair --yes` keeps everything before the damage"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn announce(out: Output, dir: &Path, repaired: &Repaired) -> Result<()> {
    let aside = repaired
        .aside
        .as_ref()
        .map(|path| path.display().to_string());
    if out.is_json() {
        let log = repaired.log.as_ref().map(|cut| {
            object!({
                "file": cut.file,
                "offset": cut.offset,
                "commit": cut.commit,
                "whole_commits_lost": cut.whole_commits,
            })
        });
        let repaired = object!({"format": repaired.format, "log": log, "aside": aside});
        return out.json(&repaired);
    }
    if *repaired == Repaired::default() {
        return out.line(format!("{} is not damaged", dir.display()));
    }
    if repaired.format {
        out.line("the format file was rewritten")?;
    }
    if let Some(Cut {
        file,
        offset,
        commit,
        whole_commits,
        ..
    }) = &repaired.log
    {
        let whole = counted(*whole_commits, "whole commit");
        out.line(format!(
            "{file} was cut at byte {offset}; lost: commit {commit}, and {whole} after it"
        ))?;
    }
    match aside {
        Some(aside) => out.line(format!("the damaged original is in {aside}")),
        None => Ok(()),
    }
}
