//! `punctual relay`: jobs from the queues that people already have.

mod adapters;
mod exec;
mod prepared;
mod redis;
mod targets;

use std::time::Duration;

use clap::Subcommand;
use punctual::time::seconds;

pub(crate) use self::prepared::{Prepared, Reach};
use crate::args::{Global, span_of};
use crate::failure::{Failure, Result};

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
  punctual relay redis-expiry --redis 127.0.0.1 --prefix order: --into order-timeouts
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
    RedisRedisson(redis::RedissonArgs),
    RedisExpiry(redis::ExpiryArgs),
    RedisPubsub(redis::PubsubArgs),
    Exec(exec::Args),
    Outbox(adapters::OutboxArgs),
    Amqp(adapters::AmqpArgs),
    AmqpDelay(adapters::AmqpDelayArgs),
    AmqpEmit(adapters::AmqpEmitArgs),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if let Self::RedisZset(args) = &self
            && args.show(global).await?
        {
            return Ok(());
        }
        self.prepare(None)?.run(global).await
    }

    /// Makes it ready to run, and checks it. A sink publishes only to exchanges of these patterns,
    /// if any are given.
    pub(crate) fn prepare(self, only: Option<&[String]>) -> Result<Prepared> {
        let prepared = match self {
            Self::RedisList(args) => args.prepare(),
            Self::RedisZset(args) => args.prepare(),
            Self::RedisStream(args) => args.prepare(),
            Self::RedisRedisson(args) => args.prepare(),
            Self::RedisExpiry(args) => args.prepare(),
            Self::RedisPubsub(args) => args.prepare(),
            Self::Exec(args) => args.prepare(),
            Self::Outbox(args) => args.prepare(),
            Self::Amqp(args) => args.prepare(),
            Self::AmqpDelay(args) => args.prepare(only),
            Self::AmqpEmit(args) => args.prepare(only),
        }?;
        prepared.check()?;
        Ok(prepared)
    }
}

/// What every relay takes.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    /// Names the relay, and the queue relay.NAME.refused [default: the kind of the relay]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Messages taken and not yet stored, at most; 1 to 10,000
    #[arg(long, value_name = "N", default_value = "1000", value_parser = batch_of)]
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
    /// A relay of that kind with the jobs of that queue, without a source or a sink yet.
    fn prepare(&self, kind: &'static str, queue: &str) -> Prepared {
        Prepared {
            name: self.name.clone().unwrap_or_else(|| kind.to_owned()),
            batch: self.batch,
            remember: self.remember,
            until_idle: self.until_idle,
            every: self.every.max(seconds(1)),
            ..Prepared::new(kind, queue)
        }
    }

    /// A broker does not say that a queue has no more.
    fn refuse_until_idle(&self) -> Result<()> {
        if !self.until_idle {
            return Ok(());
        }
        let failure = Failure::usage("a queue of a broker is never known to be idle");
        Err(failure.hint("leave --until-idle out, and end the relay by Ctrl-C"))
    }
}

fn batch_of(text: &str) -> std::result::Result<usize, String> {
    let found = text.parse().ok().filter(|n| (1..=10_000).contains(n));
    found.ok_or_else(|| "use 1 to 10,000".into())
}
