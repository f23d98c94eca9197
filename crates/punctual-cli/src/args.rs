//! The command line: what every command shares, and the list of commands.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use punctual::engine::Durability;
use punctual::job::check_name;
use punctual::time::{Timestamp, parse_local, parse_span};
use punctual::{Engine, JobId, Namespace};
use tracing::level_filters::LevelFilter;

use crate::commands::{
    audit, backup, bench, clear, completions, demo, doctor, enqueue, export, flows, import, jobs,
    limits, lock, locks, migrate, outbox, queues, relay, repair, restore, schedules, serve, top,
    topics, work,
};
use crate::connect::{self, Address, Connection, Make, Mode};
use crate::failure::Result;
use crate::output::{Format, Output};

const EXAMPLES: &str = "\
Examples:
  punctual                                        serve ./punctual-data on 127.0.0.1:4180
  punctual demo                                   watch 3,000 orders being cancelled on time
  punctual enqueue mail '{\"to\":\"ann\"}' --delay 30m
  punctual work mail --exec ./send-mail.sh        run a command per job
  punctual jobs list --queue mail                 what waits, runs and failed
  punctual jobs explain ID                        why a job has not run yet
";

const REST: &str = "
Environment: PUNCTUAL_ENGINE, PUNCTUAL_NAMESPACE and PUNCTUAL_OUTPUT set these options;
PUNCTUAL_LOG=error, warn (the default), info, debug or off sets the log level; logs go to stderr.

Exit codes:
  0  done
  1  failed
  2  wrong usage or malformed input
  3  no such job, queue or file
  4  job refused, or the engine is full
  5  engine unavailable, or locked by another process
  6  stored data damaged, or from a newer version
  7  the engine stopped itself: start it again";

fn help() -> String {
    [EXAMPLES, connect::ADDRESSES, REST].join("\n")
}

/// Durable delayed jobs, on time.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = help(), max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EVERYWHERE: &str = "Options of every command";

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Global {
    /// Where the jobs are [default: file:./punctual-data]
    #[arg(
        long,
        short,
        global = true,
        help_heading = EVERYWHERE,
        env = "PUNCTUAL_ENGINE",
        value_name = "ADDRESS",
        hide_env_values = true
    )]
    pub(crate) engine: Option<String>,

    /// The tenant's own set of queues [default: default]
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "PUNCTUAL_NAMESPACE",
        value_name = "NAME",
        hide_env_values = true
    )]
    pub(crate) namespace: Option<String>,

    /// Columns for a person, or one JSON document per line [default: table]
    #[arg(
        long,
        short,
        global = true,
        help_heading = EVERYWHERE,
        env = "PUNCTUAL_OUTPUT",
        value_name = "table|json",
        hide_env_values = true,
        hide_possible_values = true
    )]
    pub(crate) output: Option<Format>,
}

impl Global {
    pub(crate) fn output(&self) -> Output {
        Output {
            format: self.output.unwrap_or_default(),
        }
    }

    pub(crate) fn address(&self) -> Result<Address> {
        Address::parse(self.engine.as_deref().unwrap_or(connect::DEFAULT))
    }

    pub(crate) fn namespace(&self) -> Result<Namespace> {
        match &self.namespace {
            Some(name) => Ok(Namespace::new(name.clone())?),
            None => Ok(Namespace::default()),
        }
    }

    /// Opens the engine that was asked for.
    pub(crate) async fn session(&self, make: Make) -> Result<Session> {
        self.session_as(make, Mode::Join).await
    }

    /// The same for a command that takes long: others are answered meanwhile.
    pub(crate) async fn shared_session(&self, make: Make) -> Result<Session> {
        self.session_as(make, Mode::Share).await
    }

    async fn session_as(&self, make: Make, mode: Mode) -> Result<Session> {
        let named = self.namespace()?;
        let connection = self.address()?.open(make, mode).await?;
        let namespace = match self.namespace {
            Some(_) => named,
            None => connection.own_namespace().await?.unwrap_or(named),
        };
        Ok(Session::new(connection, namespace, self.output()))
    }
}

/// An open engine, whose jobs are meant, and where the answer goes.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) namespace: Namespace,
    pub(crate) out: Output,
    connection: Connection,
}

impl Session {
    pub(crate) fn new(connection: Connection, namespace: Namespace, out: Output) -> Self {
        Self {
            engine: connection.engine.clone(),
            namespace,
            out,
            connection,
        }
    }

    /// What every acknowledged change has survived.
    pub(crate) async fn durability(&self) -> Result<Durability> {
        Ok(self.engine.info().await?.durability)
    }

    /// Prints how safe a stored change is, and warns where nothing is kept.
    pub(crate) fn announce_durability(&self, durability: Durability) {
        let ends_here = self.connection.ends_with_process();
        self.out.note(stored(durability, ends_here));
    }

