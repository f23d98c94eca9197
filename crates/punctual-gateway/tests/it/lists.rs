use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Under, serve};

/// Walks a list to its end; the ids, and how many answers it took.
async fn walk(under: &Under, query: &str) -> (Vec<String>, usize) {
    let (mut ids, mut answers, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = under.get(&format!("/v1/jobs?{query}{cursor}")).await.json();
        let jobs = page["jobs"].as_array().unwrap_or_else(|| panic!("{page}"));
        ids.extend(
            jobs.iter()
                .filter_map(|job| job["id"].as_str().map(str::to_owned)),
        );
        answers += 1;
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (ids, answers),
        }
    }
}

/// 20 jobs of `mail` in several states, and 600 of `other`.
async fn many_jobs(under: &Under) {
    let mut jobs: Vec<Value> = vec![json!({"queue": "other"}); 600];
    jobs.extend((0..10).map(|n| json!({"queue": "mail", "delay": format!("{}m", n + 1)})));
    jobs.extend((0..6).map(|_| json!({"queue": "mail"})));
    jobs.extend((0..4).map(|_| json!({"queue": "mail", "wait_for": ["paid"]})));
    under
        .send("POST", "/v1/jobs", json!(jobs).to_string())
        .await;
    let claim = r#"{"queues":["mail"],"limit":2}"#;
    under.send("POST", "/v1/claims", claim).await;
}

#[tokio::test]
async fn a_queue_without_a_state_is_listed_state_by_state_and_nothing_else_is_looked_at() {
    let under = serve().await;
    many_jobs(&under).await;
    let page = under.get("/v1/jobs?queue=mail&limit=200").await.json();
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(20), "{page}");
    assert_eq!(page["examined"], 20, "{page}");
    for limit in [1, 3, 7] {
        let (ids, answers) = walk(&under, &format!("queue=mail&limit={limit}")).await;
        let told: BTreeSet<_> = ids.iter().collect();
        assert_eq!((ids.len(), told.len()), (20, 20), "limit {limit}");
        assert!(answers >= 20 / limit, "limit {limit}: {answers} answers");
    }
    for strange in ["", "AA", "_w", "Bw"] {
        let reply = under
            .get(&format!("/v1/jobs?queue=mail&cursor={strange}"))
            .await;
        assert!([200, 422].contains(&reply.status), "{strange}: {reply:?}");
    }
}

#[tokio::test]
async fn a_thousand_jobs_come_at_once_without_their_payloads() {
    let under = serve().await;
    many_jobs(&under).await;
    let bare = under
        .get("/v1/jobs?queue=other&state=ready&payloads=false&limit=1000")
        .await;
    assert_eq!(bare.json()["jobs"].as_array().map(Vec::len), Some(600));
    assert!(bare.json()["jobs"][0].get("payload").is_none(), "{bare:?}");
    for (query, status) in [
        ("payloads=false&limit=1001", 422),
        ("limit=201", 422),
        ("limit=0", 422),
        ("limit=200", 200),
    ] {
        let reply = under.get(&format!("/v1/jobs?queue=other&{query}")).await;
        assert_eq!(reply.status, status, "{query}");
    }
}

#[tokio::test]
async fn a_scan_looks_at_a_bounded_number_and_says_so() {
    let under = serve().await;
    for _ in 0..3 {
        let jobs = vec![json!({"queue": "other", "payload": "x"}); 1_000];
        under
            .send("POST", "/v1/jobs", json!(jobs).to_string())
            .await;
    }
    let page = under.get("/v1/jobs?text=needle").await.json();
    let examined = page["examined"].as_u64().expect("a number");
    assert!((1..=1_000).contains(&examined), "{examined}");
    assert!(page["cursor"].is_string(), "{page}");
    assert!(walk(&under, "text=needle").await.1 >= 3);
}
