//! The command line.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::{fs, io};

use punctual::sync::Lock;
use punctual::time::{minutes, seconds};

use crate::cell::CellKind;
use crate::foreign::Foreign;
use crate::plan::{Fault, Track, is_among, plan, plan_of_relays};
use crate::relays;
use crate::report;
use crate::roles::{Failed, Role};
use crate::run::{self, Found, Keep, Round, Wanted};
use crate::scripted_outcome::Mix;
use crate::sink::mariadb::Server;
use crate::stash::make_room;
use crate::totals::Totals;
use crate::verify;

/// Tortures engines and judges what came of it
#[derive(Debug, clap::Parser)]
#[command(version, max_term_width = 100)]
pub(crate) enum Command {
    /// Torture engines; exits with 1 if anything promised was broken, with 3 if it was only late
    Run(RunArgs),
    /// Print the faults that a seed causes
    Plan(PlanArgs),
    /// Judge kept histories again, below a folder
    Verify {
        /// A file of totals: every round must be in it, with the same hash
        #[arg(long)]
        totals: Option<PathBuf>,

        /// The folder of a run, a cell or a round
        folder: PathBuf,
    },
    /// Write the totals of all runs into the pages that show them
    Tables {
        /// The file of totals
        #[arg(long, default_value = "crates/punctual-torture/totals.json")]
        totals: PathBuf,
        /// Pages with the marks between which tables stand
        #[arg(default_values = ["docs/torture.md", "README.md", "README.zh-CN.md"])]
        pages: Vec<PathBuf>,
    },
    /// What the processes of a round do
    #[command(flatten)]
    Role(Role),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Engines or cells: file:, redis, disk, all, lossy, the name of a cell; or one address
    ///
    /// Of an engine at an address nothing is broken but what can be from outside:
    /// redis://HOST:PORT/DB, rediss://HOST, redis+sentinel://HOST,HOST/MASTER,
    /// redis+cluster://HOST,HOST, http://HOST:PORT and https://HOST:PORT?ca=FILE with the token in
    /// PUNCTUAL_TOKEN, or a directory (file:DIR, ./DIR), which gets a gateway. It may hold no jobs,
    /// and only jobs of the run are deleted.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    engine: Vec<String>,

    /// What all choices begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How long faults go on
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,

    /// Faults per cell, at most; no round begins after so many, those counted that jobs and callers
    /// cause themselves
    #[arg(long, default_value_t = usize::MAX)]
    faults: usize,

    /// Tracks of faults, if not all that the cell has
    #[arg(long, value_enum, value_delimiter = ',')]
    tracks: Vec<Track>,

    /// Jobs that come in by relays besides, which are killed, too, in cells that other processes
    /// reach and that lose nothing; the run names the cells without
    #[arg(long)]
    relay: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,

    /// Many small jobs instead of all sizes
    #[arg(long)]
    many: bool,

    /// A job now and then, due at once, and no latecomer: workers listen for wakeups
    #[arg(long, conflicts_with = "many")]
    few: bool,

    /// Flows of random steps besides, which no cell that may lose jobs is asked for
    #[arg(long)]
    flows: bool,

    /// Queues with limits besides, kept full, in cells that keep what was claimed and the time; the
    /// run names the cells without
    #[arg(long)]
    limits: bool,

    /// Schedules besides, in the same cells as limits; each of their instants is accounted for
    #[arg(long)]
    schedules: bool,

    /// Calls of a producer per second, at most
    #[arg(long, default_value_t = 20)]
    rate: u32,

    /// Jobs that may stand ready before producers wait
    #[arg(long, default_value_t = 400)]
    ahead: u64,

    /// Jobs per call, at most
    #[arg(long, default_value_t = 4)]
    batch: usize,

    /// Where histories and verdicts go
    #[arg(long, default_value = "target/torture")]
    folder: PathBuf,

    /// Leave histories of rounds in which nothing was found as they are, however large; they are
    /// packed else
    #[arg(long)]
    keep: bool,

