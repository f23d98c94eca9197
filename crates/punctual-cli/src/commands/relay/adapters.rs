//! `punctual relay outbox`, `amqp` and `amqp-delay`: a second binary knows these systems.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use punctual_relay::lines::{LineSink, LineSource};

use super::{Common, Prepared, Reach, exec, targets};
use crate::args::span_of;
use crate::failure::{Exit, Failure, Result};

/// The command that has the clients of brokers and databases.
const BINARY: &str = "punctual-relay";
const BUILDS_IT: &str = "cargo install --path crates/punctual-brokers";
/// The variable by which it gets the address: command lines show passwords to others.
const ADDRESS: &str = "PUNCTUAL_RELAY_ADDRESS";
const MANAGEMENT: &str = "PUNCTUAL_RELAY_MANAGEMENT";

/// Enqueue the jobs of an SQL outbox: committed is one job, rolled back is none
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual outbox ddl --dialect sqlite | sqlite3 shop.db
  punctual relay outbox --sql sqlite:shop.db
  PUNCTUAL_SQL=postgres://app@127.0.0.1/shop punctual relay outbox --engine http://127.0.0.1:4180

The relay deletes rows, stores their jobs, then commits. Rows that are no jobs go to the table
punctual_outbox_refused.")]
pub(crate) struct OutboxArgs {
    /// The database: postgres://.., mysql://.. or sqlite:FILE
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_SQL",
        hide_env_values = true
    )]
    sql: String,

    /// The longest pause between two polls of an empty outbox
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "250ms")]
    poll: Duration,

    /// Wait for NOTIFY while the outbox is empty, with polls a second apart; PostgreSQL only
    #[arg(long)]
    notify: bool,

    /// Store jobs in the order of their transactions, one relay at a time; not MySQL
    #[arg(long)]
    ordered: bool,

    #[command(flatten)]
    common: Common,
}

impl OutboxArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let common = &self.common;
        let mut command = format!(
            "outbox --poll {}ms --batch {}",
            self.poll.as_millis(),
            common.batch
        );
        for (flag, is_set) in [
            (" --until-idle", common.until_idle),
            (" --notify", self.notify),
            (" --ordered", self.ordered),
        ] {
            if is_set {
                command += flag;
            }
        }
        let source = source(&command, &self.sql, "outbox", "outbox")?;
        Ok(Prepared {
            source: Some(Box::new(source)),
            reaches: vec![Reach::Address(self.sql)],
            ..self.common.prepare("outbox", "outbox")
        })
    }
}

/// Take a queue of RabbitMQ; dead letters become dead jobs with their past
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay amqp [OPTIONS] --amqp <ADDRESS> --queue <NAME>
         --into <QUEUE>",
    after_help = "\
A message with x-death becomes a dead job: each death is a past attempt, with its cause (expired,
rejected, maxlen). Any other message becomes a job that is due at once, or after its x-delay.
A message is acknowledged after the receipt. Without an id of its own, one that RabbitMQ delivers
again in between becomes a second job: have publishers set message_id, and use --trust-message-id."
)]
pub(crate) struct AmqpArgs {
    #[command(flatten)]
    broker: Broker,

    #[command(flatten)]
    identity: Identity,

    /// The queue of RabbitMQ
    #[arg(long, value_name = "NAME")]
    queue: String,

    /// The queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    into: String,

    #[command(flatten)]
    common: Common,
}

/// A delayed exchange: publishers keep x-delay and their routing keys
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay amqp-delay [OPTIONS] --amqp <ADDRESS> --exchange <NAME>
         --to <NAME>",
    after_help = "\
Two things change. The old exchange of type x-delayed-message is deleted and declared again as
fanout. Consumers bind their queues to the target exchange: a queue still bound to the old name gets
each message at once, so the relay does not start while the management API of the broker lists
such a binding. The relay emits each message when it is due, with its routing key and
properties, persistent and mandatory, and waits for the confirm. What no queue takes is tried again
and then dead, with the reason."
)]
pub(crate) struct AmqpDelayArgs {
    #[command(flatten)]
    broker: Broker,

