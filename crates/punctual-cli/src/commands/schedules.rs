//! `punctual schedules`: calendars; so far what they would do.

mod options;
mod preview;

use clap::Subcommand;

use crate::args::Global;
use crate::failure::Result;

/// See when a calendar runs
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Preview(Box<preview::Args>),
}

impl Command {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Preview(args) => args.run(global),
        }
    }
}
