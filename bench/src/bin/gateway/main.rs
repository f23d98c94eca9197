//! The gateway's numbers: a load in this process, `punctual serve` in another. See
//! `bench/gateway.md`.

/// JSONL in streams, beside the same engine in its own process.
mod bulk;
/// One job a request over many connections, beside what the load itself can do.
mod enqueue;
/// As much of an HTTP client as the load needs.
mod http;
/// What the gateway adds to lateness.
mod lateness;
/// Pages of a list from a million jobs, and a search through all of them.
mod pages;
/// `punctual serve`, and what the system knows of it.
mod server;
/// WebSockets that only listen.
mod sockets;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde_json::{Value, json};

/// The one of the command `punctual`, so that what is measured in process is what users run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures `punctual serve`; prints a line of JSON for each result.
#[derive(Parser)]
struct Arguments {
    /// Where to keep data: the disk that is measured.
    #[arg(long, default_value = "target/bench-data", global = true)]
    directory: PathBuf,
    /// The command to measure; without it the one that was built beside this bench.
    #[arg(long, default_value_os_t = built_beside(), global = true)]
    punctual: PathBuf,
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Subcommand)]
enum Measure {
    /// A job a request over kept connections, `os`.
    Enqueue {
        #[arg(long, default_value_t = 64)]
        connections: usize,
        #[arg(long, default_value_t = 200_000)]
        jobs: usize,
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Lines to /v1/bulk, `os`, beside batches into the same engine in process.
    Bulk {
        #[arg(long, default_value_t = 4)]
        connections: usize,
        #[arg(long, default_value_t = 500_000)]
        jobs: usize,
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// `punctual bench lateness` on a directory, and through a gateway on one.
    Lateness {
        #[arg(long, default_value_t = 1_000)]
        rate: u64,
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// The server's memory with so many WebSockets that watch one queue each.
    Sockets {
        #[arg(long, default_value_t = 10_000)]
        sockets: usize,
    },
    /// Pages of a list from many jobs, and a search through all of them.
    Pages {
        #[arg(long, default_value_t = 1_000_000)]
        jobs: usize,
        /// `embedded` or `redis`.
        #[arg(long, default_value = "embedded")]
        engine: String,
    },
    /// Answers every request with the same receipt: what the load itself can do.
    #[command(hide = true)]
    Receipts,
}

fn built_beside() -> PathBuf {
    let bench = std::env::current_exe().expect("a running program has a path");
    bench.with_file_name("punctual")
}

fn main() {
    let arguments = Arguments::parse();
    assert!(
        arguments.punctual.exists(),
        "there is no {}: cargo build --release -p punctual-cli, or name one with --punctual",
        arguments.punctual.display()
    );
    std::fs::create_dir_all(&arguments.directory).expect("the directory can be made");
    // As the server has its own threads, the load has one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        match arguments.measure {
            Measure::Enqueue {
                connections,
                jobs,
                runs,
            } => enqueue::measure(&arguments, connections, jobs, runs).await,
            Measure::Bulk {
                connections,
                jobs,
                runs,
            } => bulk::measure(&arguments, connections, jobs, runs).await,
            Measure::Lateness {
                rate,
                seconds,
                runs,
            } => lateness::measure(&arguments, rate, seconds, runs),
            Measure::Sockets { sockets } => sockets::measure(&arguments, sockets).await,
            Measure::Pages { jobs, ref engine } => pages::measure(&arguments, jobs, engine).await,
            Measure::Receipts => enqueue::answer_receipts().await,
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

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
