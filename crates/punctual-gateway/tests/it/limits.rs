//! Tests of the gateway over HTTP: limits.

use punctual::time::{millis, seconds, within};
use punctual_gateway::{Gateway, GatewayLimits, Tokens};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN, Under, serve, serving};

/// Sends bytes as they are and reads to the end.
async fn raw(under: &Under, bytes: &[u8]) -> String {
    let talk = async {
        let mut stream = TcpStream::connect(under.address)
            .await
            .expect("a connection");
        // It may be closed before everything is sent: that is what some of these are about.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    within(seconds(20), talk).await.expect("an end in time")
}

#[tokio::test]
async fn bad_input_is_distinguished() {
    let under = serve().await;
    let long = json!({"queue": "a".repeat(129)}).to_string();
    let cases = [
        ("{\"queue\":", 400, "invalid_json"),
        ("[", 400, "invalid_json"),
        ("{\"queue\":\"a\",\"dealy\":\"5m\"}", 422, "invalid_input"),
        (
            "{\"queue\":\"a\",\"delay\":\"5 minutes\"}",
            422,
            "invalid_delay",
        ),
        ("{\"queue\":\"a\",\"delay\":\"-1s\"}", 422, "invalid_delay"),
        (
            "{\"queue\":\"a\",\"at\":\"10000-01-01T00:00:00Z\"}",
            422,
            "invalid_delay",
        ),
        ("{\"queue\":\"a\",\"delay\":5}", 422, "invalid_input"),
        ("{\"queue\":\"\"}", 422, "invalid_name"),
        ("{\"queue\":\"..\"}", 422, "invalid_name"),
        ("{\"queue\":\"a b\"}", 422, "invalid_name"),
        ("{\"queue\":\"a\\u0000\"}", 422, "invalid_name"),
        ("{\"queue\":\"{x}\"}", 422, "invalid_name"),
        ("{\"queue\":\"a\\nb\"}", 422, "invalid_name"),
        ("{\"queue\":\"a\\u202eb\"}", 422, "invalid_name"),
        (&long, 422, "invalid_name"),
        ("{\"queue\":\"\\ud800\"}", 400, "invalid_json"),
        ("{\"queue\":\"a\",\"payload\":NaN}", 400, "invalid_json"),
        ("{\"queue\":\"a\",\"queue\":\"b\"}", 422, "invalid_input"),
        (
            "{\"queue\":\"a\",\"delay\":\"9223372036854775808s\"}",
            422,
            "invalid_delay",
        ),
        ("{\"queue\":\"a\",\"priority\":10}", 422, "invalid_input"),
        ("{\"queue\":\"a\",\"id\":\"7\"}", 422, "invalid_input"),
        ("{\"queue\":\"a\",\"state\":\"dead\"}", 422, "invalid_input"),
    ];
    for (body, status, code) in cases {
        let reply = under.send("POST", "/v1/jobs", body.to_owned()).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {reply:?}"
        );
    }
    for query in [
        "limit=0",
        "limit=-1",
        "limit=201",
        "days=9",
        "state=odd",
        "cursor=!",
        "unique=k",
    ] {
        assert_eq!(
            under.get(&format!("/v1/jobs?{query}")).await.status,
            422,
            "{query}"
        );
    }
    assert_eq!(under.get("/v1/jobs/7").await.code(), "invalid_input");
}

#[tokio::test]
async fn an_unknown_route_is_404_and_an_unknown_method_405_with_allow() {
    let under = serve().await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "PURGE"] {
        for path in ["/v2/jobs", "/v1/job", "/v1/", "/x.js", "/assets/app.js"] {
            let reply = under.send(method, path, "{}").await;
            assert_eq!(
                (reply.status, &*reply.code()),
                (404, "not_found"),
                "{method} {path}"
            );
        }
    }
    for (method, path, allowed) in [
        ("PUT", "/v1/jobs", "GET,HEAD,POST"),
        ("GET", "/v1/claims", "POST"),
        ("POST", "/healthz", "GET,HEAD"),
        ("POST", "/", "GET,HEAD"),
        ("DELETE", "/app.js", "GET,HEAD"),
        ("PURGE", "/v1/queues/settings", "GET,HEAD,PUT"),
    ] {
        let reply = under.send(method, path, "{}").await;
        assert_eq!((reply.status, &*reply.code()), (405, "method_not_allowed"));
        let reported = reply.headers.get("allow").expect("those it has");
        let mut reported: Vec<_> = reported.to_str().expect("text").split(',').collect();
        reported.sort_unstable();
        assert_eq!(reported.join(","), allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn an_instant_in_the_past_is_late_and_due_now() {
    let under = serve().await;
    let body = json!({"queue": "a", "at": "2001-01-01T00:00:00Z"}).to_string();
    assert_eq!(
        under.send("POST", "/v1/jobs", body).await.json()["late"],
        true
    );
}

#[tokio::test]
async fn deep_json_is_a_payload_like_any_other() {
    let under = serve().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!("{{\"queue\":\"a\",\"payload\":{deep}}}");
    assert_eq!(under.send("POST", "/v1/jobs", body).await.status, 201);
}

#[tokio::test]
async fn large_payloads_and_bodies_are_refused() {
    let under = serve().await;
    let body = format!(
        "{{\"queue\":\"a\",\"payload\":\"{}\"}}",
        "x".repeat((256 << 10) - 1)
    );
    let reply = under.send("POST", "/v1/jobs", body).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (413, "payload_too_large")
    );
    let many = format!("[{}]", vec!["{\"queue\":\"a\"}"; 1_001].join(","));
    assert_eq!(
        under.send("POST", "/v1/jobs", many).await.code(),
        "batch_too_large"
    );
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/json\r\ncontent-length: 1000000000\r\nconnection: close\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + (9 << 20), b' ');
    let answer = raw(&under, &bytes).await;
    assert!(
        answer.is_empty() || answer.contains("body_too_large"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_head_that_comes_drop_by_drop_is_cut_off_and_others_are_served() {
    let mut limits = GatewayLimits::default();
    limits.head = millis(200);
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(under.address)
            .await
            .expect("a connection");
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: lo")
            .await
            .expect("sent");
        slow.push(stream);
    }
    assert_eq!(under.get("/v1/queues").await.status, 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        let ended = within(seconds(20), stream.read_to_end(&mut rest)).await;
        // Closed, or reset if what was sent had not been read.
        let _ = ended.expect("it is cut off");
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"),
            "{rest:?}"
        );
    }
}

#[tokio::test]
async fn silent_connections_are_closed_and_give_their_places_to_others() {
    let mut limits = GatewayLimits::default();
    limits.head = millis(200);
    limits.connections = 40;
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let mut silent = Vec::new();
    for _ in 0..60 {
        let stream = TcpStream::connect(under.address).await;
        silent.push(stream.expect("a connection"));
    }
    assert_eq!(under.get("/v1/queues").await.status, 200);
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = within(seconds(20), stream.read_to_end(&mut rest)).await;
        let _ = ended.expect("it is closed");
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"),
            "{rest:?}"
        );
    }
}

