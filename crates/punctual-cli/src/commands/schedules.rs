//! `punctual schedules`: what an engine enqueues at given times, and what a calendar would do.

mod act;
mod apply;
mod options;
mod preview;
mod set;
mod show;

use clap::Subcommand;
use punctual::Queue;
use punctual::queue::Schedules;
use punctual::time::Timestamp;

use crate::args::{Global, Session, instant_of};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};

/// Enqueue jobs at given times, and see when
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the schedules with their next runs
    #[command(after_help = "\
Examples:
  punctual schedules list
  punctual schedules list -o json")]
    List,
    /// Show a schedule with its policies, its next runs and its counts
    #[command(after_help = "\
Examples:
  punctual schedules show weekly-report")]
    Show {
        #[arg(value_name = "NAME")]
        name: String,
    },
    Set(Box<set::Set>),
    Apply(apply::Args),
    Preview(Box<preview::Args>),
    /// Skip the runs of a schedule until it is resumed; jobs that wait already run
    #[command(after_help = "\
Examples:
  punctual schedules pause weekly-report --note 'holiday until January'
  punctual schedules resume weekly-report")]
    Pause {
        #[arg(value_name = "NAME")]
        name: String,
        /// Why it is paused; `schedules list` shows it
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// End a pause; what was skipped is not caught up on
    #[command(after_help = "\
Examples:
  punctual schedules resume weekly-report")]
    Resume {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run a schedule now, beside its runs to come
    #[command(after_help = "\
Examples:
  punctual schedules run weekly-report

If a run is on its way and the overlap policy lets no other start, it answers merged and the id of
that run.")]
    Run {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Skip the next run of a schedule
    #[command(after_help = "\
Examples:
  punctual schedules skip weekly-report")]
    Skip {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run a schedule for past instants
    #[command(after_help = "\
Examples:
  punctual schedules backfill report --from '2026-11-01 00:00' --to '2026-11-08 00:00' --dry-run
  punctual schedules backfill report --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z

All of them become due at once, whatever the overlap policy. An instant whose job is still known is
a duplicate; one that settled and is forgotten runs again. At most 1,000 instants.")]
    Backfill {
        #[arg(value_name = "NAME")]
        name: String,
        /// The first instant that counts
        #[arg(long, value_name = "TIME", value_parser = instant_of)]
        from: Timestamp,
        /// The first instant that does not count any more
        #[arg(long, value_name = "TIME", value_parser = instant_of)]
        to: Timestamp,
        /// Only show the instants
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove a schedule; jobs that wait already run
    #[command(after_help = "\
Examples:
  punctual schedules remove weekly-report")]
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
        /// Only if it has this version, which `schedules show` says
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let make = match &self {
            Self::Preview(_) | Self::Set(_) | Self::Apply(_) => Make::IfMissing,
            _ => Make::Never,
        };
        let schedules = match self {
            Self::Preview(args) => return args.run(global),
            schedules => schedules,
        };
        let session = &global.session(make).await?;
        match schedules {
            Self::Preview(_) => Ok(()),
            Self::List => show::list(session).await,
            Self::Show { name } => show::one(session, &name).await,
            Self::Set(args) => args.run(session).await,
            Self::Apply(args) => args.run(session).await,
            Self::Pause { name, note } => act::pause(session, &name, &note).await,
            Self::Resume { name } => act::resume(session, &name).await,
            Self::Run { name } => act::run(session, &name).await,
            Self::Skip { name } => act::skip(session, &name).await,
            Self::Backfill {
                name,
                from,
                to,
                dry_run,
            } => act::backfill(session, &name, from, to, dry_run).await,
            Self::Remove { name, if_version } => act::remove(session, &name, if_version).await,
        }
    }
}

/// The schedules of the session's namespace.
fn schedules(session: &Session) -> Schedules {
    let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
    queue.schedules()
}

/// Those whose writes are refused unless the schedule has that version.
fn at_version(session: &Session, version: Option<u64>) -> Schedules {
    match version {
        Some(version) => schedules(session).if_version(version),
        None => schedules(session),
    }
}

fn missing(name: &str) -> Failure {
    let message = format!("no schedule {name}");
    Failure::new(Exit::NotFound, "not_found", message)
        .hint("`punctual schedules list` shows the schedules")
}
