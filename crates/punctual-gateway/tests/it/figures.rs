//! Figures for the page: jobs by kind, previews of payloads, the process and its engine.

use punctual::time::seconds;
use serde_json::{Value, json};

use crate::support::{ADMIN, OPERATOR, OTHER, Under, serve};

async fn enqueue(under: &Under, jobs: Value) {
    let reply = under.send("POST", "/v1/jobs", jobs.to_string()).await;
    assert!(reply.status < 300, "{reply:?}");
}

fn kind<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let kinds = answer["kinds"].as_array().expect("kinds");
    let found = kinds.iter().find(|line| line["kind"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {answer}"))
}

#[tokio::test]
async fn a_queue_is_counted_by_kind() {
    let under = serve().await;
    let jobs = json!([
        {"queue": "mail", "kind": "send"}, {"queue": "mail", "kind": "send", "delay": "1h"},
        {"queue": "mail", "kind": "bounce", "priority": 0}, {"queue": "other", "kind": "send"}
    ]);
    enqueue(&under, jobs).await;
    under.clock.advance(seconds(2));
    let claim = json!({"queues": ["mail"], "limit": 1}).to_string();
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].take();
    let (id, token) = (&lease["jobs"][0]["id"], &lease["token"]);
    let settle = json!({"leases": [{"token": token, "settlements": [
        {"id": id, "attempt": 1, "outcome": "dead", "error": "550"}]}]});
    let settled = under.send("POST", "/v1/settlements", settle.to_string());
    assert_eq!(settled.await.status, 200);

    let answer = under.get("/v1/kinds?queue=mail").await.json();
    assert_eq!(answer["exact"], true);
    let send = kind(&answer, "send");
    assert_eq!((&send["ready"], &send["scheduled"]), (&json!(1), &json!(1)));
    assert_eq!(send["oldest_due_ms"], 2_000);
    let bounce = kind(&answer, "bounce");
    assert_eq!((&bounce["dead"], &bounce["ready"]), (&json!(1), &json!(0)));
    assert!(bounce.get("oldest_due_ms").is_none());

    let others = under.send_as(OTHER, "GET", "/v1/kinds?queue=mail", "");
    assert_eq!(others.await.json()["kinds"], json!([]));
    assert_eq!(under.get("/v1/kinds").await.status, 422);
}

#[tokio::test]
async fn kinds_after_the_first_two_hundred_are_one_line() {
    let under = serve().await;
    let jobs: Vec<_> = (0..203)
        .map(|n| json!({"queue": "mail", "kind": format!("kind-{n}")}))
        .collect();
    enqueue(&under, json!(jobs)).await;
    let answer = under.get("/v1/kinds?queue=mail").await.json();
    let kinds = answer["kinds"].as_array().expect("kinds");
    assert_eq!(kinds.len(), 201);
    assert_eq!(
        (&kinds[200]["kind"], &kinds[200]["ready"]),
        (&Value::Null, &json!(3))
    );
}

#[tokio::test]
async fn a_list_shows_the_first_characters_of_payloads() {
    let under = serve().await;
    let jobs = json!([
        {"queue": "mail", "payload": {"order": 7001}},
        {"queue": "mail", "payload_base64": "/wD+"}
    ]);
    enqueue(&under, jobs).await;
    let answer = under
        .get("/v1/jobs?queue=mail&state=ready&preview=8")
        .await
        .json();
    let listed = answer["jobs"].as_array().expect("jobs");
    assert_eq!(listed[0]["preview"], "{\"order\"");
    assert_eq!(listed[0]["payload_bytes"], 14);
    assert_eq!(listed[1].get("preview"), None, "no text");
    assert_eq!(listed[1]["payload_bytes"], 3);
    for job in listed {
        assert_eq!(
            (job.get("payload"), job.get("payload_base64")),
            (None, None)
        );
    }
    let whole = under.get("/v1/jobs?queue=mail").await.json();
    assert_eq!(whole["jobs"][0].get("preview"), None);
    for query in ["preview=0", "preview=401", "preview=8&limit=201"] {
        let reply = under.get(&format!("/v1/jobs?queue=mail&{query}")).await;
        assert_eq!(reply.status, 422, "{query}");
    }
}

#[tokio::test]
async fn an_operator_sees_the_process_and_its_shards() {
    let under = serve().await;
    let info = under.send_as(OPERATOR, "GET", "/v1/info", "").await.json();
    assert_eq!(info["shards"], 1);
    assert_eq!(info["process"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["process"]["uptime_ms"].is_u64());
    if cfg!(target_os = "linux") {
        assert!(info["process"]["memory_bytes"].as_u64() > Some(1 << 20));
    }
    let admin = under.send_as(ADMIN, "GET", "/v1/info", "").await.json();
    assert_eq!((admin.get("shards"), admin.get("process")), (None, None));
}