#[tokio::test]
async fn readers_that_take_nothing_of_their_answers_give_their_places_to_others() {
    let mut limits = GatewayLimits::default();
    limits.reader = millis(200);
    limits.connections = 4;
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let ask = "GET /app.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let mut unread = Vec::new();
    for _ in 0..4 {
        let stream = TcpStream::connect(under.address).await;
        let mut stream = stream.expect("a connection");
        stream.write_all(ask.as_bytes()).await.expect("sent");
        unread.push(stream);
    }
    assert_eq!(under.get("/healthz").await.status, 200);
    assert!(under.serving.drain(seconds(20)).await);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_and_are_served_in_the_end() {
    let mut limits = GatewayLimits::default();
    limits.connections = 2;
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let idle = [
        TcpStream::connect(under.address).await.expect("the first"),
        TcpStream::connect(under.address).await.expect("the second"),
    ];
    let mut third = TcpStream::connect(under.address)
        .await
        .expect("the system takes it");
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    third.write_all(ask).await.expect("sent");
    let mut answer = String::new();
    let early = within(millis(100), third.read_to_string(&mut answer)).await;
    assert!(early.is_none(), "{answer}");
    drop(idle);
    let answered = within(seconds(20), third.read_to_string(&mut answer)).await;
    answered.expect("in time").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn sockets_are_connections_as_others_are() {
    let mut limits = GatewayLimits::default();
    limits.connections = 2;
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let mut open = [under.socket().await, under.socket().await];
    for socket in &mut open {
        socket.say(json!({"type": "hello"})).await;
        assert_eq!(socket.json().await["type"], "welcome");
    }
    let answered = under.get("/healthz");
    tokio::pin!(answered);
    let early = within(millis(100), answered.as_mut()).await;
    assert!(early.is_none(), "{early:?}");
    let [first, _second] = open;
    drop(first);
    assert_eq!(answered.await.status, 200);
}

#[tokio::test]
async fn a_reader_of_events_that_takes_nothing_is_dropped_alone() {
    let mut limits = GatewayLimits::default();
    limits.reader = millis(200);
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let (mut slow, mut quick) = (under.socket().await, under.socket().await);
    for socket in [&mut slow, &mut quick] {
        socket.say(json!({"type": "hello"})).await;
        assert_eq!(socket.json().await["type"], "welcome");
        socket
            .say(json!({"type": "watch", "queues": ["mail"]}))
            .await;
        assert_eq!(socket.json().await["type"], "watching");
    }
    let batch = format!("[{}]", vec![r#"{"queue":"mail"}"#; 1_000].join(","));
    let sockets = async || {
        let text = under.get("/metrics").await.body;
        let open = text
            .lines()
            .find(|line| line.starts_with("punctual_sockets"));
        let open = open.unwrap_or_else(|| panic!("no count of sockets: {text}"));
        open.rsplit(' ').next().expect("a number").to_owned()
    };
    let dropped = async {
        while sockets().await != "1" {
            under.send("POST", "/v1/jobs", batch.clone()).await;
            // A reader gets them, or is asked to read again; frames are never kept for it.
            assert!(quick.json().await["cursor"].is_number());
        }
    };
    within(seconds(100), dropped)
        .await
        .expect("the slow one is dropped");
    under.send("POST", "/v1/jobs", batch.clone()).await;
    assert!(quick.json().await["cursor"].is_number());
}

#[tokio::test]
async fn strange_heads_are_refused() {
    let under = serve().await;
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(1_000_000)
    );
    let answer = raw(&under, long.as_bytes()).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let smuggled = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\
                    content-length: 5\r\n\r\nabcde";
    assert!(
        raw(&under, smuggled.as_bytes())
            .await
            .starts_with("HTTP/1.1 400")
    );
    let nameless = "GET /v1/queues HTTP/1.1\r\nconnection: close\r\n\r\n";
    assert!(
        raw(&under, nameless.as_bytes())
            .await
            .contains("host_not_allowed")
    );
}
