//! `punctual backup`.

use std::path::PathBuf;

use crate::args::Global;
use crate::failure::Result;
use crate::output::{counted, object};

/// Copy the data directory, in use or not, to a new one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual backup /backups/punctual-2026-12-01
  punctual backup -e file:/var/lib/punctual ./copy

A process that has the directory open goes on meanwhile. Everything that was acknowledged before is
in the copy, which is read back before it is called one. `punctual restore` makes a data directory
of it.")]
pub(crate) struct Args {
    /// Where to: a directory that is not there yet, or empty
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
