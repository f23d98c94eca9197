//! A namespace sees nothing of another. Every route of the description is asked by a token of one
//! namespace for what another has, on a gateway where it has that and on one where no tenant has
//! anything: the answers are the same bytes, and what the other has is as it was.

use punctual::time::seconds;
use punctual_gateway::{Relays, open_api};
use serde_json::{Value, json};

use crate::relays::report;
use crate::support::{
    ADMIN, OPERATOR, OTHER, READER, Reply, Under, WORKER, serve, serve_beside, serve_lone,
    serve_one_namespace,
};

const WAITS: &str = "01994f2e-8a51-7c3e-8000-000000000001";
const DEAD: &str = "01994f2e-8a51-7c3e-8000-000000000002";
const ACTIVE: &str = "01994f2e-8a51-7c3e-8000-000000000003";
const READY: &str = "01994f2e-8a51-7c3e-8000-000000000004";

/// What the shop has that another namespace could name, if it only knew.
struct Shop {
    token: String,
    cursor: String,
}

/// Puts jobs in every sort of state, and settings, into the namespace `shop`.
async fn fill(under: &Under) -> Shop {
    let post = async |path: &str, body: Value| {
        let reply = under.send("POST", path, body.to_string()).await;
        assert!(reply.status < 300, "{path}: {reply:?}");
        reply.json()
    };
    let job = |id: &str, queue: &str| json!({"id": id, "queue": queue, "max_attempts": 1});
    let mut waits = job(WAITS, "mail");
    waits["delay"] = json!("1h");
    waits["unique"] = json!("u");
    waits["group"] = json!("g");
    waits["kind"] = json!("shop.kind");
    waits["payload"] = json!("secret");
    post("/v1/jobs", waits).await;
    let claim = async |queue: &str| {
        let claim =
            json!({"queues": [queue], "lease_duration": "1h", "worker": {"host": "shop-host"}});
        let body = claim.to_string();
        let claimed = under.send_as(WORKER, "POST", "/v1/claims", body).await;
        let lease = &claimed.json()["leases"][0]["token"];
        lease.as_str().expect("a lease").to_owned()
    };
    post("/v1/jobs", job(DEAD, "busy")).await;
    let lease = claim("busy").await;
    let dead = json!({"id": DEAD, "attempt": 1, "outcome": "dead", "error": "shop's error"});
    let settle = json!({"leases": [{"token": lease, "settlements": [dead]}]});
    post("/v1/settlements", settle).await;
    let mut active = job(ACTIVE, "busy");
    active["limits"] = json!(["beat"]);
    post("/v1/jobs", active).await;
    let token = claim("busy").await;
    post("/v1/jobs", job(READY, "busy")).await;
    post("/v1/queues/pause", json!({"queue": "mail"})).await;
    let settings = json!({"queue": "mail", "max_pending": 7, "version": 0}).to_string();
    let set = under.send("PUT", "/v1/queues/settings", settings).await;
    assert_eq!(set.status, 200, "{set:?}");
    let limits = json!({"concurrency": 3, "rate": {"starts": 5, "per": "1h"}}).to_string();
    let set = under.send("PUT", "/v1/queues/busy/limits", limits).await;
    assert_eq!(set.status, 200, "{set:?}");
    let block = json!({"share": "customer:3", "span": "300d"});
    post("/v1/queues/busy/block", block).await;
    let set = under
        .send(
            "PUT",
            "/v1/limits/beat",
            json!({"concurrency": 3}).to_string(),
        )
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    let schedule = json!({"at": ["2090-01-01T00:00:00Z"], "job": {"queue": "mail"}}).to_string();
    let set = under.send("PUT", "/v1/schedules/beat", schedule).await;
    assert_eq!(set.status, 200, "{set:?}");
    let subscription = json!({"pattern": "orders.>", "queue": "mail"}).to_string();
    let set = under
        .send("PUT", "/v1/subscriptions/beat", subscription)
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    let step = json!({"name": "a", "job": {"queue": "mail", "delay": "1h"}});
    post("/v1/flows", json!({"name": "beat", "steps": [step]})).await;
    let of_limit = under.get("/v1/jobs?limit_name=beat").await.json();
    assert_eq!(of_limit["jobs"][0]["id"], ACTIVE, "{of_limit}");
    let listed = under.get("/v1/jobs?queue=busy&limit=1").await.json();
    let cursor = listed["cursor"].as_str().expect("more").to_owned();
    Shop { token, cursor }
}

