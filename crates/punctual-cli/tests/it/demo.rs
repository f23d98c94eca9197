//! Tests of the command: demo.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Punctual, lines};

const ORDERS: u64 = 400;
const KILLS: u64 = 20;

/// Four seconds of orders, a second or two to pay.
const DEMO: &[&str] = &["demo", "--orders", "400", "--speed", "1200"];

#[test]
fn a_demo_killed_at_twenty_moments_ends_well() {
    let punctual = Punctual::new();
    let seed = RandomState::new().build_hasher().finish();
    let mut acknowledged = BTreeSet::new();
    for kill in 0..KILLS {
        // Every order has two lines of the ledger at least: the last kill comes before the end.
        let moment = 1 + below(seed, kill, 2 * ORDERS / (KILLS + 1));
        acknowledged.extend(run_and_kill(&punctual, moment));
    }
    assert!(
        acknowledged.len() > 50,
        "seed {seed}: {} acknowledged",
        acknowledged.len()
    );

    let mut last = DEMO.to_vec();
    last.extend(["--output", "json"]);
    let ran = punctual.run(&last);
    assert_eq!(ran.code, 0, "seed {seed}: {ran:?}");
    let sum: Value =
        serde_json::from_str(ran.stdout.lines().last().expect("a line")).expect("JSON");
    for (field, expected) in [
        ("orders", ORDERS),
        ("both", 0),
        ("neither", 0),
        ("early", 0),
    ] {
        assert_eq!(sum[field], json!(expected), "seed {seed}: {sum}");
    }
    let ended = sum["paid"].as_u64().zip(sum["cancelled"].as_u64());
    assert_eq!(
        ended.map(|(paid, cancelled)| paid + cancelled),
        Some(ORDERS),
        "seed {seed}: {sum}"
    );

    // What was seen acknowledged from outside, before each kill, has its end in the ledger.
    let ledger = punctual.path("punctual-demo/ledger.jsonl");
    let entries: Vec<Value> = lines(&ledger)
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let ended: BTreeSet<u64> = entries
        .iter()
        .filter(|entry| entry["effect"] == "paid" || entry["effect"] == "cancelled")
        .filter_map(|entry| entry["order"].as_u64())
        .collect();
    assert!(acknowledged.is_subset(&ended), "seed {seed}");
}

#[test]
fn the_demo_is_live_in_a_browser() {
    let punctual = Punctual::new();
    let mut command = punctual.command(&[DEMO, &["--stay"]].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let url = loop {
        if let Some((_, url)) = line().split_once("live on http://") {
            break url.to_owned();
        }
    };
    let (address, token) = url.split_once("/#token=").expect("a token");
    while !line().contains("Every order ended") {}
    let mut stream = std::net::TcpStream::connect(address).expect("it stays");
    let request = format!(
        "GET /v1/queues HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("\"queue\":\"orders\""), "{answer}");
    child.kill().expect("it stays");
    child.wait().expect("it is gone");
}

/// Starts the demo, reads that many lines of its ledger, kills it with -9, and answers the orders
/// whose jobs were acknowledged by then.
pub(crate) fn run_and_kill(punctual: &Punctual, moment: u64) -> Vec<u64> {
    let mut child = punctual
        .command(&[DEMO, &["--follow"]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the demo starts");
    let mut ledger = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut placed = Vec::new();
    let mut note = |line: std::io::Result<String>| {
        // The kill may tear the last line.
        let entry: Value = serde_json::from_str(&line.expect("a line")).unwrap_or_default();
        assert_ne!(entry["effect"], "closed", "the demo ended before its kill");
        if entry["effect"] == "placed" {
            placed.extend(entry["order"].as_u64());
        }
    };
    ledger.by_ref().take(moment as usize).for_each(&mut note);
    child.kill().expect("it is killed");
    let status = child.wait().expect("it is gone");
    assert_eq!(status.signal(), Some(9), "it ended before its kill");
    ledger.for_each(&mut note);
    placed
}

/// The nth number of a seed, below a bound (a splitmix generator).
fn below(seed: u64, nth: u64, bound: u64) -> u64 {
    let mut z = seed.wrapping_add((nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound
}

#[test]
fn a_finished_demo_starts_over_and_another_setting_does_not_go_on() {
    let punctual = Punctual::new();
    let short = ["demo", "--orders", "20", "--speed", "20000"];
    let first = punctual.run(&short).exits(0);
    assert!(
        first.stdout.contains("none both, none neither, none early"),
        "{first:?}"
    );
    // An address is copied whole.
    let fits = |line: &str| line.chars().count() <= 80 || line.contains("/#token=");
    assert!(first.stdout.lines().all(fits), "{}", first.stdout);
    punctual.run(&short).exits(0);
    assert_eq!(
        lines(&punctual.path("punctual-demo/ledger.jsonl"))
            .iter()
            .filter(|line| line.contains("opened"))
            .count(),
        1
    );

    run_and_kill(&punctual, 5);
    let other = punctual.run(&short).exits(2);
    assert!(other.stderr.contains("--fresh"), "{other:?}");
    punctual.run(&[&short[..], &["--fresh"]].concat()).exits(0);
}

#[test]
fn orders_that_are_none_are_named_by_line() {
    let punctual = Punctual::new();
    punctual.write("orders.jsonl", "{\"order\":1}\n");
    let ran = punctual.run(&["demo", "--input", "orders.jsonl"]).exits(2);
    assert!(ran.stderr.contains("line 1"), "{ran:?}");
    punctual.run(&["demo", "--input", "none.jsonl"]).exits(3);
    punctual.run(&["demo", "--speed", "0"]).exits(2);
}

#[test]
fn the_orders_are_what_their_generator_writes() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    // Cargo builds examples together with tests.
    let test = std::env::current_exe().expect("this is a file");
    let built = test.ancestors().nth(2).expect("a test lies in deps");
    let generator = built.join("examples/orders");
    let written = std::process::Command::new(&generator)
        .output()
        .unwrap_or_else(|error| {
            panic!("{generator:?}: {error}; run: cargo build -p punctual-cli --example orders")
        });
    let kept = std::fs::read(format!("{manifest}/../../examples/orders/orders.jsonl"))
        .expect("the orders");
    assert!(written.status.success());
    assert!(
        written.stdout == kept,
        "run the generator again, see examples/orders/README.md"
    );
}
