//! A gateway on a free port, and requests to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use punctual::time::{ManualClock, Timestamp, seconds, within};
use punctual::{Engine, MemoryEngine};
use punctual_gateway::{Gateway, Relays, Serving, Token, Tokens};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

pub(crate) const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
pub(crate) const ADMIN: &str = "admin-token-0123456789";
pub(crate) const READER: &str = "reader-token-0123456789";
pub(crate) const PRODUCER: &str = "producer-token-0123456789";
pub(crate) const WORKER: &str = "worker-token-0123456789";
pub(crate) const OTHER: &str = "other-shop-token-0123456789";
pub(crate) const OPERATOR: &str = "operators-token-0123456789";

/// A gateway, most often over a memory engine whose clock stands still.
pub(crate) struct Under {
    pub(crate) serving: Serving,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: ManualClock,
    pub(crate) address: SocketAddr,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Bytes of the body as it came.
    pub(crate) length: usize,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
    /// The same where it is no text.
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        let error = &self.json()["error"];
        assert_eq!(
            error["request_id"],
            self.headers["x-request-id"].to_str().expect("text")
        );
        error["code"].as_str().expect("a code").to_owned()
    }
}

/// A gateway over a memory engine whose clock stands still.
pub(crate) async fn serve() -> Under {
    let clock = ManualClock::new(START);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    serve_engine(engine, clock).await
}

/// The same, with tokens of one namespace and no other.
pub(crate) async fn serve_one_namespace() -> Under {
    let tokens = tokens(&[
        format!("{ADMIN} shop admin,operator"),
        format!("{READER} shop read"),
    ]);
    serving(|engine| Gateway::new(engine, tokens)).await
}

/// A gateway for the namespace `other` alone, over an engine that others share.
pub(crate) async fn serve_lone(shared: &Under) -> Under {
    let tokens = tokens(&[format!("{OTHER} other admin")]);
    let gateway = Gateway::new(shared.engine.clone(), tokens);
    under(gateway, shared.engine.clone(), shared.clock.clone()).await
}

pub(crate) fn tokens(lines: &[String]) -> Tokens {
    let tokens = lines.iter().map(|line| Token::parse(line));
    Tokens::new(tokens.map(|token| token.expect("a token")).collect())
}

/// The same over a memory engine whose clock runs, for workers in other processes.
pub(crate) async fn serve_in_real_time() -> Under {
    serve_engine(Arc::new(MemoryEngine::new()), ManualClock::new(START)).await
}

/// A gateway beside which these relays run.
pub(crate) async fn serve_beside(relays: Relays) -> Under {
    let clock = ManualClock::new(START);
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let gateway = Gateway::new(engine.clone(), usual_tokens()).relays(relays);
    under(gateway, engine, clock).await
}

/// A gateway over an engine.
pub(crate) async fn serve_engine(engine: Arc<dyn Engine>, clock: ManualClock) -> Under {
    let gateway = Gateway::new(engine.clone(), usual_tokens());
    under(gateway, engine, clock).await
}

fn usual_tokens() -> Tokens {
    tokens(&[
        format!("{ADMIN} shop admin"),
        format!("{READER} shop read"),
        format!("{PRODUCER} shop enqueue"),
        format!("{WORKER} shop work"),
        format!("{OTHER} other admin"),
        format!("{OPERATOR} other read,operator"),
    ])
}

/// A gateway that is made otherwise, over a memory engine whose clock stands still.
pub(crate) async fn serving(make: impl FnOnce(Arc<dyn Engine>) -> Gateway) -> Under {
    let clock = ManualClock::new(START);
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock.clone()));
    under(make(engine.clone()), engine, clock).await
}

async fn under(gateway: Gateway, engine: Arc<dyn Engine>, clock: ManualClock) -> Under {
    let serving = gateway
        .serve(([127, 0, 0, 1], 0).into())
        .await
        .expect("a free port");
    let address = serving.address();
    Under {
        serving,
        engine,
        clock,
        address,
    }
}

impl Under {
    /// A request with the admin's token.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        self.send_as(ADMIN, method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    pub(crate) async fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("host", "localhost"),
            ("authorization", &*authorization),
            ("content-type", "application/json"),
        ];
        self.send_with(&headers, method, path, body).await
    }

    pub(crate) async fn send_with(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        let stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let driver = tokio::spawn(connection);
        let mut request = hyper::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let answer = async {
            let response = sender.send_request(request).await.expect("an answer");
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.expect("a body").to_bytes();
            let body = match head.headers.get("content-encoding") {
                Some(_) => unzipped(&bytes),
                None => bytes.to_vec(),
            };
            Reply {
                status: head.status.as_u16(),
                length: bytes.len(),
                headers: head.headers,
                body: String::from_utf8_lossy(&body).into_owned(),
                bytes: body,
            }
        };
        let reply = within(seconds(20), answer)
            .await
            .expect("an answer in time");
        drop(sender);
        let _ = driver.await;
        reply
    }

    pub(crate) async fn socket(&self) -> Socket {
        let stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        let uri = format!("ws://{}/v1/events", self.address);
        let (socket, _) = tokio_tungstenite::client_async(uri, stream)
            .await
            .expect("a socket");
        Socket(socket)
    }
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(bytes);
    std::io::Read::read_to_end(&mut gzip, &mut read).expect("gzip");
    read
}

/// A WebSocket that speaks JSON.
pub(crate) struct Socket(pub(crate) WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn say(&mut self, frame: Value) {
        let text = Message::text(frame.to_string());
        self.0.send(text).await.expect("a socket that takes it");
    }

    /// The next frame that is no ping, within 20 s.
    pub(crate) async fn receive(&mut self) -> Message {
        loop {
            let next = within(seconds(20), self.0.next())
                .await
                .expect("a frame in time");
            match next.expect("a frame").expect("a sound frame") {
                Message::Ping(_) => {}
                message => return message,
            }
        }
    }

    pub(crate) async fn json(&mut self) -> Value {
        let message = self.receive().await;
        let text = message.into_text().expect("text");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
    }

    /// The code that the other end closes with.
    pub(crate) async fn closed(&mut self) -> u16 {
        match self.receive().await {
            Message::Close(Some(frame)) => frame.code.into(),
            other => panic!("not closed: {other:?}"),
        }
    }
}

/// A python3 that has this package: the one that `scripts/test` makes, or the system's.
///
/// # Panics
/// If there is none, with how to install it.
pub(crate) fn python(package: &str) -> PathBuf {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python-tools/bin/python");
    let has_it = |python: &PathBuf| {
        let mut command = Command::new(python);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = quiet.args(["-c", &format!("import {package}")]).status();
        status.is_ok_and(|status| status.success())
    };
    let found = [made, "python3".into()].into_iter().find(has_it);
    found.unwrap_or_else(|| {
        panic!(
            "this test needs a python3 with {package}; run: python3 -m venv target/python-tools && \
             target/python-tools/bin/pip install -r scripts/python-tools.txt"
        )
    })
}