/// Everything that the shop itself sees.
async fn seen_by(under: &Under, token: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for path in [
        "/v1/jobs",
        "/v1/queues",
        "/v1/queues/settings?queue=mail",
        "/v1/queues/busy/limits",
        "/v1/queues/busy/shares",
        "/v1/queues/busy/blocks",
        "/v1/limits",
        "/v1/schedules",
        "/v1/flows",
        "/v1/flows/beat/steps",
        "/v1/subscriptions",
        "/v1/audit",
        "/v1/stats",
    ] {
        let reply = under.send_as(token, "GET", path, "").await;
        let reported = reply.json();
        // Its workers were seen so long ago, its oldest job waits for so long: that goes on.
        let queues: Vec<_> = reported["queues"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let standing = queues.iter().map(|queue| {
            let fields = [
                "queue",
                "paused",
                "held",
                "scheduled",
                "ready",
                "active",
                "dead",
            ];
            json!(fields.map(|field| &queue[field]))
        });
        let standing: Vec<_> = standing.collect();
        let schedules = &reported["schedules"];
        let reported = json!([
            reported["jobs"],
            reported["max_pending"],
            reported["concurrency"],
            reported["shares"],
            reported["blocks"],
            reported["version"],
            reported["limits"],
            reported["rate"],
            reported["entries"],
            schedules,
            reported["flows"],
            reported["steps"],
            reported["subscriptions"],
            standing
        ]);
        seen.push(reported.to_string());
    }
    seen
}

/// A request to a route of the description.
struct Ask {
    method: String,
    path: String,
    content_type: String,
    body: String,
}

/// Every route, asked for what the shop has: reading first, while the asker has nothing itself.
fn asks(shop: &Shop) -> Vec<Ask> {
    let text = open_api().to_json().expect("JSON");
    let description: Value = serde_json::from_str(&text).expect("JSON");
    let mut asks = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let bodies = match route["requestBody"]["content"].as_object() {
                None => vec![(String::new(), String::new())],
                Some(content) => {
                    let content_type = content.keys().next().expect("a type");
                    let bodies = bodies(shop, method, path).into_iter();
                    bodies.map(|body| (content_type.clone(), body)).collect()
                }
            };
            for place in places(shop, path, route) {
                for (content_type, body) in &bodies {
                    asks.push(Ask {
                        method: method.to_uppercase(),
                        path: place.clone(),
                        content_type: content_type.clone(),
                        body: body.clone(),
                    });
                }
            }
        }
    }
    asks.sort_by_key(|ask| ask.method != "GET");
    asks
}

/// The path with the shop's ids in it, and with its parameters: those it must have, and each other
/// one.
fn places(shop: &Shop, path: &str, route: &Value) -> Vec<String> {
    let parameters = route["parameters"].as_array().cloned().unwrap_or_default();
    let of_query = parameters.iter().filter(|one| one["in"] == "query");
    let named = |one: &Value| {
        let name = one["name"].as_str().expect("a name").to_owned();
        let value = parameter(shop, &name);
        (name.clone(), format!("{name}={value}"))
    };
    let (must, may): (Vec<_>, Vec<_>) = of_query.partition(|one| one["required"] == true);
    let must: Vec<_> = must.into_iter().map(named).collect();
    let may: Vec<_> = may.into_iter().map(named).collect();
    let queue = may.iter().find(|(name, _)| name == "queue");
    let mut queries = vec![must.clone()];
    for one in &may {
        queries.push(must.iter().chain([one]).cloned().collect());
        // A key is one of a queue.
        let of_queue = must.iter().chain(queue).chain([one]);
        queries.push(of_queue.cloned().collect());
    }
    let ids: &[&str] = match path.contains("{id}") {
        true => &[WAITS, DEAD, ACTIVE, READY],
        false => &[""],
    };
    let mut places = Vec::new();
    for id in ids {
        let path = path.replace("{id}", id).replace("{name}", "beat");
        let path = path.replace("{queue}", "mail");
        assert!(!path.contains('{'), "what has the shop for {path}?");
        for query in &queries {
            let mut pairs: Vec<&str> = query.iter().map(|(_, pair)| &**pair).collect();
            pairs.dedup();
            places.push(match pairs.is_empty() {
                true => path.clone(),
                false => format!("{path}?{}", pairs.join("&")),
            });
        }
    }
    places
}