    #[command(flatten)]
    identity: Identity,

    /// The exchange to which publishers send
    #[arg(long, value_name = "NAME")]
    exchange: String,

    /// The exchange to which messages go when they are due
    #[arg(long, value_name = "NAME")]
    to: String,

    /// The type of the target exchange, if it is to be declared
    #[arg(long, value_name = "direct|fanout|topic|headers")]
    to_type: Option<String>,

    /// The management API, http://HOST:PORT or with USER:PASSWORD@ (default: its port 15672)
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_AMQP_MANAGEMENT",
        hide_env_values = true
    )]
    management: Option<String>,

    /// The queue of the jobs [default: amqp.EXCHANGE]
    #[arg(long, value_name = "QUEUE")]
    into: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Publish jobs to RabbitMQ, confirmed: those with a target amqp:EXCHANGE/KEY, or those of a queue
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual enqueue mail '{\"to\":\"ann\"}' --delay 30m --target amqp:orders/paid
  punctual relay amqp-emit --amqp amqp://127.0.0.1
  punctual relay amqp-emit --amqp amqp://127.0.0.1 --queue orders.dead

Without --queue it takes the jobs of all queues amqp:*, in which jobs with such a target lie. Jobs that
came from RabbitMQ go back to their exchange and routing key, unless --to names another. Each is
published persistent and mandatory. One that no queue takes fails, and is tried again by its policy.")]
pub(crate) struct AmqpEmitArgs {
    #[command(flatten)]
    broker: Broker,

    /// The queue of the jobs [default: all queues of jobs with a target amqp:EXCHANGE/KEY]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,

    /// The exchange [default: that of the target, or the one that the message came from]
    #[arg(long, value_name = "NAME", requires = "queue")]
    to: Option<String>,

    /// The routing key of jobs without a target that came from no broker
    #[arg(long, value_name = "KEY", default_value = "", requires = "queue")]
    key: String,

    /// End once nothing is due
    #[arg(long)]
    until_idle: bool,

    /// Names the relay [default: amqp-emit]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Broker {
    /// The broker: amqp://USER:PASSWORD@HOST:PORT/VHOST
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_AMQP",
        hide_env_values = true
    )]
    amqp: String,
}

#[derive(Debug, clap::Args)]
struct Identity {
    /// Take the message_id of publishers for the identity of a message
    #[arg(long)]
    trust_message_id: bool,
}

impl Identity {
    fn flags(&self) -> &'static str {
        match self.trust_message_id {
            true => " --trust-message-id",
            false => "",
        }
    }
}

impl AmqpArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let common = &self.common;
        common.refuse_until_idle()?;
        let mut command = format!(
            "amqp --queue {} --batch {}",
            quoted(&self.queue),
            common.batch
        );
        command += self.identity.flags();
        let identity = format!("amqp {}", self.queue);
        let source = source(&command, &self.broker.amqp, &identity, &self.into)?;
        Ok(Prepared {
            source: Some(Box::new(source)),
            reaches: vec![Reach::Address(self.broker.amqp), Reach::Topic(self.queue)],
            ..self.common.prepare("amqp", &self.into)
        })
    }
}

