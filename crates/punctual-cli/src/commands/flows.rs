//! `punctual flows`: jobs that wait for each other, sent, shown, cancelled and retried as a whole.

mod act;
mod graph;
mod send;
mod show;

use clap::Subcommand;
use punctual::Queue;

use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};

/// Send jobs that wait for each other, and see how they stand
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Send(send::Args),
    /// List the flows with how they stand
    #[command(after_help = "\
Examples:
  punctual flows list
  punctual flows list -o json")]
    List,
    /// Show a flow with its steps
    #[command(after_help = "\
Examples:
  punctual flows show order-7
  punctual flows show order-7 -o json")]
    Show {
        /// The name of the flow; `flows list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show who waits for whom
    #[command(after_help = "\
Examples:
  punctual flows graph order-7
  punctual flows graph order-7 --dot | dot -Tsvg > order-7.svg")]
    Graph {
        /// The name of the flow; `flows list` shows it
        #[arg(value_name = "NAME")]
        name: String,
        /// Write it in the language of Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// Cancel what has not settled; active jobs are asked to stop
    #[command(after_help = "\
Examples:
  punctual flows cancel order-7")]
    Cancel {
        /// The name of the flow; `flows list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
    Retry(act::Retry),
    /// Count the steps anew by their jobs
    #[command(after_help = "\
Examples:
  punctual flows recount order-7

Exits with 1 if the flow has counted something else.")]
    Recount {
        /// The name of the flow; `flows list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let make = match &self {
            Self::Send(_) => Make::IfMissing,
            _ => Make::Never,
        };
        let session = &global.session(make).await?;
        match self {
            Self::Send(args) => args.run(session).await,
            Self::List => show::list(session).await,
            Self::Show { name } => show::one(session, &name).await,
            Self::Graph { name, dot } => graph::run(session, &name, dot).await,
            Self::Cancel { name } => act::cancel(session, &name).await,
            Self::Retry(args) => args.run(session).await,
            Self::Recount { name } => act::recount(session, &name).await,
        }
    }
}

/// The queue handle of the session's namespace.
fn queue(session: &Session) -> Queue {
    Queue::new(&session.engine).namespace(session.namespace.clone())
}

fn missing(name: &str) -> Failure {
    let message = format!("no flow {name}");
    Failure::new(Exit::NotFound, "not_found", message).hint("`punctual flows list` shows the flows")
}