/// What the shop has under the name of a parameter.
fn parameter(shop: &Shop, name: &str) -> String {
    let value = match name {
        "queue" => "mail",
        "unique" | "key" => "u",
        "parent" => WAITS,
        "group" => "g",
        "kind" => "shop.kind",
        "state" => "scheduled",
        "text" => "secret",
        "error" => "s",
        "cursor" => &shop.cursor,
        "after" => "a",
        "limit" => "10",
        "limit_name" => "beat",
        "from" => "0",
        "minutes" => "60",
        "top" => "5",
        "older_than" => "1ms",
        "preview" => "40",
        "wait" => "1s",
        "due_from" => "2020-01-01T00:00:00Z",
        "due_before" => "2100-01-01T00:00:00Z",
        "payloads" | "explain" | "forget" | "history" | "due" | "total" | "ends" => "true",
        _ => panic!("a route has a parameter {name} now: what has the shop under it?"),
    };
    value.to_owned()
}

/// What is sent to a route, to read or to change what the shop has.
fn bodies(shop: &Shop, method: &str, path: &str) -> Vec<String> {
    let job = json!({"queue": "mail", "id": WAITS, "unique": "u", "group": "g", "payload": 1});
    let edit = |action: &str, which: &str, those: Value, dry_run: bool| {
        let mut edit = json!({"action": action, "dry_run": dry_run});
        edit[which] = those;
        edit
    };
    let queue = json!({"queue": "mail"});
    let lease = json!({"token": shop.token});
    let bodies = match (method, path) {
        ("post", "/v1/jobs") => vec![job.clone(), json!([job])],
        ("post", "/v1/bulk") => vec![job],
        ("patch", "/v1/jobs/{id}" | "/v1/jobs/by-unique") => vec![
            json!({"run_now": true}),
            json!({"redrive": true}),
            json!({"cancel": true}),
            json!({"priority": 0}),
            json!({"payload": {"new": 1}}),
        ],
        ("post", "/v1/edits") => {
            let mut edits = Vec::new();
            for action in ["cancel", "redrive", "delete", "run_now"] {
                for dry_run in [true, false] {
                    let ids = json!([WAITS, DEAD, ACTIVE, READY]);
                    edits.push(edit(action, "ids", ids, dry_run));
                    let targets = json!([{"queue": "mail", "unique": "u"}]);
                    edits.push(edit(action, "targets", targets, dry_run));
                    edits.push(edit(action, "filter", queue.clone(), dry_run));
                }
            }
            edits
        }
        ("post", "/v1/signals") => vec![
            json!({"id": WAITS, "name": "a"}),
            json!({"queue": "mail", "unique": "u", "name": "b", "payload": 1}),
        ],
        ("post", "/v1/clears") => vec![json!({"id": WAITS, "name": "a"})],
        ("post", "/v1/claims") => vec![json!({"queues": ["busy"]})],
        ("post", "/v1/extensions") => vec![json!({"leases": [lease]})],
        ("post", "/v1/locks") => vec![json!({"name": "beat"})],
        ("post", "/v1/locks/{name}/release") => vec![lease],
        ("post", "/v1/settlements") => {
            let settled = json!({"id": ACTIVE, "attempt": 1, "outcome": "completed"});
            vec![json!({"leases": [{"token": shop.token, "settlements": [settled]}]})]
        }
        ("post", "/v1/queues/purge") => vec![
            json!({"queue": "mail", "dry_run": true}),
            json!({"queue": "mail", "dry_run": false}),
        ],
        ("post", "/v1/queues/pause" | "/v1/queues/resume" | "/v1/queues/delete") => vec![queue],
        ("put", "/v1/queues/settings") => {
            vec![json!({"queue": "mail", "max_pending": 1, "version": 0})]
        }
        ("put", "/v1/queues/{queue}/limits") => {
            vec![
                json!({"concurrency": 1}),
                json!({"rate": {"starts": 1, "per": "1h"}}),
                json!({"shares": {"concurrency": 1, "weights": {"customer:3": 2}}}),
            ]
        }
        ("post", "/v1/queues/{queue}/block") => {
            vec![json!({"share": "customer:3", "span": "1h"})]
        }
        ("put", "/v1/limits/{name}") => vec![
            json!({"concurrency": 1}),
            json!({"rate": {"starts": 1, "per": "1h"}}),
        ],
        ("post", "/v1/limits/{name}/block") => vec![json!({"span": "1h"})],
        (_, path) if path.starts_with("/v1/schedules/") => schedules(path),
        ("put", "/v1/subscriptions/{name}") => {
            vec![json!({"pattern": "orders.*", "queue": "mail"})]
        }
        ("post", "/v1/publish" | "/v1/publish/match") => {
            let message = json!({"id": WAITS, "unique": "u", "payload": 1});
            vec![json!({"subject": "orders.paid", "job": message})]
        }
        ("post", "/v1/flows") => {
            let step = json!({"name": "a", "job": {"queue": "mail"}, "after": []});
            vec![json!({"name": "beat", "steps": [step], "seal": false})]
        }
        ("post", "/v1/flows/{name}/seal") => vec![json!({"steps": 1})],
        ("post", "/v1/flows/{name}/retry") => vec![json!({}), json!({"from": "a"})],
        ("post", "/v1/flows/{name}/steps") => {
            vec![json!({"steps": [{"name": "b", "job": {"queue": "mail"}, "after": ["a"]}]})]
        }
        _ => panic!("there is a route {method} {path} now: what is sent to it?"),
    };
    bodies.iter().map(Value::to_string).collect()
}

