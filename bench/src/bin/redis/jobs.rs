//! What each kind of job costs, beside raw list commands and the nearest equals of rivals.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_bench::stopwatch::{pause, time};
use serde::Deserialize;

use crate::server::Server;
use crate::sides::{PUNCTUAL, Side};
use crate::table::{cell, median, print, ratio, spread};
use crate::{Options, raw};

/// A kind of job, as `punctual bench lifecycle --job` and the order `job` of rivals call it.
struct Kind {
    name: &'static str,
    title: &'static str,
    /// Sides that have something like it.
    equals: &'static [&'static str],
    /// Of a hundred jobs, those that run; the others are cancelled.
    percent_run: u64,
}

const fn kind(name: &'static str, title: &'static str, equals: &'static [&'static str]) -> Kind {
    Kind {
        name,
        title,
        equals,
        percent_run: 100,
    }
}

const KINDS: [Kind; 10] = [
    kind("plain", "plain, due at once", &["bullmq", "sidekiq"]),
    kind(
        "scheduled",
        "scheduled, due in 10 to 20 s",
        &["bullmq", "sidekiq"],
    ),
    kind("unique", "unique key", &["bullmq"]),
    kind("expiry", "expiry", &[]),
    kind("retention", "retention of 5 s", &["bullmq"]),
    kind("retry", "fails once, retried", &["bullmq", "sidekiq"]),
    Kind {
        percent_run: 30,
        ..kind(
            "order",
            "order: due in 10 to 20 s, unique key; 70 % cancelled by key, 30 % run",
            &["bullmq"],
        )
    },
    kind("group", "serial group of its own", &[]),
    kind("group-100", "serial group of 100 members", &[]),
    kind("held", "held, then released", &[]),
];

/// Jobs of a run.
const JOBS: u64 = 50_000;
const RIVAL_JOBS: u64 = 20_000;
/// Jobs of a call, and calls at the same time.
const BATCH: u64 = 100;
const CALLERS: u64 = 8;
/// Dues lie so far ahead, and at most twice as far.
const AHEAD: Duration = Duration::from_secs(10);
/// How long nothing may happen before a worker counts as stuck. Sidekiq polls its schedule every
/// 15 s.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(200);

/// Prints a row for each kind.
pub(crate) fn measure(options: &Options, sides: &[Side]) {
    let cli = cli();
    let rivals = ["bullmq", "sidekiq"].map(|name| sides.iter().find(|side| side.name == name));
    // By the command: no program of the rivals' folder is needed.
    let measures_us = options.sides.is_empty() || options.sides.iter().any(|name| name == PUNCTUAL);
    let mut pairs = Vec::new();
    let mut ours: Vec<Vec<f64>> = KINDS.iter().map(|_| Vec::new()).collect();
    let mut theirs: Vec<[Vec<f64>; 2]> = KINDS.iter().map(|_| Default::default()).collect();
    for run in 1..=options.runs {
        pairs.push(raw::list_us(1_000_000 / options.smoke));
        for (nth, kind) in KINDS.iter().enumerate() {
            eprintln!("run {run} of {}: {}", options.runs, kind.name);
            if measures_us {
                ours[nth].extend(our_life(&cli, kind, JOBS / options.smoke));
            }
            for (rival, cpu) in rivals.iter().zip(&mut theirs[nth]) {
                if let Some(side) = rival.filter(|side| kind.equals.contains(&side.name)) {
                    cpu.extend(life(side, kind, RIVAL_JOBS / options.smoke));
                }
            }
        }
    }
    let pair = median(pairs);
    let spreads: Vec<String> = ours.iter().map(|runs| spread(runs, |cpu| *cpu)).collect();
    let ours: Vec<Option<f64>> = ours.into_iter().map(median).collect();
    let mut rows = Vec::new();
    for (((kind, cpu), spread), theirs) in KINDS.iter().zip(&ours).zip(spreads).zip(theirs) {
        let [bullmq, sidekiq] = theirs.map(median);
        rows.push(vec![
            kind.title.to_owned(),
            cell(*cpu),
            spread,
            ratio(*cpu, ours[0]),
            ratio(*cpu, pair),
            cell(bullmq),
            ratio(bullmq, *cpu),
            cell(sidekiq),
            ratio(sidekiq, *cpu),
        ]);
    }
    let heads = [
        "job",
        "life, CPU us",
        "spread",
        "plain = 1",
        "raw pairs",
        "BullMQ, CPU us",
        "ours = 1",
        "Sidekiq, CPU us",
        "ours = 1",
    ];
    print(
        "Jobs: server CPU of a life, payloads of 100 bytes, calls of 100",
        &heads,
        &rows,
    );
    println!(
        "\nA raw pair, RPUSH and LPOP of 100 bytes with 100 in a write, takes {} us.",
        cell(pair)
    );
}

/// Builds the command as this program was built; where it is.
fn cli() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "punctual-cli"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build.status().expect("cargo starts");
    assert!(built.success(), "the command `punctual` does not build");
    let here = std::env::current_exe().expect("this program has a path");
    here.with_file_name("punctual")
}

/// What `punctual bench lifecycle` prints.
#[derive(Deserialize)]
struct Lifecycle {
    store_cpu_us_per_job: f64,
}

/// Microseconds of server CPU for a life of ours, pruning included.
fn our_life(cli: &Path, kind: &Kind, jobs: u64) -> Option<f64> {
    let server = Server::start();
    let engine = format!("redis://127.0.0.1:{}", server.port());
    let [jobs, batch, callers] = [jobs, BATCH, CALLERS].map(|number| number.to_string());
    let mut bench = Command::new(cli);
    bench.args(["bench", "lifecycle", "-o", "json", "--job", kind.name]);
    bench.args(["--engine", &engine, "--jobs", &jobs, "--batch", &batch]);
    bench.args(["--callers", &callers, "--payload-bytes", "100"]);
    bench.args(["--ahead", &format!("{}ms", AHEAD.as_millis())]);
    bench.env_remove("PUNCTUAL_NAMESPACE").stdin(Stdio::null());
    let output = bench.output().expect("the command starts");
    let read = serde_json::from_slice::<Lifecycle>(&output.stdout);
    if read.is_err() {
        let errors = String::from_utf8_lossy(&output.stderr);
        eprintln!(
            "punctual bench lifecycle --job {}: failed: {errors}",
            kind.name
        );
    }
    read.ok().map(|life| life.store_cpu_us_per_job)
}

/// The same of a rival, without what its server uses in an idle second.
fn life(side: &Side, kind: &Kind, jobs: u64) -> Option<f64> {
    let server = Server::start();
    let idle = server.cpu_us();
    pause(Duration::from_secs(1));
    let before = server.cpu_us();
    let idle = before - idle;
    let (took, done) = time(|| {
        let [count, batch, callers] = [jobs, BATCH, CALLERS].map(|number| number.to_string());
        let ahead = AHEAD.as_millis().to_string();
        side.order(
            &server,
            &["job", kind.name, &count, &batch, &callers, &ahead],
        )?;
        let mut workers = side.work(&server, 1)?;
        workers.until(jobs * kind.percent_run / 100, TIME_LIMIT)?;
        // What was begun is settled a moment later; its CPU belongs to the jobs.
        pause(MOMENT);
        Some(server.cpu_us())
    });
    Some((done? - before - idle * took.as_secs_f64()) / jobs as f64)
}
