//! `punctual jobs`: look at jobs and change them.

mod edit;
mod explain;
mod list;
mod select;
mod show;

use clap::Subcommand;
use punctual::engine::{Got, Target};

use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};

/// Look at jobs and change them
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(list::Args),
    Show(show::Args),
    Explain(explain::Args),
    Cancel(edit::Cancel),
    Reschedule(edit::Reschedule),
    Retry(edit::Retry),
    Delete(edit::Delete),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.session(Make::Never).await?;
        match self {
            Self::List(args) => args.run(&session).await,
            Self::Show(args) => args.run(&session).await,
            Self::Explain(args) => args.run(&session).await,
            Self::Cancel(args) => args.run(&session).await,
            Self::Reschedule(args) => args.run(&session).await,
            Self::Retry(args) => args.run(&session).await,
            Self::Delete(args) => args.run(&session).await,
        }
    }
}

/// Gets what was named, in batches, and answers it with its name.
async fn get_all(
    session: &Session,
    targets: Vec<Target>,
    explain: bool,
) -> Result<Vec<(Target, Option<Got>)>> {
    let mut all = Vec::with_capacity(targets.len());
    for batch in targets.chunks(session.engine.info().await?.limits.batch_items) {
        let got = session
            .engine
            .get(&session.namespace, batch.to_vec(), explain)
            .await?;
        all.extend(batch.iter().cloned().zip(got));
    }
    Ok(all)
}

fn name_of(target: &Target) -> String {
    match target {
        Target::Id(id) => id.to_string(),
        Target::Unique { queue, key } => format!("{key} in {queue}"),
    }
}

/// What to say when some of the named jobs do not exist.
fn missing(names: &[String]) -> Result<()> {
    match names {
        [] => Ok(()),
        [one] => Err(not_found(format!("no job {one}"))),
        [first, ..] => Err(not_found(format!(
            "{} jobs do not exist, the first is {first}",
            names.len()
        ))),
    }
}

fn not_found(message: String) -> Failure {
    Failure::new(Exit::NotFound, "not_found", message)
        .hint("a completed job is forgotten after two minutes unless it was sent with --retention; check --engine and --namespace too")
}