/// The same of a route of one schedule.
fn schedules(path: &str) -> Vec<Value> {
    let schedule = json!({"every": ["1h"], "job": {"queue": "mail"}});
    match path {
        "/v1/schedules/{name}" => vec![schedule],
        "/v1/schedules/{name}/preview" => {
            vec![json!({"schedule": schedule, "from": "2026-09-01T00:00:00Z"})]
        }
        "/v1/schedules/{name}/pause" => vec![json!({"note": "why"})],
        "/v1/schedules/{name}/backfill" => {
            let (from, to) = ("2026-09-01T00:00:00Z", "2026-09-01T03:00:00Z");
            vec![
                json!({"from": from, "to": to, "dry_run": true}),
                json!({"from": from, "to": to, "dry_run": false}),
            ]
        }
        _ => panic!("there is a route {path} now: what is sent to it?"),
    }
}

async fn answer(under: &Under, ask: &Ask) -> Reply {
    let authorization = format!("Bearer {OTHER}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", &*ask.content_type),
    ];
    let body = ask.body.clone();
    under
        .send_with(&headers, &ask.method, &ask.path, body)
        .await
}

/// An answer without what differs between two gateways that know the same: the request's id,
/// instants, fresh ids, the version that was written, and how long calls to the engine took.
fn reported(ask: &Ask, reply: &Reply) -> String {
    let body = body_of(ask, reply);
    // The tag of a body that has an instant in it differs as the instant does.
    let has_more = body != reply.body;
    let mut reported = format!("{}\n", reply.status);
    for (name, value) in &reply.headers {
        match name.as_str() {
            "x-request-id" | "date" | "content-length" => {}
            "etag" if has_more => reported += "etag\n",
            name => reported += &format!("{name}: {value:?}\n"),
        }
    }
    reported + &body
}

fn body_of(ask: &Ask, reply: &Reply) -> String {
    let id = reply.headers["x-request-id"].to_str().expect("text");
    let body = reply.body.replace(id, "ID");
    if ask.path.starts_with("/metrics") {
        let lines = body.lines().map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if name.starts_with("punctual_engine_seconds_") => name,
            _ => line,
        });
        return lines.collect::<Vec<_>>().join("\n");
    }
    // Versions of records only grow, whosever record it is.
    let body = match body.rsplit_once("\"version\":") {
        Some((before, _)) if ask.method != "GET" || ask.path.starts_with("/v1/schedules") => {
            before.to_owned()
        }
        _ => body,
    };
    // Fences only grow, whosever lease it is.
    let body = match body.split_once("\"fence\":") {
        Some((before, _)) if ask.path == "/v1/locks" => before.to_owned(),
        _ => body,
    };
    // How long the engine took for a claim.
    let body = match body.split_once("\"took_us\":") {
        Some((before, after)) => {
            let digits = |c: char| c.is_ascii_digit();
            format!("{before}\"took_us\":N{}", after.trim_start_matches(digits))
        }
        None => body,
    };
    // Texts stand at every second place between the quotes; no text of these has one in it.
    let texts = body.split('"').map(|text| {
        let is_instant = text.ends_with('Z') && text.starts_with("20") && text.len() > 18;
        // The id of a run has its instant in it.
        let is_run = text.starts_with("02") && text.len() == 36;
        // The job of a lock has a fresh id; those that are sent have the shop's.
        let is_fresh = text.starts_with("01") && text.len() == 36 && text[..8] != WAITS[..8];
        match is_instant || is_run || is_fresh {
            true => "INSTANT",
            false => text,
        }
    });
    texts.collect::<Vec<_>>().join("\"")
}

