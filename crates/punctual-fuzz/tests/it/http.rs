//! Fuzzes HTTP requests to the gateway.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use punctual::MemoryEngine;
use punctual_fuzz::fuzz;
use punctual_gateway::{Gateway, Token, Tokens};

const TOKEN: &str = "admin-token-0123456789";

/// Requests that are understood: a route, and behind the first line its body.
const REQUESTS: [&str; 12] = [
    r#"POST /v1/jobs
{"queue":"orders","kind":"cancel","payload":{"order":7},"delay":"30m","priority":3,"max_attempts":5}"#,
    r#"POST /v1/jobs
{"jobs":[{"queue":"mail","payload_base64":"aGk=","at":"2026-11-21T10:00:00Z","headers":{"a":"b"}},{"queue":"mail"}]}"#,
    r#"POST /v1/jobs
{"queue":"orders","unique":{"key":"order:7","policy":"replace"},"group":{"key":"ann","on_retry":"hold"},"retry":{"kind":"exponential","base":"1s","factor":2,"cap":"1h","jitter":true},"expires_at":"2027-01-01T00:00:00Z","retention":"1d","timeout":"5s","wait_for":["paid"]}"#,
    r#"POST /v1/edits
{"ids":["0190a1b2-0000-7000-8000-000000000001"],"action":"cancel"}"#,
    r#"POST /v1/edits
{"filter":{"queue":"orders","state":"ready"},"action":"reschedule","delay":"5m","limit":10,"dry_run":true}"#,
    r#"POST /v1/claims
{"worker":{"id":"0190a1b2-0000-4000-8000-000000000002","host":"a","slots":3},"queues":["orders"],"limit":2,"lease_duration":"10s"}"#,
    r#"POST /v1/extensions
{"leases":[{"token":"1-0000000000000002","lease_duration":"10s","jobs":[]}]}"#,
    r#"POST /v1/settlements
{"leases":[{"token":"1-0000000000000002","settlements":[{"id":"0190a1b2-0000-7000-8000-000000000001","attempt":1,"outcome":"completed","effects":[{"enqueue":{"queue":"mail"}}]}]}]}"#,
    r#"POST /v1/queues/pause
{"queue":"orders"}"#,
    r#"PUT /v1/queues/settings
{"queue":"orders","max_pending":100,"on_full":"refuse","version":0}"#,
    "POST /v1/queues/purge\n{\"queue\":\"orders\",\"dry_run\":true}",
    "POST /v1/bulk\n{\"queue\":\"orders\"}\n{\"queue\":\"mail\",\"delay\":\"1s\"}\n",
];

/// Sends a body; answers the status, and None if the connection closed or nothing came in time.
fn send(address: SocketAddr, route: &str, body: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).expect("the gateway is there");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a span");
    let head = format!(
        "{route} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1)?.parse().ok()
}

/// No body brings the gateway down or out of step: it answers, and what it answers is no fault of
/// its own.
#[test]
fn bodies_of_requests_are_answered_or_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let token = Token::parse(&format!("{TOKEN} shop admin")).expect("a token");
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::new(vec![token]));
    let serving = runtime.block_on(gateway.serve(([127, 0, 0, 1], 0).into()));
    let serving = serving.expect("a free port");
    let address = serving.address();
    let routes: Vec<&str> = REQUESTS
        .iter()
        .map(|request| route(request.as_bytes()))
        .collect();
    let seeds = REQUESTS.map(|request| request.as_bytes().to_vec()).to_vec();
    let ran = fuzz("http", seeds, 1_500, |input| {
        // A changed route is another known one: routes are matched, not read.
        let line = input
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let known = routes.iter().find(|route| route.as_bytes() == line);
        let route = known.copied().unwrap_or(routes[input.len() % routes.len()]);
        let body = input.get(line.len() + 1..).unwrap_or_default();
        let status = send(address, route, body);
        let is_answered = status.is_some_and(|status| status < 500);
        assert!(
            is_answered,
            "{route}: {status:?} to {:?}",
            String::from_utf8_lossy(body)
        );
    });
    println!("{ran:?}");
    runtime.block_on(serving.drain(Duration::from_secs(1)));
}

fn route(request: &'static [u8]) -> &'static str {
    let line = request
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    std::str::from_utf8(line).expect("a route is text")
}
