//! Tests of the gateway over HTTP: flows.

use punctual::JobId;
use serde_json::{Value, json};

use crate::support::{Under, WORKER, serve};

const ORDER: &str = "/v1/flows/order-7";

fn order() -> Value {
    json!({
        "name": "order-7",
        "steps": [
            {"name": "ship", "job": {"queue": "orders"}, "after": ["pack"]},
            {"name": "pack", "job": {"queue": "orders", "retention": "1h", "max_attempts": 1}},
            {"name": "refund", "job": {"queue": "orders"}, "after": [{"step": "pack", "on": "failed"}]},
        ],
        "on_settled": {"queue": "reports"},
    })
}

async fn post(under: &Under, path: &str, body: Value) -> Value {
    let reply = under.send("POST", path, body.to_string()).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

/// Settles the next job of a queue; answers what was claimed.
async fn run(under: &Under, queue: &str, outcome: &str) -> Value {
    let claim = json!({"queues": [queue]}).to_string();
    let claimed = under
        .send_as(WORKER, "POST", "/v1/claims", claim)
        .await
        .json();
    let lease = &claimed["leases"][0];
    let job = lease["jobs"][0].clone();
    let settled = json!({
        "id": job["id"], "attempt": job["attempt"], "outcome": outcome, "result": {"n": 1},
    });
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [settled]}]});
    let reply = under
        .send_as(WORKER, "POST", "/v1/settlements", settle.to_string())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    job
}

#[tokio::test]
async fn a_flow_is_sent_run_and_read() {
    let under = serve().await;
    let sent = post(&under, "/v1/flows", order()).await;
    let pack = JobId::step("order-7", "pack").to_string();
    assert_eq!(sent["created"], true);
    assert_eq!(sent["steps"][0], json!({"name": "pack", "id": pack}));
    assert_eq!(post(&under, "/v1/flows", order()).await["created"], false);
    let explained = under
        .get(&format!(
            "/v1/jobs/{}?explain=true",
            sent["steps"][1]["id"].as_str().expect("an id")
        ))
        .await
        .json();
    let reason = &explained["explain"][0];
    assert_eq!(reason["reason"], "waits_for_jobs", "{explained}");

    let ran = run(&under, "orders", "completed").await;
    assert_eq!(ran["flow"], json!({"name": "order-7", "step": "pack"}));
    let steps = under.get(&format!("{ORDER}/steps")).await.json();
    assert_eq!(steps["steps"][0]["result"], json!({"n": 1}));
    let ready = under
        .get(&format!("{ORDER}/steps?state=ready"))
        .await
        .json();
    assert_eq!(ready["steps"][0]["name"], "ship");
    let graph = under.get(&format!("{ORDER}/graph")).await.json();
    assert_eq!(graph["edges"].as_array().map(Vec::len), Some(2), "{graph}");
    run(&under, "orders", "completed").await;
    let flow = under.get(ORDER).await.json();
    assert_eq!(
        (&flow["state"], &flow["callbacks"][0]["fired"]),
        (&json!("done"), &json!(true))
    );
    let counts =
        json!({"steps": 3, "open": 0, "completed": 2, "skipped": 1, "cancelled": 0, "dead": 0});
    assert_eq!(flow["counts"], counts);
    assert_eq!(
        under.get("/v1/flows").await.json(),
        json!({"flows": [flow]})
    );
    let recount = under.get(&format!("{ORDER}/recount")).await.json();
    assert_eq!(
        (&recount["agrees"], &recount["counted"]),
        (&json!(true), &counts)
    );
}

#[tokio::test]
async fn a_flow_is_sent_in_parts_and_grows() {
    let under = serve().await;
    let part = |name: &str, after: Value| {
        json!({"name": "big", "seal": false, "steps": [
            {"name": name, "job": {"queue": "orders"}, "after": after},
        ]})
    };
    post(&under, "/v1/flows", part("a", json!([]))).await;
    post(&under, "/v1/flows", part("b", json!(["a"]))).await;
    assert_eq!(under.get("/v1/flows/big").await.json()["state"], "open");
    let wrong = under
        .send(
            "POST",
            "/v1/flows/big/seal",
            json!({"steps": 3}).to_string(),
        )
        .await;
    assert_eq!((wrong.status, &*wrong.code()), (409, "conflict"));
    let sealed = post(&under, "/v1/flows/big/seal", json!({"steps": 2})).await;
    assert_eq!(sealed["state"], "running");
    let more = json!({"steps": [{"name": "c", "job": {"queue": "orders"}, "after": ["b"]}]});
    post(&under, "/v1/flows/big/steps", more).await;
    assert_eq!(
        under.get("/v1/flows/big").await.json()["counts"]["steps"],
        3
    );
    for step in ["a", "b", "c"] {
        assert_eq!(
            run(&under, "orders", "completed").await["flow"]["step"],
            step
        );
    }
    assert_eq!(under.get("/v1/flows/big").await.json()["state"], "done");
}

