//! Tests of the gateway over HTTP: limits of queues.

use punctual::time::{Clock, minutes, seconds};
use serde_json::{Value, json};

use crate::support::{START, Under, serve};

const LIMITS: &str = "/v1/queues/mail/limits";

async fn set(under: &Under, limits: &Value) -> Value {
    let sent = under.send("PUT", LIMITS, limits.to_string()).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    sent.json()
}

/// Claims and answers how many jobs came.
async fn claim(under: &Under, limit: usize) -> usize {
    let claim = json!({"queues": ["mail"], "limit": limit, "lease_duration": "10m"});
    let claimed = under.send("POST", "/v1/claims", claim.to_string()).await;
    let leases = claimed.json()["leases"].clone();
    let leases = leases.as_array().expect("leases");
    let jobs = leases
        .iter()
        .map(|lease| lease["jobs"].as_array().map_or(0, Vec::len));
    jobs.sum()
}

#[tokio::test]
async fn limits_are_set_read_and_taken_off() {
    let under = serve().await;
    assert_eq!(
        under.get(LIMITS).await.json(),
        json!({"queue": "mail", "active": 0, "version": 0})
    );
    let rate = json!({"kind": "window", "starts": 1000, "per": "1m"});
    let both = json!({"concurrency": 50, "rate": rate});
    let reported = set(&under, &both).await;
    let expected = json!({
        "queue": "mail", "active": 0, "concurrency": 50, "rate": rate,
        "version": reported["version"]
    });
    assert_eq!(reported, expected);
    assert_eq!(under.get(LIMITS).await.json(), reported);
    let listed = under.get("/v1/queues?queue=mail").await.json();
    assert_eq!(listed["queues"][0]["limits"], both);
    // They are set as they are sent: one that is omitted is none.
    let smooth = json!({"rate": {"kind": "smooth", "starts": 20, "per": "1s"}});
    let reported = set(&under, &smooth).await;
    assert_eq!(reported["rate"]["burst"], 2);
    assert_eq!(reported["concurrency"], Value::Null);
    let off = under.send("DELETE", LIMITS, "").await;
    assert_eq!(
        (off.status, off.json()),
        (200, json!({"queue": "mail", "active": 0, "version": 0}))
    );
}

#[tokio::test]
async fn settings_and_limits_of_a_queue_leave_each_other_alone() {
    let under = serve().await;
    set(&under, &json!({"concurrency": 3})).await;
    let read = under.get("/v1/queues/settings?queue=mail").await.json();
    let settings = json!({"queue": "mail", "max_pending": 7, "version": read["version"]});
    let sent = under
        .send("PUT", "/v1/queues/settings", settings.to_string())
        .await;
    assert_eq!(sent.status, 200, "{sent:?}");
    assert_eq!(under.get(LIMITS).await.json()["concurrency"], 3);
    set(&under, &json!({"concurrency": 4})).await;
    let read = under.get("/v1/queues/settings?queue=mail").await.json();
    assert_eq!(read["max_pending"], 7);
}

