//! Tests of the gateway over HTTP: stats.

use punctual::time::seconds;
use serde_json::{Value, json};

use crate::support::{Under, serve};

/// Enqueues jobs, and completes so many of them with these latenesses.
async fn work(under: &Under, queue: &str, jobs: usize, lateness_us: &[u64]) {
    let body = json!(vec![json!({"queue": queue}); jobs]).to_string();
    under.send("POST", "/v1/jobs", body).await;
    let claim = json!({"queues": [queue], "limit": jobs}).to_string();
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].take();
    let jobs = lease["jobs"].as_array().expect("jobs");
    let settlements: Vec<_> = jobs
        .iter()
        .map(|job| json!({"id": job["id"], "attempt": 1, "outcome": "completed"}))
        .collect();
    let settle = json!({"leases": [{"token": lease["token"], "settlements": settlements,
        "lateness_us": lateness_us}]});
    let reply = under
        .send("POST", "/v1/settlements", settle.to_string())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn minutes(answer: &Value) -> Vec<u64> {
    let history = answer["total"]["history"].as_array().expect("minutes");
    history
        .iter()
        .filter_map(|minute| minute["completed"].as_u64())
        .collect()
}

#[tokio::test]
async fn the_past_of_many_queues_comes_as_one() {
    let under = serve().await;
    work(&under, "old", 4, &[]).await;
    under.clock.advance(seconds(1_800));
    work(&under, "mail", 3, &[100, 100, 100]).await;
    work(&under, "reports", 1, &[5_000]).await;
    under.clock.advance(seconds(60));
    work(&under, "mail", 2, &[]).await;
    let later = r#"[{"queue":"mail","delay":"30s"},{"queue":"reports","delay":"31s"}]"#;
    under.send("POST", "/v1/jobs", later).await;

    let answer = under.get("/v1/stats?total=true&minutes=60").await.json();
    assert_eq!(minutes(&answer), [4, 4, 2]);
    let shared = &answer["total"]["history"][1];
    assert_eq!(
        (&shared["enqueued"], &shared["claimed"]),
        (&json!(4), &json!(4))
    );
    let lateness = &shared["lateness_us"];
    let near = |value: &Value, wanted: u64| {
        value
            .as_u64()
            .is_some_and(|it| it.abs_diff(wanted) < wanted / 20)
    };
    // Three of 100 us and one of 5 ms: the median weighted, the worst 99th percentile.
    assert!(
        near(&lateness["p50"], 1_325) && near(&lateness["p99"], 5_000),
        "{lateness}"
    );
    let due = answer["total"]["due"].as_array().expect("buckets");
    assert_eq!((due.len(), &due[0]["jobs"]), (1, &json!(2)), "{due:?}");

    let queue = |name: &str| {
        let mut queues = answer["queues"].as_array().expect("queues").iter();
        queues
            .find(|queue| queue["queue"] == name)
            .expect("the queue")
            .clone()
    };
    let mail = queue("mail");
    assert_eq!(
        (&mail["recent"]["completed"], &mail["scheduled"]),
        (&json!(5), &json!(1))
    );
    assert!(near(&mail["recent"]["lateness_us"]["p99"], 100), "{mail}");
    assert!(
        queue("old").get("recent").is_none(),
        "nothing happened there of late"
    );
    for part in ["history", "due"] {
        assert!(mail.get(part).is_none(), "{mail}");
    }

    let short = under.get("/v1/stats?total=true&minutes=10").await.json();
    assert_eq!(minutes(&short), [4, 2]);
    let one = under
        .get("/v1/stats?total=true&minutes=60&queue=mail")
        .await
        .json();
    assert_eq!(minutes(&one), [3, 2]);
    let apart = under
        .get("/v1/stats?history=true&minutes=10&queue=old&queue=mail")
        .await
        .json();
    assert_eq!(
        apart["queues"][0]["history"].as_array().map(Vec::len),
        Some(2),
        "{apart}"
    );
    assert!(apart["queues"][1].get("history").is_none(), "{apart}");
}

#[tokio::test]
async fn a_span_of_history_that_no_engine_keeps_is_refused() {
    let under = serve().await;
    for minutes in ["0", "1441", "-1", "x", ""] {
        let reply = under
            .get(&format!("/v1/stats?total=true&minutes={minutes}"))
            .await;
        assert_eq!(
            (reply.status, &*reply.code()),
            (422, "invalid_input"),
            "{minutes}"
        );
    }
}

#[tokio::test]
async fn the_overview_of_a_thousand_busy_queues_is_small() {
    let under = serve().await;
    let queues: Vec<_> = (0..1_000).map(|n| format!("queue-{n}")).collect();
    for _ in 0..3 {
        let jobs: Vec<_> = queues.iter().map(|queue| json!({"queue": queue})).collect();
        under
            .send("POST", "/v1/jobs", json!(jobs).to_string())
            .await;
        under.clock.advance(seconds(60));
    }
    let answer = under.get("/v1/stats?total=true&minutes=60").await;
    assert_eq!(answer.json()["total"]["history"][0]["enqueued"], 1_000);
    // Twenty minutes of each queue by itself would be megabytes.
    assert!(answer.body.len() < 400_000, "{} bytes", answer.body.len());
}