#[tokio::test]
async fn a_flow_is_cancelled_and_retried() {
    let under = serve().await;
    post(&under, "/v1/flows", order()).await;
    run(&under, "orders", "dead").await;
    let retried = post(&under, &format!("{ORDER}/retry"), json!({})).await;
    let nothing = json!([]);
    let all = json!({"retried": 1, "gone": 0, "gone_steps": nothing, "unique_held": 0, "unique_held_steps": nothing});
    assert_eq!(retried, all);
    let flow = under.get(ORDER).await.json();
    assert_eq!(
        (&flow["state"], &flow["counts"]["open"]),
        (&json!("running"), &json!(3))
    );
    let cancelled = under
        .send("POST", &format!("{ORDER}/cancel"), "")
        .await
        .json();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
}

#[tokio::test]
async fn a_wrong_flow_is_refused_with_its_remedy() {
    let under = serve().await;
    let step = |name: &str, after: Value| json!({"name": name, "job": {"queue": "orders"}, "after": after});
    for (steps, status, text) in [
        (
            json!([step("a", json!(["b"])), step("b", json!(["a"]))]),
            422,
            "a cycle never runs",
        ),
        (json!([step("a", json!(["a"]))]), 422, "a cycle never runs"),
        (json!([step("a", json!(["z"]))]), 422, "not in the flow"),
        (
            json!([step("a", json!([])), step("a", json!([]))]),
            422,
            "twice",
        ),
        (
            json!([step("a", json!([{"on": "failed"}]))]),
            422,
            "both a step and a job, or neither",
        ),
        (json!([step("a b", json!([]))]), 422, "name"),
        (json!([]), 422, "no steps and no callbacks"),
        (
            json!([{"name": "a", "job": {"queue": "orders", "id": JobId::new()}}]),
            422,
            "job.id is set",
        ),
        (
            json!([step("a", json!([{"job": JobId::new()}]))]),
            404,
            "not known",
        ),
    ] {
        let flow = json!({"name": "wrong", "steps": steps}).to_string();
        let reply = under.send("POST", "/v1/flows", flow).await;
        assert_eq!(reply.status, status, "{text}: {reply:?}");
        assert!(reply.body.contains(text), "{text}: {reply:?}");
    }
    post(&under, "/v1/flows", order()).await;
    let mut other = order();
    other["steps"][1]["job"]["payload"] = json!("other");
    let reply = under.send("POST", "/v1/flows", other.to_string()).await;
    assert_eq!(
        (reply.status, &*reply.code()),
        (409, "conflict"),
        "{reply:?}"
    );
    for (method, path) in [("GET", "/v1/flows/none"), ("POST", "/v1/flows/none/cancel")] {
        let reply = under.send(method, path, "").await;
        assert_eq!((reply.status, &*reply.code()), (404, "not_found"), "{path}");
    }
    let more = json!({"steps": [step("more", json!([]))]}).to_string();
    let reply = under.send("POST", "/v1/flows/none/steps", more).await;
    assert_eq!((reply.status, &*reply.code()), (404, "not_found"));
    let from = json!({"from": "none"}).to_string();
    let path = format!(
        "/v1/flows/{}/retry",
        other["name"].as_str().expect("a name")
    );
    let reply = under.send("POST", &path, from).await;
    assert!(reply.body.contains("no such step"), "{reply:?}");
}

