//! `punctual bench`: the numbers of the README, each with one command, on any engine.

mod footprint;
mod lateness;
mod lifecycle;

use clap::Subcommand;
use punctual::{JobId, Namespace};

use crate::args::{Global, Session};
use crate::connect::{Address, Connection, Make, Mode};
use crate::failure::{Failure, Result};

/// Measure an engine: throughput and CPU, lateness, bytes per job
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Without --engine the bench uses a temporary directory in the current one and removes it. With it the
bench uses the engine as it is, in its own namespace, and empties that afterwards.")]
pub(crate) enum Command {
    Lifecycle(lifecycle::Args),
    Lateness(lateness::Args),
    Footprint(footprint::Args),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let place = Place::open(global).await?;
        let result = match self {
            Self::Lifecycle(args) => args.run(&place).await,
            Self::Lateness(args) => args.run(&place).await,
            Self::Footprint(args) => args.run(&place).await,
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
    engine: String,
    _dir: Option<tempfile::TempDir>,
}

impl Place {
    async fn open(global: &Global) -> Result<Self> {
        let mut dir = None;
        let address = match &global.engine {
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
        let connection = address.open(Make::IfMissing, Mode::Hold).await?;
        let info = connection.engine.info().await?;
        let namespace = Namespace::new(format!("bench-{}", JobId::new()))?;
        Ok(Self {
            session: Session::new(connection.clone(), namespace, global.output()),
            connection,
            engine: format!("{} {} ({})", info.engine, info.version, info.durability),
            _dir: dir,
        })
    }
}

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
