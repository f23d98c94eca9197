//! `punctual bench`: the numbers of the README, each with one command, on any engine.

mod cpu;
mod fairness;
mod flows;
mod footprint;
mod job;
mod lateness;
mod leftovers;
mod lifecycle;
mod limit_cost;
mod limits;
mod locks;
mod neighbours;
mod schedules;
mod topics;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use futures_util::stream::{self, TryStreamExt};
use punctual::time::seconds;
use punctual::{Engine, JobId, Namespace};

use crate::args::{Global, Session};
use crate::connect::{Address, Connection, Make, Mode};
use crate::failure::{Exit, Failure, Result};

/// Measure an engine: throughput and CPU, lateness, bytes per job, neighbours, limits, fairness,
/// topics, locks
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Without --engine the bench uses a temporary directory in the current one and removes it. With it the
bench uses the engine as it is, in its own namespace, and empties that afterwards.")]
pub(crate) enum Command {
    Lifecycle(lifecycle::Args),
    Lateness(lateness::Args),
    Footprint(footprint::Args),
    Neighbours(neighbours::Args),
    Limits(limits::Args),
    LimitCost(limit_cost::Args),
    Fairness(fairness::Args),
    Flows(flows::Args),
    Schedules(schedules::Args),
    Topics(topics::Args),
    Locks(locks::Args),
}

/// How long a lifecycle keeps settled jobs and their tombstones where the engine lets it choose.
const KEPT: Duration = seconds(5);

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let kept = matches!(self, Self::Lifecycle(_)).then_some(KEPT);
        let place = Place::open(global, kept).await?;
        let result = match self {
            Self::Lifecycle(args) => args.run(&place).await,
            Self::Lateness(args) => args.run(&place).await,
            Self::Footprint(args) => args.run(&place).await,
            Self::Neighbours(args) => args.run(&place).await,
            Self::Limits(args) => args.run(&place).await,
            Self::LimitCost(args) => args.run(&place).await,
            Self::Fairness(args) => args.run(&place).await,
            Self::Flows(args) => args.run(&place).await,
            Self::Schedules(args) => args.run(&place).await,
            Self::Topics(args) => args.run(&place).await,
            Self::Locks(args) => args.run(&place).await,
        };
        // Before its directory goes.
        place.connection.close().await?;
        result
    }
}

/// An engine to measure, and its name in the result.
struct Place {
    session: Session,
    connection: Connection,
    /// Maintains every namespace of the store, so it keeps the spans that the address says.
    maintainer: Arc<dyn Engine>,
    engine: String,
    _dir: Option<tempfile::TempDir>,
}

impl Place {
    /// Opens the engine of the command line. With `kept` its settled jobs go after that span.
    async fn open(global: &Global, kept: Option<Duration>) -> Result<Self> {
        let mut dir = None;
        let given = match &global.engine {
            Some(_) => global.address()?.that_may_begin(),
            None => {
                // The temporary directory may lie in memory, where fsync costs nothing.
                let here = std::path::Path::new(".");
                let made = tempfile::Builder::new()
                    .prefix("punctual-bench-")
                    .tempdir_in(here);
                let made =
                    made.map_err(|error| Failure::file("make a directory in", here, &error))?;
                let address = Address::of_directory(made.path());
                dir = Some(made);
                address
            }
        };
        let address = match kept {
            Some(span) => given.clone().forgetting_after(span),
            None => given.clone(),
        };
        let connection = address.open(Make::IfMissing, Mode::Hold).await?;
        let maintainer = match given {
            Address::Redis(_) if address != given => {
                let other = given.open(Make::IfMissing, Mode::Hold).await?;
                other.engine
            }
            _ => connection.engine.clone(),
        };
        let info = connection.engine.info().await?;
        let namespace = Namespace::new(format!("bench-{}", JobId::new()))?;
        Ok(Self {
            session: Session::new(connection.clone(), namespace, global.output()),
            connection,
            maintainer,
            engine: format!("{} {} ({})", info.engine, info.version, info.durability),
            _dir: dir,
        })
    }
}

/// Runs that many tasks of one kind at the same time; the first error of any.
async fn in_tasks<F>(count: u64, task: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = punctual::Result<()>> + Send + 'static,
{
    let tasks = (0..count).map(|_| tokio::spawn(task()));
    for ended in futures_util::future::join_all(tasks).await {
        ended.map_err(|error| Failure::new(Exit::Failed, "internal", error.to_string()))??;
    }
    Ok(())
}

/// Makes so many calls, some of them at the same time; the first error of any.
async fn at_once(calls: u64, call: impl AsyncFn(u64) -> punctual::Result<()>) -> Result<()> {
    let call = &call;
    let calls = stream::iter((0..calls).map(Ok));
    let made = calls.try_for_each_concurrent(AT_ONCE, async |nth| call(nth).await);
    Ok(made.await?)
}

/// Calls that fill or empty a namespace at the same time.
const AT_ONCE: usize = 32;

/// Marsaglia's xorshift generator: quick, and random enough for dues.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let mut seed = [0; 8];
        seed.copy_from_slice(&JobId::new().as_bytes()[8..]);
        Self(u64::from_be_bytes(seed) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
