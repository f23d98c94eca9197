//! The embedded engine beside this disk, beanstalkd and a bare store. See `bench/README.md`.

/// beanstalkd, and as much of a client as the measure needs.
mod beanstalkd;
/// Many callers with a job each: what a sync per answer costs.
mod callers;
/// Whole lives of jobs in batches, and the same writes in a bare store.
mod life;
/// Ten million jobs that have passed: what a claim costs then, and the disk.
mod passed;
/// Ten million jobs that wait: restart, memory, disk.
mod pending;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use punctual::engine::Durability;
use punctual_embedded::{EmbeddedEngine, Options};
use serde_json::{Value, json};

/// The one of the command `punctual`, so that what is measured is what users run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the embedded engine; prints a line of JSON for each result.
#[derive(Parser)]
struct Arguments {
    /// Where to keep data: the disk that is measured.
    #[arg(long, default_value = "target/bench-data", global = true)]
    directory: PathBuf,
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Subcommand)]
enum Measure {
    /// A job a call from many callers: fsync beside os, the disk's syncs, and beanstalkd.
    Callers {
        #[arg(long, default_value_t = 64)]
        callers: usize,
        #[arg(long, default_value_t = 100_000)]
        jobs: usize,
        /// Runs of each, in turns; medians count.
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Enqueue, claim and settle in batches, os, beside the same writes in a bare store.
    Life {
        #[arg(long, default_value_t = 1_000_000)]
        jobs: usize,
        #[arg(long, default_value_t = 100)]
        batch: usize,
        /// Producers, and as many workers.
        #[arg(long, default_value_t = 2)]
        callers: usize,
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Restarts with many jobs pending, after a kill and after a close: first claim, memory, disk.
    Pending {
        #[arg(long, default_value_t = 10_000_000)]
        jobs: usize,
    },
    /// Claims after many jobs have passed beside those of a fresh store; the disk once idle.
    Passed {
        #[arg(long, default_value_t = 10_000_000)]
        jobs: usize,
        /// Rounds of 100 claims on each store, in turns; medians count.
        #[arg(long, default_value_t = 15)]
        rounds: usize,
    },
    /// Loads a directory until it is killed.
    #[command(hide = true)]
    Load { jobs: usize },
    /// Opens a directory and claims.
    #[command(hide = true)]
    Restart,
}

fn main() {
    let Arguments { directory, measure } = Arguments::parse();
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        match measure {
            Measure::Callers {
                callers,
                jobs,
                runs,
            } => callers::measure(&directory, callers, jobs, runs).await,
            Measure::Life {
                jobs,
                batch,
                callers,
                runs,
            } => life::measure(&directory, jobs, batch, callers, runs).await,
            Measure::Pending { jobs } => pending::measure(&directory, jobs).await,
            Measure::Passed { jobs, rounds } => passed::measure(&directory, jobs, rounds).await,
            Measure::Load { jobs } => pending::load_until_killed(&directory, jobs).await,
            Measure::Restart => pending::restart(&directory).await,
        }
    });
}

fn announce(value: &Value) {
    println!("{value}");
}

/// A figure beside its goal.
fn figure(name: &str, value: f64, goal: &str) {
    announce(&json!({"figure": name, "value": rounded(value), "goal": goal}));
}

/// Three digits are all that a shared machine can measure.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    let unit = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}

fn open(path: &Path, durability: Durability) -> EmbeddedEngine {
    let options = Options::default().durability(durability);
    EmbeddedEngine::open(path, options).expect("open")
}

/// An empty place for one measurement.
fn fresh(directory: &Path) -> tempfile::TempDir {
    tempfile::tempdir_in(directory).expect("the directory can be written")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Bytes that all files below a directory take on the disk.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => disk_bytes(&entry.path()),
        Ok(about) => about.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Payloads that no compression makes smaller.
fn payload(random: &mut punctual_bench::random::Random) -> Vec<u8> {
    let words = (0..13).flat_map(|_| random.next_u64().to_le_bytes());
    words.take(100).collect()
}
