//! `punctual relay`: jobs from the queues that people already have.

mod adapters;
mod exec;
mod redis;

use std::time::Duration;

use clap::Subcommand;
use punctual::time::{format_span, seconds, within};
use punctual_relay::{Open, Relay, RelayHealth, RelayNumbers};

use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::{Failure, Result};
use crate::output::{Output, count, object};
use crate::signals::Signals;

/// Relay messages of another system into a queue, or jobs of a queue to another system
#[derive(Debug, Subcommand)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Examples:
  punctual relay redis-list --redis 127.0.0.1 --key mail --into mail
  punctual relay redis-zset --redis 127.0.0.1 --key delayed --into orders --dry-run
  punctual relay redis-stream --redis 127.0.0.1 --key files --into files
  punctual relay exec --source ./read-messages.py --into mail
  punctual relay outbox --sql sqlite:shop.db

A message is removed over there only after the engine's receipt. A relay may be killed at any
point, and two may run at once: what comes again within --remember is recognised. Messages that
cannot become jobs are dead jobs of the queue relay.NAME.refused, with the reason. docs/relay.md
says what each system can lose."
)]
pub(crate) enum Command {
    RedisList(redis::ListArgs),
    RedisZset(redis::ZsetArgs),
    RedisStream(redis::StreamArgs),
    Exec(exec::Args),
    Outbox(adapters::OutboxArgs),
    Amqp(adapters::AmqpArgs),
    AmqpDelay(adapters::AmqpDelayArgs),
    AmqpEmit(adapters::AmqpEmitArgs),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::RedisList(args) => args.run(global).await,
            Self::RedisZset(args) => args.run(global).await,
            Self::RedisStream(args) => args.run(global).await,
            Self::Exec(args) => args.run(global).await,
            Self::Outbox(args) => args.run(global).await,
            Self::Amqp(args) => args.run(global).await,
            Self::AmqpDelay(args) => args.run(global).await,
            Self::AmqpEmit(args) => args.run(global).await,
        }
    }
}

/// What every relay takes.
#[derive(Debug, clap::Args)]
struct Common {
    /// Names the relay, and the queue relay.NAME.refused [default: the kind of the relay]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Messages taken and not yet stored, at most
    #[arg(long, value_name = "N", default_value_t = 500)]
    batch: usize,

    /// How long after its job settled a message that comes again is recognised, at most 7d
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "1h")]
    remember: Duration,

    /// End once nothing waits over there
    #[arg(long)]
    until_idle: bool,

    /// How often to print the numbers
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "10s")]
    every: Duration,
}

impl Common {
    fn name<'a>(&'a self, kind: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(kind)
    }

    /// A broker does not say that a queue has no more.
    fn refuse_until_idle(&self) -> Result<()> {
        if !self.until_idle {
            return Ok(());
        }
        let failure = Failure::usage("a queue of a broker is never known to be idle");
        Err(failure.hint("leave --until-idle out, and end the relay by Ctrl-C"))
    }

    /// Relays from a source until it ends.
    async fn relay(&self, kind: &str, global: &Global, open: impl Open) -> Result<()> {
        let session = global.shared_session(Make::IfMissing).await?;
        self.relay_into(&session, kind, open).await?;
        session.close().await
    }

    async fn relay_into(&self, session: &Session, kind: &str, open: impl Open) -> Result<()> {
        let mut relay = Relay::new(&session.engine, self.name(kind))?
            .namespace(session.namespace.clone())
            .at_most(self.batch)
            .remember(self.remember);
        if self.until_idle {
            relay = relay.until_idle();
        }
        let health = relay.health();
        let mut signals = Signals::new()?;
        session
            .out
            .note("relaying; Ctrl-C stops it, and nothing is lost by that");
        let mut running = std::pin::pin!(relay.run_until(open, signals.next()));
        let every = self.every.max(seconds(1));
        let mut shown = None;
        loop {
            if let Some(ended) = within(every, running.as_mut()).await {
                show(session.out, &health, &mut shown)?;
                return Ok(ended?);
            }
            show(session.out, &health, &mut shown)?;
        }
    }
}

/// Prints the numbers if they are others than those shown last.
fn show(out: Output, health: &RelayHealth, shown: &mut Option<RelayNumbers>) -> Result<()> {
    let numbers = health.numbers();
    let mut same = numbers.clone();
    same.age = Duration::ZERO;
    if shown.as_ref() == Some(&same) {
        return Ok(());
    }
    *shown = Some(same);
    if out.is_json() {
        return out.json(&object!({
            "state": numbers.state.name(),
            "received": numbers.received,
            "enqueued": numbers.enqueued,
            "duplicates": numbers.duplicates,
            "refused": numbers.refused,
            "restarts": numbers.restarts,
            "lag": numbers.lag,
            "last_error": numbers.last_error,
            "age_ms": u64::try_from(numbers.age.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    let waits = numbers
        .lag
        .map_or(String::new(), |lag| format!(", {} wait", count(lag)));
    let failed = match (&numbers.last_error, numbers.restarts) {
        (None, _) => String::new(),
        (Some(error), restarts) => format!("; {} restarts, last error: {error}", count(restarts)),
    };
    out.line(format!(
        "{}, {} ago: {} received, {} enqueued, {} duplicates, {} refused{waits}{failed}",
        numbers.state,
        format_span(seconds(numbers.age.as_secs())),
        count(numbers.received),
        count(numbers.enqueued),
        count(numbers.duplicates),
        count(numbers.refused),
    ))
}