    /// Ends the engine in good order; so does dropping, but others that ask it are cut off then.
    pub(crate) async fn close(&self) -> Result<()> {
        self.connection.close().await
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Enqueue(Box<enqueue::Args>),
    Work(work::Args),
    #[command(subcommand)]
    Jobs(jobs::Command),
    Signal(jobs::Signal),
    Clear(clear::Args),
    #[command(subcommand)]
    Queues(queues::Command),
    #[command(subcommand)]
    Limits(limits::Command),
    #[command(subcommand)]
    Schedules(schedules::Command),
    #[command(subcommand)]
    Flows(flows::Command),
    #[command(subcommand)]
    Topics(topics::Command),
    Lock(lock::Args),
    Locks(locks::Args),
    Migrate(migrate::Args),
    #[command(subcommand)]
    Relay(Box<relay::Command>),
    #[command(subcommand)]
    Outbox(outbox::Command),
    Top(top::Args),
    Audit(audit::Args),
    Doctor(doctor::Args),
    #[command(subcommand)]
    Bench(bench::Command),
    Demo(demo::Args),
    Export(export::Args),
    Import(import::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Repair(repair::Args),
    Completions(completions::Args),
}

impl Command {
    /// The level of the log of engine and worker, unless an option sets another.
    pub(crate) fn usual_log(&self) -> LevelFilter {
        match self {
            // It draws over its own lines, and leases that ran out are what its kills are for.
            Self::Demo(_) => LevelFilter::ERROR,
            _ => LevelFilter::WARN,
        }
    }

    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Serve(args) => args.run(global).await,
            Self::Enqueue(args) => args.run(global).await,
            Self::Work(args) => args.run(global).await,
            Self::Jobs(command) => command.run(global).await,
            Self::Signal(args) => args.run(global).await,
            Self::Clear(args) => args.run(global).await,
            Self::Queues(command) => command.run(global).await,
            Self::Limits(command) => command.run(global).await,
            Self::Schedules(command) => command.run(global).await,
            Self::Flows(command) => command.run(global).await,
            Self::Topics(command) => command.run(global).await,
            Self::Lock(args) => args.run(global).await,
            Self::Locks(args) => args.run(global).await,
            Self::Migrate(args) => args.run(global).await,
            Self::Relay(command) => command.run(global).await,
            Self::Outbox(command) => command.run(global),
            Self::Top(args) => args.run(global).await,
            Self::Audit(args) => args.run(global).await,
            Self::Doctor(args) => args.run(global).await,
            Self::Bench(command) => command.run(global).await,
            Self::Demo(args) => args.run(global).await,
            Self::Export(args) => args.run(global).await,
            Self::Import(args) => args.run(global).await,
            Self::Backup(args) => args.run(global),
            Self::Restore(args) => args.run(global),
            Self::Repair(args) => args.run(global).await,
            Self::Completions(args) => args.run(global),
        }
    }
}

/// How safe a stored change is; `ends_here` where the store ends with this process.
fn stored(durability: Durability, ends_here: bool) -> String {
    let means = match durability {
        Durability::Memory if ends_here => {
            return "warning: stored in memory:, which ends with this command, so it is lost; use --engine file:DIR or a server"
                .into();
        }
        Durability::Memory => {
            return "warning: stored by memory: lost when the process that keeps it ends; \
                    for more, serve file:DIR, or set appendonly yes on Redis"
                .into();
        }
        Durability::Os => "it survives a kill, but no power cut",
        Durability::Interval(_) => "it survives a kill, and a power cut after that span",
        Durability::Fsync => "it is on disk",
        Durability::Replica(_) => "it is on that many replicas",
        Durability::Stated(_) => "the operator states that; it was not checked",
        _ => return format!("stored by {durability}"),
    };
    format!("stored by {durability}: {means}")
}

/// Reads the id of a job.
pub(crate) fn id_of(text: &str) -> std::result::Result<JobId, String> {
    text.parse()
        .map_err(|error: punctual::Error| error.message().to_owned())
}

/// The job of a step of a flow, or of a callback, whose name begins with `@`.
pub(crate) fn step_of(flow: &str, step: &str) -> punctual::Result<JobId> {
    check_name("flow", flow)?;
    check_name("step", step.strip_prefix('@').unwrap_or(step))?;
    Ok(JobId::step(flow, step))
}

/// Reads a span such as `30m`.
pub(crate) fn span_of(text: &str) -> std::result::Result<Duration, String> {
    parse_span(text).map_err(|error| error.message().to_owned())
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    /// The name that was said instead of the address.
    pub(crate) name: Option<String>,
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            name: None,
        }
    }
}

/// Reads where to listen, such as `127.0.0.1:4180`. `localhost` is that too; any other name is the
/// first address that the system knows it by.
pub(crate) fn listen_of(text: &str) -> std::result::Result<Listen, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address.into());
    }
    let wrong = || {
        "not an address or a name, and a port; write them such as 127.0.0.1:4180, localhost:0 or [::1]:4180"
            .to_owned()
    };
    let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if name.is_empty() || name.contains([':', '[', ']', '/', '@']) {
        return Err(wrong());
    }
    let address = if name.eq_ignore_ascii_case("localhost") {
        SocketAddr::from(([127, 0, 0, 1], port))
    } else {
        let found = (name, port).to_socket_addrs();
        let found = found.map_err(|error| {
            format!("the name is not known here: {error}; write an address such as 127.0.0.1:4180")
        })?;
        (found.into_iter().next())
            .ok_or("the name has no address here; write one such as 127.0.0.1:4180")?
    };
    Ok(Listen {
        address,
        name: Some(name.to_owned()),
    })
}

/// Reads an instant such as `2026-12-01T08:00:00Z`, or `2026-12-01 08:00` in local time.
pub(crate) fn instant_of(text: &str) -> std::result::Result<Timestamp, String> {
    parse_local(text).map_err(|error| match error.message().split_once("; ") {
        Some((what, remedy)) => format!("{what}; {remedy}, or like 2026-11-21 10:00 in local time"),
        None => error.message().to_owned(),
    })
}
