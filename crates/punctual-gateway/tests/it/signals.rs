//! Steps and signals over HTTP: what a worker in any language does.

use serde_json::{Value, json};

use crate::support::{Under, serve};

/// The only lease of a claim, and its job.
async fn claimed(under: &Under) -> (Value, Value) {
    let claim = json!({"queues": ["refunds"]}).to_string();
    let answer = under.send("POST", "/v1/claims", claim).await.json();
    let lease = answer["leases"][0].clone();
    (lease["token"].clone(), lease["jobs"][0].clone())
}

async fn settle(under: &Under, token: &Value, settlement: Value) -> Value {
    let body = json!({"leases": [{"token": token, "settlements": [settlement]}]});
    let answer = under
        .send("POST", "/v1/settlements", body.to_string())
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["leases"][0]["settlements"][0].clone()
}

#[tokio::test]
async fn a_worker_over_http_keeps_steps_and_waits_for_a_signal() {
    let under = serve().await;
    let job = json!({"queue": "refunds", "unique": "refund:7"}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", job).await.status, 201);
    let (token, job) = claimed(&under).await;
    let id = job["id"].as_str().expect("an id");
    let extend = json!({"leases": [{"token": token, "jobs": [id],
        "memos": {id: {"charge": {"receipt": 7}}}}]});
    let extended = under
        .send("POST", "/v1/extensions", extend.to_string())
        .await;
    assert_eq!(extended.json()["leases"][0]["lost"], json!([]));
    let hold = json!({"id": id, "attempt": 1, "outcome": "hold",
        "names": ["approved"], "after": "7d"});
    let held = settle(&under, &token, hold).await;
    assert_eq!(held["state"], "held", "{held}");
    let got = under.get(&format!("/v1/jobs/{id}?explain=true")).await;
    assert!(got.body.contains("waits_for_names"), "{got:?}");

    let signal = json!({"queue": "refunds", "unique": "refund:7", "name": "approved",
        "payload": {"by": "ann"}});
    let signalled = under.send("POST", "/v1/signals", signal.to_string()).await;
    assert_eq!(
        (signalled.status, &signalled.json()["state"]),
        (200, &json!("ready"))
    );
    let again = under.send("POST", "/v1/signals", signal.to_string()).await;
    assert_eq!((again.status, again.code().as_str()), (409, "wait_ended"));
    let (token, job) = claimed(&under).await;
    let memos = job["memos"].as_array().expect("memos");
    let reported: Vec<_> = (memos.iter())
        .map(|memo| (&memo["source"], &memo["name"], &memo["value"]))
        .collect();
    assert_eq!(
        reported,
        [
            (&json!("step"), &json!("charge"), &json!({"receipt": 7})),
            (&json!("signal"), &json!("approved"), &json!({"by": "ann"})),
        ]
    );
    let done = json!({"id": id, "attempt": 2, "outcome": "completed"});
    assert_eq!(settle(&under, &token, done).await["state"], "completed");
    let late = json!({"id": id, "name": "approved"}).to_string();
    let late = under.send("POST", "/v1/signals", late).await;
    assert_eq!((late.status, late.code().as_str()), (409, "wrong_state"));
}

#[tokio::test]
async fn a_signal_or_hold_out_of_form_is_refused() {
    let under = serve().await;
    for bad in [
        json!({"name": "a"}),
        json!({"name": "a", "queue": "q"}),
        json!({"name": "", "flow": "f", "step": "s"}),
        json!({"name": "a", "id": "x"}),
        json!({"name": "a", "flow": "f", "step": "s", "queue": "q"}),
    ] {
        let answer = under.send("POST", "/v1/signals", bad.to_string()).await;
        assert_eq!(answer.status, 422, "{bad}: {answer:?}");
    }
    let unknown = json!({"name": "a", "flow": "f", "step": "s"}).to_string();
    let unknown = under.send("POST", "/v1/signals", unknown).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let job = json!({"queue": "refunds"}).to_string();
    under.send("POST", "/v1/jobs", job).await;
    let (token, job) = claimed(&under).await;
    for bad in [
        json!({"outcome": "hold", "names": ["a"]}),
        json!({"outcome": "hold", "after": "1h"}),
        json!({"outcome": "snooze", "after": "1h", "names": ["a"]}),
        json!({"outcome": "hold", "names": ["a"], "after": "366d"}),
    ] {
        let mut settlement = bad.clone();
        settlement["id"] = job["id"].clone();
        settlement["attempt"] = json!(1);
        let body = json!({"leases": [{"token": token, "settlements": [settlement]}]});
        let answer = under
            .send("POST", "/v1/settlements", body.to_string())
            .await;
        assert_eq!(answer.status, 422, "{bad}: {answer:?}");
    }
}

#[tokio::test]
async fn a_clear_over_http_may_come_before_its_job() {
    let under = serve().await;
    let id = punctual::JobId::new().to_string();
    let clear = json!({"id": id, "name": "paid"}).to_string();
    let cleared = under.send("POST", "/v1/clears", clear).await;
    assert_eq!((cleared.status, &cleared.json()["id"]), (200, &json!(id)));
    let job = json!({"id": id, "queue": "refunds", "wait_for": ["paid", "packed"]}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", job).await.status, 201);
    let got = under.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&got["state"], &got["wait_for"]),
        (&json!("held"), &json!(["packed"]))
    );
    let clear = json!({"id": id, "name": "packed"}).to_string();
    assert_eq!(under.send("POST", "/v1/clears", clear).await.status, 200);
    let (_, claimed) = claimed(&under).await;
    assert_eq!(claimed["id"], json!(id));
    for bad in [
        json!({"name": "a"}),
        json!({"name": "a", "id": id, "flow": "f", "step": "s"}),
        json!({"name": "a", "flow": "f"}),
        json!({"name": "", "id": id}),
        json!({"name": "a\n", "id": id}),
        json!({"name": "a", "id": "x"}),
        json!({"name": "a", "id": id, "payload": 1}),
    ] {
        let answer = under.send("POST", "/v1/clears", bad.to_string()).await;
        assert_eq!(answer.status / 100, 4, "{bad}: {answer:?}");
    }
}