    /// Bytes of packed histories that are kept in all; those of later rounds are not, but of those
    /// with a finding
    #[arg(long, default_value_t = 1 << 30)]
    keep_bytes: u64,

    /// Seconds of faults per round; tombstones of settled jobs are kept for two minutes
    #[arg(long, default_value_t = run::ROUND_SECONDS)]
    round: u64,

    /// Seconds in which what is left must come to rest
    #[arg(long, default_value_t = run::DRAIN_SECONDS)]
    drain: u64,

    /// Seconds in which the engine must open and answer in the end
    #[arg(long, default_value_t = run::OPEN_SECONDS)]
    open: u64,

    /// End a cell with the first round in which something is found
    #[arg(long)]
    until_found: bool,

    /// Where effects are written
    #[arg(long, value_enum, default_value_t = SinkKind::Sqlite)]
    sink: SinkKind,

    /// Inject a bug in every process; needs a build with --features injected
    #[arg(long = "inject")]
    injected: Option<String>,

    /// Add what came of it to this file of totals
    #[arg(long)]
    totals: Option<PathBuf>,

    /// The commit that the totals name
    #[arg(long, env = "PUNCTUAL_COMMIT", default_value = "unnamed")]
    commit: String,
}

/// A file per round, or a server of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SinkKind {
    Sqlite,
    Mariadb,
}

impl Command {
    pub(crate) fn run(self) -> Result<Found, Failed> {
        match self {
            Self::Run(args) => args.run(),
            Self::Plan(args) => args.print().map(|()| Found::Nothing),
            Self::Verify { totals, folder } => {
                let totals = totals.map(|path| Totals::read(&path)).transpose()?;
                Ok(match verify::below(&folder, totals.as_ref())? {
                    true => Found::Nothing,
                    false => Found::Broken,
                })
            }
            Self::Tables { totals, pages } => {
                let totals = Totals::read(&totals)?;
                for page in pages {
                    let text = fs::read_to_string(&page)?;
                    fs::write(&page, totals.fill(&text))?;
                }
                Ok(Found::Nothing)
            }
            Self::Role(role) => {
                crate::injected::inject()?;
                role.run().map(|()| Found::Nothing)
            }
        }
    }
}

impl PlanArgs {
    /// The address that is given instead of cells.
    fn foreign(&self) -> Option<Foreign> {
        Foreign::named(&self.engine.join(","))
    }

    fn cells(&self) -> Result<Vec<CellKind>, Failed> {
        if self.foreign().is_some() {
            return Ok(vec![CellKind::Address]);
        }
        let mut cells = Vec::new();
        for name in &self.engine {
            cells.extend(CellKind::named(name)?);
        }
        cells.sort();
        cells.dedup();
        Ok(cells)
    }

    fn print(self) -> Result<(), Failed> {
        let span = minutes(1)
            .mul_f64(self.minutes)
            .min(seconds(run::ROUND_SECONDS))
            .as_millis() as u64;
        for cell in self.cells()? {
            println!("{}, round 0:", cell.name());
            let foreign = self.foreign();
            let is_hit = |fault: &Fault| {
                foreign.as_ref().is_none_or(|it| it.is_hit_in(fault.track))
                    && is_among(&self.tracks, fault.track)
            };
            let mut plan = plan(self.seed, cell, 0, span);
            if self.relay && cell.has_relays() {
                plan.extend(plan_of_relays(self.seed, 0, span));
                plan.sort_by_key(|fault| (fault.at, fault.track));
            }
            let plan = plan.into_iter();
            for fault in plan.filter(is_hit).take(self.faults) {
                println!("  {:<4} {fault}", fault.kind.id_in(cell));
            }
        }
        Ok(())
    }
}

