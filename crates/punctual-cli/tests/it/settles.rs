//! What a settlement over HTTP costs Redis: as much as one from the library, and those of
//! concurrent requests travel together, each with its own answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use punctual::conformance::START;
use punctual::engine::{Claim, Claimed, LeaseReport, Settle, SettleVerdict, Settlement, WorkerId};
use punctual::time::ManualClock;
use punctual::{Effect, Engine, Namespace, NewJob, Outcome, push};
use punctual_gateway::{Gateway, Serving, Token, Tokens};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CALLBACK: &str = "https://example.com/ended";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Commands that no function of ours gives, those of the test's clock, and the call itself.
const NOT_OURS: [&str; 13] = [
    "get", "set", "info", "config", "client", "hello", "ping", "select", "command", "function",
    "fcall", "fcall_ro", "time",
];

/// A Redis, an engine on it, and a gateway in front of that.
struct Place {
    server: TestServer,
    engine: Arc<RedisEngine>,
    serving: Serving,
}

impl Place {
    async fn new() -> Self {
        let server = TestServer::start();
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options, ManualClock::new(START)).await;
        let engine = Arc::new(engine.expect("the server is there"));
        let tokens = ["mine", "theirs"].map(|shop| {
            let token = Token::parse(&format!("token-of-{shop}-0123456789 {shop} admin"));
            token.expect("a token")
        });
        let gateway = Gateway::new(engine.clone(), Tokens::new(tokens.into()));
        let serving = gateway.serve(([127, 0, 0, 1], 0).into()).await;
        let place = Self {
            server,
            engine,
            serving: serving.expect("a free port"),
        };
        // Shards, queues and what the gateway asks once are known from here on.
        for shop in ["mine", "theirs"] {
            let lease = place.claimed(shop, NewJob::new("a", "1")).await;
            let done = place.connect(shop).await.settle(&[report(&lease)]).await;
            assert_eq!(done, ["settled"]);
        }
        place
    }

    /// How many commands the functions gave so far, and how often functions were called.
    fn counts(&self) -> [u64; 2] {
        let reported = self.server.cli(&["INFO", "commandstats"]);
        let counts = reported.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let count: u64 = rest.split(',').next()?.parse().ok()?;
            Some((name.split('|').next()?.to_owned(), count))
        });
        let mut all = BTreeMap::<String, u64>::new();
        counts.for_each(|(name, count)| *all.entry(name).or_default() += count);
        let called = |name: &str| all.get(name).copied().unwrap_or_default();
        let given = all.iter().filter(|(name, _)| !NOT_OURS.contains(&&***name));
        let given = given.map(|(_, count)| count).sum();
        [given, called("fcall") + called("fcall_ro")]
    }

    /// Enqueues a job, and claims it over HTTP.
    async fn claimed(&self, shop: &str, job: NewJob) -> Value {
        let namespace = Namespace::new(shop).expect("a name");
        let queue = job.queue.clone();
        let sent = self.engine.enqueue(&namespace, vec![job]).await;
        sent.expect("a receipt");
        let mut gateway = self.connect(shop).await;
        let claim = json!({"queues": [queue], "limit": 1});
        let mut answer = gateway.send("/v1/claims", &claim).await;
        let lease = answer["leases"][0].take();
        assert!(lease["token"].is_string(), "{answer}");
        lease
    }

    async fn connect(&self, shop: &str) -> Connection {
        let stream = TcpStream::connect(self.serving.address()).await;
        let stream = stream.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Connection {
            stream,
            token: format!("token-of-{shop}-0123456789"),
        }
    }
}

/// Carries a request at a time to the gateway.
struct Connection {
    stream: TcpStream,
    token: String,
}

impl Connection {
    async fn send(&mut self, path: &str, body: &Value) -> Value {
        self.write(path, body).await;
        self.read().await
    }

    async fn write(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let written = self.stream.write_all(request.as_bytes()).await;
        written.expect("it is sent");
    }

    /// The answer, which ends where its JSON does.
    async fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        loop {
            let read = self.stream.read_buf(&mut bytes).await.expect("an answer");
            let text = String::from_utf8_lossy(&bytes);
            assert!(read > 0, "the connection ended: {text}");
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
            if let Some(Ok(answer)) = body.map(serde_json::from_str) {
                return answer;
            }
        }
    }

    /// Settles; the verdict of each settlement.
    async fn settle(&mut self, leases: &[Value]) -> Vec<String> {
        let answer = self
            .send("/v1/settlements", &json!({"leases": leases}))
            .await;
        verdicts(&answer)
    }
}

fn verdicts(answer: &Value) -> Vec<String> {
    let leases = answer["leases"].as_array();
    let leases = leases.unwrap_or_else(|| panic!("{answer}")).iter();
    let settled = leases.flat_map(|lease| lease["settlements"].as_array().expect("a list"));
    let verdict = |one: &Value| one["verdict"].as_str().expect("a verdict").to_owned();
    settled.map(verdict).collect()
}

/// The completion of the one job of a lease.
fn report(lease: &Value) -> Value {
    let job = &lease["jobs"][0];
    let done = json!({"id": job["id"], "attempt": job["attempt"], "outcome": "completed"});
    json!({"token": lease["token"], "settlements": [done]})
}