/// Asserts what refusals say: path, body, code, and parts of the message and of the hint.
async fn assert_refused(under: &Under, rows: &[(&str, Value, &str, &str, &str)]) {
    for (path, body, code, message, hint) in rows {
        let reply = under.send("POST", path, body.to_string()).await;
        let error = reply.json()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("code"), *code, "{path} {body}: {reply:?}");
        assert!(text("message").contains(message), "{path} {body}: {error}");
        assert!(text("hint").contains(hint), "{path} {body}: {error}");
    }
}

#[tokio::test]
async fn refusals_of_plans_name_the_thing_and_the_remedy() {
    let under = serve().await;
    let flow = |after: Value| json!({"name": "x", "steps": [{"name": "a", "job": {"queue": "q"}, "after": after}]});
    let job = |job: Value| json!({"name": "x", "steps": [{"name": "a", "job": job}]});
    let rows = [
        (
            "/v1/flows",
            json!({"name": "x"}),
            "invalid_input",
            "steps is missing",
            "\"name\"",
        ),
        (
            "/v1/flows",
            json!({"steps": []}),
            "invalid_input",
            "name is missing",
            "order-7",
        ),
        (
            "/v1/flows",
            flow(json!([{"step": "b", "on": null}])),
            "invalid_input",
            "steps[0].after[0].on is null",
            "completed, failed",
        ),
        (
            "/v1/flows",
            flow(json!([{"step": "b", "on": "nope"}])),
            "invalid_input",
            "steps[0].after[0].on is \"nope\"",
            "completed, failed",
        ),
        (
            "/v1/flows",
            flow(json!([["b"]])),
            "invalid_input",
            "steps[0].after[0] is an array",
            "names of steps",
        ),
        (
            "/v1/flows",
            flow(json!([7])),
            "invalid_input",
            "steps[0].after[0] is 7",
            "names of steps",
        ),
        (
            "/v1/flows",
            flow(json!([{"on": "failed"}])),
            "invalid_input",
            "both a step and a job, or neither",
            "name one",
        ),
        (
            "/v1/flows",
            flow(json!([{"job": "zz"}])),
            "invalid_input",
            "\"zz\" is not a UUID",
            "write it like",
        ),
        (
            "/v1/flows",
            job(json!({"queue": "q", "after": [{"job": "zz"}]})),
            "invalid_input",
            "\"zz\" is not a UUID",
            "write it like",
        ),
        (
            "/v1/flows",
            job(json!({"queue": "q", "id": "zz"})),
            "invalid_input",
            "job.id is set",
            "leave it out",
        ),
    ];
    assert_refused(&under, &rows).await;
}

#[tokio::test]
async fn refusals_of_flows_name_the_thing_and_the_remedy() {
    let under = serve().await;
    post(&under, "/v1/flows", order()).await;
    let part = json!({"name": "part", "seal": false, "steps": [
        {"name": "a", "job": {"queue": "orders"}},
    ]});
    post(&under, "/v1/flows", part).await;
    let grown = json!({"steps": [{"name": "c", "job": {"queue": "q"}, "after": ["zz"]}]});
    let signal = |step: &str| json!({"name": "go", "flow": "order-7", "step": step});
    let rows = [
        (
            "/v1/flows/part/retry",
            json!({}),
            "conflict",
            "never sealed",
            "seal it",
        ),
        (
            "/v1/flows/order-7/retry",
            json!({"filter": {"state": "ready"}}),
            "invalid_input",
            "runs steps that failed",
            "dead or cancelled",
        ),
        (
            "/v1/flows/order-7/retry",
            json!({"from": "zz"}),
            "not_found",
            "no such step (flow: order-7, step: zz)",
            "list its steps",
        ),
        (
            "/v1/flows/order-7/retry",
            json!({"filter": [null, "dead"]}),
            "invalid_input",
            "filter is an array",
            "use an object",
        ),
        (
            "/v1/flows/step-by-step/retry",
            json!({}),
            "not_found",
            "there is no flow step-by-step",
            "GET /v1/flows",
        ),
        (
            "/v1/flows/step-by-step/steps",
            grown.clone(),
            "not_found",
            "there is no flow step-by-step",
            "GET /v1/flows",
        ),
        (
            "/v1/flows/order-7/steps",
            grown,
            "not_found",
            "after: zz",
            "correct its name",
        ),
        (
            "/v1/clears",
            json!({"name": "go", "id": "zz"}),
            "invalid_input",
            "job id is not a UUID",
            "write it like",
        ),
        (
            "/v1/clears",
            signal("a b"),
            "invalid_name",
            "step name",
            "use 1 to 128",
        ),
        (
            "/v1/signals",
            signal("a b"),
            "invalid_name",
            "step name",
            "use 1 to 128",
        ),
        (
            "/v1/signals",
            signal("zz"),
            "not_found",
            "flow order-7 has no step zz",
            "/v1/flows/order-7/steps",
        ),
    ];
    assert_refused(&under, &rows).await;
}