impl RunArgs {
    /// Prints which cells leave out what is asked for; refuses what all of them leave out.
    fn name_cells_without(&self, cells: &[CellKind]) -> Result<(), Failed> {
        let asked = [
            (self.flows, "--flows", without(cells, CellKind::has_flows)),
            (
                self.limits,
                "--limits",
                without(cells, CellKind::has_limits),
            ),
            (
                self.plan.relay,
                "--relay",
                without(cells, CellKind::has_relays),
            ),
        ];
        let asked = asked.into_iter().chain([(
            self.schedules,
            "--schedules",
            without(cells, CellKind::has_limits),
        )]);
        let asked: Vec<_> = asked.collect();
        for (_, option, without) in asked.iter().filter(|(is_asked, ..)| *is_asked) {
            let names = without.join(", ");
            if without.len() == cells.len() {
                let why = format!("{option} does nothing in {names}; name others with --engine");
                return Err(why.into());
            }
            if !without.is_empty() {
                println!("Without {option}: {names}");
            }
        }
        Ok(())
    }

    fn run(self) -> Result<Found, Failed> {
        if self.totals.is_some() && self.plan.foreign().is_some() {
            return Err(
                "totals are of cells; leave --totals out, or name cells with --engine".into(),
            );
        }
        if self.totals.is_some() && self.plan.relay {
            return Err("totals have no faults of relays; leave --totals or --relay out".into());
        }
        if self.plan.relay {
            relays::program()?;
            if !relays::has_outbox()? {
                println!("Without the outbox: punctual-relay is not beside this program");
            }
        }
        let cells = self.plan.cells()?;
        self.name_cells_without(&cells)?;
        if let Some(path) = &self.totals {
            Totals::read(path)?.take_new(&self.commit, &cells, self.plan.seed)?;
        }
        let wanted = Wanted {
            cells,
            foreign: self.plan.foreign(),
            seed: self.plan.seed,
            span: minutes(1).mul_f64(self.plan.minutes),
            faults: self.plan.faults,
            tracks: self.plan.tracks.clone(),
            mix: match (self.many, self.few) {
                (true, _) => Mix::MANY,
                (_, true) => Mix::FEW,
                _ => Mix::ROUGH,
            },
            flows: self.flows,
            limits: self.limits,
            relay: self.plan.relay,
            schedules: self.schedules,
            batch: self.batch,
            rate: self.rate,
            ahead: self.ahead,
            folder: absolute(&self.folder)?.join(format!("seed-{}", self.plan.seed)),
            keep: match self.keep {
                true => Keep::All,
                false => Keep::Packed(Arc::new(AtomicU64::new(self.keep_bytes))),
            },
            round: seconds(self.round),
            drain: seconds(self.drain),
            open: seconds(self.open),
            stops_when_found: self.until_found,
            sql: match self.sink {
                SinkKind::Sqlite => None,
                SinkKind::Mariadb => Some(Arc::new(Server::start()?)),
            },
            injected: self.injected.clone(),
        };
        if let Some(stash) = make_room(&wanted.folder)? {
            println!(
                "The run before had a finding, and is now {}",
                stash.display()
            );
        }
        fs::create_dir_all(&wanted.folder)?;
        let folder = wanted.folder.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()?;
        let (path, commit) = (self.totals.clone(), self.commit.clone());
        // One round at a time is added.
        let adding = Mutex::new(());
        let ended = move |round: &Round| {
            println!("{}", report::line(round));
            let _one = adding.locked();
            match &path {
                Some(path) => Totals::add_to(path, &commit, round),
                None => Ok(()),
            }
        };
        let rounds = runtime.block_on(run::run(wanted, ended))?;
        fs::write(folder.join("report.md"), report::markdown(&rounds))?;
        fs::write(folder.join("report.html"), report::html(&rounds))?;
        println!("\n{}", report::markdown(&rounds));
        println!("The report is {}", folder.join("report.html").display());
        Ok(Found::of(&rounds))
    }
}

/// The names of cells of which a fact does not hold.
fn without(cells: &[CellKind], fact: impl Fn(CellKind) -> bool) -> Vec<String> {
    let others = cells.iter().filter(|kind| !fact(**kind));
    others.map(|kind| kind.name()).collect()
}

fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}
