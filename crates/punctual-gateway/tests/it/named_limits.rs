//! Named limits over HTTP: set, shown, blocked, explained and refused.

use serde_json::{Value, json};

use crate::support::{Under, serve};

async fn send(under: &Under, method: &str, path: &str, body: Value) -> Value {
    let reply = under.send(method, path, body.to_string()).await;
    assert!(reply.status < 300, "{method} {path}: {reply:?}");
    reply.json()
}

async fn claim(under: &Under, queue: &str) -> usize {
    let claim = json!({"queues": [queue], "limit": 10, "lease_duration": "10m"});
    let reported = send(under, "POST", "/v1/claims", claim).await;
    let leases = reported["leases"].as_array().cloned().unwrap_or_default();
    let jobs = |lease: &Value| lease["jobs"].as_array().map_or(0, Vec::len);
    leases.iter().map(jobs).sum()
}

#[tokio::test]
async fn a_named_limit_holds_over_two_queues_and_is_shown() {
    let under = serve().await;
    let rate = json!({"kind": "window", "starts": 100, "per": "1m"});
    let body = json!({"concurrency": 2, "rate": rate});
    let set = send(&under, "PUT", "/v1/limits/smtp", body).await;
    assert_eq!(set["set_by"], "smtp");
    assert_eq!(set["rate"], rate);
    for queue in ["mail", "mail", "alerts", "alerts"] {
        let job = json!({"queue": queue, "payload": {}, "limits": ["smtp:a"], "cost": 5});
        send(&under, "POST", "/v1/jobs", job).await;
    }
    assert_eq!(claim(&under, "mail").await, 2);
    assert_eq!(claim(&under, "alerts").await, 0);
    let reported = under.get("/v1/limits").await.json();
    let of_key = json!({
        "name": "smtp:a", "concurrency": 2, "rate": rate, "set_by": "smtp", "active": 2,
        "waiting": 2, "closed": "concurrency"
    });
    assert_eq!(reported["limits"][1], of_key, "{reported}");
    let mut alone = of_key.clone();
    alone["version"] = json!(0);
    assert_eq!(under.get("/v1/limits/smtp%3Aa").await.json(), alone);
    let part = under.get("/v1/limits?limit=1").await.json();
    assert_eq!(part["next"], "smtp");
    let rest = under.get("/v1/limits?after=smtp&limit=1").await.json();
    assert_eq!(rest["limits"], json!([of_key]));
    let listed = under.get("/v1/jobs?queue=alerts&state=ready").await.json();
    let job = &listed["jobs"][0];
    assert_eq!(
        (&job["limits"], &job["cost"]),
        (&json!(["smtp:a"]), &json!(5))
    );
    let id = job["id"].as_str().expect("an id");
    let reported = under
        .get(&format!("/v1/jobs/{id}?explain=true"))
        .await
        .json();
    let reasons = reported["explain"].as_array().cloned().unwrap_or_default();
    let full = reasons
        .iter()
        .find(|one| one["reason"] == "limit_concurrency_reached")
        .expect("the limit is full");
    assert_eq!(
        (&full["name"], &full["limit"]),
        (&json!("smtp:a"), &json!(2))
    );
    let gone = under.send("DELETE", "/v1/limits/smtp", "").await.json();
    assert_eq!(gone.get("set_by"), None, "{gone}");
    assert_eq!(claim(&under, "alerts").await, 2);
}

#[tokio::test]
async fn jobs_that_hold_a_limit_or_wait_at_it_are_listed() {
    let under = serve().await;
    send(&under, "PUT", "/v1/limits/api", json!({"concurrency": 1})).await;
    let job = |limit: &str| json!({"queue": "mail", "limits": [limit]});
    let jobs = json!([job("api"), job("api"), job("api"), job("other")]);
    send(&under, "POST", "/v1/jobs", jobs).await;
    assert_eq!(claim(&under, "mail").await, 2, "one of each limit");
    let mut states = Vec::new();
    let mut path = "/v1/jobs?limit_name=api&limit=1".to_owned();
    loop {
        let page = under.get(&path).await.json();
        for job in page["jobs"].as_array().expect("jobs") {
            states.push(job["state"].as_str().expect("a state").to_owned());
        }
        let Some(cursor) = page["cursor"].as_str() else {
            break;
        };
        path = format!("/v1/jobs?limit_name=api&limit=1&cursor={cursor}");
    }
    assert_eq!(states, ["active", "ready", "ready"]);
    let of_state = under
        .get("/v1/jobs?limit_name=api&state=ready")
        .await
        .json();
    assert_eq!(of_state["jobs"].as_array().map(Vec::len), Some(2));
    let both = under
        .get("/v1/jobs?queue=mail&limit_name=api&group=g")
        .await;
    assert_eq!(both.status, 422, "{both:?}");
    let wrong = under.get("/v1/jobs?limit_name=two%20words").await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
}