impl AmqpDelayArgs {
    pub(super) fn prepare(self, only: Option<&[String]>) -> Result<Prepared> {
        let common = &self.common;
        common.refuse_until_idle()?;
        let queue = self
            .into
            .unwrap_or_else(|| format!("amqp.{}", self.exchange));
        let mut takes = format!(
            "amqp-delay --exchange {} --batch {}",
            quoted(&self.exchange),
            common.batch
        );
        takes += self.identity.flags();
        let to = format!(" --to {}", quoted(&self.to));
        let to_type = self.to_type.as_deref().map(quoted);
        let to_type = to_type.map_or(String::new(), |kind| format!(" --to-type {kind}"));
        if !to_type.is_empty() {
            takes += &to;
            takes += &to_type;
        }
        let identity = format!("amqp-delay {}", self.exchange);
        let mut source = source(&takes, &self.broker.amqp, &identity, &queue)?;
        if let Some(management) = &self.management {
            source = source.env(MANAGEMENT, management);
        }
        let emits = format!("amqp-emit{to}{to_type}{}", only_to(only));
        let mut prepared = self.common.prepare("amqp-delay", &queue);
        let sink = sink(&emits, &self.broker.amqp)?.health(prepared.health.clone());
        prepared.source = Some(Box::new(source));
        prepared.sink = Some((sink, EMITTED));
        prepared.reaches = vec![
            Reach::Address(self.broker.amqp),
            Reach::Exchange(self.exchange),
            Reach::Exchange(self.to),
        ];
        let management = self.management.map(Reach::Address);
        prepared.reaches.extend(management);
        Ok(prepared)
    }
}

impl AmqpEmitArgs {
    pub(super) fn prepare(self, only: Option<&[String]>) -> Result<Prepared> {
        let mut emits = format!("amqp-emit --key {}", quoted(&self.key));
        if let Some(exchange) = &self.to {
            emits += &format!(" --to {}", quoted(exchange));
        }
        emits += &only_to(only);
        let queue = self.queue.as_deref().unwrap_or(targets::QUEUES);
        let mut prepared = Prepared::new("amqp-emit", queue);
        prepared.takes_targets = self.queue.is_none();
        prepared.name = self.name.unwrap_or(prepared.name);
        prepared.until_idle = self.until_idle;
        let sink = sink(&emits, &self.broker.amqp)?.health(prepared.health.clone());
        prepared.sink = Some((sink, EMITTED));
        prepared.reaches = vec![Reach::Address(self.broker.amqp)];
        // Without one, each job names its exchange, which the sink holds against the list.
        prepared.reaches.extend(self.to.map(Reach::Exchange));
        Ok(prepared)
    }
}

/// Options by which the sink publishes to these exchanges alone.
fn only_to(only: Option<&[String]>) -> String {
    let patterns = only.unwrap_or_default().iter();
    patterns
        .map(|one| format!(" --only {}", quoted(one)))
        .collect()
}

/// Messages on their way to the broker at the same time.
const EMITTED: usize = 1_000;

/// The variable in which the shell finds the binary, whatever its path.
const BINARY_VARIABLE: &str = "PUNCTUAL_RELAY_BINARY";

/// Ids of messages come from `identity`, the same for every relay of the source.
fn source(adapter: &str, address: &str, identity: &str, queue: &str) -> Result<LineSource> {
    let path = binary()?;
    let source = LineSource::new(command(adapter), identity, exec::reads_into(queue));
    Ok(source
        .env(BINARY_VARIABLE, path.to_string_lossy())
        .env(ADDRESS, address))
}

fn sink(adapter: &str, address: &str) -> Result<LineSink> {
    let path = binary()?;
    let sink = LineSink::new(command(adapter), exec::writes());
    Ok(sink
        .env(BINARY_VARIABLE, path.to_string_lossy())
        .env(ADDRESS, address))
}

fn command(adapter: &str) -> String {
    format!("exec \"${BINARY_VARIABLE}\" {adapter}")
}

/// The second binary: the one that a variable names, else beside this one, or on the path.
fn binary() -> Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name(BINARY));
    let answers = |path: &PathBuf| {
        let mut command = std::process::Command::new(path);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let places = match std::env::var_os(BINARY_VARIABLE) {
        Some(path) => vec![PathBuf::from(path)],
        None => beside().into_iter().chain([BINARY.into()]).collect(),
    };
    let found = places.into_iter().find(answers);
    found.ok_or_else(|| {
        let message =
            format!("{BINARY} is not installed; it has the clients of brokers and databases");
        Failure::new(Exit::NotFound, "not_found", message).hint(format!("build it: {BUILDS_IT}"))
    })
}

/// A word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
