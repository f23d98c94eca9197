//! `punctual-relay`: clients of brokers and databases, which `punctual relay` starts and speaks
//! with in lines of JSON. It knows no engine.
//!
//! # Where to start
//! - RabbitMQ: `amqp.rs`, with its sources in `amqp/take.rs` and its sink in `amqp/emit.rs`.
//! - SQL outboxes: `sql.rs`.
//! - The lines that both sides exchange: `host.rs`, and `docs/relay.md` for users.

mod amqp;
mod host;
mod sql;

use std::time::Duration;

use clap::{Parser, Subcommand};
use punctual::time::parse_span;

/// Clients of brokers and databases for `punctual relay`, which starts this command. It speaks in
/// lines of JSON on its standard input and output: docs/relay.md. It exits with 78 if a setting is
/// wrong (an address, a password, a table), and with 1 after anything that a retry may mend.
#[derive(Debug, Parser)]
#[command(name = "punctual-relay", version)]
struct Cli {
    /// The broker or the database; a variable, as command lines show passwords to others
    #[arg(
        long,
        env = "PUNCTUAL_RELAY_ADDRESS",
        hide_env_values = true,
        global = true
    )]
    address: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A source: the rows of an SQL outbox
    Outbox {
        /// The longest pause between two polls of an empty outbox
        #[arg(long, value_parser = span_of, default_value = "250ms")]
        poll: Duration,
        /// Rows at once, at most
        #[arg(long, default_value_t = 500)]
        batch: u32,
        /// End once the outbox is empty
        #[arg(long)]
        until_idle: bool,
        /// Wait for NOTIFY where the outbox is empty
        #[arg(long)]
        notify: bool,
        /// Hand rows over in the order of their transactions
        #[arg(long)]
        ordered: bool,
    },
    /// A source: a queue of RabbitMQ
    Amqp {
        /// The queue
        #[arg(long)]
        queue: String,
        #[command(flatten)]
        options: amqp::Options,
    },
    /// A source: what is published to a delayed exchange
    AmqpDelay {
        /// The exchange
        #[arg(long)]
        exchange: String,
        /// The management API, where it is elsewhere than usual; a variable, as it has a password
        #[arg(long, env = "PUNCTUAL_RELAY_MANAGEMENT", hide_env_values = true)]
        management: Option<String>,
        #[command(flatten)]
        target: amqp::Target,
        #[command(flatten)]
        options: amqp::Options,
    },
    /// A sink: publishes jobs
    AmqpEmit {
        /// The exchange [default: the one that the message came from]
        #[arg(long)]
        to: Option<String>,
        /// Its type, to declare it
        #[arg(long)]
        to_type: Option<String>,
        /// The routing key of jobs that came from no broker
        #[arg(long, default_value = "")]
        key: String,
        /// Publish to these exchanges alone; a name, or the beginning of names and `*`
        #[arg(long)]
        only: Vec<String>,
    },
}

/// The exit status of a wrong setting, which no retry mends: `EX_CONFIG` of sysexits.
const SETTING: i32 = 78;

fn span_of(text: &str) -> Result<Duration, String> {
    parse_span(text).map_err(|error| error.message().to_owned())
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let Some(address) = cli.address else {
        eprintln!("error: no address; set PUNCTUAL_RELAY_ADDRESS, or use `punctual relay`");
        std::process::exit(2);
    };
    let ended = match cli.command {
        Command::Outbox {
            poll,
            batch,
            until_idle,
            notify,
            ordered,
        } => {
            sql::run(
                &address,
                &sql::Options {
                    poll,
                    batch,
                    until_idle,
                    notify,
                    ordered,
                },
            )
            .await
        }
        Command::Amqp { queue, options } => amqp::take(&address, &queue, &options).await,
        Command::AmqpDelay {
            exchange,
            management,
            target,
            options,
        } => {
            let management = management.as_deref();
            amqp::delay(&address, &exchange, management, &target, &options).await
        }
        Command::AmqpEmit {
            to,
            to_type,
            key,
            only,
        } => amqp::emit(&address, to, to_type, (key, only)).await,
    };
    // Leaving `main` would wait for the thread that reads standard input.
    let Err(error) = ended else {
        std::process::exit(0)
    };
    eprintln!("error: {error}");
    std::process::exit(if error.is_setting { SETTING } else { 1 })
}
