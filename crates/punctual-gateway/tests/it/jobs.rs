//! Tests of the gateway over HTTP: jobs.

use punctual::time::seconds;
use serde_json::json;

use crate::support::{PRODUCER, START, serve};

#[tokio::test]
async fn a_payload_comes_back_byte_for_byte() {
    let under = serve().await;
    let payload = "{\"b\": 1.50,  \"a\":\n[1e400, 9007199254740993, \"\\ud800\"]}";
    let body = format!("{{\"queue\":\"mail\",\"payload\":{payload},\"delay\":\"5s\"}}");
    let sent = under.send("POST", "/v1/jobs", body).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    assert_eq!(sent.json()["verdict"], "created");
    assert_eq!(sent.json()["due"], (START + seconds(5)).to_string());
    let id = sent.json()["id"].as_str().expect("an id").to_owned();
    let got = under.get(&format!("/v1/jobs/{id}?explain=true")).await;
    assert!(got.body.contains(payload), "{got:?}");
    assert!(got.body.contains("\"reason\":\"not_due\""), "{got:?}");
}

#[tokio::test]
async fn bytes_that_are_no_json_travel_as_base64() {
    let under = serve().await;
    let body = json!({"queue": "mail", "payload_base64": "AP8=", "id": ID}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", body).await.status, 201);
    let got = under.get(&format!("/v1/jobs/{ID}")).await.json();
    assert_eq!(got["payload_base64"], "AP8=");
    assert!(got.get("payload").is_none());
}

const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

#[tokio::test]
async fn the_same_id_again_is_a_duplicate_and_with_other_content_a_conflict() {
    let under = serve().await;
    let body = |n: u8| json!({"queue": "mail", "id": ID, "payload": n}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", body(1)).await.status, 201);
    let again = under.send("POST", "/v1/jobs", body(1)).await;
    assert_eq!(
        (again.status, &again.json()["verdict"]),
        (200, &json!("duplicate"))
    );
    let other = under.send("POST", "/v1/jobs", body(2)).await;
    assert_eq!((other.status, other.code().as_str()), (409, "id_conflict"));
}

#[tokio::test]
async fn an_array_gets_a_receipt_each_and_a_bad_item_refuses_all() {
    let under = serve().await;
    let good =
        json!([{"queue": "a"}, {"queue": "a", "unique": "k"}, {"queue": "a", "unique": "k"}]);
    let sent = under
        .send("POST", "/v1/jobs", good.to_string())
        .await
        .json();
    let verdicts = sent["receipts"].as_array().expect("receipts").iter();
    let verdicts: Vec<_> = verdicts.map(|receipt| receipt["verdict"].clone()).collect();
    assert_eq!(verdicts, ["created", "created", "merged"]);
    for bad in [
        json!({"queue": "{x}"}),
        json!({"queue": "b", "delay": "five"}),
        json!({"payload": 1}),
    ] {
        let many = json!([{"queue": "b"}, bad]);
        let refused = under.send("POST", "/v1/jobs", many.to_string()).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["index"]),
            (422, &json!(1)),
            "{refused:?}"
        );
    }
    let queues = under.get("/v1/queues").await.json();
    assert_eq!(
        queues["queues"].as_array().map(Vec::len),
        Some(1),
        "{queues}"
    );
}

