//! What a settlement over HTTP asks of the engine: one call where this gateway returned the lease,
//! whatever follows from the job; one read before it where another did.

use serde_json::{Value, json};

use crate::support::{OPERATOR, OTHER, Under, serve, serve_engine};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CALLBACK: &str = "https://example.com/ended";

/// How often the gateway has called these verbs of its engine.
async fn calls<const VERBS: usize>(under: &Under, verbs: [&str; VERBS]) -> [u64; VERBS] {
    let metrics = under.send_as(OPERATOR, "GET", "/metrics", "").await.body;
    verbs.map(|verb| {
        let count = format!("punctual_engine_seconds_count{{verb=\"{verb}\"}} ");
        let row = metrics.lines().find_map(|line| line.strip_prefix(&*count));
        let row = row.unwrap_or_else(|| panic!("{metrics}"));
        row.parse().expect("a count")
    })
}

/// Enqueues a job, and claims it.
async fn claimed(under: &Under, job: &Value) -> Value {
    let sent = under.send("POST", "/v1/jobs", job.to_string()).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let claim = json!({"queues": [job["queue"]], "limit": 1}).to_string();
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].clone();
    assert!(lease["token"].is_string(), "{job}: {lease}");
    lease
}

/// A settlement of the one job of a lease, with these fields.
fn report(lease: &Value, fields: &Value) -> Value {
    let job = &lease["jobs"][0];
    let mut one = json!({"id": job["id"], "attempt": job["attempt"]});
    for (name, value) in fields.as_object().expect("fields") {
        one[name] = value.clone();
    }
    json!({"token": lease["token"], "settlements": [one]})
}

/// Settles by one call; what it said of each lease.
async fn settle(under: &Under, leases: &[Value]) -> Vec<Value> {
    let call = json!({"leases": leases}).to_string();
    let reply = under.send("POST", "/v1/settlements", call).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = reply.json();
    let leases = answer["leases"].as_array().expect("leases").iter();
    leases
        .map(|lease| lease["settlements"][0].clone())
        .collect()
}

async fn jobs(under: &Under, queue: &str) -> Vec<Value> {
    let listing = under.get(&format!("/v1/jobs?queue={queue}")).await.json();
    listing["jobs"].as_array().expect("a list").clone()
}

/// A job with all that may follow from it, and a settlement with each kind of effect.
fn with_everything() -> (Value, Value) {
    let headers = json!({"traceparent": TRACE, "punctual-publishes": "3"});
    let job = json!({"queue": "a", "callback": CALLBACK, "headers": headers});
    let effects =
        json!([{"enqueue": {"queue": "next"}}, {"publish": {"subject": "ping", "job": {}}}]);
    (job, json!({"outcome": "completed", "effects": effects}))
}

async fn subscribe(under: &Under) {
    let echo = json!({"pattern": "ping", "queue": "echo"}).to_string();
    let sent = under.send("PUT", "/v1/subscriptions/echo", echo).await;
    assert_eq!(sent.status, 200, "{sent:?}");
}

/// Holds what followed from one settlement of [`with_everything`].
async fn assert_all_followed(under: &Under) {
    let next = jobs(under, "next").await.remove(0);
    assert_eq!(next["headers"]["traceparent"], TRACE, "{next}");
    let copy = jobs(under, "echo").await.remove(0);
    assert_eq!(copy["headers"]["punctual-publishes"], "4", "{copy}");
    let callback = jobs(under, "http:callbacks").await.remove(0);
    assert_eq!(callback["payload"]["state"], "completed", "{callback}");
    assert_eq!(callback["headers"]["traceparent"], TRACE, "{callback}");
}

#[tokio::test]
async fn a_settle_makes_one_call_whatever_follows() {
    let under = serve().await;
    let plain = json!({});
    let traced = json!({"headers": {"traceparent": TRACE}});
    let callback = json!({"callback": CALLBACK});
    let next = json!([{"enqueue": {"queue": "next"}}]);
    let published = json!([{"publish": {"subject": "ping", "job": {}}}]);
    let (everything, ends_everything) = with_everything();
    let cases = [
        (&plain, json!({"outcome": "completed"}), 0),
        (&plain, json!({"outcome": "completed", "effects": next}), 0),
        (
            &plain,
            json!({"outcome": "completed", "effects": published}),
            0,
        ),
        (&plain, json!({"outcome": "retry"}), 0),
        (&plain, json!({"outcome": "snooze", "after": "1h"}), 0),
        (&traced, json!({"outcome": "completed", "effects": next}), 0),
        (
            &traced,
            json!({"outcome": "completed", "effects": published}),
            0,
        ),
        (&callback, json!({"outcome": "completed"}), 0),
        (&callback, json!({"outcome": "dead", "error": "gone"}), 0),
        (&callback, json!({"outcome": "cancelled"}), 0),
        (&everything, ends_everything, 0),
        // A cancel that was requested since the claim makes an end of these.
        (&callback, json!({"outcome": "released"}), 1),
        (&callback, json!({"outcome": "retry"}), 1),
    ];
    for (nth, (job, fields, reads)) in cases.into_iter().enumerate() {
        let mut job = job.clone();
        job["queue"] = json!(format!("q{nth}"));
        let lease = claimed(&under, &job).await;
        let before = calls(&under, ["settle", "get"]).await;
        let settled = settle(&under, &[report(&lease, &fields)]).await;
        let verdict = &settled[0]["verdict"];
        assert_eq!(verdict, "settled", "{job}, {fields}: {settled:?}");
        let after = calls(&under, ["settle", "get"]).await;
        let made = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(made, [1, reads], "{job}, {fields}");
    }
}