#[tokio::test]
async fn a_flow_into_a_full_queue_is_refused_for_the_queue() {
    let under = serve().await;
    let settings = json!({"queue": "small", "max_pending": 1, "on_full": "refuse", "version": 0});
    let reply = under
        .send("PUT", "/v1/queues/settings", settings.to_string())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let step = |name: &str| json!({"name": name, "job": {"queue": "small"}});
    let plan = json!({"name": "x", "steps": [step("a"), step("b")]});
    let row = ("/v1/flows", plan, "full", "step: b", "max_pending");
    assert_refused(&under, &[row]).await;
}

#[tokio::test]
async fn a_job_waits_for_another_one() {
    let under = serve().await;
    let first = JobId::new().to_string();
    let enqueue = async |job: Value| under.send("POST", "/v1/jobs", job.to_string()).await;
    let waits = json!({"queue": "orders", "after": [{"job": first, "on": "settled"}]});
    let reply = enqueue(waits.clone()).await;
    assert_eq!(
        (reply.status, &*reply.code()),
        (409, "parent_unknown"),
        "{reply:?}"
    );
    enqueue(json!({"queue": "orders", "id": first})).await;
    let id = enqueue(waits).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    run(&under, "orders", "dead").await;
    assert_eq!(run(&under, "orders", "completed").await["id"], json!(id));
}

#[tokio::test]
async fn a_retry_reports_what_cannot_run_again() {
    let under = serve().await;
    post(&under, "/v1/flows", order()).await;
    run(&under, "orders", "dead").await;
    let steps = under.get(&format!("{ORDER}/steps")).await.json();
    let ship = steps["steps"][1]["id"].as_str().expect("an id").to_owned();
    let edit = json!({"action": "delete", "ids": [ship]}).to_string();
    let deleted = under.send("POST", "/v1/edits", edit).await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let other = json!({"filter": {"kind": "another"}});
    let retried = post(&under, &format!("{ORDER}/retry"), other).await;
    assert_eq!(
        (&retried["retried"], &retried["gone"]),
        (&json!(0), &json!(0))
    );
    let retried = post(&under, &format!("{ORDER}/retry"), json!({})).await;
    assert_eq!(
        (
            &retried["retried"],
            &retried["gone"],
            &retried["gone_steps"]
        ),
        (&json!(1), &json!(1), &json!(["ship"])),
        "{retried}"
    );
    let both = json!({"from": "pack", "filter": {"state": "dead"}}).to_string();
    let refused = under.send("POST", &format!("{ORDER}/retry"), both).await;
    assert_eq!(refused.status, 422, "{refused:?}");
}

#[tokio::test]
async fn jobs_outside_of_a_flow_are_in_its_graph() {
    let under = serve().await;
    let job = json!({"queue": "others", "delay": "1h"}).to_string();
    let job = under.send("POST", "/v1/jobs", job).await.json()["id"].clone();
    let after = json!([{"job": job, "on": "settled"}]);
    let step = json!({"name": "a", "job": {"queue": "orders"}, "after": after});
    post(&under, "/v1/flows", json!({"name": "x", "steps": [step]})).await;
    let graph = under.get("/v1/flows/x/graph").await.json();
    let edge = &graph["edges"][0];
    assert_eq!(
        (
            &edge["from_id"],
            &edge["from_state"],
            &edge["on"],
            &edge["to"]
        ),
        (&job, &json!("scheduled"), &json!("settled"), &json!("a")),
        "{graph}"
    );
    let id = edge["to_id"].as_str().expect("an id");
    let explained = under
        .get(&format!("/v1/jobs/{id}?explain=true"))
        .await
        .json();
    let reason = &explained["explain"][0];
    assert_eq!(
        (&reason["jobs"], &reason["states"]),
        (&json!([job]), &json!(["scheduled"])),
        "{explained}"
    );
}
