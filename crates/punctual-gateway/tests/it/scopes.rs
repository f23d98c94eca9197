//! Every route of the description by every scope: what each allows, and nothing else does. A route
//! that is added fails here until the table says who may ask it.

use std::collections::BTreeSet;

use punctual::time::hours;
use punctual_gateway::{Gateway, open_api};
use serde_json::{Value, json};

use crate::support::{
    ADMIN, OPERATOR, OTHER, PRODUCER, READER, Reply, Under, WORKER, serving, tokens,
};

const ID: &str = "01994f2e-8a51-7c3e-8000-000000000001";
const MISSING: &str = "01994f2e-8a51-7c3e-8000-00000000000f";

/// Tokens of the namespace `shop`, each of one scope.
const SCOPES: [(&str, &str); 5] = [
    (READER, "read"),
    (PRODUCER, "enqueue"),
    (WORKER, "work"),
    (OPERATOR, "operator"),
    (ADMIN, "admin"),
];

/// Route, query, body, and the scopes that allow it; `none` needs no token.
#[rustfmt::skip]
const TABLE: [(&str, &str, &str, &str, &str); 74] = [
    ("GET", "/healthz", "", "", "none"),
    ("GET", "/readyz", "", "", "none"),
    ("GET", "/openapi.json", "", "", "none"),
    ("GET", "/", "", "", "none"),
    ("GET", "/metrics", "", "", "read admin"),
    ("GET", "/v1/info", "", "", "read enqueue work operator admin"),
    ("GET", "/v1/audit", "", "", "admin"),
    ("GET", "/v1/kinds", "?queue=p", "", "read admin"),
    ("GET", "/v1/stats", "", "", "read admin"),
    ("GET", "/v1/relays", "", "", "read admin"),
    ("GET", "/v1/queues", "", "", "read admin"),
    ("POST", "/v1/queues/pause", "", r#"{"queue":"p"}"#, "admin"),
    ("POST", "/v1/queues/resume", "", r#"{"queue":"p"}"#, "admin"),
    ("POST", "/v1/queues/purge", "", r#"{"queue":"p","dry_run":true}"#, "admin"),
    ("POST", "/v1/queues/purge", "", r#"{"queue":"p","dry_run":false}"#, "admin"),
    ("POST", "/v1/queues/delete", "", r#"{"queue":"p"}"#, "admin"),
    ("GET", "/v1/queues/settings", "?queue=mail", "", "read admin"),
    ("PUT", "/v1/queues/settings", "", r#"{"queue":"p","on_full":"refuse","version":0}"#, "admin"),
    ("PUT", "/v1/queues/{queue}/limits", "", r#"{"concurrency":5}"#, "admin"),
    ("GET", "/v1/queues/{queue}/limits", "", "", "read admin"),
    ("DELETE", "/v1/queues/{queue}/limits", "", "", "admin"),
    ("GET", "/v1/queues/{queue}/shares", "", "", "read admin"),
    ("GET", "/v1/queues/{queue}/blocks", "", "", "read admin"),
    ("POST", "/v1/queues/{queue}/block", "", r#"{"share":"a","span":"1s"}"#, "work admin"),
    ("GET", "/v1/locks", "", "", "read admin"),
    ("GET", "/v1/limits", "", "", "read admin"),
    ("GET", "/v1/limits/{name}", "", "", "read admin"),
    ("PUT", "/v1/limits/{name}", "", r#"{"concurrency":1}"#, "admin"),
    ("POST", "/v1/limits/{name}/block", "", r#"{"span":"1s"}"#, "work admin"),
    ("DELETE", "/v1/limits/{name}", "", "", "admin"),
    ("PUT", "/v1/schedules/{name}", "", r#"{"every":["1h"],"job":{"queue":"p"}}"#, "admin"),
    ("GET", "/v1/schedules", "", "", "read admin"),
    ("GET", "/v1/schedules/{name}", "", "", "read admin"),
    ("POST", "/v1/schedules/{name}/pause", "", r#"{"note":"why"}"#, "admin"),
    ("POST", "/v1/schedules/{name}/resume", "", "", "admin"),
    ("POST", "/v1/schedules/{name}/run", "", "", "admin"),
    ("POST", "/v1/schedules/{name}/skip", "", "", "admin"),
    ("POST", "/v1/schedules/{name}/backfill", "", r#"{"from":"2026-09-01T00:00:00Z","to":"2026-09-01T03:00:00Z","dry_run":true}"#, "admin"),
    ("POST", "/v1/schedules/{name}/preview", "", r#"{"schedule":{"every":["1h"],"job":{"queue":"p"}}}"#, "admin"),
    ("DELETE", "/v1/schedules/{name}", "", "", "admin"),
    ("POST", "/v1/flows", "", r#"{"name":"beat","steps":[{"name":"a","job":{"queue":"p"}}],"seal":false}"#, "enqueue admin"),
    ("GET", "/v1/flows", "", "", "read admin"),
    ("GET", "/v1/flows/{name}", "", "", "read admin"),
    ("GET", "/v1/flows/{name}/steps", "", "", "read admin"),
    ("GET", "/v1/flows/{name}/graph", "", "", "read admin"),
    ("GET", "/v1/flows/{name}/recount", "", "", "read admin"),
    ("POST", "/v1/flows/{name}/seal", "", r#"{"steps":1}"#, "enqueue admin"),
    ("POST", "/v1/flows/{name}/steps", "", r#"{"steps":[{"name":"b","job":{"queue":"p"}}]}"#, "enqueue admin"),
    ("POST", "/v1/flows/{name}/cancel", "", "", "admin"),
    ("POST", "/v1/flows/{name}/retry", "", "{}", "admin"),
    ("PUT", "/v1/subscriptions/{name}", "", r#"{"pattern":"a.>","queue":"p"}"#, "admin"),
    ("GET", "/v1/subscriptions", "", "", "read admin"),
    ("POST", "/v1/publish", "", r#"{"subject":"a.b","job":{"payload":1}}"#, "enqueue admin"),
    ("POST", "/v1/publish/match", "", r#"{"subject":"a.b","job":{"payload":1}}"#, "read admin"),
    ("DELETE", "/v1/subscriptions/{name}", "", "", "admin"),
    ("GET", "/v1/jobs", "", "", "read admin"),
    ("GET", "/v1/dead-groups", "", "", "read admin"),
    ("POST", "/v1/jobs", "", r#"{"queue":"new"}"#, "enqueue admin"),
    ("POST", "/v1/bulk", "", r#"{"queue":"new"}"#, "enqueue admin"),
    ("GET", "/v1/jobs/{id}", "", "", "read enqueue admin"),
    ("GET", "/v1/jobs/by-unique", "?queue=mail&key=u", "", "read enqueue admin"),
    ("PATCH", "/v1/jobs/{id}", "", r#"{"priority":1}"#, "admin"),
    ("PATCH", "/v1/jobs/by-unique", "?queue=mail&key=u", r#"{"priority":2}"#, "admin"),
    ("POST", "/v1/edits", "", r#"{"action":"cancel","ids":[],"dry_run":true}"#, "read admin"),
    ("POST", "/v1/edits", "", r#"{"action":"cancel","ids":[]}"#, "admin"),
    ("POST", "/v1/signals", "", r#"{"queue":"mail","unique":"u","name":"a"}"#, "admin"),
    ("POST", "/v1/clears", "", r#"{"flow":"f","step":"s","name":"a"}"#, "admin"),
    ("POST", "/v1/claims", "", r#"{"queues":["none"]}"#, "work admin"),
    ("POST", "/v1/locks", "", r#"{"name":"of-{scope}"}"#, "work admin"),
    ("POST", "/v1/locks/{name}/release", "", r#"{"token":"1-00000000000000aa"}"#, "work admin"),
    ("POST", "/v1/extensions", "", r#"{"leases":[]}"#, "work admin"),
    ("POST", "/v1/settlements", "", r#"{"leases":[]}"#, "work admin"),
    // The last two: the first takes the key away.
    ("DELETE", "/v1/jobs/by-unique", "?queue=mail&key=u", "", "admin"),
    ("DELETE", "/v1/jobs/{id}", "", "", "admin"),
];

/// These are asked otherwise: by a socket, and by bytes for `punctual-client` that no description
/// has.
const APART: [(&str, &str); 2] = [("GET", "/v1/events"), ("POST", "/v1/calls")];

async fn shop() -> Under {
    let lines = SCOPES.map(|(token, scope)| format!("{token} shop {scope}"));
    let all = tokens(&[&lines[..], &[format!("{OTHER} other admin")]].concat());
    let under = serving(|engine| Gateway::new(engine, all)).await;
    let job = json!({"queue": "mail", "id": ID, "unique": "u", "delay": "1h"}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", job).await.status, 201);
    under
}

async fn ask(under: &Under, token: Option<&str>, route: (&str, &str), more: (&str, &str)) -> Reply {
    let ((method, path), (query, body)) = (route, more);
    let content_type = match path {
        "/v1/bulk" => "application/x-ndjson",
        _ => "application/json",
    };
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("host", "localhost"), ("content-type", content_type)];
    headers.extend(
        authorization
            .as_deref()
            .map(|value| ("authorization", value)),
    );
    let path = format!("{path}{query}");
    under
        .send_with(&headers, method, &path, body.to_owned())
        .await
}

#[test]
fn the_table_names_every_route_and_no_other() {
    let text = open_api().to_json().expect("JSON");
    let description: Value = serde_json::from_str(&text).expect("JSON");
    let mut described = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            described.insert((method.to_uppercase(), path.clone()));
        }
    }
    let undescribed = ["/", "/openapi.json", "/v1/calls"];
    let rows = TABLE.iter().map(|(method, path, ..)| (*method, *path));
    let named: BTreeSet<(String, String)> = rows
        .chain(APART)
        .filter(|(_, path)| !undescribed.contains(path))
        .map(|(method, path)| (method.to_owned(), path.to_owned()))
        .collect();
    assert_eq!(named, described);
}

#[tokio::test]
async fn the_scope_enqueue_is_answered_no_payload_and_no_header_by_any_route() {
    let under = shop().await;
    let marked = json!({
        "queue": "mail", "id": MARKED, "unique": "marked", "delay": "1h",
        "payload": {"secret": MARK}, "headers": {"x-secret": MARK},
    });
    let sent = under.send("POST", "/v1/jobs", marked.to_string()).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let paths = [
        (
            "GET",
            "/v1/jobs/by-unique",
            "?queue=mail&key=marked&explain=true",
            "",
        ),
        ("GET", "/v1/jobs/by-unique", "?queue=mail&key=marked", ""),
        ("GET", "/v1/jobs/{id}", "?explain=true", ""),
    ];
    let rows = TABLE.map(|(method, path, query, body, _)| (method, path, query, body));
    for (method, path, query, body) in paths.into_iter().chain(rows) {
        let place = path.replace("{id}", MARKED).replace("{name}", "beat");
        let place = place.replace("{queue}", "p");
        let query = query.replace("key=u", "key=marked");
        let reported = ask(&under, Some(PRODUCER), (method, &place), (&query, body)).await;
        assert!(
            !reported.body.contains(MARK),
            "{method} {place}{query}: {reported:?}"
        );
    }
    // Sent again as it is, and with other content under its id and its key.
    for id in [MARKED, MISSING] {
        for payload in [MARK, "other"] {
            let again = json!({"queue": "mail", "id": id, "unique": "marked", "payload": payload});
            for path in ["/v1/jobs", "/v1/bulk"] {
                let body = again.to_string();
                let reported = ask(&under, Some(PRODUCER), ("POST", path), ("", &body)).await;
                assert!(!reported.body.contains(MARK), "{path}: {reported:?}");
            }
        }
    }
    let mut socket = under.socket().await;
    for frame in [
        json!({"type": "hello", "token": PRODUCER}),
        json!({"type": "watch", "stats": "1s"}),
        json!({"type": "claim", "ref": 1, "request": {"queues": ["mail"]}}),
        json!({"type": "settle", "ref": 2, "request": {"leases": []}}),
    ] {
        socket.say(frame.clone()).await;
        let reported = socket.json().await;
        assert!(!reported.to_string().contains(MARK), "{frame}: {reported}");
        assert!(["welcome", "error"].contains(&reported["type"].as_str().unwrap_or_default()));
    }
    let read = under
        .send_as(READER, "GET", &format!("/v1/jobs/{MARKED}"), "")
        .await;
    assert_eq!(read.json()["payload"]["secret"], MARK, "{read:?}");
}

const MARKED: &str = "01994f2e-8a51-7c3e-8000-000000000002";
const MARK: &str = "s3cr3t-mark";

#[tokio::test]
async fn every_route_is_for_the_scopes_of_the_table_and_no_other() {
    let under = shop().await;
    let mut asked = 0;
    for (method, path, query, body, allowed) in TABLE {
        let place = path.replace("{id}", ID).replace("{name}", "beat");
        let place = place.replace("{queue}", "p");
        let (route, more) = ((method, &*place), (query, body));
        let what = format!("{method} {path}{query} {body}");
        let is_open = allowed == "none";
        let outsider = ask(&under, None, route, more).await;
        let wrong = ask(&under, Some("wrong-token-0123456789"), route, more).await;
        for reply in [outsider, wrong] {
            match is_open {
                true => assert_eq!(reply.status, 200, "{what}"),
                // This machine asks on after too many of them.
                false => assert!([401, 429].contains(&reply.status), "{what}: {reply:?}"),
            }
        }
        // The admin last: it is who changes something.
        for (token, scope) in SCOPES {
            let body = body.replace("{scope}", scope);
            let reply = ask(&under, Some(token), route, (query, &body)).await;
            asked += 1;
            if is_open || allowed.split(' ').any(|known| known == scope) {
                // Nothing is held under the token of the table.
                let is_done = reply.status < 300 || reply.code() == "lease_lost";
                assert!(is_done, "{scope} {what}: {reply:?}");
                continue;
            }
            assert_eq!(
                (reply.status, &*reply.code()),
                (403, "forbidden"),
                "{scope} {what}"
            );
            // It says what would allow it, or for an edit what its dry run needs.
            let message = reply.json()["error"]["message"].to_string();
            let named = message
                .trim_matches('"')
                .rsplit(' ')
                .next()
                .unwrap_or_default()
                .to_owned();
            let shows = path == "/v1/edits" || allowed.split(' ').any(|known| known == named);
            assert!(shows, "{scope} {what}: {message}");
        }
    }
    assert_eq!(asked, TABLE.len() * SCOPES.len());
}

#[tokio::test]
async fn a_job_of_another_namespace_is_as_missing_as_one_that_never_was() {
    let under = shop().await;
    for (method, path, query, body, allowed) in TABLE {
        let elsewhere = query.replace("mail", "nowhere");
        let there = (path.replace("{id}", ID), query.to_owned());
        let nowhere = (path.replace("{id}", MISSING), elsewhere);
        if there == nowhere || path == "/v1/queues/settings" {
            continue;
        }
        let reported = async |(path, query): &(String, String)| {
            let reply = ask(
                &under,
                Some(OTHER),
                (method, path.as_str()),
                (query.as_str(), body),
            )
            .await;
            let mut error = reply.json()["error"].take();
            error["request_id"].take();
            (reply.status, error)
        };
        let (there, nowhere) = (reported(&there).await, reported(&nowhere).await);
        assert_eq!(there.0, 404, "{method} {path} {allowed}");
        assert_eq!(there, nowhere, "{method} {path}");
    }
    let job = under.get(&format!("/v1/jobs/{ID}")).await.json();
    assert_eq!(
        (&job["state"], &job["priority"]),
        (&json!("scheduled"), &json!(5))
    );
}

#[tokio::test]
async fn the_verbs_as_bytes_are_for_admins() {
    let under = shop().await;
    for (token, scope) in SCOPES {
        let reply = ask(&under, Some(token), ("POST", "/v1/calls"), ("", "")).await;
        // A caller with the scope learns that this is no MessagePack.
        let status = if scope == "admin" { 415 } else { 403 };
        assert_eq!(reply.status, status, "{scope}");
    }
    assert_eq!(
        ask(&under, None, ("POST", "/v1/calls"), ("", ""))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn a_socket_needs_the_scopes_of_its_routes() {
    let under = shop().await;
    for (token, scope) in SCOPES {
        let mut socket = under.socket().await;
        socket.say(json!({"type": "hello", "token": token})).await;
        let welcome = socket.json().await;
        assert_eq!(welcome["type"], "welcome", "{scope}");
        let request = json!({"leases": []});
        for (frame, answered, allowed) in [
            (json!({"type": "watch"}), "watching", "read admin"),
            (
                json!({"type": "claim", "request": {"queues": ["none"]}}),
                "claimed",
                "work admin",
            ),
            (
                json!({"type": "extend", "request": request}),
                "extended",
                "work admin",
            ),
            (
                json!({"type": "settle", "request": request}),
                "settled",
                "work admin",
            ),
        ] {
            socket.say(frame.clone()).await;
            let reply = socket.json().await;
            match allowed.split(' ').any(|known| known == scope) {
                true => assert_eq!(reply["type"], answered, "{scope} {frame}: {reply}"),
                false => assert_eq!(
                    reply["error"]["code"], "forbidden",
                    "{scope} {frame}: {reply}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_socket_of_another_namespace_finds_nothing() {
    let under = shop().await;
    under.clock.advance(hours(1));
    let claim = json!({"queues": ["mail"], "lease_duration": "1h"}).to_string();
    let claimed = under.send_as(WORKER, "POST", "/v1/claims", claim).await;
    let lease = claimed.json()["leases"][0]["token"].take();
    let waits = json!({"queue": "waits"}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", waits).await.status, 201);

    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": OTHER})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    let more = json!({"queue": "waits"}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", more).await.status, 201);
    let mut ask = async |kind: &str, request: Value| {
        socket.say(json!({"type": kind, "request": request})).await;
        socket.json().await
    };
    let reported = ask("claim", json!({"queues": ["waits", "mail"], "limit": 10})).await;
    assert_eq!(reported["answer"]["leases"], json!([]), "{reported}");
    for kind in ["extend", "settle"] {
        let request = |token: &Value, id: &str| {
            let end = json!({"id": id, "attempt": 1, "outcome": "completed"});
            match kind {
                "extend" => json!({"leases": [{"token": token}]}),
                _ => json!({"leases": [{"token": token, "settlements": [end]}]}),
            }
        };
        let theirs = ask(kind, request(&lease, ID)).await;
        let nobodys = ask(kind, request(&json!("7-00000000000000aa"), MISSING)).await;
        // But for the token, which comes back as it was sent.
        let reported = |mut reported: Value| {
            reported["answer"]["leases"][0]["token"].take();
            reported["answer"]["leases"]
                .to_string()
                .replace(ID, MISSING)
        };
        let (theirs, nobodys) = (reported(theirs), reported(nobodys));
        assert!(theirs.contains("lease_lost"), "{theirs}");
        assert_eq!(theirs, nobodys);
    }
    let job = under.get(&format!("/v1/jobs/{ID}")).await.json();
    assert_eq!(job["state"], "active", "{job}");
}
