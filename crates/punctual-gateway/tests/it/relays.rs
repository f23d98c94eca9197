//! Relays of a server: each is shown to its own namespace, and none makes the server unhealthy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::Namespace;
use punctual::sync::Lock;
use punctual_gateway::{Gateway, RelayReport, Relays};
use serde_json::json;

use crate::support::{ADMIN, OTHER, PRODUCER, READER, Under, serving, tokens};

pub(crate) fn report(namespace: &str, name: &str) -> RelayReport {
    let namespace = Namespace::new(namespace).expect("a name");
    let mut report = RelayReport::new(namespace, name, "redis-list", "mail");
    report.state = "running";
    report.rate = 3;
    report.received = 7;
    report.enqueued = 5;
    report.duplicates = 1;
    report.refused = 1;
    report.lag = Some(2);
    report.age = Duration::from_millis(40);
    report
}

async fn with(reports: Arc<Mutex<Vec<RelayReport>>>) -> Under {
    let all = tokens(&[
        format!("{ADMIN} shop admin"),
        format!("{READER} shop read"),
        format!("{PRODUCER} shop enqueue"),
        format!("{OTHER} other admin"),
    ]);
    let relays = Relays::new(move || reports.locked().clone());
    serving(|engine| Gateway::new(engine, all).relays(relays)).await
}

#[tokio::test]
async fn a_relay_is_shown_to_its_own_namespace_alone() {
    let two = vec![report("shop", "mail"), report("shop", "a")];
    let under = with(Arc::new(Mutex::new(two))).await;
    let reported = under.send_as(READER, "GET", "/v1/relays", "").await.json();
    let first = json!({
        "name": "a", "kind": "redis-list", "queue": "mail", "refused_queue": "relay.a.refused",
        "state": "running", "rate": 3, "received": 7, "enqueued": 5, "duplicates": 1,
        "refused": 1, "emitted": 0, "restarts": 0, "lag": 2, "age_ms": 40,
    });
    assert_eq!(reported["relays"][0], first, "{reported}");
    assert_eq!(reported["relays"][1]["name"], "mail");
    let theirs = under.send_as(OTHER, "GET", "/v1/relays", "").await.json();
    assert_eq!(theirs, json!({"relays": []}));
    let metrics = under.send_as(READER, "GET", "/metrics", "").await.body;
    for line in [
        "punctual_relay_lag{relay=\"a\"} 2",
        "punctual_relay_received_total{relay=\"mail\"} 7",
        "punctual_relay_up{relay=\"mail\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let theirs = under.send_as(OTHER, "GET", "/metrics", "").await.body;
    assert!(!theirs.contains("punctual_relay"), "{theirs}");
}

#[tokio::test]
async fn a_relay_that_fails_is_named_and_leaves_the_server_healthy() {
    let mut down = report("shop", "mail");
    down.state = "down";
    down.restarts = 4;
    down.last_error = Some("the list is gone".into());
    let reports = Arc::new(Mutex::new(vec![down]));
    let under = with(reports.clone()).await;
    for path in ["/healthz", "/readyz"] {
        let reply = under.send_as(READER, "GET", path, "").await;
        let reported = reply.json();
        assert_eq!(
            (reply.status, &reported["ok"]),
            (200, &json!(true)),
            "{reported}"
        );
        assert_eq!(
            reported["relays"],
            json!(["relay mail is down: the list is gone"])
        );
        for token in [PRODUCER, OTHER] {
            let reported = under.send_as(token, "GET", path, "").await.json();
            assert_eq!(reported.get("relays"), None, "{reported}");
        }
        let outsider = under.send_with(&[("host", "localhost")], "GET", path, "");
        assert_eq!(outsider.await.json(), json!({"ok": true}));
    }
    let info = under.send_as(PRODUCER, "GET", "/v1/info", "").await.json();
    assert_eq!(info["health"].get("relays"), None, "{info}");
    let info = under.send_as(ADMIN, "GET", "/v1/info", "").await.json();
    let named = info["health"]["relays"][0].as_str().expect("a text");
    assert!(named.contains("relay mail is down"), "{info}");
    reports.locked()[0].state = "running";
    let reported = under.send_as(READER, "GET", "/healthz", "").await.json();
    assert_eq!(reported.get("relays"), None, "{reported}");
}
