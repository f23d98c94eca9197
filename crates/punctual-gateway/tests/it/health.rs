//! Red while the law's liveness is broken, with the name of what is; green again by itself.

use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{Health, LoopHealth};
use punctual::time::{ManualClock, Stopwatch, millis, seconds, within};
use punctual::{Engine, Namespace};
use punctual_gateway::{Gateway, GatewayLimits};
use punctual_push::{AlertRules, Alerts, Guard, Maintenance, Posting, Pusher};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::standin::{Standin, Verb};
use crate::support::{ADMIN, OPERATOR, OTHER, READER, START, Under, serve_engine, serving, tokens};

/// The status, and what is said to whom.
async fn asked(under: &Under, token: &str) -> (u16, Value) {
    let reply = under.send_as(token, "GET", "/healthz", "").await;
    (reply.status, reply.json())
}

async fn outsider(under: &Under) -> (u16, Value) {
    let nameless = [("host", "localhost")];
    let reply = under.send_with(&nameless, "GET", "/healthz", "").await;
    (reply.status, reply.json())
}

fn problems(reported: &Value) -> String {
    reported["problems"].to_string()
}

#[tokio::test]
async fn a_loop_of_the_engine_that_hangs_is_named_until_it_goes_round_again() {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock).await;
    let maintenance = |age: u64, problem: Option<&str>| {
        let problems = problem.into_iter().map(String::from).collect();
        let loops = vec![LoopHealth::new("maintenance", seconds(age), 2)];
        Health::new(problems, loops)
    };
    for age in [0, 60] {
        engine.feels(maintenance(age, None));
        assert_eq!(outsider(&under).await, (200, json!({"ok": true})));
    }
    engine.feels(maintenance(61, None));
    assert_eq!(outsider(&under).await, (503, json!({"ok": false})));
    let (status, reported) = asked(&under, OPERATOR).await;
    assert_eq!(status, 503);
    assert!(
        problems(&reported).contains("loop maintenance has not run for 61s"),
        "{reported}"
    );
    let loops = json!([{"name": "maintenance", "age_ms": 61_000, "restarts": 2}]);
    assert_eq!(reported["loops"], loops);
    let (status, reported) = asked(&under, READER).await;
    assert_eq!(status, 503);
    assert!(!problems(&reported).contains("maintenance"), "{reported}");
    let metrics = under.send_as(OPERATOR, "GET", "/metrics", "").await.body;
    assert!(metrics.contains("punctual_healthy 0"), "{metrics}");

    // An engine that says so itself is not talked over.
    engine.feels(maintenance(
        61,
        Some("loop maintenance is at the same work for 61s"),
    ));
    let (_, reported) = asked(&under, OPERATOR).await;
    assert_eq!(
        reported["problems"].as_array().map(Vec::len),
        Some(1),
        "{reported}"
    );

    engine.feels(maintenance(3, None));
    assert_eq!(outsider(&under).await, (200, json!({"ok": true})));
}

#[tokio::test]
async fn a_silent_engine_is_unhealthy_within_seconds_until_it_answers() {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()).holds(Verb::Info));
    let under = serve_engine(engine.clone(), clock).await;
    let watch = Stopwatch::start();
    let (status, reported) = asked(&under, OPERATOR).await;
    println!("red after {:?}", watch.elapsed());
    assert_eq!((status, &reported["ok"]), (503, &json!(false)));
    assert!(
        problems(&reported).contains("the engine does not answer"),
        "{reported}"
    );
    engine.answer();
    assert_eq!(asked(&under, OPERATOR).await.0, 200);
}

#[tokio::test]
async fn a_loop_that_panics_is_a_problem_until_it_is_restarted() {
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    let (shop, steps) = (
        Namespace::new("shop").expect("a name"),
        Arc::new(Semaphore::new(0)),
    );
    let theirs = steps.clone();
    maintenance.start("injected", &shop, move |heartbeat| {
        let steps = theirs.clone();
        async move {
            steps.acquire().await.expect("it is open").forget();
            heartbeat.works();
            steps.acquire().await.expect("it is open").forget();
            panic!("injected with s3cr3t");
        }
    });
    let all = tokens(&[
        format!("{ADMIN} shop admin"),
        format!("{OTHER} other admin"),
        format!("{OPERATOR} other read,operator"),
    ]);
    let under = serving(|engine| Gateway::new(engine, all).maintenance(health)).await;
    let becomes = async |wanted: u16| {
        let reading = async { while outsider(&under).await.0 != wanted {} };
        let is_so = within(seconds(20), reading).await;
        is_so.unwrap_or_else(|| panic!("it does not become {wanted}"));
    };
    for restarts in 1..=2 {
        steps.add_permits(1);
        becomes(200).await;
        steps.add_permits(1);
        becomes(503).await;
        let (_, reported) = asked(&under, ADMIN).await;
        assert!(
            problems(&reported).contains("injected ended and was restarted"),
            "{reported}"
        );
        assert!(!reported.to_string().contains("s3cr3t"), "{reported}");
        assert_eq!(reported["loops"][0]["name"], "injected", "{reported}");
        assert_eq!(reported["loops"][0]["restarts"], restarts, "{reported}");
        // No answer names the namespaces.
        let (_, reported) = asked(&under, OTHER).await;
        assert!(!reported.to_string().contains("shop"), "{reported}");
        assert!(!problems(&reported).contains("injected"), "{reported}");
        let (_, reported) = asked(&under, OPERATOR).await;
        assert!(!problems(&reported).contains("injected"), "{reported}");
    }
    steps.add_permits(1);
    becomes(200).await;
}

