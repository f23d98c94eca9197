//! Bytes per pending job, and what one more costs then.

use crate::server::Server;
use crate::sides::{PUNCTUAL, Side};
use crate::table::{cell, median_of, print, ratio};
use crate::{Options, in_turns};

/// Jobs whose scheduling is timed, with few and with many pending.
const SAMPLE: u64 = 100_000;
/// Rivals are linear, and slower to fill.
const RIVAL_JOBS: u64 = 100_000;

struct Pending {
    jobs: f64,
    bytes: f64,
    /// Microseconds of server CPU for one more, with `SAMPLE` and with all pending.
    few_us: f64,
    many_us: f64,
}

pub(crate) fn measure(options: &Options, sides: &[Side]) {
    let ours = if options.long { 10_000_000 } else { 1_000_000 } / options.smoke;
    let results = in_turns(options, sides, |side| match side.name {
        PUNCTUAL => ours_pending(side, ours, SAMPLE / options.smoke),
        // Those without a bulk call get fewer.
        _ => rival_pending(side, RIVAL_JOBS.min(side.jobs) / options.smoke),
    });
    let bytes = |runs: &Vec<Pending>| median_of(runs, |one| one.bytes);
    let our_bytes = results.first().and_then(bytes);
    let rows: Vec<Vec<String>> = sides
        .iter()
        .zip(&results)
        .map(|(side, runs)| {
            let few = median_of(runs, |one| one.few_us).filter(|us| us.is_finite());
            let many = median_of(runs, |one| one.many_us).filter(|us| us.is_finite());
            vec![
                side.name.into(),
                cell(median_of(runs, |one| one.jobs)),
                cell(bytes(runs)),
                ratio(bytes(runs), our_bytes),
                cell(few),
                cell(many),
                ratio(many, few),
            ]
        })
        .collect();
    let heads = [
        "",
        "pending",
        "bytes a job",
        "ours = 1",
        "one more with 100 k pending, CPU us",
        "one more with all pending, CPU us",
        "many / few",
    ];
    print(
        "Pending jobs: half ready, half due within 30 days",
        &heads,
        &rows,
    );
}

fn ours_pending(side: &Side, jobs: u64, sample: u64) -> Option<Pending> {
    let server = Server::start();
    let before = server.memory();
    side.order(&server, &["fill", &sample.to_string()])?;
    let few_us = fill(side, &server, sample)?;
    fill(side, &server, jobs - 3 * sample)?;
    let many_us = fill(side, &server, sample)?;
    let bytes = (server.memory() - before) / jobs as f64;
    Some(Pending {
        jobs: jobs as f64,
        bytes,
        few_us,
        many_us,
    })
}

fn rival_pending(side: &Side, jobs: u64) -> Option<Pending> {
    let server = Server::start();
    let before = server.memory();
    side.order(&server, &["fill", &jobs.to_string()])?;
    let bytes = (server.memory() - before) / jobs as f64;
    Some(Pending {
        jobs: jobs as f64,
        bytes,
        few_us: f64::NAN,
        many_us: f64::NAN,
    })
}

/// Microseconds of server CPU for each.
fn fill(side: &Side, server: &Server, jobs: u64) -> Option<f64> {
    let before = server.cpu_us();
    side.order(server, &["fill", &jobs.to_string()])?;
    Some((server.cpu_us() - before) / jobs as f64)
}
