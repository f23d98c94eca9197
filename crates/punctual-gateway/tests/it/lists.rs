//! Tests of the gateway over HTTP: lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::time::{ManualClock, millis, pause, seconds};
use serde_json::{Value, json};

use crate::standin::{Standin, Verb};
use crate::support::{ADMIN, OPERATOR, OTHER, START, Under, serve, serve_engine};

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
async fn a_queue_without_a_state_is_listed_state_by_state_only() {
    let under = serve().await;
    many_jobs(&under).await;
    let page = under.get("/v1/jobs?queue=mail&limit=200").await.json();
    assert_eq!(page["jobs"].as_array().map(Vec::len), Some(20), "{page}");
    assert_eq!(page["examined"], 20, "{page}");
    for limit in [1, 3, 7] {
        let (ids, answers) = walk(&under, &format!("queue=mail&limit={limit}")).await;
        let reported: BTreeSet<_> = ids.iter().collect();
        assert_eq!((ids.len(), reported.len()), (20, 20), "limit {limit}");
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
async fn a_scan_examines_a_bounded_number_and_says_so() {
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

/// An engine whose first answer takes longer than a search should.
#[tokio::test]
async fn a_slow_search_goes_on_until_it_has_examined_some_job() {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()).holds(Verb::List));
    let under = serve_engine(engine.clone(), clock).await;
    let slow = async {
        engine.is_asked().await;
        pause(millis(100)).await;
        engine.answer_all();
    };
    let (page, ()) = tokio::join!(under.get("/v1/jobs?queue=mail&error=s"), slow);
    let page = page.json();
    assert_eq!(page["examined"], 0, "{page}");
    assert!(page["cursor"].is_null(), "{page}");
}

#[tokio::test]
async fn follow_ups_name_the_job_whose_settle_put_them_in_and_are_found_by_it() {
    let under = serve().await;
    under
        .send("POST", "/v1/jobs", r#"[{"queue":"a"},{"queue":"a"}]"#)
        .await;
    let claim = r#"{"queues":["a"],"limit":2}"#;
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].take();
    let [parent, other] = [0, 1].map(|n| lease["jobs"][n]["id"].as_str().expect("an id"));
    let chosen = "01994f2e-8a51-7c3e-8000-00000000000a";
    let full = json!({"x": "y".repeat((8 << 10) - 1)});
    let ends = |id: &str, effects: Value| json!({"id": id, "attempt": 1, "outcome": "completed", "effects": effects});
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [
        ends(parent, json!([
            {"enqueue": {"queue": "next"}},
            {"enqueue": {"queue": "later", "delay": "1h"}},
            {"enqueue": {"queue": "named", "id": chosen}},
            {"enqueue": {"queue": "of-another", "headers": {"Punctual-Parent": other}}},
            {"enqueue": {"queue": "full", "headers": full}}])),
        // The client that chose the id means one job, whichever call causes it first.
        ends(other, json!([{"enqueue": {"queue": "next"}}, {"enqueue": {"queue": "named", "id": chosen}}]))]}]});
    let settled = under
        .send("POST", "/v1/settlements", settle.to_string())
        .await;
    let settled = settled.json()["leases"][0]["settlements"].take();
    let ids = |of: usize| -> Vec<String> {
        let effects = settled[of]["effects"].as_array().expect("effects").iter();
        effects
            .map(|one| one["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(
        settled[1]["effects"][1]["verdict"], "duplicate",
        "{settled}"
    );

    // They lie among more than one answer examines.
    let many = json!(vec![json!({"queue": "other"}); 1_000]).to_string();
    for _ in 0..2 {
        under.send("POST", "/v1/jobs", many.clone()).await;
    }
    let found = async |parent: &str| -> BTreeSet<String> {
        let (ids, answers) = walk(&under, &format!("parent={parent}")).await;
        assert!(answers >= 2, "{answers}");
        ids.into_iter().collect()
    };
    let [first, second] = [ids(0), ids(1)];
    assert_eq!(found(parent).await, first[..3].iter().cloned().collect());
    let of_other = [second[0].clone(), first[3].clone()];
    assert_eq!(found(other).await, of_other.into_iter().collect());
    let reported = under.get(&format!("/v1/jobs/{}", first[0])).await.json();
    assert_eq!(reported["headers"], json!({"punctual-parent": parent}));
    for (child, headers) in [
        (&first[2], json!({"punctual-parent": parent})),
        (&first[4], full),
    ] {
        let reported = under.get(&format!("/v1/jobs/{child}")).await.json();
        assert_eq!(reported["headers"], headers, "{reported}");
    }
    let narrowed = walk(
        &under,
        &format!("parent={parent}&queue=later&state=scheduled"),
    )
    .await;
    assert_eq!(narrowed, (vec![first[1].clone()], 1));
    let refused = under.get("/v1/jobs?parent=me").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (422, "invalid_input")
    );
}

/// Asks, showing a mark, how it is answered and under which mark.
async fn marked(under: &Under, path: &str, mark: &str) -> (u16, usize, String) {
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("accept-encoding", "gzip"),
        ("if-none-match", mark),
    ];
    let reply = under.send_with(&headers, "GET", path, "").await;
    let mark = reply.headers["etag"].to_str().expect("text").to_owned();
    (reply.status, reply.length, mark)
}

#[tokio::test]
async fn what_the_client_has_is_not_sent_again_until_it_changes() {
    let under = serve().await;
    many_jobs(&under).await;
    for path in [
        "/v1/jobs?queue=mail&state=held",
        "/v1/jobs?queue=mail&limit=3",
        "/v1/queues?queue=other",
        "/v1/stats?queue=other&history=true&due=true",
        "/v1/stats?total=true",
    ] {
        let (status, length, first) = marked(&under, path, "\"another\"").await;
        assert_eq!(status, 200, "{path}");
        assert!(length > 0 && first.starts_with("W/\""), "{path}: {first}");
        let known = (304, 0, first.clone());
        for mark in [&*first, &first[2..], "*", &format!("\"x\", {first}")] {
            assert_eq!(marked(&under, path, mark).await, known, "{path} {mark}");
        }
    }
    // The time of the answer is no change; a job is, even one that says so of itself.
    let path = "/v1/jobs?queue=mail&state=held";
    let (_, _, first) = marked(&under, path, "\"\"").await;
    under.clock.advance(seconds(1));
    assert_eq!(marked(&under, path, &first).await.0, 304);
    let liar = json!({"queue": "mail", "wait_for": ["x"], "payload": "\"now\":\""});
    under.send("POST", "/v1/jobs", liar.to_string()).await;
    let (status, _, second) = marked(&under, path, &first).await;
    assert_eq!(status, 200);
    under.clock.advance(seconds(1));
    assert_eq!(marked(&under, path, &second).await.0, 304);
    // Counted as answers.
    let text = under.send_as(OPERATOR, "GET", "/metrics", "").await.body;
    assert!(
        text.contains("punctual_http_requests_total{status=\"3xx\"} 22"),
        "{text}"
    );
    // Of another namespace it shows nothing.
    let others = under.send_as(OTHER, "GET", path, "").await;
    assert_eq!(others.status, 200);
}
