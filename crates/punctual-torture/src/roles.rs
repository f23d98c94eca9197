//! The processes of a round: each is this program under another command.

mod flows;
mod handler;
mod host;
mod latecomer;
mod limits;
mod lines;
mod producer;
mod relayed;
mod schedules;
pub(crate) mod solo;
mod worker;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use punctual::time::{millis, seconds};
use punctual::{Engine, Worker};

use crate::address;
use crate::call_log::History;
use crate::event::Event;
use crate::recorder::Recorder;
use crate::setting::{LEASE_DURATION, Setting};

/// Which process, and where it finds what it is to do.
#[derive(Debug, clap::Args)]
pub(crate) struct RoleArgs {
    /// The setting of the round
    #[arg(long)]
    setting: PathBuf,

    /// The name of the process, used once per round
    #[arg(long)]
    name: String,

    /// What its random choices begin with
    #[arg(long)]
    seed: u64,
}

/// What a process of a round does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Role {
    /// Sends jobs
    Producer(RoleArgs),
    /// Runs jobs
    Worker(RoleArgs),
    /// Does both on a directory of its own
    Solo(RoleArgs),
    /// Serves an engine over HTTP
    Host(host::HostArgs),
    /// Sends lines to a relay until each is answered
    Lines(lines::LinesArgs),
}

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Role {
    /// Runs until it is stopped, or the process that started it is gone.
    pub(crate) fn run(self) -> Result<(), Failed> {
        // A source of lines reads its input itself.
        if !matches!(self, Self::Lines(_)) {
            end_with_starter();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self {
                Self::Producer(args) => {
                    producer::run(Begun::new(&args, false).await?, args.seed).await
                }
                Self::Worker(args) => worker::run(Begun::new(&args, false).await?, args.seed).await,
                Self::Solo(args) => {
                    let begun = Begun::new(&args, true).await?;
                    writeln!(io::stdout(), "ready")?;
                    solo::run(begun, args.seed).await
                }
                Self::Host(args) => host::run(args).await,
                Self::Lines(args) => lines::run(args).await,
            }
        })
    }
}

/// A process of a round that has its history and its engine.
#[derive(Clone)]
struct Begun {
    setting: Arc<Setting>,
    history: Arc<History>,
    engine: Arc<dyn Engine>,
    /// The same engine without its recorder.
    direct: Arc<dyn Engine>,
    /// The name of the process, used once per round.
    name: String,
    /// Whether it has the engine to itself.
    solo: bool,
}

impl Begun {
    async fn new(args: &RoleArgs, solo: bool) -> Result<Self, Failed> {
        let setting = Setting::read(&args.setting)?;
        let history = Arc::new(History::create(&setting.round, &args.name)?);
        history.note(Event::Began { solo });
        let direct = connect(&setting.engine).await?;
        let begins_anew = setting.may_lose;
        let engine = Arc::new(Recorder::new(direct.clone(), history.clone(), begins_anew));
        Ok(Self {
            setting: Arc::new(setting),
            history,
            engine,
            direct,
            name: args.name.clone(),
            solo,
        })
    }
}

/// A worker that loses little time by a fault: leases are short, and so are the waits at its end.
fn hasty(worker: Worker) -> Worker {
    worker
        .lease_duration(LEASE_DURATION)
        .drain_limit(seconds(1))
        .abort_grace(millis(500))
        .suspect_wait(seconds(2))
}

/// An engine may be away because of a fault: then it is asked again.
async fn connect(address: &str) -> Result<Arc<dyn Engine>, Failed> {
    let mut backoff = punctual::backoff::Backoff::new(millis(10), millis(200));
    loop {
        match address::open(address).await {
            Ok(engine) => return Ok(engine),
            Err(error) if error.is_retryable() || is_passing(&error) => {
                punctual::time::pause(backoff.pause()).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Replicas that are away come back.
fn is_passing(error: &punctual::Error) -> bool {
    error.kind() == punctual::ErrorKind::DurabilityUnavailable
}

/// The process that started this one holds the other end of its input.
fn end_with_starter() {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(3);
    });
}
