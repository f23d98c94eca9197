//! `punctual-syncspy`: the spy by hand, around any server.
//!
//! Start with `punctual-syncspy run --watch DIR COMMAND`, cause a fault with `slow`, `fail` or
//! `fill`, and end with `cut`. The library of this package does the work.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, Subcommand};
use punctual_syncspy::{SyncSpy, Tear};

/// Power cuts, slow, failing and full disks, for a process that knows nothing of it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where the spy keeps what it knows.
    #[arg(long, default_value = "syncspy", global = true)]
    control: PathBuf,
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Runs a command under a new spy, or the one that is there.
    Run {
        /// The directory whose files are watched.
        #[arg(long)]
        watch: PathBuf,
        /// The command.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Makes every sync take so many milliseconds longer; 0 ends that.
    Slow { millis: u64 },
    /// Lets the K-th sync from now on fail.
    Fail { k: u64 },
    /// Lets the disk be full from the K-th write from now on.
    Fill { k: u64 },
    /// Ends what is slow, fails or is full.
    Heal,
    /// Says what was seen.
    Show,
    /// Kills what runs under the spy, and takes from its files what a power cut may take.
    Cut {
        /// Decides what is lost.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Loses each sector by itself, and not the end of each file.
        #[arg(long)]
        sectors: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("punctual-syncspy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> io::Result<ExitCode> {
    let at = |control: &PathBuf| SyncSpy::at(control);
    let control = &arguments.control;
    match arguments.act {
        Act::Run { watch, command } => {
            let spy = at(control).or_else(|_| SyncSpy::new(control, &watch))?;
            let mut started = Command::new(&command[0]);
            let status = spy.arm(started.args(&command[1..]))?.status()?;
            return Ok(status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .map_or(ExitCode::FAILURE, ExitCode::from));
        }
        Act::Slow { millis } => at(control)?.slow_sync(Duration::from_millis(millis))?,
        Act::Fail { k } => at(control)?.fail_sync(k)?,
        Act::Fill { k } => at(control)?.fill_after(k)?,
        Act::Heal => at(control)?.heal()?,
        Act::Show => {
            let spy = at(control)?;
            println!("{:?}", spy.counts()?);
            let syncs = spy.syncs()?;
            let took = syncs
                .iter()
                .filter_map(|sync| Some((sync.ended? - sync.began, sync)));
            if let Some((micros, sync)) = took.max_by_key(|(micros, _)| *micros) {
                let (of, name) = (syncs.len(), &sync.name);
                println!("the longest of the last {of} syncs took {micros} us: {name}");
            }
        }
        Act::Cut { seed, sectors } => {
            let tear = if sectors { Tear::Sectors } else { Tear::Prefix };
            let cut = at(control)?.power_cut(seed, tear)?;
            println!("killed {:?}; {} files left alone", cut.killed, cut.unseen);
            for file in cut.files {
                let path = file.path.display();
                let (lost, unsynced, len) = (file.lost, file.unsynced, file.len);
                println!("{path}: {lost} of {unsynced} unsynced bytes lost, {len} bytes long now");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
