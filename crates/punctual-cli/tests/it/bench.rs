//! Tests of the command: bench.

use punctual::time::{Stopwatch, seconds};
use punctual_redis::testing::TestServer;
use serde_json::Value;

use crate::serve::Server;
use crate::support::{Punctual, text};

fn fields(document: &Value) -> Vec<&str> {
    let object = document.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// What is compared is the shape; the numbers are a machine's.
fn measured(args: &[&str]) -> Value {
    let punctual = Punctual::new();
    let document = punctual.one(&[&["bench"], args].concat());
    let left: Vec<_> = std::fs::read_dir(punctual.path("."))
        .expect("a directory")
        .collect();
    assert!(left.is_empty(), "the bench leaves {left:?}");
    document
}

const LIFECYCLE_FIELDS: [&str; 8] = [
    "client_cpu_us_per_job",
    "drain_per_s",
    "engine",
    "enqueue_per_s",
    "job",
    "jobs",
    "pruning_cpu_us_per_job",
    "store_cpu_us_per_job",
];

const KINDS: [&str; 10] = [
    "plain",
    "scheduled",
    "unique",
    "expiry",
    "retention",
    "retry",
    "order",
    "group",
    "group-100",
    "held",
];

/// What settled jobs leave is pruned at once, not after seconds.
const SOON: &str = "settled_window=50ms&retention=50ms";

/// Runs the life of each kind of job at the same time, each on the engine of that address.
fn lives(address: impl Fn(&str) -> String) -> Vec<(&'static str, Value)> {
    std::thread::scope(|scope| {
        let runs = KINDS.map(|kind| {
            let engine = address(kind);
            let run = move || {
                Punctual::new().one(&[
                    "bench",
                    "lifecycle",
                    "--job",
                    kind,
                    "--jobs",
                    "130",
                    "--batch",
                    "20",
                    "--payload-bytes",
                    "10",
                    "--ahead",
                    "50ms",
                    "--engine",
                    &engine,
                ])
            };
            (kind, scope.spawn(run))
        });
        let joined = runs.map(|(kind, run)| (kind, run.join().expect(kind)));
        joined.into()
    })
}

fn assert_lives(lives: &[(&str, Value)], engine: &str) {
    for (kind, document) in lives {
        assert_eq!(fields(document), LIFECYCLE_FIELDS, "{kind}");
        assert_eq!(document["job"], *kind);
        assert_eq!(document["jobs"], 130);
        assert!(text(&document["engine"]).starts_with(engine), "{document}");
        for rate in ["enqueue_per_s", "drain_per_s", "client_cpu_us_per_job"] {
            assert!(document[rate].as_f64() > Some(0.0), "{kind}: {document}");
        }
    }
}

#[test]
fn every_kind_of_job_lives_in_memory_and_in_a_directory() {
    let memory = lives(|_| format!("memory:?{SOON}"));
    assert_lives(&memory, "memory");
    let directories = tempfile::tempdir().expect("a directory");
    let file = |kind: &str| format!("file:{}/{kind}?{SOON}", directories.path().display());
    let directory = lives(file);
    assert_lives(&directory, "embedded");
    for (kind, document) in memory.iter().chain(&directory) {
        // It is this process's.
        assert!(document["store_cpu_us_per_job"].is_null(), "{kind}");
    }
}

#[test]
fn every_kind_of_job_lives_on_redis_and_is_pruned() {
    let server = TestServer::start();
    let lives = lives(|_| format!("{}?{SOON}", server.address()));
    assert_lives(&lives, "redis");
    // The clock of the server's CPU is coarse: of so few jobs it may count all for their pruning.
    for (kind, document) in &lives {
        let names = ["store_cpu_us_per_job", "pruning_cpu_us_per_job"];
        let cpu: Option<f64> = names.iter().map(|name| document[*name].as_f64()).sum();
        assert!(cpu > Some(0.0), "{kind}: {document}");
    }
    // Of each namespace, its own hash and the workers of the last minute: no jobs, no tombstones.
    let keys = server.cli(&["--raw", "KEYS", "punctual:{bench-*"]);
    let shards = keys.lines().filter(|key| key.ends_with("/0}:s")).count();
    assert_eq!(shards, KINDS.len(), "{keys}");
    let of_workers = |key: &str| key.ends_with("/0}:s") || key.ends_with("/0}:wk");
    assert!(keys.lines().all(of_workers), "{keys}");
}

#[test]
fn every_kind_of_job_lives_behind_a_gateway() {
    let punctual = Punctual::new();
    let engine = format!("memory:?{SOON}");
    let server = Server::start(&punctual, &["--no-auth", "--engine", &engine]);
    let lives = lives(|_| server.url());
    assert_lives(&lives, "memory");
    for (kind, document) in &lives {
        assert!(document["store_cpu_us_per_job"].is_null(), "{kind}");
    }
}

#[test]
fn lifecycle_keeps_settled_jobs_5_s_in_its_own_namespace_only() {
    let server = TestServer::start();
    let punctual = Punctual::new();
    let engine = server.address();
    let run = |args: &[&str]| punctual.run(&[args, &["--engine", &engine]].concat());
    run(&["enqueue", "mail", "{}", "--retention", "0s"]).exits(0);
    run(&["work", "mail", "--exec", "true", "--until-idle"]).exits(0);
    let watch = Stopwatch::start();
    run(&["bench", "lifecycle", "--jobs", "10"]).exits(0);
    assert!(watch.elapsed() > seconds(5), "{:?}", watch.elapsed());
    let tombstones = |base: &str| server.cli(&["--raw", "EXISTS", &format!("{base}:mp")]);
    assert_eq!(tombstones("punctual:{default/0}").trim(), "1");
    let left = server.cli(&["--raw", "KEYS", "punctual:{bench-*:mp"]);
    assert_eq!(left.trim(), "");
}

#[test]
fn a_call_beside_neighbours_has_a_cost_and_nothing_is_left() {
    let server = TestServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = Punctual::new();
    let gateway = Server::start(&gateway, &["--no-auth", "--engine", "memory:"]);
    for (engine, is_known) in [
        ("memory:".to_owned(), true),
        (format!("file:{}/data", directory.path().display()), true),
        (server.address(), true),
        (gateway.url(), false),
    ] {
        let punctual = Punctual::new();
        let on = ["--engine", &engine];
        let size = ["--queues", "30", "--leases", "20"];
        let document = punctual.one(&[&["bench", "neighbours"], &size[..], &on].concat());
        assert_eq!(fields(&document), ["cancel_ms", "claim_ms", "stats_ms"]);
        for cost in ["cancel_ms", "claim_ms", "stats_ms"] {
            assert_eq!(
                document[cost].as_f64().is_some(),
                is_known,
                "{engine}: {document}"
            );
        }
    }
    // Of its queues nothing is left; tombstones stay for their window.
    let keys = server.cli(&["--raw", "KEYS", "punctual:{bench-*}:*"]);
    let names = |key: &str| {
        let name = key.split_once("}:").map_or(key, |(_, name)| name);
        name.split(':').next().unwrap_or_default().to_owned()
    };
    let mut left: Vec<String> = keys.lines().map(names).collect();
    left.retain(|name| !["s", "b", "md", "mp", "rv", "wk"].contains(&name.as_str()));
    assert_eq!(left, Vec::<String>::new(), "{keys}");
}

#[test]
fn lateness_has_its_fields_and_nothing_is_early_lost_or_doubled() {
    let document = measured(&["lateness", "--rate", "200", "--seconds", "1"]);
    assert_eq!(
        fields(&document),
        ["duplicated", "early", "jobs", "lateness_ms", "lost"]
    );
    assert_eq!(
        fields(&document["lateness_ms"]),
        ["max", "p50", "p99", "p999"]
    );
    assert_eq!(document["jobs"], 200);
    for zero in ["early", "lost", "duplicated"] {
        assert_eq!(document[zero], 0, "{document}");
    }
}

#[test]
fn footprint_has_its_fields() {
    for more in [
        &[][..],
        &["--due-within", "1h"],
        &["--job", "unique", "--batch", "7"],
    ] {
        let args = ["footprint", "--jobs", "2000", "--payload-bytes", "100"];
        let document = measured(&[&args[..], more].concat());
        assert_eq!(fields(&document), ["bytes_per_job", "jobs"]);
        assert!(
            document["bytes_per_job"].as_f64() > Some(100.0),
            "{document}"
        );
    }
}

#[test]
fn topics_has_its_fields() {
    let few = [
        "--subscriptions",
        "20",
        "--queues",
        "3",
        "--publishes",
        "10",
    ];
    let document = measured(&[&["topics"][..], &few].concat());
    assert_eq!(
        fields(&document),
        [
            "enqueue_us",
            "enqueues",
            "match_us",
            "publish_us",
            "queues",
            "subscriptions"
        ]
    );
    assert_eq!(document["subscriptions"], 20);
}
