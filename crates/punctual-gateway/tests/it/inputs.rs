//! What no client sends by mistake: bodies without an end, tokens without a bound, sockets that are
//! silent.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use punctual::engine::WaitFor;
use punctual::time::{Stopwatch, Timestamp, millis, seconds, within};
use punctual::wire::{self, Call};
use punctual_gateway::{Gateway, GatewayLimits, Token, Tokens};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::{ADMIN, Reply, Under, serve, serving};

/// A connection that has sent this head; its body is still to come.
async fn begun(under: &Under, route: &str, content_type: &str, length: &str) -> TcpStream {
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: {content_type}\r\n{length}\r\nconnection: close\r\n\r\n"
    );
    let stream = TcpStream::connect(under.address).await;
    let mut stream = stream.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

async fn jobs(under: &Under) -> usize {
    let listed = under.get("/v1/jobs").await.json();
    listed["jobs"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_chunked_body_where_a_route_takes_none_is_refused() {
    let under = serve().await;
    let part = r#"{"name":"a","seal":false,"steps":[{"name":"b","job":{"queue":"q"}}]}"#;
    assert_eq!(under.send("POST", "/v1/flows", part).await.status, 200);
    let request = format!(
        "POST /v1/flows/a/cancel HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
         c\r\n{{\"from\":\"b\"}}\r\n0\r\n\r\n"
    );
    let mut stream = TcpStream::connect(under.address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    assert!(answer.contains("takes no body"), "{answer}");
    let flow = under.get("/v1/flows/a").await.json();
    assert_eq!(flow["state"], "open", "nothing was cancelled");
}

#[tokio::test]
async fn a_chunked_body_without_an_end_is_refused_at_its_bound() {
    let under = serve().await;
    let body = "application/json";
    let stream = begun(&under, "/v1/jobs", body, "transfer-encoding: chunked").await;
    let (mut reads, mut writes) = stream.into_split();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x1_0000], b"\r\n"].concat();
    let endless = async {
        let mut sent = 0;
        while writes.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    };
    let answer = async {
        let mut answer = Vec::new();
        // Reset, if what is on its way is not read any more.
        let _ = reads.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let both = async { tokio::join!(endless, answer) };
    let (sent, answer) = within(seconds(60), both).await.expect("an end in time");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
    assert_eq!(jobs(&under).await, 0);
}

/// An answer without what differs from request to request.
fn bare(reply: &Reply) -> (u16, String) {
    let id = reply.headers["x-request-id"].to_str().expect("text");
    (reply.status, reply.body.replace(id, "ID"))
}

#[tokio::test]
async fn a_truncated_token_is_no_token_at_all() {
    let under = serve().await;
    let plain = [("host", "localhost")];
    let none = under.send_with(&plain, "GET", "/v1/queues", "").await;
    let longer = format!("{ADMIN}x");
    for token in [&ADMIN[..ADMIN.len() - 1], &ADMIN[..8], "a", "", &longer] {
        let reply = under.send_as(token, "GET", "/v1/queues", "").await;
        assert_eq!(reply.status, 401, "{token}");
        assert_eq!(bare(&reply), bare(&none), "{token}");
        let mut socket = under.socket().await;
        socket.say(json!({"type": "hello", "token": token})).await;
        assert_eq!(socket.closed().await, 4401, "{token}");
    }
}

#[tokio::test]
async fn a_token_of_a_mebibyte_is_refused_and_others_are_served() {
    let under = serve().await;
    let long = ADMIN.repeat((1 << 20) / ADMIN.len());
    let head = format!(
        "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {long}\r\n\r\n"
    );
    let stream = TcpStream::connect(under.address).await;
    let mut stream = stream.expect("a connection");
    let talk = async {
        // It may close before everything is sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer = within(seconds(20), talk).await.expect("an end in time");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": long})).await;
    assert_eq!(socket.closed().await, 4401);
    assert_eq!(under.get("/v1/queues").await.status, 200);
}

#[tokio::test]
async fn a_socket_that_says_nothing_is_closed_after_five_seconds() {
    let under = serve().await;
    let mut socket = under.socket().await;
    // A ping keeps a connection alive, but authenticates no client.
    let ping = Message::Ping(Default::default());
    socket.0.send(ping).await.expect("sent");
    let answer = socket.0.next().await;
    assert!(matches!(answer, Some(Ok(Message::Pong(_)))), "{answer:?}");
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn a_socket_of_another_site_or_name_is_refused_before_its_upgrade() {
    let under = serve().await;
    let own = format!("http://{}", under.address);
    let own_host = under.address.to_string();
    for (host, origin, code) in [
        (&*own_host, "http://evil.example", "origin_not_allowed"),
        (&*own_host, "null", "origin_not_allowed"),
        (&*own_host, "http://localhost:1", "origin_not_allowed"),
        ("evil.example", "http://evil.example", "host_not_allowed"),
        ("localhost.evil.example", &*own, "host_not_allowed"),
        (&*own_host, &*own, ""),
    ] {
        let mut request = format!("ws://{}/v1/events", under.address)
            .into_client_request()
            .expect("a request");
        let headers = request.headers_mut();
        headers.insert("host", host.parse().expect("a host"));
        headers.insert("origin", origin.parse().expect("an origin"));
        let stream = TcpStream::connect(under.address).await;
        let opened = tokio_tungstenite::client_async(request, stream.expect("a connection")).await;
        match opened {
            Ok(_) => assert_eq!(code, "", "{host} {origin} was let in"),
            Err(Error::Http(refused)) => {
                assert_eq!(refused.status(), 403, "{host} {origin}");
                let body = refused.into_body().unwrap_or_default();
                let reported = String::from_utf8_lossy(&body);
                assert!(!code.is_empty() && reported.contains(code), "{reported}");
            }
            Err(error) => panic!("{host} {origin}: {error}"),
        }
    }
}

#[tokio::test]
async fn numbers_out_of_all_range_are_refused_with_the_range() {
    let under = serve().await;
    for path in [
        "/v1/jobs?limit=1000000000",
        "/v1/jobs?limit=1e9",
        "/v1/jobs?limit=99999999999999999999999",
        "/v1/jobs?payloads=false&limit=1001",
        "/v1/jobs?page=1000000000",
        "/v1/jobs?offset=1000000000",
        "/v1/audit?limit=1000000000",
    ] {
        let reply = under.get(path).await;
        assert_eq!(reply.status, 422, "{path}: {reply:?}");
    }
    let reported = under.get("/v1/jobs?limit=1000000000").await.body;
    assert!(reported.contains("1 to 200"), "{reported}");
}

/// In 200 KiB of `a` such an expression would be looked for until the sun is out.
#[tokio::test]
async fn a_text_is_searched_as_it_is_and_never_as_an_expression() {
    let under = serve().await;
    let evil = "(a+)+$";
    let put = async |payload: &str| {
        let body = json!({"queue": "a", "payload": payload}).to_string();
        under.send("POST", "/v1/jobs", body).await.json()["id"].clone()
    };
    put(&format!("{}b", "a".repeat(200 << 10))).await;
    let meant = put(&format!("the expression {evil} itself")).await;
    for (text, found) in [("(a%2B)%2B%24", vec![meant]), (".*", vec![]), ("[", vec![])] {
        let listed = under.get(&format!("/v1/jobs?text={text}")).await.json();
        let jobs = listed["jobs"].as_array().expect("a list").iter();
        let ids: Vec<_> = jobs.map(|job| job["id"].clone()).collect();
        assert_eq!(ids, found, "{text}");
    }
}

/// A gateway that bears so much silence within a body.
async fn patient(silence: Duration) -> Under {
    let mut limits = GatewayLimits::default();
    limits.body = silence;
    let token = Token::parse(&format!("{ADMIN} shop admin")).expect("a token");
    let tokens = Tokens::new(vec![token]);
    serving(|engine| Gateway::new(engine, tokens).limits(limits)).await
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up_and_puts_nothing_in() {
    let under = patient(millis(200)).await;
    for (route, content_type) in [
        ("/v1/jobs", "application/json"),
        ("/v1/bulk", "application/x-ndjson"),
        ("/v1/calls", "application/vnd.punctual.calls+msgpack"),
    ] {
        for length in ["content-length: 13", "transfer-encoding: chunked"] {
            let part = match length.starts_with('c') {
                true => "{\"queue",
                false => "d\r\n{\"queue\"",
            };
            let mut stream = begun(&under, route, content_type, length).await;
            stream.write_all(part.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            let ended = within(seconds(20), stream.read_to_string(&mut answer)).await;
            let ended = ended.unwrap_or_else(|| panic!("{route} {length} is not given up"));
            assert!(
                ended.is_err() || answer.contains("request_timeout"),
                "{route} {length}: {answer}"
            );
        }
    }
    assert_eq!(jobs(&under).await, 0);
}

#[tokio::test]
async fn a_body_that_is_slow_is_taken_within_its_time() {
    let under = patient(seconds(30)).await;
    let length = "content-length: 13";
    let mut stream = begun(&under, "/v1/jobs", "application/json", length).await;
    let body = br#"{"queue":"a"}"#;
    for byte in body {
        let answered = within(millis(200), stream.readable()).await;
        assert!(answered.is_none(), "it was answered before its end");
        stream.write_all(&[*byte]).await.expect("sent");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// It says that the gateway is there: a waiting client can distinguish that from a connection that
/// is dead.
#[tokio::test]
async fn a_wait_of_an_engine_elsewhere_is_not_silent_for_long() {
    let under = serve().await;
    let work = WaitFor::Work(vec!["mail".into()]);
    let span = wire::silence_of_wait(&work);
    let call = wire::encode(&Call::Wait(work, Timestamp::MAX)).expect("bytes");
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", wire::CONTENT_TYPE),
    ];
    let watch = Stopwatch::start();
    let reply = under.send_with(&headers, "POST", "/v1/calls", call).await;
    assert_eq!((reply.status, &*reply.body), (204, ""));
    assert!(watch.elapsed() >= span);
}
