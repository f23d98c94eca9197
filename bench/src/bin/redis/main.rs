//! Punctual on Redis beside its rivals, each on a server of its own. See `bench/redis.md`.

/// What waiting workers ask of a server.
mod idle;
/// What jobs cost that are more than plain.
mod jobs;
/// Handler start minus due.
mod lateness;
/// Whole lives of jobs: server CPU and throughput.
mod life;
/// Bytes per job, and what a schedule costs with many pending.
mod pending;
/// The yardstick: raw lists.
mod raw;
/// The servers.
mod server;
/// Who is measured, with which settings.
mod sides;
/// Tables of medians.
mod table;

use clap::{Parser, ValueEnum};

use sides::Side;

/// Measures Punctual on Redis beside its rivals; prints a table for each measure.
#[derive(Parser)]
struct Options {
    /// Runs of each, in turns; medians count.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Only this measure; may be given several times.
    #[arg(long, value_name = "MEASURE")]
    only: Vec<Measure>,
    /// Only this side; may be given several times.
    #[arg(long = "side", value_name = "NAME")]
    sides: Vec<String>,
    /// Divides every number of jobs and seconds: to see whether all works.
    #[arg(long, default_value_t = 1)]
    smoke: u64,
    /// Of lateness, only the loads whose titles have these words.
    #[arg(long, value_name = "WORDS", default_value = "")]
    load: String,
    /// Ten million pending, ten minutes of lateness.
    #[arg(long)]
    long: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Server CPU per life, bulk enqueue, throughput of one worker process.
    Life,
    /// The same with a job a call, 64 in flight.
    Single,
    /// Server CPU of each kind of job beside raw list commands, BullMQ and Sidekiq.
    Jobs,
    /// Four worker processes beside one.
    Four,
    /// Lateness at 500 and 5,000 a second, idle, and with 100 worker processes.
    Lateness,
    /// Bytes per pending job, and what one more schedule costs.
    Pending,
    /// Calls of 100 workers that wait.
    Idle,
}

fn main() {
    let options = Options::parse();
    let sides = sides::installed(&options.sides);
    println!(
        "{}, load average before {}",
        server::version(),
        load_average()
    );
    let chosen = |measure| options.only.is_empty() || options.only.contains(&measure);
    if chosen(Measure::Life) {
        life::lives(&options, &sides);
    }
    if chosen(Measure::Single) {
        life::single_calls(&options, &sides);
    }
    if chosen(Measure::Jobs) {
        jobs::measure(&options, &sides);
    }
    if chosen(Measure::Four) {
        life::four_workers(&options, &sides);
    }
    if chosen(Measure::Lateness) {
        lateness::measure(&options, &sides);
    }
    if chosen(Measure::Pending) {
        pending::measure(&options, &sides);
    }
    if chosen(Measure::Idle) {
        idle::measure(&options, &sides);
    }
    println!("\nload average after {}", load_average());
}

/// Of the last minute, five and fifteen: what else the machine was busy with.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').take(3).collect();
    words.join(" ")
}

/// Runs take turns, so that a disturbance falls on everybody.
fn in_turns<T>(
    options: &Options,
    sides: &[Side],
    mut measure: impl FnMut(&Side) -> Option<T>,
) -> Vec<Vec<T>> {
    let mut results: Vec<Vec<T>> = sides.iter().map(|_| Vec::new()).collect();
    for run in 1..=options.runs {
        for (side, results) in sides.iter().zip(&mut results) {
            eprintln!("run {run} of {}: {}", options.runs, side.name);
            results.extend(measure(side));
        }
    }
    results
}
