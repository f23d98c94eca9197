//! Tests of the gateway over HTTP: metrics.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use punctual::ErrorKind;
use punctual::time::{ManualClock, seconds};
use punctual_gateway::{Gateway, Registry, Token, Tokens};
use serde_json::{Value, json};

use crate::standin::Standin;
use crate::support::{
    ADMIN, OPERATOR, OTHER, READER, START, Under, python, serve, serve_engine, serve_one_namespace,
    serving,
};

/// What stands on `/metrics`, as the parser of Prometheus' own client for Python reads it:
/// `[{"name", "type", "help", "samples": [[name, labels, value]]}]`.
async fn scrape(under: &Under) -> Vec<Value> {
    scrape_as(READER, under).await
}

async fn scrape_as(token: &str, under: &Under) -> Vec<Value> {
    const READ: &str = "\
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
print(json.dumps([{'name': f.name, 'type': f.type, 'help': f.documentation,
                   'samples': [[s.name, s.labels, s.value] for s in f.samples]}
                  for f in families(sys.stdin.read())]))";
    let text = under.send_as(token, "GET", "/metrics", "").await.body;
    let mut parser = Command::new(python("prometheus_client"))
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut input = parser.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = parser.wait_with_output().expect("it ends");
    assert!(output.status.success(), "not read: {text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The sum of the samples of that name with these labels, among others.
fn sum(families: &[Value], name: &str, labels: &Value) -> f64 {
    let samples = families
        .iter()
        .flat_map(|family| family["samples"].as_array());
    let found = samples.flatten().filter(|sample| {
        let wanted = labels.as_object().expect("labels");
        sample[0] == name && wanted.iter().all(|(key, value)| sample[1][key] == *value)
    });
    let values: Vec<f64> = found.filter_map(|sample| sample[2].as_f64()).collect();
    assert!(!values.is_empty(), "no {name}{labels}");
    values.iter().sum()
}

#[tokio::test]
async fn metrics_are_read_by_a_parser_that_is_not_ours() {
    let under = serve().await;
    let three = json!([{"queue": "mail"}, {"queue": "mail"}, {"queue": "mail", "delay": "1h"}]);
    under.send("POST", "/v1/jobs", three.to_string()).await;
    let claim = r#"{"queues":["mail"],"limit":2,"lease_duration":"10s"}"#;
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].take();
    let settlement = |index: usize, outcome: &str| json!({"id": lease["jobs"][index]["id"], "attempt": 1, "outcome": outcome});
    let settle = json!({"leases": [{"token": lease["token"], "lateness_us": [700], "run_time_us": [30_000],
        "settlements": [settlement(0, "completed"), settlement(1, "retry")]}]});
    under
        .send("POST", "/v1/settlements", settle.to_string())
        .await;
    let extend = json!({"leases": [{"token": lease["token"]}]}).to_string();
    under.send("POST", "/v1/extensions", extend).await;

    let families = scrape(&under).await;
    for family in &families {
        assert_ne!(family["help"], "", "{family}");
        assert_ne!(family["type"], "unknown", "{family}");
    }
    let all = json!({});
    let is = |name: &str, labels: Value, value: f64| {
        assert_eq!(sum(&families, name, &labels), value, "{name}{labels}");
    };
    is(
        "punctual_jobs",
        json!({"queue": "mail", "state": "scheduled"}),
        2.0,
    );
    is(
        "punctual_enqueued_total",
        json!({"verdict": "created"}),
        3.0,
    );
    is("punctual_enqueued_total", json!({"verdict": "full"}), 0.0);
    is("punctual_claimed_total", json!({"queue": "mail"}), 2.0);
    is(
        "punctual_settled_total",
        json!({"outcome": "completed"}),
        1.0,
    );
    is("punctual_retries_total", all.clone(), 1.0);
    is("punctual_lease_lost_total", all.clone(), 1.0);
    is("punctual_lateness_seconds_count", all.clone(), 1.0);
    is("punctual_lateness_seconds_sum", all.clone(), 0.0007);
    is(
        "punctual_lateness_seconds_bucket",
        json!({"le": "0.0005"}),
        0.0,
    );
    is(
        "punctual_lateness_seconds_bucket",
        json!({"le": "0.001"}),
        1.0,
    );
    is(
        "punctual_run_time_seconds_bucket",
        json!({"le": "0.05"}),
        1.0,
    );
    is("punctual_healthy", all.clone(), 1.0);
    is("punctual_workers", all.clone(), 1.0);
    let seen = |name: &str| families.iter().any(|family| family["name"] == name);
    assert!(!seen("punctual_engine_seconds") && !seen("punctual_sockets"));
    // An operator of another namespace sees the sums, and what is of the process.
    let families = scrape_as(OPERATOR, &under).await;
    for (name, labels) in [
        ("punctual_engine_seconds_count", json!({"verb": "enqueue"})),
        ("punctual_retries_total", all.clone()),
        ("punctual_lateness_seconds_count", all),
    ] {
        assert_eq!(sum(&families, name, &labels), 1.0, "{name}");
    }
    let of_other = under.send_as(OTHER, "GET", "/metrics", "").await.body;
    assert!(
        of_other.contains("punctual_retries_total 0\n"),
        "{of_other}"
    );
}

#[tokio::test]
async fn metrics_without_an_engine_show_the_process_as_unhealthy() {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock).await;
    under.send("POST", "/v1/jobs", r#"{"queue":"mail"}"#).await;
    engine.fail(ErrorKind::EngineUnavailable, "it is away");
    let families = scrape_as(OPERATOR, &under).await;
    for (name, labels, value) in [
        ("punctual_healthy", json!({}), 0.0),
        (
            "punctual_engine_seconds_count",
            json!({"verb": "enqueue"}),
            1.0,
        ),
        (
            "punctual_http_requests_total",
            json!({"status": "2xx"}),
            1.0,
        ),
    ] {
        assert_eq!(sum(&families, name, &labels), value, "{name}{labels}");
    }
    let reported = |name: &str| families.iter().any(|family| family["name"] == name);
    assert!(!reported("punctual_jobs"), "what is not known is left out");
}

#[tokio::test]
async fn a_thousand_queues_are_a_hundred_by_name_and_one_other() {
    let under = serve().await;
    for from in [0, 500] {
        let jobs: Vec<_> = (from..from + 500)
            .map(|n| json!({"queue": format!("q{n}")}))
            .collect();
        under
            .send("POST", "/v1/jobs", json!(jobs).to_string())
            .await;
    }
    let more =
        json!([{"queue": "q999"}, {"queue": "q999"}, {"queue": "other"}, {"queue": "other"}]);
    under.send("POST", "/v1/jobs", more.to_string()).await;
    let queues: Vec<_> = (0..1_000).map(|n| format!("q{n}")).collect();
    for queues in queues.chunks(50) {
        let claim = json!({"queues": queues, "limit": 50});
        under.send("POST", "/v1/claims", claim.to_string()).await;
    }
    let families = scrape(&under).await;
    let names = |family: &str| {
        let family = families.iter().find(|one| one["name"] == family);
        let samples = family.expect("the family")["samples"].as_array().cloned();
        let name = |sample: Value| sample[1]["queue"].as_str().map(str::to_owned);
        samples
            .unwrap_or_default()
            .into_iter()
            .filter_map(name)
            .collect::<BTreeSet<_>>()
    };
    for family in [
        "punctual_jobs",
        "punctual_oldest_due_seconds",
        "punctual_claimed",
    ] {
        let names = names(family);
        assert_eq!(names.len(), 101, "{family}: {names:?}");
        assert!(names.contains("other"), "{family}: {names:?}");
    }
    assert!(
        names("punctual_jobs").contains("q999"),
        "the fullest is reported by name"
    );
    assert_eq!(sum(&families, "punctual_jobs", &json!({})), 1_004.0);
    assert_eq!(
        sum(&families, "punctual_claimed_total", &json!({})),
        1_000.0
    );
}

#[tokio::test]
async fn a_queue_is_late_while_a_due_job_waits_and_a_worker_is_free() {
    let under = serve_one_namespace().await;
    let claim = |busy: u32| {
        let worker = json!({"slots": 4, "busy": busy});
        json!({"queues": ["mail"], "lease_duration": "10m", "worker": worker}).to_string()
    };
    let two = r#"[{"queue":"mail"},{"queue":"mail"}]"#;
    under.send("POST", "/v1/jobs", two).await;
    under.clock.advance(seconds(3));
    // It takes one job although it has more slots, and does not come back for the other.
    under.send("POST", "/v1/claims", claim(0)).await;
    assert_eq!(under.get("/healthz").await.status, 200);
    under.clock.advance(seconds(3));
    let reported = under.get("/healthz").await;
    assert_eq!(
        (reported.status, &reported.json()["ok"]),
        (200, &json!(true))
    );
    let problem = reported.json()["problems"][0].to_string();
    assert!(
        problem.contains("queue mail") && problem.contains("free"),
        "{problem}"
    );
    let late = async || {
        let families = scrape(&under).await;
        assert_eq!(sum(&families, "punctual_healthy", &json!({})), 1.0);
        sum(&families, "punctual_queue_late", &json!({"queue": "mail"}))
    };
    assert_eq!(late().await, 1.0);
    for path in ["/healthz", "/readyz"] {
        let nameless = [("host", "localhost")];
        let outsider = under.send_with(&nameless, "GET", path, "").await;
        assert_eq!(
            (outsider.status, outsider.json()),
            (200, json!({"ok": true}))
        );
    }

    under.send("POST", "/v1/claims", claim(1)).await;
    assert_eq!(late().await, 0.0);
    // A backlog of workers that have no slot left is no fault of the engine.
    under.send("POST", "/v1/jobs", two).await;
    under.clock.advance(seconds(3));
    under.send("POST", "/v1/claims", claim(4)).await;
    under.clock.advance(seconds(3));
    assert_eq!(late().await, 0.0);
}

/// The shipped example in Python reports no `busy`; each of its claims asks for what it has left.
#[tokio::test]
async fn leases_of_a_worker_that_reports_nothing_are_its_busy_slots() {
    let under = serve_one_namespace().await;
    let twenty: Vec<_> = (0..20).map(|_| json!({"queue": "mail"})).collect();
    let twenty = json!(twenty).to_string();
    under.send("POST", "/v1/jobs", twenty).await;
    let id = "0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b7a";
    let claim = |worker: serde_json::Value, limit: usize| {
        json!({"queues": ["mail"], "limit": limit, "lease_duration": "10m", "worker": worker})
            .to_string()
    };
    for (worker, limit, counts) in [
        (json!({"id": id, "slots": 4}), 4, json!([4, 4, 0, 4])),
        (json!({"id": id, "slots": 4}), 2, json!([4, 6, 0, 6])),
        (json!({}), 5, json!([5, 5, 0, 5])),
    ] {
        let claimed = under.send("POST", "/v1/claims", claim(worker, limit)).await;
        assert_eq!(claimed.status, 200, "{claimed:?}");
        under.clock.advance(seconds(6));
        let stats = under.get("/v1/stats").await.json();
        let workers = stats["workers"].as_array().expect("workers").iter();
        let shown =
            workers.map(|seen| json!([seen["slots"], seen["busy"], seen["free"], seen["leased"]]));
        assert!(shown.collect::<Vec<_>>().contains(&counts), "{stats}");
        let reported = under.get("/healthz").await.json();
        assert_eq!(reported["problems"], json!([]), "{reported}");
        let families = scrape(&under).await;
        assert_eq!(sum(&families, "punctual_queue_late", &json!({})), 0.0);
    }
}

#[tokio::test]
async fn process_metrics_need_operator_unless_there_is_one_namespace() {
    let cases = [
        (&["shop"][..], "admin,operator", true, true),
        (&["shop"], "admin", false, false),
        (&["shop", "other"], "admin,operator", false, true),
    ];
    for (namespaces, scopes, queues, syncs) in cases {
        let registry = Registry::default();
        metrics::with_local_recorder(&registry, || {
            let labels = [("queue", "of-the-other"), ("kind", "mail")];
            metrics::counter!("punctual_claimed_total", &labels).increment(1);
            metrics::histogram!("punctual_lateness_seconds", &labels).record(0.1);
            metrics::histogram!("punctual_fsync_seconds").record(0.1);
        });
        let token = |(number, namespace)| {
            let text = if number == 0 { ADMIN } else { READER };
            Token::parse(&format!("{text} {namespace} {scopes}")).expect("a token")
        };
        let tokens = Tokens::new(namespaces.iter().enumerate().map(token).collect());
        let under = serving(|engine| Gateway::new(engine, tokens).registry(registry)).await;
        let page = under.get("/metrics").await.body;
        assert_eq!(page.contains("of-the-other"), queues, "{scopes} {page}");
        assert_eq!(page.contains("punctual_fsync"), syncs, "{scopes} {page}");
    }
}