/// What `serve` does beside requests, as it starts it.
const BESIDE: [&str; 3] = ["posting", "callbacks", "alerts"];

/// A gateway with all of it, over that engine; a round of a loop takes no longer than that.
async fn with_all_loops(engine: &Arc<Standin>, round: Option<Duration>) -> (Under, Maintenance) {
    let (shop, mut maintenance) = (Namespace::new("shop").expect("a name"), Maintenance::new());
    let theirs: Arc<dyn Engine> = engine.clone();
    let posting = Posting::new(theirs.clone(), shop.clone(), Pusher::new(Guard::new()));
    posting.poll_every(millis(20)).start(&mut maintenance);
    let watched = vec![shop.clone()];
    let (url, rules) = ("https://example.com/alerts", AlertRules::default());
    let alerts = Alerts::new(theirs.clone(), shop.clone(), watched, url, rules);
    maintenance.start("alerts", &shop, move |heartbeat| {
        alerts.clone().run(heartbeat)
    });
    let all = tokens(&[format!("{ADMIN} shop admin,operator")]);
    let mut limits = GatewayLimits::default();
    limits.round = round.unwrap_or(limits.round);
    let health = maintenance.health();
    let gateway = |_| Gateway::new(theirs, all).maintenance(health).limits(limits);
    (serving(gateway).await, maintenance)
}

/// Asks until it is so.
async fn until(under: &Under, what: &str, fact: impl Fn(u16, &str) -> bool) {
    let mut last = (0, String::new());
    let reading = async {
        loop {
            let (status, reported) = asked(under, ADMIN).await;
            last = (status, problems(&reported));
            if fact(last.0, &last.1) {
                return;
            }
        }
    };
    let is_so = within(seconds(20), reading).await;
    is_so.unwrap_or_else(|| panic!("not {what}: {last:?}"));
}

#[tokio::test]
async fn whatever_serve_does_beside_requests_is_red_by_its_name_while_it_hangs() {
    let engine = Arc::new(Standin::new(ManualClock::new(START)).holds(Verb::Stats));
    let (under, maintenance) = with_all_loops(&engine, Some(millis(1))).await;
    for name in BESIDE {
        let reported = format!("loop {name} has not run");
        let is_red = |status, problems: &str| status == 503 && problems.contains(&reported);
        until(&under, &reported, is_red).await;
    }
    engine.answer_all();
    let is_green = |_, problems: &str| BESIDE.iter().all(|name| !problems.contains(name));
    until(&under, "well", is_green).await;
    let ended = within(seconds(20), maintenance.end()).await;
    ended.expect("a process that is asked to end ends");
}

#[tokio::test]
async fn each_dead_background_loop_of_serve_is_a_named_problem() {
    let engine = Arc::new(Standin::new(ManualClock::new(START)));
    engine.panics(true);
    let (under, maintenance) = with_all_loops(&engine, None).await;
    for name in BESIDE {
        let reported = format!("{name} ended and was restarted");
        let is_red = |status, problems: &str| status == 503 && problems.contains(&reported);
        until(&under, &reported, is_red).await;
    }
    engine.panics(false);
    until(&under, "green", |status, _| status == 200).await;
    let ended = within(seconds(20), maintenance.end()).await;
    ended.expect("a process that is asked to end ends");
}

#[tokio::test]
async fn a_due_queue_that_workers_do_not_serve_is_a_problem() {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock.clone()).await;
    let asks = async || {
        let claim = json!({"queues": ["mail", "idle"], "worker": {"slots": 4}});
        let reply = under.send("POST", "/v1/claims", claim.to_string()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["leases"].as_array().map_or(0, Vec::len)
    };
    under.send("POST", "/v1/jobs", r#"{"queue":"mail"}"#).await;
    engine.starves(true);
    for _ in 0..3 {
        clock.advance(seconds(1));
        assert_eq!(asks().await, 0);
        assert_eq!(problems(&asked(&under, ADMIN).await.1), "[]");
    }
    clock.advance(seconds(3));
    assert_eq!(asks().await, 0);
    assert_eq!(outsider(&under).await, (200, json!({"ok": true})));
    let (status, reported) = asked(&under, ADMIN).await;
    assert_eq!(
        (status, reported["problems"].as_array().map(Vec::len)),
        (200, Some(1)),
        "{reported}"
    );
    assert!(problems(&reported).contains("queue mail"), "{reported}");
    engine.starves(false);
    assert_eq!(asks().await, 1);
    assert_eq!(problems(&asked(&under, ADMIN).await.1), "[]");
    assert_eq!(outsider(&under).await, (200, json!({"ok": true})));
}
