//! Tests of the gateway over HTTP: access.

use std::sync::Arc;

use punctual::MemoryEngine;
use punctual_gateway::{Gateway, GatewayLimits, Token, Tokens};
use serde_json::json;

use crate::support::{ADMIN, OTHER, serve, serving};

#[tokio::test]
async fn without_a_good_token_nothing_is_answered() {
    let under = serve().await;
    let bare = [("host", "localhost"), ("content-type", "application/json")];
    let paths = [
        "/v1/jobs",
        "/v1/queues",
        "/v1/stats",
        "/v1/info",
        "/metrics",
    ];
    for path in paths {
        let reply = under.send_with(&bare, "GET", path, "").await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (401, "unauthorized"),
            "{path}"
        );
        let wrong = under
            .send_as("wrong-token-0123456789", "GET", path, "")
            .await;
        assert_eq!(
            (wrong.status, wrong.code().as_str()),
            (401, "unauthorized"),
            "{path}"
        );
    }
    for path in ["/", "/app.js", "/openapi.json", "/healthz"] {
        assert_eq!(
            under.send_with(&bare, "GET", path, "").await.status,
            200,
            "{path}"
        );
    }
    let healthz = under.send_with(&bare, "GET", "/healthz", "").await.json();
    assert_eq!(healthz, json!({"ok": true}));
}

#[tokio::test]
async fn another_namespace_seems_empty() {
    let under = serve().await;
    let id = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
    under
        .send(
            "POST",
            "/v1/jobs",
            json!({"queue": "a", "id": id}).to_string(),
        )
        .await;
    let unknown = "01994f2e-8a51-7c3e-8000-ffffffffffff";
    for method in ["GET", "DELETE"] {
        let reported = async |id| {
            let reply = under
                .send_as(OTHER, method, &format!("/v1/jobs/{id}"), "")
                .await;
            let body = reply.json()["error"]["message"].clone();
            (reply.status, body, reply.body.len())
        };
        assert_eq!(reported(id).await, reported(unknown).await);
        assert_eq!(reported(id).await.0, 404);
    }
    assert_eq!(
        under.send_as(OTHER, "GET", "/v1/queues", "").await.json()["queues"],
        json!([])
    );
    let authorization = format!("Bearer {OTHER}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("x-punctual-namespace", "shop"),
    ];
    let reply = under.send_with(&headers, "GET", "/v1/queues", "").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (403, "namespace_mismatch")
    );
}

#[tokio::test]
async fn other_sites_and_other_names_are_refused() {
    let under = serve().await;
    let authorization = format!("Bearer {ADMIN}");
    let ask = async |host: &str, origin: &str| {
        let headers = [
            ("host", host),
            ("origin", origin),
            ("authorization", &*authorization),
        ];
        under.send_with(&headers, "GET", "/v1/queues", "").await
    };
    assert_eq!(
        ask("localhost:4180", "http://localhost:4180").await.status,
        200
    );
    assert_eq!(
        ask("localhost:4180", "http://evil.example").await.code(),
        "origin_not_allowed"
    );
    assert_eq!(
        ask("evil.example", "http://evil.example").await.code(),
        "host_not_allowed"
    );
    assert_eq!(ask("localhost", "null").await.code(), "origin_not_allowed");
    let form = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let reply = under.send_with(&form, "POST", "/v1/jobs", "queue=a").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (415, "unsupported_media_type")
    );
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_token() {
    let engine = Arc::new(MemoryEngine::new());
    let open = Gateway::new(engine.clone(), Tokens::open());
    let refused = open
        .serve(([0, 0, 0, 0], 0).into())
        .await
        .expect_err("refused");
    assert!(refused.to_string().contains("PUNCTUAL_TOKEN"), "{refused}");
    let clock = punctual::time::ManualClock::default();
    let token = punctual_gateway::Token::parse("0123456789abcdef shop read").expect("a token");
    let timed = Gateway::new(engine, Tokens::new(vec![token])).with_test_clock(clock);
    let refused = timed.serve(([0, 0, 0, 0], 0).into()).await;
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("the test clock"), "{refused}");
}

#[tokio::test]
async fn the_clock_has_no_route_unless_it_is_a_test() {
    let under = serve().await;
    let body = r#"{"now":"2026-11-21T10:00:00Z"}"#;
    let reply = under.send("POST", "/v1/test-clock", body).await;
    assert!(reply.status == 404 || reply.status == 405, "{reply:?}");
}

#[tokio::test]
async fn every_answer_forbids_scripts_from_elsewhere() {
    let under = serve().await;
    for path in ["/", "/v1/queues", "/nowhere"] {
        let reply = under.get(path).await;
        let policy = reply.headers["content-security-policy"]
            .to_str()
            .expect("text");
        assert!(
            policy.contains("script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn too_many_wrong_tokens_are_answered_with_a_retry_time() {
    let mut limits = GatewayLimits::default();
    limits.failures = 2;
    let token = Token::parse(&format!("{ADMIN} shop admin")).expect("a token");
    let tokens = Tokens::new(vec![token]);
    let under = serving(|engine| Gateway::new(engine, tokens).limits(limits)).await;
    let wrong = async || {
        under
            .send_as("wrong-token-0123456789", "GET", "/v1/info", "")
            .await
    };
    for _ in 0..2 {
        assert_eq!(wrong().await.status, 401);
    }
    let refused = wrong().await;
    assert_eq!(
        (refused.status, &*refused.code()),
        (429, "too_many_requests")
    );
    let after = refused.headers["retry-after"].to_str().expect("text");
    let seconds: u64 = after.parse().expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let error = &refused.json()["error"];
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.starts_with(&format!("wait {seconds} s")), "{hint}");
    assert_eq!(under.get("/v1/info").await.status, 200);
}

#[tokio::test]
async fn a_token_that_is_revoked_is_refused_at_once_and_its_socket_is_closed() {
    let token =
        |text: &str, scopes: &str| Token::parse(&format!("{text} shop {scopes}")).expect("a token");
    let tokens = Tokens::new(vec![token(ADMIN, "admin"), token(OTHER, "read,work")]);
    let theirs = tokens.clone();
    let under = serving(|engine| Gateway::new(engine, theirs)).await;
    let mut sockets = [under.socket().await, under.socket().await];
    for (socket, token) in sockets.iter_mut().zip([OTHER, ADMIN]) {
        socket.say(json!({"type": "hello", "token": token})).await;
        assert_eq!(socket.json().await["type"], "welcome");
    }
    assert_eq!(
        under.send_as(OTHER, "GET", "/v1/queues", "").await.status,
        200
    );
    tokens.replace(vec![token(ADMIN, "admin")]);
    let refused = under.send_as(OTHER, "GET", "/v1/queues", "").await;
    assert_eq!(refused.status, 401, "{refused:?}");
    let [mut gone, mut kept] = sockets;
    gone.say(json!({"type": "ping"})).await;
    assert_eq!(gone.closed().await, 4401);
    kept.say(json!({"type": "ping"})).await;
    assert_eq!(kept.json().await["type"], "pong");
}
