use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::engine::*;
use punctual::time::{ManualClock, Timestamp, millis, seconds, within};
use punctual::{Engine, JobId, MemoryEngine, Namespace, NewJob, Result, State};
use punctual_gateway::{Gateway, GatewayLimits, Tokens};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::support::{START, Socket, Under, WORKER, serve_engine, serving};

/// An engine whose claims are answered when a test says so.
#[derive(Debug)]
struct Slow {
    inner: MemoryEngine,
    claimed: Semaphore,
    answers: Semaphore,
}

fn shop() -> Namespace {
    Namespace::new("shop").expect("a name")
}

/// A job is claimed for somebody who hangs up before the answer, which has not come yet.
async fn hung_up(claim: &str) -> (Under, Arc<Slow>, JobId) {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Slow {
        inner: MemoryEngine::with_clock(clock.clone()),
        claimed: Semaphore::new(0),
        answers: Semaphore::new(0),
    });
    let under = serve_engine(engine.clone(), clock).await;
    let job = NewJob::new("a", "1");
    let id = job.id;
    engine.enqueue(&shop(), vec![job]).await.expect("a receipt");
    let mut stream = sent(&under, claim).await;
    engine.claimed.acquire().await.expect("it is open").forget();
    // The gateway closes too once it has heard that nobody listens.
    stream.shutdown().await.expect("it is open");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.expect("it is closed");
    assert!(heard.is_empty(), "{heard:?}");
    (under, engine, id)
}

async fn sent(under: &Under, claim: &str) -> TcpStream {
    let mut stream = TcpStream::connect(under.address).await.expect("it serves");
    let request = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WORKER}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{claim}",
        claim.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

const PATIENT: Duration = seconds(10);

#[tokio::test]
async fn jobs_claimed_for_somebody_who_has_hung_up_are_handed_back() {
    let (_under, engine, id) = hung_up(r#"{"queues":["a"]}"#).await;
    let state = async || {
        let got = engine.get(&shop(), vec![id.into()], false).await;
        got.expect("get")[0].as_ref().expect("it is there").state()
    };
    assert_eq!(state().await, State::Active);
    engine.answers.add_permits(1);
    let comes = async {
        while state().await != State::Ready {
            tokio::task::yield_now().await;
        }
    };
    within(PATIENT, comes).await.expect("it is ready again");
}

#[tokio::test]
async fn a_page_for_a_socket_that_takes_nothing_is_handed_back() {
    let mut limits = GatewayLimits::default();
    limits.reader = millis(200);
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let jobs = (0..16).map(|_| NewJob::new("a", "x".repeat(240 << 10)));
    let jobs: Vec<_> = jobs.collect();
    let first = jobs[0].id;
    for job in jobs {
        let enqueued = under.engine.enqueue(&Namespace::default(), vec![job]).await;
        enqueued.expect("a receipt");
    }
    let stream = TcpSocket::new_v4().expect("a socket");
    stream.set_recv_buffer_size(4 << 10).expect("it is new");
    let stream = stream.connect(under.address).await.expect("it serves");
    let uri = format!("ws://{}/v1/events", under.address);
    let socket = tokio_tungstenite::client_async(uri, stream).await;
    let mut socket = Socket(socket.expect("a socket").0);
    socket.say(json!({"type": "hello"})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let request = json!({"queues": ["a"], "limit": 16});
    socket
        .say(json!({"type": "claim", "ref": 1, "request": request}))
        .await;
    let namespace = Namespace::default();
    let comes = async |state: State| {
        let is = async || {
            let targets = vec![first.into()];
            let got = under.engine.get(&namespace, targets, false).await;
            got.expect("get")[0].as_ref().expect("there").state() == state
        };
        let comes = async {
            while !is().await {
                tokio::task::yield_now().await;
            }
        };
        let told = within(PATIENT, comes).await;
        told.unwrap_or_else(|| panic!("it is never {state}"));
    };
    comes(State::Active).await;
    // The clock stands still: no lease ends.
    comes(State::Ready).await;
    let claim = r#"{"queues":["a"]}"#;
    let claimed = under.send("POST", "/v1/claims", claim).await.json();
    assert_eq!(claimed["pages"][0]["jobs"][0]["attempt"], 2);
}

#[tokio::test]
async fn a_claim_that_may_come_again_gets_its_page_then() {
    let claim = r#"{"queues":["a"],"nonce":"00000000000000aa",
        "worker":{"id":"0f1e2d3c-0000-4000-8000-000000000001"}}"#;
    let (under, engine, _) = hung_up(claim).await;
    // One answer: nobody else waits for the first.
    engine.answers.add_permits(1);
    let again = within(PATIENT, under.send_as(WORKER, "POST", "/v1/claims", claim)).await;
    let page = again.expect("an answer").json();
    assert_eq!(page["pages"][0]["jobs"][0]["attempt"], 1, "{page}");
}

#[async_trait]
impl Engine for Slow {
    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        let claimed = self.inner.claim(namespace, claim).await;
        self.claimed.add_permits(1);
        self.answers.acquire().await.expect("it is open").forget();
        claimed
    }

    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.inner.enqueue(namespace, jobs).await
    }

    async fn extend(&self, namespace: &Namespace, pages: Vec<Extend>) -> Result<Extended> {
        self.inner.extend(namespace, pages).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.inner.settle(namespace, settle).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        self.inner.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.inner.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.inner.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.inner.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.inner.info().await
    }
}
