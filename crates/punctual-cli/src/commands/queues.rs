//! `punctual queues`: counts, pause, resume, limits, purge, delete.

mod block;
mod clean;
mod delete;
pub(crate) mod limit;
mod purge;
mod top;

use std::collections::HashSet;
use std::time::Duration;

use clap::Subcommand;
use punctual::JobState;
use punctual::engine::{Capability, Control, Controlled, QueueStats, StatsRequest};
use punctual::time::format_span;

use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::Result;
use crate::output::{Columns, ago, count, object, plain};

/// Show, pause, resume and empty queues
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Count the jobs of every queue by state
    #[command(after_help = "\
Examples:
  punctual queues list
  punctual queues list mail -o json")]
    List {
        /// Only these queues
        #[arg(value_name = "QUEUE")]
        queues: Vec<String>,
        /// Print only their names, one per line
        #[arg(long)]
        names: bool,
    },
    /// Stop starting jobs of these queues; running jobs continue, due jobs wait
    #[command(after_help = "\
Examples:
  punctual queues pause mail
  punctual queues pause mail --share acme    only the jobs of one share
  punctual queues resume mail")]
    Pause {
        #[arg(value_name = "QUEUE", required = true)]
        queues: Vec<String>,
        /// Only this share of each queue
        #[arg(long, value_name = "KEY")]
        share: Option<String>,
    },
    /// End a pause
    #[command(after_help = "\
Examples:
  punctual queues resume mail
  punctual queues resume mail --share acme")]
    Resume {
        #[arg(value_name = "QUEUE", required = true)]
        queues: Vec<String>,
        /// Only this share of each queue; ends a block of it too
        #[arg(long, value_name = "KEY")]
        share: Option<String>,
    },
    Limit(limit::Args),
    Block(block::Args),
    Top(top::Args),
    /// Cancel every held, scheduled and ready job of a queue
    #[command(after_help = "\
Examples:
  punctual queues purge mail          shows how many jobs it would cancel
  punctual queues purge mail --yes    cancels them
  punctual queues purge mail --older-than 7d --yes            cancels those enqueued 7 days ago or earlier
  punctual queues purge mail --settled --older-than 1d --yes  deletes those that settled a day ago or earlier

Running jobs continue. Purged jobs are kept for a day as cancelled: purged, or with --older-than as
cancelled: requested. Deleted jobs are gone.")]
    Purge {
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// Only jobs of at least this age
        #[arg(long, value_name = "SPAN", value_parser = span_of)]
        older_than: Option<Duration>,
        /// Delete the kept completed, cancelled and dead jobs, instead of cancelling waiting ones
        #[arg(long)]
        settled: bool,
        /// Do it; without this, only show what would change
        #[arg(long)]
        yes: bool,
    },
    /// Delete a queue without jobs, with its pause, settings and history
    #[command(after_help = "\
Examples:
  punctual queues delete mail --yes          deletes it, if it has no jobs
  punctual queues delete mail --purge        shows how many jobs it would remove
  punctual queues delete mail --purge --yes  cancels waiting jobs, deletes kept ones, then deletes the queue

A queue with running jobs is refused (conflict). A job or a worker that names the queue creates it again.")]
    Delete {
        #[arg(value_name = "QUEUE")]
        queue: String,
        /// First cancel the waiting jobs and delete the kept ones
        #[arg(long)]
        purge: bool,
        /// Do it; without this, only show what would change
        #[arg(long)]
        yes: bool,
    },
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let make = match &self {
            Self::Limit(args) if args.sets_any() => Make::IfMissing,
            Self::Block(_) => Make::IfMissing,
            _ => Make::Never,
        };
        let session = global.session(make).await?;
        match self {
            Self::List {
                queues,
                names: true,
            } => names(&session, queues).await,
            Self::List { queues, .. } => list(&session, queues).await,
            Self::Pause { queues, share } => switch(&session, queues, share, "paused").await,
            Self::Resume { queues, share } => switch(&session, queues, share, "resumed").await,
            Self::Limit(args) => args.run(&session).await,
            Self::Block(args) => args.run(&session).await,
            Self::Top(args) => args.run(&session).await,
            Self::Delete { queue, purge, yes } => delete::run(&session, &queue, purge, yes).await,
            Self::Purge {
                queue,
                older_than: None,
                settled: false,
                yes,
            } => purge::run(&session, queue, yes).await,
            Self::Purge {
                queue,
                older_than,
                settled,
                yes,
            } => clean::run(&session, &queue, older_than, settled, yes).await,
        }
    }
}

