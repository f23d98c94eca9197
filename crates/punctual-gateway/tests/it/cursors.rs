//! Cursors over HTTP: random, changed and foreign ones answer a namespace as a gateway does on
//! which no other namespace has anything.

use serde_json::{Value, json};

use crate::support::{OTHER, Reply, Under, serve};

/// What a namespace asks for, with a cursor in its place.
const LISTS: [&str; 7] = [
    "/v1/jobs?limit=2",
    "/v1/jobs?queue=mail&limit=2",
    "/v1/jobs?queue=mail&state=ready&limit=2",
    "/v1/jobs?queue=mail&state=scheduled&limit=2",
    "/v1/jobs?queue=mail&state=held&limit=2",
    "/v1/jobs?queue=mail&group=g&limit=2",
    "/v1/queues/mail/blocks?limit=2",
];

/// Stores the same jobs wherever it is called; `from` begins their ids.
async fn fill(under: &Under, token: Option<&str>, from: u64) {
    let more = [
        json!({}),
        json!({"delay": "1h"}),
        json!({"wait_for": ["paid"]}),
        json!({"group": "g"}),
    ];
    let jobs = (0..16).map(|nth| {
        let id = format!("01994f2e-8a51-7c3e-8000-{:012x}", from + nth);
        let mut job = json!({"id": id, "queue": "mail", "payload": "a payload"});
        let more = more[nth as usize % 4].as_object().expect("fields");
        job.as_object_mut().expect("fields").extend(more.clone());
        job
    });
    let body = Value::Array(jobs.collect()).to_string();
    let reply = match token {
        Some(token) => under.send_as(token, "POST", "/v1/jobs", body).await,
        None => under.send("POST", "/v1/jobs", body).await,
    };
    assert!(reply.status < 300, "{reply:?}");
    for nth in 0..5 {
        let block = json!({"share": format!("{from} {nth}"), "span": "1h"}).to_string();
        let path = "/v1/queues/mail/block";
        let reply = match token {
            Some(token) => under.send_as(token, "POST", path, block).await,
            None => under.send("POST", path, block).await,
        };
        assert!(reply.status < 300, "{reply:?}");
    }
}

/// The status and the body, without instants and the id of the request.
fn reported(reply: &Reply) -> String {
    let id = reply.headers["x-request-id"].to_str().expect("text");
    let body = reply.body.replace(id, "ID");
    let texts = body.split('"').map(|text| {
        let is_instant = text.ends_with('Z') && text.starts_with("20") && text.len() > 18;
        if is_instant { "INSTANT" } else { text }
    });
    format!("{}\n{}", reply.status, texts.collect::<Vec<_>>().join("\""))
}

async fn get(under: &Under, path: &str) -> Reply {
    under.send_as(OTHER, "GET", path, "").await
}

/// Forged cursors: some that were found by hand, others changed at random.
fn forged(known: &[String]) -> Vec<String> {
    let fixed = ["AAAAAAAAAAAAAAAAAA", "AQAAAAAAAAAAAAAAAA", "AA", "", "____"];
    let mut forged: Vec<String> = fixed.map(String::from).to_vec();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut seed = 16_u64;
    let mut draw = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for one in known {
        forged.push(one.clone());
        for _ in 0..8 {
            let mut bytes = one.clone().into_bytes();
            let at = draw(bytes.len());
            bytes[at] = alphabet[draw(64)];
            forged.push(String::from_utf8(bytes).expect("text"));
            let head = &one[..one.len().min(16)];
            let tail: String = (0..draw(40)).map(|_| alphabet[draw(64)] as char).collect();
            forged.push(format!("{head}{tail}"));
        }
    }
    forged
}

#[tokio::test]
async fn forged_cursors_show_nothing_of_another_namespace() {
    let (filled, empty) = (serve().await, serve().await);
    fill(&filled, None, 1 << 32).await;
    for under in [&filled, &empty] {
        fill(under, Some(OTHER), 1 << 16).await;
    }
    fill(&filled, None, 1).await;
    let mut known = Vec::new();
    for list in LISTS {
        let (there, mine) = (
            filled.get(list).await.json(),
            get(&empty, list).await.json(),
        );
        for cursor in [&there["cursor"], &mine["cursor"]] {
            known.extend(cursor.as_str().map(String::from));
        }
    }
    assert!(known.len() > 8, "{known:?}");
    let forged = forged(&known);
    for list in LISTS {
        for cursor in &forged {
            let path = format!("{list}&cursor={cursor}");
            let (there, nowhere) = (get(&filled, &path).await, get(&empty, &path).await);
            assert_eq!(reported(&there), reported(&nowhere), "{path}");
            assert!([200, 422].contains(&there.status), "{path}: {there:?}");
        }
    }
    for cursor in &forged {
        let filter = json!({"queue": "mail"});
        let edit = json!({"action": "cancel", "filter": filter, "dry_run": true, "cursor": cursor});
        let purge = json!({"queue": "mail", "dry_run": false, "cursor": cursor});
        for (path, body) in [("/v1/edits", edit), ("/v1/queues/purge", purge)] {
            let body = body.to_string();
            let there = filled.send_as(OTHER, "POST", path, body.clone()).await;
            let nowhere = empty.send_as(OTHER, "POST", path, body.clone()).await;
            assert_eq!(reported(&there), reported(&nowhere), "{path} {body}");
            assert!(
                [200, 422].contains(&there.status),
                "{path} {body}: {there:?}"
            );
        }
    }
    let left = filled.get("/v1/queues?queue=mail").await.json();
    assert_eq!(
        left["queues"][0]["ready"], 16,
        "the other one's jobs are there"
    );
    assert_eq!(filled.get("/healthz").await.status, 200);
}
