//! Jobs that are to be posted, as the gateway takes them. Posting itself is tested elsewhere.

use serde_json::{Value, json};

use crate::support::{OTHER, Under, WORKER, serve};

const URL: &str = "https://example.com/hook";

async fn jobs(under: &Under, queue: &str) -> Vec<Value> {
    let listing = under.get(&format!("/v1/jobs?queue={queue}")).await.json();
    listing["jobs"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_target_puts_the_job_into_the_pushed_queue_of_its_name() {
    let under = serve().await;
    for (body, queue, kind) in [
        (json!({"queue":"mail","target":URL}), "http:mail", "mail"),
        (
            json!({"queue":"mail","kind":"k","target":URL}),
            "http:mail",
            "k",
        ),
        (
            json!({"queue":"http:mail","target":URL}),
            "http:mail",
            "http:mail",
        ),
        (json!({"target":URL}), "http:default", "http"),
    ] {
        let sent = under.send("POST", "/v1/jobs", body.to_string()).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let id = sent.json()["id"].as_str().expect("an id").to_owned();
        let job = under.get(&format!("/v1/jobs/{id}")).await.json();
        assert_eq!(
            (&job["queue"], &job["kind"]),
            (&json!(queue), &json!(kind)),
            "{body}"
        );
        assert_eq!(job["headers"]["punctual-target"], URL);
        // Callers of another namespace do not see it.
        let path = format!("/v1/jobs/{id}");
        assert_eq!(under.send_as(OTHER, "GET", &path, "").await.status, 404);
    }
    let line = json!({"queue":"mail","target":URL,"callback":"https://example.com/done"});
    let headers = [
        ("host", "localhost"),
        (
            "authorization",
            &*format!("Bearer {}", crate::support::ADMIN),
        ),
        ("content-type", "application/x-ndjson"),
    ];
    let bulk = under
        .send_with(&headers, "POST", "/v1/bulk", line.to_string())
        .await;
    assert!(bulk.body.contains("\"accepted\":1"), "{bulk:?}");
}

#[tokio::test]
async fn what_leads_inside_is_refused_when_it_is_put_in() {
    let under = serve().await;
    for url in [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://[fc00::1]/",
        "http://0.0.0.0/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001::1]/",
        "http://2130706433/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/a\\b",
        "http://exa\tmple.com/",
        "http://exa\nmple.com/",
        "http://user@example.com/",
        "http://017700000001/",
        "http://0x7f000001/",
        "http://224.0.0.1/",
        "http://192.0.2.1/",
        "http://localhost/",
        "http://metadata.google.internal/",
        "http://redis/",
        "http://user:password@example.com/",
        "http://example.com:22/",
        "http://example.com:6379/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "",
    ] {
        let forms = [
            json!({"queue":"mail","target":url}),
            json!({"queue":"mail","callback":url}),
            // The header by its own name is no way around.
            json!({"queue":"mail","headers":{"Punctual-Target":url}}),
            json!({"queue":"mail","headers":{"punctual-callback":url}}),
        ];
        for body in forms {
            let sent = under.send("POST", "/v1/jobs", body.to_string()).await;
            assert_eq!(sent.status, 422, "{body}: {sent:?}");
            assert_eq!(sent.code(), "target_refused", "{body}");
            let many = json!([{"queue":"mail"}, body]).to_string();
            let many = under.send("POST", "/v1/jobs", many).await;
            assert_eq!(
                (many.status, &many.json()["error"]["index"]),
                (422, &json!(1))
            );
        }
    }
    for queue in ["mail", "http:mail"] {
        assert!(jobs(&under, queue).await.is_empty());
    }
}

/// A target on RabbitMQ has queues of its own, which take no other jobs.
#[tokio::test]
async fn a_target_on_a_broker_puts_the_job_into_a_queue_of_its_own() {
    let under = serve().await;
    for (body, queue) in [
        (
            json!({"queue":"mail","target":"amqp:orders/paid"}),
            "amqp:mail",
        ),
        (json!({"queue":"amqp:mail","target":"amqp:/q"}), "amqp:mail"),
        (json!({"target":"amqp:orders/a/b"}), "amqp:default"),
    ] {
        let sent = under.send("POST", "/v1/jobs", body.to_string()).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let id = sent.json()["id"].as_str().expect("an id").to_owned();
        let job = under.get(&format!("/v1/jobs/{id}")).await.json();
        assert_eq!(job["queue"], queue, "{body}");
    }
    let before = jobs(&under, "amqp:mail").await.len();
    for (body, code, remedy) in [
        (
            json!({"queue":"mail","target":"amqp:orders"}),
            "target_refused",
            "amqp:EXCHANGE/KEY",
        ),
        (
            json!({"queue":"mail","target":"amqp://h/q"}),
            "target_refused",
            "amqp:EXCHANGE/KEY",
        ),
        (
            json!({"queue":"mail","headers":{"Punctual-Target":"AMQP:a/b"}}),
            "target_refused",
            "amqp:EXCHANGE/KEY",
        ),
        (
            json!({"queue":"amqp:mail"}),
            "invalid_input",
            "amqp:EXCHANGE/KEY",
        ),
        (
            json!({"queue":"amqp:mail","callback":"amqp:a/b"}),
            "invalid_input",
            "amqp:EXCHANGE/KEY",
        ),
        (
            json!({"queue":"mail","callback":"amqp:a/b"}),
            "target_refused",
            "",
        ),
        (
            json!({"queue":"http:mail","headers":{"punctual-target":"amqp:a/b"}}),
            "invalid_input",
            "URL",
        ),
    ] {
        let sent = under.send("POST", "/v1/jobs", body.to_string()).await;
        assert_eq!(
            (sent.status, &*sent.code()),
            (422, code),
            "{body}: {sent:?}"
        );
        assert!(sent.body.contains(remedy), "{body}: {sent:?}");
    }
    assert_eq!(jobs(&under, "amqp:mail").await.len(), before);
}

#[tokio::test]
async fn effects_are_held_against_the_same_guard() {
    let under = serve().await;
    under.send("POST", "/v1/jobs", r#"{"queue":"a"}"#).await;
    let claim = r#"{"queues":["a"]}"#;
    let lease = under
        .send_as(WORKER, "POST", "/v1/claims", claim)
        .await
        .json();
    let (lease, job) = (&lease["leases"][0], &lease["leases"][0]["jobs"][0]);
    let effect = json!({"enqueue":{"queue":"b","target":"http://10.0.0.1/"}});
    let settle = json!({"leases":[{"token":lease["token"],"settlements":[
        {"id":job["id"],"attempt":1,"outcome":"completed","effects":[effect]}]}]});
    let settled = under
        .send_as(WORKER, "POST", "/v1/settlements", settle.to_string())
        .await;
    assert_eq!((settled.status, &*settled.code()), (422, "target_refused"));
}

#[tokio::test]
async fn a_pushed_queue_takes_no_job_without_a_target() {
    let under = serve().await;
    let sent = under
        .send("POST", "/v1/jobs", r#"{"queue":"http:mail"}"#)
        .await;
    assert_eq!((sent.status, &*sent.code()), (422, "invalid_input"));
}

#[tokio::test]
async fn a_settlement_over_http_brings_about_the_callback_once() {
    let under = serve().await;
    let body = json!({"queue":"a","callback":"https://example.com/done"}).to_string();
    under.send("POST", "/v1/jobs", body).await;
    under.send("POST", "/v1/jobs", r#"{"queue":"a"}"#).await;
    let claim = r#"{"queues":["a"],"limit":2}"#;
    let lease = under
        .send_as(WORKER, "POST", "/v1/claims", claim)
        .await
        .json();
    let lease = &lease["leases"][0];
    let settlements: Vec<Value> = (lease["jobs"].as_array().expect("jobs").iter())
        .map(|job| json!({"id":job["id"],"attempt":1,"outcome":"completed","result":{"sent":true}}))
        .collect();
    let settle = json!({"leases":[{"token":lease["token"],"settlements":settlements}]}).to_string();
    for verdict in ["settled", "repeated", "repeated"] {
        let settled = under
            .send_as(WORKER, "POST", "/v1/settlements", settle.clone())
            .await
            .json();
        let first = &settled["leases"][0]["settlements"][0];
        assert_eq!(first["verdict"], verdict, "{settled}");
        // It is not one of the effects that were asked for.
        assert!(first["effects"].is_null(), "{settled}");
    }
    let reported = jobs(&under, "http:callbacks").await;
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(
        reported[0]["headers"]["punctual-target"],
        "https://example.com/done"
    );
    let said = &reported[0]["payload"];
    assert_eq!(
        (&said["state"], &said["result"]),
        (&json!("completed"), &json!({"sent":true}))
    );
}
