//! `punctual outbox`: the tables of an SQL outbox.

use clap::{Subcommand, ValueEnum};
use punctual_outbox::{Dialect as Sql, NOTIFY, ddl};

use crate::args::Global;
use crate::failure::{Failure, Result};

/// Enqueue jobs in your own SQL transactions
#[derive(Debug, Subcommand)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Examples:
  punctual outbox ddl --dialect postgres | psql shop
  punctual relay outbox --sql postgres://app@127.0.0.1/shop"
)]
pub(crate) enum Command {
    Ddl(DdlArgs),
}

/// Print the tables that a database needs
#[derive(Debug, clap::Args)]
pub(crate) struct DdlArgs {
    /// The database
    #[arg(long, value_enum)]
    dialect: Dialect,

    /// With the trigger for `punctual relay outbox --notify`; PostgreSQL alone has it
    #[arg(long)]
    notify: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dialect {
    Postgres,
    /// MySQL 8 and MariaDB 10.6, or later
    Mysql,
    Sqlite,
}

impl Command {
    pub(crate) fn run(self, global: &Global) -> Result<()> {
        let Self::Ddl(args) = self;
        let dialect = match args.dialect {
            Dialect::Postgres => Sql::Postgres,
            Dialect::Mysql => Sql::Mysql,
            Dialect::Sqlite => Sql::Sqlite,
        };
        if args.notify && dialect != Sql::Postgres {
            let failure = Failure::usage("only PostgreSQL has NOTIFY");
            return Err(failure.hint("leave --notify out: the relay polls"));
        }
        global.output().line(ddl(dialect).trim_end())?;
        match args.notify {
            true => global.output().line(NOTIFY.trim_end()),
            false => Ok(()),
        }
    }
}