#[tokio::test]
async fn an_awaited_result_comes_as_soon_as_the_job_is_settled() {
    let under = serve().await;
    let body = json!({"queue": "mail", "id": ID}).to_string();
    under.send_as(PRODUCER, "POST", "/v1/jobs", body).await;
    let path = format!("/v1/jobs/{ID}?wait=30s");
    let waiting = under.send_as(PRODUCER, "GET", &path, "");
    let working = async {
        let lease = under
            .send("POST", "/v1/claims", r#"{"queues":["mail"]}"#)
            .await
            .json();
        let token = &lease["leases"][0]["token"];
        let settle = json!({"leases": [{"token": token, "settlements": [
            {"id": ID, "attempt": 1, "outcome": "completed", "result": {"sent": true}}]}]});
        under
            .send("POST", "/v1/settlements", settle.to_string())
            .await
    };
    let (got, settled) = tokio::join!(waiting, working);
    assert_eq!(
        settled.json()["leases"][0]["settlements"][0]["verdict"],
        "settled"
    );
    assert_eq!(got.json()["state"], "completed");
    assert_eq!(got.json()["result"], json!({"sent": true}));
}

#[tokio::test]
async fn a_job_is_changed_and_cancelled_by_id_and_by_key() {
    let under = serve().await;
    let body = json!({"queue": "a/b", "id": ID, "unique": "order:7", "delay": "1h"}).to_string();
    under.send("POST", "/v1/jobs", body).await;
    let path = format!("/v1/jobs/{ID}");
    let moved = under.send("PATCH", &path, r#"{"delay":"2h"}"#).await.json();
    assert_eq!(
        (&moved["verdict"], &moved["state"]),
        (&json!("done"), &json!("scheduled"))
    );
    let two = under
        .send("PATCH", &path, r#"{"delay":"2h","priority":3}"#)
        .await;
    assert_eq!(two.status, 422);
    let by_key = "/v1/jobs/by-unique?queue=a/b&key=order:7";
    assert_eq!(under.get(by_key).await.json()["id"], ID);
    let gone = under.send("DELETE", by_key, "").await;
    assert_eq!(gone.json()["state"], "cancelled", "{gone:?}");
    assert_eq!(
        under
            .send("PATCH", &path, r#"{"run_now":true}"#)
            .await
            .code(),
        "wrong_state"
    );
    assert_eq!(
        under
            .send("DELETE", &format!("{path}?forget=true"), "")
            .await
            .status,
        200
    );
    assert_eq!(under.get(&path).await.status, 404);
}

#[tokio::test]
async fn a_list_goes_on_with_its_cursor_to_the_end() {
    let under = serve().await;
    let job = |n| json!({"queue": "a", "delay": format!("{}s", n + 1), "payload": n});
    let jobs: Vec<_> = (0..25).map(job).collect();
    under
        .send(
            "POST",
            "/v1/jobs",
            serde_json::to_string(&jobs).expect("JSON"),
        )
        .await;
    for query in ["queue=a&state=scheduled", "", "queue=a", "text=1"] {
        let (mut cursor, mut seen) = (String::new(), Vec::new());
        loop {
            let page = under
                .get(&format!("/v1/jobs?{query}&limit=4{cursor}"))
                .await
                .json();
            let jobs = page["jobs"].as_array().expect("jobs");
            assert!(jobs.len() <= 4);
            seen.extend(jobs.iter().map(|job| job["payload"].as_u64()));
            let Some(next) = page["cursor"].as_str() else {
                break;
            };
            cursor = format!("&cursor={next}");
        }
        let expected = if query == "text=1" { 12 } else { 25 };
        assert_eq!(seen.len(), expected, "{query}");
    }
}

#[tokio::test]
async fn edits_by_filter_say_first_what_they_would_do() {
    let under = serve().await;
    for n in 0..3 {
        let body = json!({"queue": "a", "kind": format!("k{}", n % 2), "delay": "1h"});
        under.send("POST", "/v1/jobs", body.to_string()).await;
    }
    let edit = |dry: Option<bool>| json!({"action": "cancel", "filter": {"queue": "a", "kind": "k0"}, "dry_run": dry});
    assert_eq!(
        under
            .send("POST", "/v1/edits", edit(None).to_string())
            .await
            .status,
        422
    );
    let dry = under
        .send("POST", "/v1/edits", edit(Some(true)).to_string())
        .await
        .json();
    assert_eq!(
        (&dry["changed"], &dry["verdicts"]),
        (&json!(2), &json!({"done": 2}))
    );
    let done = under
        .send("POST", "/v1/edits", edit(Some(false)).to_string())
        .await
        .json();
    assert_eq!(done["changed"], 2);
    assert_eq!(
        under.get("/v1/queues").await.json()["queues"][0]["cancelled"],
        2
    );
    let every = json!({"action": "cancel", "filter": {}, "dry_run": true});
    assert_eq!(
        under
            .send("POST", "/v1/edits", every.to_string())
            .await
            .status,
        422
    );
}

#[tokio::test]
async fn queues_are_paused_listed_and_purged() {
    let under = serve().await;
    under.send("POST", "/v1/jobs", r#"{"queue":"a"}"#).await;
    let paused = under
        .send("POST", "/v1/queues/pause", r#"{"queue":"a"}"#)
        .await
        .json();
    assert_eq!(
        paused,
        json!({"queue": "a", "paused": true, "changed": true})
    );
    let claim = under
        .send("POST", "/v1/claims", r#"{"queues":["a"]}"#)
        .await
        .json();
    assert_eq!(claim["leases"], json!([]));
    under
        .send("POST", "/v1/queues/resume", r#"{"queue":"a"}"#)
        .await;
    let settings = under.get("/v1/queues/settings?queue=a").await.json();
    assert_eq!(
        settings,
        json!({"queue": "a", "on_full": "refuse", "version": 0})
    );
    let reported = json!({"queue": "a", "max_pending": 1, "version": 0}).to_string();
    let written = under
        .send("PUT", "/v1/queues/settings", reported.clone())
        .await;
    assert_eq!(written.status, 200, "{written:?}");
    assert_eq!(
        under
            .send("PUT", "/v1/queues/settings", reported)
            .await
            .code(),
        "version_conflict"
    );
    let full = under.send("POST", "/v1/jobs", r#"{"queue":"a"}"#).await;
    assert_eq!((full.status, full.code().as_str()), (507, "full"));
    let purge = |dry| json!({"queue": "a", "dry_run": dry}).to_string();
    assert_eq!(
        under
            .send("POST", "/v1/queues/purge", purge(true))
            .await
            .json()["pending"],
        1
    );
    assert_eq!(
        under
            .send("POST", "/v1/queues/purge", purge(false))
            .await
            .json()["cancelled"],
        1
    );
}