async fn stats(session: &Session, queues: Vec<String>) -> Result<Vec<QueueStats>> {
    let request = StatsRequest::default().queues(queues);
    Ok(session
        .engine
        .stats(&session.namespace, request)
        .await?
        .queues)
}

/// The names alone: what completions of a shell ask for.
async fn names(session: &Session, queues: Vec<String>) -> Result<()> {
    for queue in stats(session, queues).await? {
        if session.out.is_json() {
            session.out.json(&queue.queue)?;
        } else {
            session.out.line(plain(&queue.queue))?;
        }
    }
    Ok(())
}

async fn list(session: &Session, queues: Vec<String>) -> Result<()> {
    let info = session.engine.info().await?;
    let request = StatsRequest::default()
        .queues(queues)
        .ends(info.capabilities.contains(&Capability::Ends));
    let stats = session.engine.stats(&session.namespace, request).await?;
    let (stats, now) = (stats.queues, stats.now);
    if session.out.is_json() {
        for queue in &stats {
            let of = |state| queue.counts.of(state);
            session.out.json(&object!({
                "queue": queue.queue,
                "paused": queue.paused,
                "held": of(JobState::Held),
                "scheduled": of(JobState::Scheduled),
                "ready": of(JobState::Ready),
                "active": of(JobState::Active),
                "completed": of(JobState::Completed),
                "cancelled": of(JobState::Cancelled),
                "dead": of(JobState::Dead),
                "limits": queue.limits.as_ref().map(limit::object_of),
                "oldest_due_ms": queue.oldest_due.map(|span| span.as_millis()),
                "last_end": queue.ends.first().map(|end| object!({
                    "id": end.id.to_string(),
                    "kind": end.kind,
                    "state": end.state.name(),
                    "at": end.at.to_string(),
                })),
            }))?;
        }
        return Ok(());
    }
    if stats.is_empty() {
        session
            .out
            .note("no queues yet; a queue exists once a job was enqueued");
        return Ok(());
    }
    let mut header = vec!["queue"];
    header.extend(JobState::ALL.map(JobState::name));
    header.extend(["limit", "oldest due", "last end"]);
    let rows = stats
        .iter()
        .map(|queue| {
            let paused = if queue.paused { " (paused)" } else { "" };
            let mut row = vec![format!("{}{paused}", queue.queue)];
            row.extend(JobState::ALL.map(|state| count(queue.counts.of(state))));
            let limits = queue.limits.as_ref();
            row.push(
                limits
                    .map(|limits| limit::short(limits, now))
                    .unwrap_or_default(),
            );
            row.push(queue.oldest_due.map(format_span).unwrap_or_default());
            let end = queue.ends.first();
            let end = end.map(|end| format!("{} {}", end.state, ago(end.at, now)));
            row.push(end.unwrap_or_default());
            row
        })
        .collect();
    let columns = Columns {
        names: &header,
        numbers: &header[1..],
        optional: &header[1..],
        ..Columns::default()
    };
    session.out.table(columns, rows)
}

async fn switch(
    session: &Session,
    queues: Vec<String>,
    share: Option<String>,
    done: &str,
) -> Result<()> {
    let control = |queue: String| match (done == "paused", share.clone()) {
        (true, None) => Control::Pause { queue },
        (false, None) => Control::Resume { queue },
        (true, Some(share)) => Control::PauseShare { queue, share },
        (false, Some(share)) => Control::BlockShare {
            queue,
            share,
            span: Duration::ZERO,
        },
    };
    let named = |queue: &str| match &share {
        Some(share) => format!("share {} of {queue}", plain(share)),
        None => queue.to_owned(),
    };
    // A name that was mistyped pauses nothing that a worker waits for.
    let known = stats(session, Vec::new()).await?;
    let known: HashSet<String> = known.into_iter().map(|queue| queue.queue).collect();
    let durability = session.durability().await?;
    let mut any = false;
    for queue in queues {
        let answer = session
            .engine
            .control(&session.namespace, control(queue.clone()))
            .await?;
        let changed = answer == Controlled::Done(true);
        any |= changed;
        if session.out.is_json() {
            session.out.json(&object!({
                "queue": queue, "share": share, "paused": done == "paused", "changed": changed,
                "durability": durability.to_string(),
            }))?;
        } else if changed {
            session.out.line(format!("{} is {done}", named(&queue)))?;
            if done == "paused" && !known.contains(&queue) {
                session.out.note(format!(
                    "{queue} never had a job; `punctual queues list` shows the queues"
                ));
            }
        } else {
            let so = if done == "paused" {
                "was paused before"
            } else {
                "was not paused"
            };
            session.out.line(format!("{} {so}", named(&queue)))?;
        }
    }
    if any {
        session.announce_durability(durability);
    }
    Ok(())
}
