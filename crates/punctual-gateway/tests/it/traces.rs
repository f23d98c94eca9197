//! The trace of a request (W3C) in jobs that have none of their own.

use serde_json::{Value, json};

use crate::support::{ADMIN, Reply, Under, serve};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-00000000000000000000000000000001-0000000000000002-00";
const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

async fn put(under: &Under, path: &str, traced: &[(&str, &str)], body: &str) -> Reply {
    let authorization = format!("Bearer {ADMIN}");
    let content_type = match path {
        "/v1/bulk" => "application/x-ndjson",
        _ => "application/json",
    };
    let known = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", content_type),
    ];
    let headers = [&known, traced].concat();
    let reply = under
        .send_with(&headers, "POST", path, body.to_owned())
        .await;
    assert!([200, 201].contains(&reply.status), "{reply:?}");
    reply
}

/// The headers of every job of a queue, by payload.
async fn headers(under: &Under, queue: &str) -> Vec<(Value, Value)> {
    let listing = under.get(&format!("/v1/jobs?queue={queue}")).await.json();
    let jobs = listing["jobs"].as_array().expect("a list").iter();
    let mut all: Vec<_> = jobs
        .map(|job| {
            let mut headers = job["headers"].clone();
            // Whose follow-up it is has a test of its own.
            if let Some(headers) = headers.as_object_mut() {
                headers.remove("punctual-parent");
            }
            (job["payload"].clone(), headers)
        })
        .collect();
    all.sort_by_key(|(payload, _)| payload.to_string());
    all
}

/// What a job of a queue of its own has, put in by a request with these headers.
async fn given(under: &Under, traced: &[(&str, &str)], own: Value) -> Value {
    let queue = uuid::Uuid::new_v4().to_string();
    let body = json!({"queue": queue, "headers": own}).to_string();
    put(under, "/v1/jobs", traced, &body).await;
    headers(under, &queue).await.remove(0).1
}

#[tokio::test]
async fn a_job_goes_on_with_the_trace_of_its_request_however_it_is_put_in() {
    let under = serve().await;
    let traced = [("TraceParent", TRACE), ("tracestate", "vendor=7")];
    let both = json!({"traceparent": TRACE, "tracestate": "vendor=7"});
    put(
        &under,
        "/v1/jobs",
        &traced,
        r#"{"queue":"one","payload":1}"#,
    )
    .await;
    assert_eq!(headers(&under, "one").await, [(json!(1), both.clone())]);

    let own = json!({"traceparent": OTHER});
    let jobs = [
        json!({"queue": "many", "payload": 1}),
        json!({"queue": "many", "payload": 2, "headers": own}),
    ];
    let expected = [(json!(1), both), (json!(2), own)];
    put(&under, "/v1/jobs", &traced, &json!(jobs).to_string()).await;
    assert_eq!(headers(&under, "many").await, expected);

    let lines = jobs.map(|job| format!("{job}\n")).concat();
    let lines = lines.replace("many", "stream");
    put(&under, "/v1/bulk", &traced, &lines).await;
    assert_eq!(headers(&under, "stream").await, expected);
}

#[tokio::test]
async fn a_trace_that_is_not_well_formed_is_left_out_and_the_job_is_not() {
    let under = serve().await;
    let none = json!({"a": "1"});
    let later = format!("cc{}-what\tcomes", &TRACE[2..]);
    for bad in [
        "",
        "00-1-2-03",
        &TRACE.to_uppercase(),
        &format!("ff{}", &TRACE[2..]),
        &format!("{TRACE}-01"),
        &later,
    ] {
        let traced = [("traceparent", bad), ("tracestate", "vendor=7")];
        assert_eq!(given(&under, &traced, none.clone()).await, none, "{bad}");
    }
    let two = [("traceparent", TRACE), ("traceparent", OTHER)];
    assert_eq!(given(&under, &two, none.clone()).await, none);
    let state = [("tracestate", "vendor=7")];
    assert_eq!(given(&under, &state, none.clone()).await, none);
    // A state that no job can have takes no trace away.
    let state = [("traceparent", TRACE), ("tracestate", "a=1,\tb=2")];
    let parent = json!({"traceparent": TRACE});
    assert_eq!(given(&under, &state, json!({})).await, parent);
}

#[tokio::test]
async fn a_trace_without_room_is_left_out_and_the_job_is_not() {
    let under = serve().await;
    let full = json!({"a": "x".repeat((8 << 10) - 1)});
    let traced = [("traceparent", TRACE)];
    assert_eq!(given(&under, &traced, full.clone()).await, full);
}

#[tokio::test]
async fn the_same_job_sent_again_in_another_span_is_the_same_job() {
    let under = serve().await;
    let body = json!({"queue": "mail", "id": ID}).to_string();
    for (trace, verdict) in [(TRACE, "created"), (OTHER, "duplicate")] {
        let sent = put(&under, "/v1/jobs", &[("traceparent", trace)], &body).await;
        assert_eq!(sent.json()["verdict"], verdict);
    }
    let kept = headers(&under, "mail").await.remove(0).1;
    assert_eq!(kept, json!({"traceparent": TRACE}));
}

#[tokio::test]
async fn what_a_settlement_brings_about_goes_on_with_the_trace_of_its_job() {
    let under = serve().await;
    let body = json!({"queue": "a", "callback": "https://example.com/done"}).to_string();
    let traced = [("traceparent", TRACE), ("tracestate", "vendor=7")];
    put(&under, "/v1/jobs", &traced, &body).await;
    let lease = under
        .send("POST", "/v1/claims", r#"{"queues":["a"]}"#)
        .await
        .json();
    let (lease, job) = (&lease["leases"][0], &lease["leases"][0]["jobs"][0]);
    assert_eq!(job["headers"]["traceparent"], TRACE);
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": job["id"], "attempt": 1, "outcome": "completed", "effects": [
            {"enqueue": {"queue": "b", "payload": 1}},
            {"enqueue": {"queue": "b", "payload": 2, "headers": {"traceparent": OTHER}}}]}]}]});
    // The worker's own request is about its lease, not about one job of it.
    let worker = [("traceparent", OTHER)];
    put(&under, "/v1/settlements", &worker, &settle.to_string()).await;
    let both = json!({"traceparent": TRACE, "tracestate": "vendor=7"});
    let own = json!({"traceparent": OTHER});
    assert_eq!(
        headers(&under, "b").await,
        [(json!(1), both), (json!(2), own)]
    );
    let reported = headers(&under, "http:callbacks").await.remove(0).1;
    assert_eq!(
        (&reported["traceparent"], &reported["tracestate"]),
        (&json!(TRACE), &json!("vendor=7"))
    );
}