#[tokio::test]
async fn a_settlement_over_http_signals_another_job() {
    let under = serve().await;
    let job = json!({"queue": "refunds"}).to_string();
    let sent = under.send("POST", "/v1/jobs", job.clone()).await.json();
    let (token, waits) = claimed(&under).await;
    assert_eq!(waits["id"], sent["id"]);
    let hold = json!({"id": waits["id"], "attempt": 1, "outcome": "hold",
        "names": ["approved"], "after": "7d"});
    settle(&under, &token, hold).await;
    under.send("POST", "/v1/jobs", job).await;
    let (token, sender) = claimed(&under).await;
    let ends = |signal: Value| json!({"id": sender["id"], "attempt": 1, "outcome": "completed", "effects": [{"signal": signal}]});
    let long = "x".repeat(8 << 10);
    let hostile = [
        json!({"job": waits["id"], "name": ""}),
        json!({"job": waits["id"], "name": "approved", "payload": long}),
        json!({"job": waits["id"], "name": "approved", "payload": 1, "payload_base64": "MQ=="}),
        json!({"job": "7", "name": "approved"}),
        json!({"name": "approved"}),
    ];
    for signal in hostile {
        let body = json!({"leases": [{"token": token, "settlements": [ends(signal)]}]});
        let refused = under
            .send("POST", "/v1/settlements", body.to_string())
            .await;
        assert!((400..=422).contains(&refused.status), "{refused:?}");
    }
    let signal = json!({"job": waits["id"], "name": "approved", "payload": {"by": "ann"}});
    let settled = settle(&under, &token, ends(signal)).await;
    assert_eq!(settled["state"], "completed", "{settled}");
    let (_, again) = claimed(&under).await;
    assert_eq!((&again["id"], &again["attempt"]), (&waits["id"], &json!(2)));
    assert_eq!(again["memos"][0]["value"], json!({"by": "ann"}));
}
