//! `punctual restore`.

use std::path::PathBuf;

use crate::args::Global;
use crate::failure::Result;
use crate::output::{counted, object};

/// Turn a backup into a data directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual restore /backups/punctual-2026-12-01
  punctual restore ./copy --engine file:/var/lib/punctual

The data directory of --engine must not exist or must be empty: nothing is overwritten. The backup
stays unchanged. Jobs that ran after the backup return to their earlier state and run again.")]
pub(crate) struct Args {
    /// The directory that `punctual backup` wrote
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