fn with_headers(headers: &[(&str, &str)]) -> NewJob {
    let mut job = NewJob::new("a", "1");
    let headers = headers.iter();
    job.headers = headers
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    job
}

/// The settlement that the library sends for the one job of a claim: with what a gateway would add.
fn packed(claimed: &Claimed, effects: Vec<Effect>) -> Settle {
    let lease = &claimed.leases[0];
    let job = &lease.jobs[0];
    let mut done = Settlement::new(job.id, job.attempt, Outcome::Completed);
    done.effects = effects;
    let callback = push::callback(job, &done);
    done.effects
        .extend(callback.map(|job| Effect::Enqueue(Box::new(job))));
    Settle::new(vec![LeaseReport::new(lease.token, vec![done])])
}

#[tokio::test]
async fn a_settle_over_http_costs_redis_what_a_packed_one_does() {
    let place = Place::new().await;
    let mine = Namespace::new("mine").expect("a name");
    let next = || NewJob::new("next", "1");
    for (headers, enqueues) in [
        (&[][..], false),
        (&[][..], true),
        (&[("traceparent", TRACE)][..], true),
        (&[(push::CALLBACK, CALLBACK)][..], false),
        (
            &[(push::CALLBACK, CALLBACK), ("traceparent", TRACE)][..],
            true,
        ),
    ] {
        // Twice: the first brings queues and rows about.
        let mut costs = [[0; 2]; 2];
        for _ in 0..2 {
            let sent = place
                .engine
                .enqueue(&mine, vec![with_headers(headers)])
                .await;
            sent.expect("a receipt");
            let claim = Claim::new(WorkerId(7), "a", 1);
            let claimed = place.engine.claim(&mine, claim).await.expect("a lease");
            let effect = enqueues.then(|| Effect::Enqueue(Box::new(next())));
            let settle = packed(&claimed, effect.into_iter().collect());
            let before = place.counts();
            let settled = place.engine.settle(&mine, settle).await.expect("settled");
            let verdict = &settled.verdicts[0][0];
            assert!(
                matches!(verdict, SettleVerdict::Settled { .. }),
                "{verdict:?}"
            );
            costs[0] = since(before, place.counts());

            let lease = place.claimed("mine", with_headers(headers)).await;
            let mut done = report(&lease);
            if enqueues {
                let effects = json!([{"enqueue": {"queue": "next", "payload": 1}}]);
                done["settlements"][0]["effects"] = effects;
            }
            let mut gateway = place.connect("mine").await;
            let before = place.counts();
            assert_eq!(gateway.settle(&[done]).await, ["settled"]);
            costs[1] = since(before, place.counts());
        }
        let [[packed, _], [over_http, calls]] = costs;
        assert_eq!(calls, 1, "{headers:?}, {enqueues}");
        assert!(
            over_http * 5 <= packed * 6,
            "{headers:?}, {enqueues}: {over_http} commands over HTTP, {packed} packed"
        );
    }
}

fn since(before: [u64; 2], after: [u64; 2]) -> [u64; 2] {
    [after[0] - before[0], after[1] - before[1]]
}

/// Requests at the same time, and the calls of functions that all of them may make.
const REQUESTS: usize = 64;
const CALLS_MAX: u64 = 8;

#[tokio::test]
async fn settles_of_requests_at_the_same_time_share_calls_to_redis() {
    let place = Place::new().await;
    let mut leases = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..REQUESTS {
        leases.push(place.claimed("mine", NewJob::new("a", "1")).await);
        let mut connection = place.connect("mine").await;
        // It is accepted, and the gateway has read from it.
        connection
            .send("/v1/claims", &json!({"queues": ["none"]}))
            .await;
        connections.push(connection);
    }
    let theirs = place.claimed("theirs", NewJob::new("a", "1")).await;
    // Between the good ones: an old token, and the token of another namespace.
    let old = leases[1].clone();
    assert_eq!(
        place.connect("mine").await.settle(&[report(&old)]).await,
        ["settled"]
    );
    leases[1]["token"] = json!("7-00000000000000aa");
    leases[2] = theirs.clone();
    let before = place.counts();
    // All are in the gateway's sockets before it has its turn.
    for (connection, lease) in connections.iter_mut().zip(&leases) {
        let call = json!({"leases": [report(lease)]});
        connection.write("/v1/settlements", &call).await;
    }
    let answers = join_all(connections.iter_mut().map(Connection::read)).await;
    let calls = since(before, place.counts())[1];
    for (nth, answer) in answers.iter().enumerate() {
        let expected = match nth {
            1 | 2 => "lease_lost",
            _ => "settled",
        };
        assert_eq!(verdicts(answer), [expected], "{nth}: {answer}");
    }
    assert!(
        calls <= CALLS_MAX,
        "{calls} calls of functions for {REQUESTS} settles"
    );
    let own = place
        .connect("theirs")
        .await
        .settle(&[report(&theirs)])
        .await;
    assert_eq!(
        own,
        ["settled"],
        "another namespace's settle changed nothing"
    );
}
