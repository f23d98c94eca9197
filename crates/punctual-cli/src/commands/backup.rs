//! `punctual backup`.

use std::path::PathBuf;

use crate::args::Global;
use crate::failure::Result;
use crate::output::{counted, object};

/// Copy the data directory to a new one, also while it is in use
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual backup /backups/punctual-2026-12-01
  punctual backup -e file:/var/lib/punctual ./copy

A process that has the directory open keeps running. The copy has everything acknowledged before
the command, and the command verifies it. `punctual restore` turns it into a data directory.")]
pub(crate) struct Args {
    /// The target: a directory that does not exist yet, or is empty
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

impl Args {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        let address = global.address()?;
        let from = address.directory("backup")?;
        let copied = punctual_embedded::backup(from, &self.to)?;
        let (to, out) = (self.to.display(), global.output());
        if out.is_json() {
            let (files, bytes) = (copied.files, copied.bytes);
            return out.json(&object!({"to": to.to_string(), "files": files, "bytes": bytes}));
        }
        let files = counted(copied.files as u64, "file");
        out.line(format!(
            "{files}, {} KiB, copied to {to}",
            copied.bytes.div_ceil(1024)
        ))
    }
}
