//! Random flows while their workers are killed: none stalls, and each callback fires once.

use std::process::{Child, Stdio};

use punctual::time::{Stopwatch, seconds};
use punctual_redis::testing::TestServer;
use serde_json::{Value, json};

use crate::support::{Draw, Punctual};

const FLOWS: u64 = 10;
const STEPS_MAX: u64 = 8;
const KILLS: usize = 5;
/// Attempts that begin between two kills.
const BETWEEN: usize = 5;

/// A flow whose steps wait for random earlier ones, and some of which fail.
fn flow(draw: &mut Draw, nth: u64) -> Value {
    let steps = 2 + draw.below(STEPS_MAX);
    let step = |draw: &mut Draw, to: u64| {
        let ends = ["completed", "completed", "failed", "settled"];
        let after = (0..to)
            .filter(|_| draw.below(to + 2) < 2)
            .collect::<Vec<_>>();
        let after: Vec<_> = after
            .into_iter()
            .map(|from| json!({"step": format!("s{from}"), "on": draw.one_of(&ends)}))
            .collect();
        let payload = if draw.below(4) == 0 { "fail" } else { "go on" };
        let job = json!({"queue": "steps", "payload": payload, "max_attempts": 1});
        json!({"name": format!("s{to}"), "job": job, "after": after})
    };
    let policies = ["cancel_dependants", "cancel_rest", "continue"];
    json!({
        "name": format!("flow-{nth}"),
        "on_failure": draw.one_of(&policies),
        "steps": (0..steps).map(|to| step(draw, to)).collect::<Vec<_>>(),
        "on_settled": {"queue": "reports", "retention": "1h", "max_crashes": 100},
    })
}

fn worker(punctual: &Punctual, engine: &str) -> Child {
    let exec = "echo x >> ran; ! grep -q fail";
    let args = [
        "work",
        "steps",
        "reports",
        "--exec",
        exec,
        "--lease-duration",
        "1s",
        "--quiet",
        "--engine",
        engine,
    ];
    let mut command = punctual.command(&args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a worker starts")
}

/// The flows, all of which are there.
fn flows(punctual: &Punctual, engine: &str) -> Vec<Value> {
    let ran = punctual.run(&["flows", "list", "-o", "json", "--engine", engine]);
    // The process that holds a directory may just have been killed.
    if ran.code != 0 {
        return Vec::new();
    }
    let mut listed = ran.documents().remove(0);
    let found: Vec<Value> = serde_json::from_value(listed["flows"].take()).expect("flows");
    assert_eq!(found.len() as u64, FLOWS);
    found
}

fn are_settled(flows: &[Value]) -> bool {
    let ends = ["done", "failed"];
    let is_settled = |flow: &Value| ends.iter().any(|end| flow["state"] == *end);
    !flows.is_empty() && flows.iter().all(is_settled)
}

fn no_flow_stalls(punctual: &Punctual, engine: &str, seed: u64) {
    let mut draw = Draw(seed);
    punctual.write("ran", "");
    for nth in 0..FLOWS {
        let file = punctual.write("plan.json", flow(&mut draw, nth).to_string());
        let file = file.to_str().expect("a path");
        punctual
            .run(&["flows", "send", file, "--engine", engine])
            .exits(0);
    }
    let watch = Stopwatch::start();
    let in_time = || assert!(watch.elapsed() < seconds(120), "seed {seed}: flows stall");
    for _ in 0..KILLS {
        let mut workers = [worker(punctual, engine), worker(punctual, engine)];
        let enough = punctual.read("ran").lines().count() + BETWEEN;
        while punctual.read("ran").lines().count() < enough
            && !are_settled(&flows(punctual, engine))
        {
            in_time();
        }
        for worker in &mut workers {
            worker.kill().expect("it runs");
            worker.wait().expect("it ends");
        }
    }
    let mut last = worker(punctual, engine);
    let reports = || {
        let args = [
            "jobs", "list", "--queue", "reports", "-o", "json", "--engine", engine,
        ];
        let ran = punctual.run(&args);
        let found = if ran.code == 0 {
            ran.documents()
        } else {
            Vec::new()
        };
        found
            .iter()
            .filter(|job| job["state"] == "completed")
            .count() as u64
    };
    while !are_settled(&flows(punctual, engine)) || reports() < FLOWS {
        in_time();
    }
    for flow in flows(punctual, engine) {
        let name = flow["name"].as_str().expect("a name");
        punctual
            .run(&["flows", "recount", name, "--engine", engine])
            .exits(0);
        assert_eq!(flow["callbacks"][0]["fired"], true, "seed {seed}: {flow}");
    }
    assert_eq!(reports(), FLOWS, "seed {seed}: each callback is one job");
    last.kill().expect("it runs");
    last.wait().expect("it ends");
}

#[test]
fn no_flow_stalls_in_a_directory_whose_workers_are_killed() {
    let punctual = Punctual::new();
    no_flow_stalls(&punctual, "file:./data", 1);
}

#[test]
fn no_flow_stalls_on_a_server_whose_workers_are_killed() {
    let server = TestServer::start();
    no_flow_stalls(&Punctual::new(), &server.address(), 2);
}