#[tokio::test]
async fn all_that_follows_is_known_from_the_claim() {
    let under = serve().await;
    subscribe(&under).await;
    let (job, fields) = with_everything();
    let lease = claimed(&under, &job).await;
    settle(&under, &[report(&lease, &fields)]).await;
    assert_all_followed(&under).await;
}

#[tokio::test]
async fn leases_of_another_gateway_are_read_by_one_call() {
    let under = serve().await;
    subscribe(&under).await;
    let (job, fields) = with_everything();
    let first = claimed(&under, &job).await;
    let second = claimed(&under, &json!({"queue": "b"})).await;
    let other = serve_engine(under.engine.clone(), under.clock.clone()).await;
    let leases = [
        report(&first, &fields),
        report(&second, &json!({"outcome": "completed"})),
    ];
    let before = calls(&other, ["settle", "get"]).await;
    let settled = settle(&other, &leases).await;
    let after = calls(&other, ["settle", "get"]).await;
    assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1]);
    assert!(settled.iter().all(|one| one["verdict"] == "settled"));
    assert_all_followed(&under).await;
}

/// A callback reports the same of an attempt, whether the job was read or is known from its claim.
#[tokio::test]
async fn a_callback_says_the_same_whichever_gateway_settles() {
    let under = serve().await;
    let other = serve_engine(under.engine.clone(), under.clock.clone()).await;
    let job = json!({"queue": "a", "kind": "k", "callback": CALLBACK, "max_attempts": 5,
        "headers": {"traceparent": TRACE, "other": "x"}});
    for last in [&under, &other] {
        let lease = claimed(&under, &job).await;
        let retry = json!({"outcome": "retry", "after": "0s", "error": "busy"});
        settle(&under, &[report(&lease, &retry)]).await;
        let claim = under.send("POST", "/v1/claims", r#"{"queues":["a"]}"#);
        let lease = claim.await.json()["leases"][0].clone();
        let dead = json!({"outcome": "dead", "error": "gone"});
        settle(last, &[report(&lease, &dead)]).await;
    }
    let mut callbacks = jobs(&under, "http:callbacks").await;
    for callback in &mut callbacks {
        let payload = callback["payload"].as_object_mut().expect("fields");
        assert!(payload.remove("id").is_some_and(|id| id.is_string()));
    }
    let expected = json!({"queue": "a", "kind": "k", "state": "dead", "attempt": 2,
        "failures": 2, "dead": "permanent", "error": "gone"});
    assert_eq!(callbacks.len(), 2);
    for callback in callbacks {
        assert_eq!(callback["payload"], expected);
        let headers = json!({"punctual-target": CALLBACK, "traceparent": TRACE});
        assert_eq!(callback["headers"], headers);
    }
}

#[tokio::test]
async fn a_snooze_after_a_cancel_request_ends_with_a_callback() {
    let under = serve().await;
    let job = json!({"queue": "a", "callback": CALLBACK});
    let lease = claimed(&under, &job).await;
    let id = lease["jobs"][0]["id"].as_str().expect("an id");
    under.send("DELETE", &format!("/v1/jobs/{id}"), "").await;
    let snooze = json!({"outcome": "snooze", "after": "1h"});
    let settled = settle(&under, &[report(&lease, &snooze)]).await;
    assert_eq!(settled[0]["state"], "cancelled", "{settled:?}");
    let callback = jobs(&under, "http:callbacks").await.remove(0);
    assert_eq!(callback["payload"]["cancelled"], "requested", "{callback}");
}

/// What a gateway knows of one namespace's leases says nothing of another's: a token is no proof.
#[tokio::test]
async fn a_settle_with_another_namespace_s_token_changes_nothing() {
    let under = serve().await;
    let lease = claimed(&under, &json!({"queue": "a", "callback": CALLBACK})).await;
    let done = report(&lease, &json!({"outcome": "completed"}));
    let call = json!({"leases": [done]}).to_string();
    let reply = under.send_as(OTHER, "POST", "/v1/settlements", call).await;
    let settled = reply.json()["leases"][0]["settlements"][0].clone();
    assert_eq!(settled["verdict"], "lease_lost", "{reply:?}");
    assert!(jobs(&under, "http:callbacks").await.is_empty());
    let own = settle(&under, &[done]).await;
    assert_eq!(own[0]["verdict"], "settled", "{own:?}");
}
