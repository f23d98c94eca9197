//! `punctual jobs`: show and change jobs.

mod attempts;
mod dead;
mod edit;
mod endings;
mod ends;
mod explain;
mod list;
mod select;
mod show;
mod timeline;

use clap::Subcommand;
use punctual::Queue;
use punctual::engine::{Got, Target};
use punctual::lock::LockWaiter;
use punctual::time::Timestamp;

use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};
pub(crate) use edit::Signal;
use select::Named;

/// Show and change jobs
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(list::Args),
    Dead(dead::Args),
    Show(show::Args),
    Explain(explain::Args),
    Cancel(edit::Cancel),
    Reschedule(edit::Reschedule),
    Redrive(edit::Redrive),
    RunNow(edit::RunNow),
    Update(edit::Update),
    Delete(edit::Delete),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.session(Make::Never).await?;
        match self {
            Self::List(args) => args.run(&session).await,
            Self::Dead(args) => args.run(&session).await,
            Self::Show(args) => args.run(&session).await,
            Self::Explain(args) => args.run(&session).await,
            Self::Cancel(args) => args.run(&session).await,
            Self::Reschedule(args) => args.run(&session).await,
            Self::Redrive(args) => args.run(&session).await,
            Self::RunNow(args) => args.run(&session).await,
            Self::Update(args) => args.run(&session).await,
            Self::Delete(args) => args.run(&session).await,
        }
    }
}

/// Gets what was named, in batches, and shows what there is of it, with engine time.
async fn show_named(
    session: &Session,
    named: &Named,
    explain: bool,
    mut show: impl FnMut(Got, Timestamp) -> Result<()>,
) -> Result<()> {
    let targets = named.targets(session).await?;
    let info = session.engine.info().await?;
    let mut unknown = Vec::new();
    for batch in targets.chunks(info.limits.batch_items) {
        let got = session
            .engine
            .get(&session.namespace, batch.to_vec(), explain)
            .await?;
        for (target, got) in batch.iter().zip(got) {
            match got {
                Some(got) => show(got, info.now)?,
                None => unknown.push(name_of(target)),
            }
        }
    }
    missing(&unknown)
}

/// The waiters for locks; none where that cannot be asked for.
async fn lock_waiters(session: &Session) -> Vec<LockWaiter> {
    let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
    queue.lock_waiters().await.unwrap_or_default()
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
        .hint("a completed job is kept for its retention (--retention); `punctual jobs list --ended` shows the last settled jobs. Check --engine and --namespace too")
}
