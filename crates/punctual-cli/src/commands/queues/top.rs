//! `punctual queues top`: the largest shares of a queue.

use punctual::Queue;
use punctual::engine::{BlockedShare, ShareStats, TOP_SHARES_MAX};
use punctual::time::Timestamp;

use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, ago, count, object, plain};

/// Show the shares of a queue with the most ready jobs, then those with the most active ones
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual queues top mail
  punctual queues top mail --limit 5 -o json
  punctual queues top mail --blocked           every share that is blocked or paused")]
pub(crate) struct Args {
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// How many shares to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=TOP_SHARES_MAX as u64))]
    limit: u64,

    /// Show every share that is blocked or paused instead, by key
    #[arg(long, conflicts_with = "limit")]
    blocked: bool,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let limits = queue.limits(&self.queue);
        if self.blocked {
            let blocked = limits.blocked_shares().await?;
            return self.show_blocked(session, &blocked).await;
        }
        let shares = limits.top_shares(self.limit as usize).await?;
        if session.out.is_json() {
            for share in &shares {
                session.out.json(&object!({
                    "share": share.share,
                    "ready": share.ready,
                    "active": share.active,
                    "weight": share.weight,
                    "closed": share.closed.map(|closed| closed.name()),
                    "opens_at": share.opens_at.map(|at| at.to_string()),
                }))?;
            }
            return Ok(());
        }
        if shares.is_empty() {
            let queue = plain(&self.queue);
            session.out.note(format!("no share of {queue} has a job"));
            return Ok(());
        }
        let now = session.engine.info().await?.now;
        let header = ["share", "ready", "active", "weight", "closed"];
        let row = |share: &ShareStats| {
            vec![
                plain(&share.share).into_owned(),
                count(share.ready),
                count(share.active),
                share.weight.to_string(),
                closed(share, now),
            ]
        };
        let columns = Columns {
            names: &header,
            numbers: &header[1..4],
            optional: &header[4..],
            ..Columns::default()
        };
        session.out.table(columns, shares.iter().map(row).collect())
    }

    async fn show_blocked(&self, session: &Session, shares: &[BlockedShare]) -> Result<()> {
        if session.out.is_json() {
            for one in shares {
                let until = one.until.map(|until| until.to_string());
                session
                    .out
                    .json(&object!({ "share": one.share, "until": until }))?;
            }
            return Ok(());
        }
        if shares.is_empty() {
            let queue = plain(&self.queue);
            session
                .out
                .note(format!("no share of {queue} is blocked or paused"));
            return Ok(());
        }
        let now = session.engine.info().await?.now;
        let row = |one: &BlockedShare| {
            let closed = match one.until {
                Some(until) => format!("blocked, opens {}", ago(until, now)),
                None => "paused".to_owned(),
            };
            vec![plain(&one.share).into_owned(), closed]
        };
        let columns = Columns {
            names: &["share", "closed"],
            ..Columns::default()
        };
        session.out.table(columns, shares.iter().map(row).collect())
    }
}

fn closed(share: &ShareStats, now: Timestamp) -> String {
    match (share.closed, share.opens_at) {
        (None, _) => String::new(),
        (Some(closed), Some(at)) => format!("{closed}, opens {}", ago(at, now)),
        (Some(closed), None) => closed.to_string(),
    }
}