#[tokio::test]
async fn a_full_limit_refuses_or_stops_the_oldest() {
    let under = serve().await;
    let refuse = json!({"concurrency": 1, "when_full": "refuse"});
    let set = send(&under, "PUT", "/v1/limits/api", refuse).await;
    assert_eq!(set["when_full"], "refuse");
    let job = json!({"queue": "mail", "payload": {}, "limits": ["free", "api"]});
    let first = send(&under, "POST", "/v1/jobs", job.clone()).await;
    assert_eq!(claim(&under, "mail").await, 1);
    let refused = under.send("POST", "/v1/jobs", job.to_string()).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    let reported = refused.json();
    assert_eq!(reported["error"]["code"], "limit_full");
    let message = reported["error"]["message"].to_string();
    assert!(message.contains("the limit api"), "{reported}");
    let many = send(&under, "POST", "/v1/jobs", json!([job])).await;
    let receipt = &many["receipts"][0];
    assert_eq!(
        (&receipt["verdict"], &receipt["limit"]),
        (&json!("limit_full"), &json!(1))
    );
    let cancel = json!({"concurrency": 1, "when_full": "cancel_running"});
    send(&under, "PUT", "/v1/limits/api", cancel).await;
    let waits = send(&under, "POST", "/v1/jobs", job).await;
    let path = |job: &Value| format!("/v1/jobs/{}?explain=true", job["id"].as_str().unwrap());
    let reported = under.get(&path(&waits)).await.json();
    assert_eq!(
        reported["explain"][0]["when_full"], "cancel_running",
        "{reported}"
    );
    // It started before the limit was to stop jobs.
    let reported = under.get(&path(&first)).await.json();
    assert_ne!(reported["cancel_requested"], json!(true), "{reported}");
    for wrong in [
        json!({"when_full": "refuse", "rate": {"starts": 1, "per": "1s"}}),
        json!({"when_full": "cancel_running", "concurrency": 65}),
        json!({"when_full": "later", "concurrency": 1}),
    ] {
        let reported = under.send("PUT", "/v1/limits/b", wrong.to_string()).await;
        assert_eq!(reported.status / 100, 4, "{wrong}: {reported:?}");
    }
}

#[tokio::test]
async fn a_wrong_name_is_shown_as_it_was_written() {
    let under = serve().await;
    let long = "x".repeat(123);
    for (path, name) in [("a%20b", "a b"), ("..%2fx", "../x"), (&*long, &long[..60])] {
        let path = format!("/v1/limits/{path}");
        let sent = json!({"concurrency": 1}).to_string();
        let reply = under.send("PUT", &path, sent).await;
        assert_eq!(reply.status, 422);
        let message = reply.json()["error"]["message"].take();
        let message = message.as_str().expect("a message");
        assert!(message.starts_with("limit name "), "{message}");
        assert!(message.contains(&format!("\"{name}")), "{message}");
    }
}

#[tokio::test]
async fn a_share_is_paused_and_resumed() {
    let under = serve().await;
    for share in ["a", "b"] {
        let job = json!({"queue": "mail", "payload": {}, "share": share});
        send(&under, "POST", "/v1/jobs", job).await;
    }
    let share = json!({"queue": "mail", "share": "a"});
    let reported = send(&under, "POST", "/v1/queues/pause", share.clone()).await;
    let paused = json!({"queue": "mail", "share": "a", "paused": true, "changed": true});
    assert_eq!(reported, paused);
    assert_eq!(claim(&under, "mail").await, 1);
    let reported = send(&under, "POST", "/v1/queues/resume", share).await;
    assert_eq!(
        (&reported["paused"], &reported["changed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(claim(&under, "mail").await, 1);
}

#[tokio::test]
async fn a_blocked_limit_starts_nothing() {
    let under = serve().await;
    let path = "/v1/limits/api/block";
    let blocked = send(&under, "POST", path, json!({"span": "1m"})).await;
    assert_eq!(blocked, json!({"name": "api", "changed": true}));
    let job = json!({"queue": "mail", "payload": {}, "limits": ["api"]});
    send(&under, "POST", "/v1/jobs", job).await;
    assert_eq!(claim(&under, "mail").await, 0);
    let reported = under.get("/v1/limits/api").await.json();
    assert_eq!(reported["closed"], "blocked");
    assert!(reported["opens_at"].is_string(), "{reported}");
    let opened = send(&under, "POST", path, json!({"span": "0s"})).await;
    assert_eq!(opened["changed"], true);
    assert_eq!(claim(&under, "mail").await, 1);
}

#[tokio::test]
async fn what_cannot_be_a_limit_is_refused() {
    let under = serve().await;
    for (body, remedy) in [
        (json!({}), "name a concurrency or a rate"),
        (json!({"concurrency": 0}), "1 to 1,000,000"),
        (
            json!({"rate": {"starts": 0, "per": "1s"}}),
            "1 to 1,000,000",
        ),
        (json!({"rate": {"starts": 1, "per": "366d"}}), "365 days"),
        (
            json!({"rate": {"starts": 1, "per": "1s", "burst": 1}}),
            "smooth",
        ),
        (json!({"starts": 3}), "concurrency"),
    ] {
        let refused = under.send("PUT", "/v1/limits/a", body.to_string()).await;
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        assert!(refused.body.contains(remedy), "{body}: {}", refused.body);
    }
    for (fields, remedy) in [
        (json!({"limits": ["a", "b", "c", "d"]}), "at most 3"),
        (json!({"limits": ["a", "a"]}), "twice"),
        (json!({"limits": ["a b"]}), "name"),
        (json!({"limits": ["a"], "cost": 0}), "1 to 1,000"),
        (json!({"limits": ["a"], "cost": 1001}), "1 to 1,000"),
        (json!({"cost": 2}), "limits"),
    ] {
        let mut job = json!({"queue": "mail", "payload": {}});
        let own = job.as_object_mut().expect("an object");
        own.extend(fields.as_object().cloned().unwrap_or_default());
        let refused = under.send("POST", "/v1/jobs", job.to_string()).await;
        assert_eq!(refused.status, 422, "{fields}: {refused:?}");
        assert!(refused.body.contains(remedy), "{fields}: {}", refused.body);
    }
    let long = under
        .send("POST", "/v1/limits/a/block", r#"{"span":"366d"}"#)
        .await;
    assert_eq!(long.status, 422, "{long:?}");
    let name = under
        .send("PUT", "/v1/limits/a%20b", r#"{"concurrency":1}"#)
        .await;
    assert_eq!((name.status, &*name.code()), (422, "invalid_name"));
}
