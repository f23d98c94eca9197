//! `punctual restore`.

use std::path::PathBuf;

use crate::args::Global;
use crate::failure::Result;
use crate::output::{counted, object};

/// Make a data directory of a backup
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual restore /backups/punctual-2026-12-01
  punctual restore ./copy --engine file:/var/lib/punctual

The data directory named by --engine must not be there yet, or be empty: nothing is overwritten. The
backup stays as it is. Jobs that ran since the backup was made are there as they were, and run again.")]
pub(crate) struct Args {
    /// What `punctual backup` made
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
}

impl Args {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        let address = global.address()?;
        let to = address.directory("restore")?;
        let copied = punctual_embedded::restore(&self.backup, to)?;
        let (to, out) = (to.display(), global.output());
        if out.is_json() {
            let (files, bytes) = (copied.files, copied.bytes);
            return out.json(&object!({"to": to.to_string(), "files": files, "bytes": bytes}));
        }
        let files = counted(copied.files as u64, "file");
        out.line(format!(
            "{files}, {} KiB, restored to {to}",
            copied.bytes.div_ceil(1024)
        ))
    }
}
