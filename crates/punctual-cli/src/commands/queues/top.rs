//! `punctual queues top`: the largest shares of a queue.

use punctual::Queue;
use punctual::engine::{ShareStats, TOP_SHARES_MAX};
use punctual::time::Timestamp;

use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, ago, count, object, plain};

/// Show the shares of a queue with the most ready jobs, then those with the most active ones
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual queues top mail
  punctual queues top mail --limit 5 -o json")]
pub(crate) struct Args {
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// How many shares to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=TOP_SHARES_MAX as u64))]
    limit: u64,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let limits = queue.limits(&self.queue);
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
}

fn closed(share: &ShareStats, now: Timestamp) -> String {
    match (share.closed, share.opens_at) {
        (None, _) => String::new(),
        (Some(closed), Some(at)) => format!("{closed}, opens {}", ago(at, now)),
        (Some(closed), None) => closed.to_string(),
    }
}
