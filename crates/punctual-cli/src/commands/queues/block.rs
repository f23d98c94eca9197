//! `punctual queues block`: no job of a share starts for a while.

use std::time::Duration;

use punctual::Queue;
use punctual::time::{exact_span, format_span};

use crate::args::{Session, span_of};
use crate::failure::Result;
use crate::output::{object, plain};

/// Start no job of a share for a while: its customer asks another service too often (429)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual queues block mail --share acme 60s    its jobs wait for a minute; no attempt is counted
  punctual queues block mail --share acme 0s     ends the block

Active jobs go on. A block replaces the one before.")]
pub(crate) struct Args {
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The share
    #[arg(long, value_name = "KEY")]
    share: String,

    /// How long, up to 365d; 0s ends a block
    #[arg(value_name = "SPAN", value_parser = span_of)]
    span: Duration,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let limits = queue.limits(&self.queue);
        let changed = limits.block_share(&self.share, self.span).await?;
        if session.out.is_json() {
            return session.out.json(&object!({
                "queue": self.queue,
                "share": self.share,
                "span": exact_span(self.span),
                "changed": changed,
            }));
        }
        let durability = session.durability().await?;
        session.announce_durability(durability);
        let (queue, share) = (plain(&self.queue), plain(&self.share));
        let span = format_span(self.span);
        session.out.line(match (self.span.is_zero(), changed) {
            (false, _) => format!("no job of {share} in {queue} starts for {span}"),
            (true, true) => format!("{share} in {queue} is open"),
            (true, false) => format!("{share} in {queue} was not blocked"),
        })
    }
}
