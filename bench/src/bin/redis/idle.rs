//! Commands per second of a hundred idle workers.

use std::time::Duration;

use punctual_bench::stopwatch::pause;

use crate::server::Server;
use crate::sides::{PUNCTUAL, Side};
use crate::table::{cell, median_of, print};
use crate::{Options, in_turns};

const WORKERS: usize = 100;
/// What a start brings with it: a hundred that connect at once.
pub(crate) const SETTLE_DOWN: Duration = Duration::from_secs(5);

/// A second of 100 workers that wait.
struct Second {
    reads: f64,
    commands: f64,
    cpu_us: f64,
    most: String,
}

pub(crate) fn measure(options: &Options, sides: &[Side]) {
    let seconds = if options.long {
        60
    } else {
        20 / options.smoke.min(10)
    };
    let ours: Vec<Side> = sides
        .iter()
        .filter(|side| side.name == PUNCTUAL)
        .cloned()
        .collect();
    let results = in_turns(options, &ours, |side| run(side, seconds));
    let rows: Vec<Vec<String>> = ours
        .iter()
        .zip(&results)
        .map(|(side, runs)| {
            let most = runs.last().map_or("-".into(), |run| run.most.clone());
            vec![
                side.name.into(),
                cell(median_of(runs, |run| run.reads)),
                cell(median_of(runs, |run| run.commands)),
                cell(median_of(runs, |run| run.cpu_us)),
                most,
            ]
        })
        .collect();
    let heads = [
        "",
        "calls a second",
        "commands a second, within functions too",
        "server CPU us a second",
        "most",
    ];
    print("100 worker processes that wait", &heads, &rows);
}

fn run(side: &Side, seconds: u64) -> Option<Second> {
    let server = Server::start();
    let _workers = side.work(&server, WORKERS)?;
    pause(SETTLE_DOWN);
    let (reads, commands, cpu) = (server.reads(), server.commands(), server.cpu_us());
    pause(Duration::from_secs(seconds));
    let span = seconds as f64;
    // INFO is asked for by the bench.
    let mut calls: Vec<(String, f64)> = server
        .commands()
        .into_iter()
        .filter(|(name, _)| name != "info")
        .map(|(name, after)| {
            let before = commands.get(&name).copied().unwrap_or_default();
            (name, (after - before) / span)
        })
        .filter(|(_, calls)| *calls > 0.0)
        .collect();
    calls.sort_by(|one, other| other.1.total_cmp(&one.1));
    let most: Vec<String> = calls
        .iter()
        .take(4)
        .map(|(name, calls)| format!("{name} {}", cell(Some(*calls))))
        .collect();
    Some(Second {
        reads: (server.reads() - reads) / span,
        commands: calls.iter().map(|(_, calls)| calls).sum(),
        cpu_us: (server.cpu_us() - cpu) / span,
        most: most.join(", "),
    })
}