#[tokio::test]
async fn a_full_share_refuses_one_more_and_says_how_many() {
    let under = serve().await;
    let bound = json!({"shares": {"max_pending": 1, "weights": {"acme": 2}}});
    let read = set(&under, &bound).await;
    assert_eq!(read["shares"], bound["shares"], "{read}");
    let job = |share: &str| json!({"queue": "mail", "share": share});
    let many = json!([job("acme"), job("acme"), job("other")]).to_string();
    let many = under.send("POST", "/v1/jobs", many).await.json();
    let verdicts: Vec<&str> = (many["receipts"].as_array().expect("receipts").iter())
        .map(|receipt| receipt["verdict"].as_str().expect("a verdict"))
        .collect();
    assert_eq!(verdicts, ["created", "share_full", "created"]);
    let one = under
        .send("POST", "/v1/jobs", job("acme").to_string())
        .await;
    assert_eq!(one.status, 507, "{one:?}");
    let error = one.json()["error"].clone();
    assert_eq!(error["code"], "share_full");
    let said = error.to_string();
    for part in ["acme", "mail", "the 1 pending", "max_pending"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let wrong = json!({"shares": {"max_pending": 0}}).to_string();
    assert_eq!(under.send("PUT", LIMITS, wrong).await.status, 422);
}

#[tokio::test]
async fn a_job_at_a_limit_says_which_and_until_when() {
    let under = serve().await;
    set(&under, &json!({"rate": {"starts": 2, "per": "1m"}})).await;
    let jobs: Vec<Value> = (0..3).map(|_| json!({"queue": "mail"})).collect();
    let sent = under
        .send("POST", "/v1/jobs", Value::from(jobs).to_string())
        .await;
    let ids: Vec<String> = (sent.json()["receipts"].as_array().expect("receipts").iter())
        .map(|job| job["id"].as_str().expect("an id").to_owned())
        .collect();
    let started = under.clock.now();
    // A claim that names no slots has its limit.
    assert_eq!(claim(&under, 10).await, 2);
    let opens = (started + minutes(1)).to_string();
    let reported = under.get(LIMITS).await.json();
    assert_eq!(
        (&reported["closed"], &reported["opens_at"]),
        (&json!("rate"), &json!(opens))
    );
    let last = format!("/v1/jobs/{}?explain=true", ids[2]);
    let reasons = under.get(&last).await.json()["explain"].clone();
    let reason = &reasons[0];
    assert_eq!(reason["reason"], "rate_reached", "{reasons}");
    assert_eq!(
        (&reason["until"], &reason["rate"]),
        (&json!(opens), &json!("2/1m window"))
    );
    let text = reason["text"].as_str().expect("a sentence");
    assert!(text.contains("punctual queues limit mail"), "{text}");
    set(&under, &json!({"concurrency": 2})).await;
    let reasons = under.get(&last).await.json()["explain"].clone();
    let reason = &reasons[0];
    assert_eq!(reason["reason"], "concurrency_reached", "{reasons}");
    assert_eq!(
        (&reason["limit"], &reason["active"]),
        (&json!(2), &json!(2))
    );
}

#[tokio::test]
async fn what_waits_at_a_limit_has_metrics_of_its_own() {
    let under = serve().await;
    set(&under, &json!({"rate": {"starts": 1, "per": "1h"}})).await;
    under
        .send("POST", "/v1/jobs", r#"[{"queue":"mail"},{"queue":"mail"}]"#)
        .await;
    assert_eq!(claim(&under, 10).await, 1);
    under.clock.advance(seconds(90));
    let metrics = under.get("/metrics").await.body;
    for line in [
        r#"punctual_queue_limited{queue="mail"} 1"#,
        r#"punctual_queue_limit_wait_seconds{queue="mail"} 90"#,
        r#"punctual_oldest_due_seconds{queue="mail"} 0"#,
        r#"punctual_queue_late{queue="mail"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn limits_out_of_range_name_the_remedy() {
    let under = serve().await;
    for (limits, remedy) in [
        (json!({"concurrency": 0}), "pause the queue"),
        (json!({"concurrency": 1_000_001}), "1 to 1,000,000"),
        (json!({"concurrency": -1}), "concurrency"),
        (
            json!({"rate": {"starts": 0, "per": "1s"}}),
            "pause the queue",
        ),
        (
            json!({"rate": {"starts": 5, "per": "0s"}}),
            "1 ms to 365 days",
        ),
        (
            json!({"rate": {"starts": 5, "per": "366d"}}),
            "1 ms to 365 days",
        ),
        (
            json!({"rate": {"starts": 2_000_000, "per": "1s"}}),
            "1,000,000",
        ),
        (
            json!({"rate": {"starts": 5, "per": "1s", "burst": 1}}),
            "smooth",
        ),
        (
            json!({"rate": {"kind": "smooth", "starts": 5, "per": "1s", "burst": 6}}),
            "at most the starts",
        ),
        (
            json!({"rate": {"kind": "fixed", "starts": 5, "per": "1s"}}),
            "window",
        ),
        (json!({"rate": "5/1s"}), "rate"),
        (json!({"slots": 5}), "slots"),
    ] {
        let refused = under.send("PUT", LIMITS, limits.to_string()).await;
        assert!(
            (400..=422).contains(&refused.status),
            "{limits}: {refused:?}"
        );
        assert!(refused.body.contains(remedy), "{limits}: {}", refused.body);
    }
    let of_no_queue = under
        .send("PUT", "/v1/queues/a%20b/limits", r#"{"concurrency":1}"#)
        .await;
    assert_eq!(
        (of_no_queue.status, &*of_no_queue.code()),
        (422, "invalid_name")
    );
    let with_slash = under
        .send("PUT", "/v1/queues/a%2Fb/limits", r#"{"concurrency":1}"#)
        .await;
    assert_eq!(with_slash.json()["queue"], "a/b");
}

#[tokio::test]
async fn shares_are_limited_shown_and_blocked() {
    let under = serve().await;
    let shares = json!({"concurrency": 2, "weights": {"acme": 5}});
    let reported = set(&under, &json!({"shares": shares})).await;
    assert_eq!(reported["shares"], shares);
    for share in ["acme", "acme", "acme", "small"] {
        let job = json!({"queue": "mail", "payload": {}, "share": share});
        let sent = under.send("POST", "/v1/jobs", job.to_string()).await;
        assert_eq!(sent.status, 201, "{sent:?}");
    }
    assert_eq!(claim(&under, 10).await, 3);
    let top = under.get("/v1/queues/mail/shares?top=1").await.json();
    let acme =
        json!({"share": "acme", "ready": 1, "active": 2, "weight": 5, "closed": "concurrency"});
    assert_eq!(top, json!({"queue": "mail", "shares": [acme]}));
    let block = json!({"share": "acme", "span": "1m"}).to_string();
    let blocked = under.send("POST", "/v1/queues/mail/block", block).await;
    assert_eq!(
        (blocked.status, blocked.json()["changed"].clone()),
        (200, json!(true))
    );
    let listed = under.get("/v1/jobs?queue=mail&state=ready").await.json();
    let id = listed["jobs"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(listed["jobs"][0]["share"], "acme");
    let reported = under
        .get(&format!("/v1/jobs/{id}?explain=true"))
        .await
        .json();
    assert!(reported.to_string().contains("share_blocked"), "{reported}");
    for (body, remedy) in [
        (json!({"shares": {"weights": {"acme": 0}}}), "1 to 1,000"),
        (json!({"shares": {"concurrency": 0}}), "1 to 1,000,000"),
        (json!({"shares": {"weight": 3}}), "weights"),
    ] {
        let refused = under.send("PUT", LIMITS, body.to_string()).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.json().to_string().contains(remedy), "{refused:?}");
    }
    let many = under.get("/v1/queues/mail/shares?top=101").await;
    assert_eq!(many.status, 422, "{many:?}");
}

#[tokio::test]
async fn a_claim_names_since_when_limits_let_its_jobs_start() {
    let under = serve().await;
    let block = json!({"span": "2s"}).to_string();
    let blocked = under.send("POST", "/v1/limits/smtp/block", block).await;
    assert_eq!(blocked.status, 200, "{blocked:?}");
    let job = json!({"queue": "mail", "payload": {}, "limits": ["smtp"]});
    let sent = under.send("POST", "/v1/jobs", job.to_string()).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    assert_eq!(claim(&under, 1).await, 0);
    under.clock.advance(seconds(5));
    let order = json!({"queues": ["mail"], "limit": 1}).to_string();
    let claimed = under.send("POST", "/v1/claims", order).await.json();
    let opened = (START + seconds(2)).to_string();
    assert_eq!(
        claimed["limited"][0]["limits"],
        json!({"smtp": opened}),
        "{claimed}"
    );
}