#[tokio::test]
async fn every_route_answers_another_namespace_as_if_there_were_nothing() {
    let mut relay = report("shop", "mail");
    relay.state = "down";
    let relays = Relays::new(move || vec![relay.clone()]);
    let (filled, empty) = (serve_beside(relays).await, serve().await);
    let shop = fill(&filled).await;
    let before = seen_by(&filled, ADMIN).await;
    let asks = asks(&shop);
    hold_apart(&filled, &empty, &asks).await;
    assert_eq!(seen_by(&filled, ADMIN).await, before);
    // And something was asked.
    let changes = asks.iter().filter(|ask| ask.method != "GET").count();
    assert!(asks.len() > 100 && changes > 50, "{} {changes}", asks.len());
}

#[tokio::test]
async fn a_lone_tenant_sees_nothing_of_tenants_of_another_gateway() {
    let (filled, empty) = (serve().await, serve().await);
    let shop = fill(&filled).await;
    let before = seen_by(&filled, ADMIN).await;
    let (beside, alone) = (serve_lone(&filled).await, serve_lone(&empty).await);
    hold_apart(&beside, &alone, &asks(&shop)).await;
    assert_eq!(seen_by(&filled, ADMIN).await, before);
}

/// Whether `other` is answered the same where the shop has something and where it has not.
async fn hold_apart(filled: &Under, empty: &Under, asks: &[Ask]) {
    for ask in asks {
        let there = reported(ask, &answer(filled, ask).await);
        let nowhere = reported(ask, &answer(empty, ask).await);
        let Ask {
            method, path, body, ..
        } = ask;
        let mut lines = there.lines().zip(nowhere.lines());
        let differs = lines.find(|(there, nowhere)| there != nowhere);
        assert_eq!(differs, None, "{method} {path} {body}");
        assert_eq!(there.len(), nowhere.len(), "{method} {path} {body}");
    }
}

#[tokio::test]
async fn a_late_queue_of_one_namespace_changes_no_answer_of_another() {
    let under = serve().await;
    let lone = serve_lone(&under).await;
    let outsiders = async || {
        let mut reported = Vec::new();
        for (under, token, lone_asks) in [
            (&under, OTHER, false),
            (&under, OPERATOR, false),
            (&lone, OTHER, true),
        ] {
            for path in ["/healthz", "/readyz", "/v1/info", "/metrics"] {
                let reply = under.send_as(token, "GET", path, "").await;
                // The instant differs at any rate, and what an operator's or a lone tenant's
                // process counts.
                let of_process = token == OPERATOR || lone_asks;
                let differ = match of_process {
                    true => &["_total", "_seconds", "le=", "now", "store_bytes"][..],
                    false => &["now"],
                };
                let differ = [differ, &["uptime_ms", "memory_bytes"]].concat();
                let same = |part: &&str| !differ.iter().any(|name| part.contains(name));
                let parts = reply.body.split(['\n', ',']).filter(same);
                reported.push((path, reply.status, parts.collect::<Vec<_>>().join(",")));
            }
        }
        for path in ["/healthz", "/readyz"] {
            let reply = under
                .send_with(&[("host", "localhost")], "GET", path, "")
                .await;
            reported.push((path, reply.status, reply.body));
        }
        reported
    };
    outsiders().await;
    let before = outsiders().await;
    let two = r#"[{"queue":"mail"},{"queue":"mail"}]"#;
    under.send("POST", "/v1/jobs", two).await;
    under.clock.advance(seconds(3));
    // It takes one job although it has more slots, and does not come back for the other.
    let claim = r#"{"queues":["mail"],"lease_duration":"10m","worker":{"slots":4}}"#;
    under.send("POST", "/v1/claims", claim).await;
    under.clock.advance(seconds(3));
    assert_eq!(outsiders().await, before);
    for path in ["/healthz", "/v1/info"] {
        let reported = under.send_as(READER, "GET", path, "").await.body;
        assert!(
            reported.contains("queue mail: the oldest"),
            "{path}: {reported}"
        );
        assert!(!reported.contains("unhealthy"), "{path}: {reported}");
    }
}

#[tokio::test]
async fn facts_of_the_whole_engine_are_for_operators_alone() {
    let (several, alone) = (serve().await, serve_one_namespace().await);
    let knows = async |under: &Under, token: &str| {
        let info = under.send_as(token, "GET", "/v1/info", "").await.body;
        let metrics = under.send_as(token, "GET", "/metrics", "").await.body;
        let known = ("store_bytes", "punctual_store_bytes");
        (info.contains(known.0), metrics.contains(known.1))
    };
    assert_eq!(knows(&several, OPERATOR).await, (true, true));
    assert_eq!(knows(&alone, ADMIN).await, (true, true));
    for (under, token) in [(&several, ADMIN), (&several, OTHER), (&alone, READER)] {
        assert_eq!(knows(under, token).await, (false, false));
    }
}
