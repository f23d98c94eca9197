//! `punctual completions`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, Global};
use crate::failure::Result;

/// Write the completions of a shell to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual completions bash > /etc/bash_completion.d/punctual
  punctual completions zsh  > \"${fpath[1]}/_punctual\"
  punctual completions fish > ~/.config/fish/completions/punctual.fish")]
pub(crate) struct Args {
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self, _: &Global) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "punctual", &mut script);
        io::stdout().lock().write_all(&script)?;
        Ok(())
    }
}
