//! Tests of the gateway over HTTP: work.

use punctual::engine::StatsRequest;
use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::{Namespace, NewJob};
use serde_json::json;

use crate::support::{WORKER, serve};

#[tokio::test]
async fn a_waiting_claim_ends_the_moment_a_job_is_due() {
    let under = serve().await;
    under
        .send("POST", "/v1/jobs", r#"{"queue":"a","delay":"3s"}"#)
        .await;
    let claim = under.send_as(
        WORKER,
        "POST",
        "/v1/claims",
        r#"{"queues":["a"],"wait":"60s"}"#,
    );
    let clock = async {
        // The claim sleeps on the engine's clock, not beyond the due of the job.
        let due = crate::support::START + seconds(3);
        while under.clock.next_sleeper().is_none_or(|at| at > due) {
            tokio::task::yield_now().await;
        }
        under.clock.advance(seconds(3));
    };
    let (lease, ()) = tokio::join!(claim, clock);
    assert_eq!(
        lease.json()["leases"][0]["jobs"][0]["attempt"],
        1,
        "{lease:?}"
    );
}

#[tokio::test]
async fn a_waiting_claim_takes_a_job_that_is_put_in_meanwhile() {
    let under = serve().await;
    let claim = under.send("POST", "/v1/claims", r#"{"queues":["a"],"wait":"60s"}"#);
    let put = async {
        while under.clock.next_sleeper().is_none() {
            tokio::task::yield_now().await;
        }
        let shop = Namespace::new("shop").expect("a name");
        under
            .engine
            .enqueue(&shop, vec![NewJob::new("a", "1")])
            .await
            .expect("a receipt");
    };
    let (lease, ()) = tokio::join!(claim, put);
    assert_eq!(lease.json()["leases"][0]["jobs"][0]["payload"], 1);
}

#[tokio::test]
async fn a_claim_says_how_long_its_answer_took_without_its_wait() {
    let under = serve().await;
    let total = Stopwatch::start();
    let claim = under.send("POST", "/v1/claims", r#"{"queues":["a"],"wait":"60s"}"#);
    let put = async {
        while under.clock.next_sleeper().is_none() {
            tokio::task::yield_now().await;
        }
        let waits = Stopwatch::start();
        while waits.elapsed() < millis(100) {
            tokio::task::yield_now().await;
        }
        let waited = waits.elapsed();
        let shop = Namespace::new("shop").expect("a name");
        let put = under.engine.enqueue(&shop, vec![NewJob::new("a", "1")]);
        put.await.expect("a receipt");
        waited
    };
    let (lease, waited) = tokio::join!(claim, put);
    let took = lease.json()["took_us"].as_u64().expect("microseconds");
    let took = std::time::Duration::from_micros(took);
    assert!(took + waited <= total.elapsed(), "{took:?}, {waited:?}");
}

#[tokio::test]
async fn claims_without_an_id_are_not_many_workers() {
    let under = serve().await;
    for (queue, host) in [
        ("a", "box"),
        ("a", "box"),
        ("a", "box"),
        ("b", "box"),
        ("a", "hut"),
    ] {
        let claim = format!(r#"{{"queues":["{queue}"],"worker":{{"host":"{host}"}}}}"#);
        under.send("POST", "/v1/claims", claim).await;
    }
    let shop = Namespace::new("shop").expect("a name");
    let stats = under.engine.stats(&shop, StatsRequest::default()).await;
    assert_eq!(stats.expect("stats").workers.len(), 3);
}

#[tokio::test]
async fn a_lease_is_extended_settled_in_parts_and_refused_once_lost() {
    let under = serve().await;
    let jobs = json!([{"queue": "a"}, {"queue": "a"}]).to_string();
    under.send("POST", "/v1/jobs", jobs).await;
    let claim = r#"{"queues":["a"],"limit":2,"lease_duration":"10s","nonce":"00000000000000aa",
        "worker":{"id":"0f1e2d3c-0000-4000-8000-000000000001","host":"box"}}"#;
    let lease = under.send("POST", "/v1/claims", claim).await.json();
    let again = under.send("POST", "/v1/claims", claim).await.json();
    assert_eq!(lease["leases"][0]["token"], again["leases"][0]["token"]);
    let token = &lease["leases"][0]["token"];
    let ids: Vec<_> = (0..2)
        .map(|n| lease["leases"][0]["jobs"][n]["id"].clone())
        .collect();
    let extend = json!({"leases": [{"token": token, "lease_duration": "30s", "jobs": ids,
        "progress": {ids[0].as_str().expect("an id"): {"percent": 40}}}]});
    let extended = under
        .send("POST", "/v1/extensions", extend.to_string())
        .await
        .json();
    assert_eq!(extended["leases"][0]["lost"], json!([]), "{extended}");
    let path = format!("/v1/jobs/{}", ids[0].as_str().expect("an id"));
    assert_eq!(
        under.get(&path).await.json()["progress"],
        json!({"percent": 40})
    );
    let settle = async |token: &serde_json::Value, id: &serde_json::Value, attempt: u32| {
        let settle = json!({"leases": [{"token": token, "lateness_us": [812], "settlements": [
            {"id": id, "attempt": attempt, "outcome": "completed",
             "effects": [{"enqueue": {"queue": "next", "payload": {"x": 1}}}]}]}]});
        let settled = under.send("POST", "/v1/settlements", settle.to_string());
        settled.await.json()["leases"][0]["settlements"][0].take()
    };
    let first = settle(token, &ids[0], 1).await;
    assert_eq!(
        (&first["verdict"], &first["effects"][0]["verdict"]),
        (&json!("settled"), &json!("created"))
    );
    let another = async {
        loop {
            let claim = under.send("POST", "/v1/claims", r#"{"queues":["a"]}"#);
            let mut claimed = claim.await.json();
            if let Some(lease) = claimed["leases"].get_mut(0) {
                return lease.take();
            }
            under.clock.advance(seconds(10));
        }
    };
    let another = within(seconds(20), another).await.expect("the lease ends");
    assert_eq!(another["jobs"][0]["id"], ids[1], "{another}");
    let fence = another["token"]
        .as_str()
        .and_then(|token| token.split_once('-'));
    let guessed = format!("{}-00000000000000bb", fence.expect("a token").0);
    for (token, attempt) in [(token, 1), (token, 2), (&json!(guessed), 2)] {
        let late = settle(token, &ids[1], attempt).await;
        assert_eq!(late["verdict"], "lease_lost", "{token}: {late}");
    }
    let other = settle(&another["token"], &ids[1], 2).await;
    assert_eq!(other["verdict"], "settled", "nothing was changed: {other}");
    let metrics = under.get("/metrics").await.body;
    assert!(
        metrics.contains("punctual_lateness_seconds_bucket{le=\"0.001\"} "),
        "{metrics}"
    );
    let stats = under.get("/v1/stats?history=true&due=true").await.json();
    assert!(
        stats["workers"].is_array() && stats["queues"][0]["history"].is_array(),
        "{stats}"
    );
}

#[tokio::test]
async fn an_old_token_changes_nothing() {
    let under = serve().await;
    let settle = json!({"leases": [{"token": "7-00000000000000aa", "settlements": [
        {"id": "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a", "attempt": 1, "outcome": "completed"}]}]});
    let reply = under
        .send("POST", "/v1/settlements", settle.to_string())
        .await;
    assert_eq!(
        reply.json()["leases"][0]["settlements"][0]["verdict"],
        "lease_lost"
    );
    let extend = json!({"leases": [{"token": "7-00000000000000aa"}]}).to_string();
    let reply = under.send("POST", "/v1/extensions", extend).await.json();
    assert_eq!(reply["leases"][0]["lease_lost"], true);
}

#[tokio::test]
async fn a_drain_answers_waiters_and_ends() {
    let under = serve().await;
    let (address, clock) = (under.address, under.clock.clone());
    let claim = tokio::spawn(async move {
        let stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("a connection");
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = stream;
        let body = r#"{"queues":["a"],"wait":"60s"}"#;
        let head = format!(
            "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WORKER}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("an answer and an end");
        answer
    });
    while clock.next_sleeper().is_none() {
        tokio::task::yield_now().await;
    }
    let drained = within(seconds(20), under.serving.drain(seconds(10))).await;
    assert_eq!(drained, Some(true));
    let answer = claim.await.expect("no panic");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"leases\":[]"),
        "{answer}"
    );
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
