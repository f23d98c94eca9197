//! A server that notes what it was sent, and a worker that posts to it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use punctual::engine::{Action, Edit, Got, List, ListBy, Select};
use punctual::time::{Clock, ManualClock, Timestamp, seconds, within};
use punctual::{
    Context, Engine, JobId, JobRecord, JobState, MemoryEngine, Namespace, NewJob, RetryPolicy,
    Worker,
};
use punctual_push::{Allow, Guard, Pusher, Resolve};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }
}

/// What a target does with requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Answer only once this notifies.
    pub(crate) held: Option<Arc<Notify>>,
}

/// A target on a free port, ended with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Mutex<Answer>>,
    pub(crate) most: Arc<AtomicUsize>,
    arrived: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let answer = Arc::new(Mutex::new(Answer {
            status,
            ..Answer::default()
        }));
        let (now, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let arrived: Arc<Notify> = Arc::default();
        let shared = (
            seen.clone(),
            answer.clone(),
            now.clone(),
            most.clone(),
            arrived.clone(),
        );
        let router = Router::new().fallback(move |request: Request| {
            let (seen, answer, now, most, arrived) = shared.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 8 << 20).await.expect("a body");
                let path = head.uri.to_string();
                let headers = head.headers;
                seen.lock().expect("no panic").push(Seen {
                    path,
                    headers,
                    body,
                });
                arrived.notify_waiters();
                let answer = answer.lock().expect("no panic").clone();
                if let Some(held) = answer.held {
                    held.notified().await;
                }
                now.fetch_sub(1, Ordering::SeqCst);
                let mut response = Response::new(Body::from(answer.body));
                *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
                for (name, value) in answer.headers {
                    let value = HeaderValue::from_str(&value).expect("a value");
                    response
                        .headers_mut()
                        .append(HeaderName::from_static(name), value);
                }
                response
            }
        });
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self {
            address,
            seen,
            answer,
            most,
            arrived,
            serving,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?a=1", self.address)
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().expect("no panic") = answer;
    }

    pub(crate) fn status(&self, status: u16) {
        self.answers(Answer {
            status,
            ..Answer::default()
        });
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Waits until that many requests have come.
    pub(crate) async fn until_seen(&self, count: usize) {
        let arrived = async {
            loop {
                let next = self.arrived.notified();
                tokio::pin!(next);
                next.as_mut().enable();
                if self.seen().len() >= count {
                    return;
                }
                next.await;
            }
        };
        let seen = within(seconds(60), arrived).await;
        seen.unwrap_or_else(|| panic!("only {} of {count} requests came", self.seen().len()));
    }

    /// What opens the guard for it.
    pub(crate) fn allow(&self) -> Allow {
        self.address.to_string().parse().expect("a place")
    }

    pub(crate) fn guard(&self) -> Guard {
        Guard::new().allow([self.allow()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An engine with a clock, and what posts its jobs.
pub(crate) struct Under {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: ManualClock,
    pub(crate) pusher: Pusher,
}

impl Under {
    pub(crate) fn new(guard: Guard) -> Self {
        let clock = ManualClock::new(START);
        let pusher = Pusher::new(guard).clock(Arc::new(clock.clone()));
        Self {
            engine: Arc::new(MemoryEngine::with_clock(clock.clone())),
            clock,
            pusher,
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(Pusher) -> Pusher) -> Self {
        self.pusher = change(self.pusher);
        self
    }

    /// A worker on the queue `http:mail`.
    pub(crate) fn worker(&self) -> Worker {
        let pusher = self.pusher.clone();
        Worker::new(&self.engine).queues(["http:mail"]).handle_any(
            move |job: JobRecord, ctx: Context| {
                let pusher = pusher.clone();
                async move { pusher.push(&job, &ctx).await }
            },
        )
    }

    /// Enqueues a job for that URL; its completed record is kept.
    pub(crate) async fn enqueue(&self, url: &str) -> JobId {
        self.send(job(url)).await
    }

    pub(crate) async fn send(&self, job: NewJob) -> JobId {
        let id = job.id;
        let sent = self.engine.enqueue(&Namespace::default(), vec![job]).await;
        assert!(sent.expect("taken").receipts[0].verdict.is_accepted());
        id
    }

    pub(crate) async fn edit(&self, id: JobId, action: Action) {
        let edit = Edit::new(Select::Targets(vec![id.into()]), action);
        let space = Namespace::default();
        self.engine.edit(&space, edit).await.expect("edited");
    }

    /// Posts what is due now.
    pub(crate) async fn run(&self) {
        let ran = within(seconds(60), self.worker().run_until_idle()).await;
        ran.expect("it ends").expect("it works");
    }

    pub(crate) async fn get(&self, id: JobId) -> JobRecord {
        let got = self
            .engine
            .get(&Namespace::default(), vec![id.into()], false)
            .await
            .expect("an answer");
        match got.into_iter().flatten().next() {
            Some(Got::Job(job, _)) => *job,
            other => panic!("{id} is {other:?}"),
        }
    }

    /// Posts a job to that URL once and answers what became of it.
    pub(crate) async fn post(&self, url: &str) -> JobRecord {
        let id = self.enqueue(url).await;
        self.run().await;
        self.get(id).await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// A job for that URL. One draw of a thousand would have it tried again at once.
pub(crate) fn job(url: &str) -> NewJob {
    let mut job = NewJob::new("mail", r#"{"to":"ann"}"#)
        .retention(seconds(3_600))
        .retry(RetryPolicy::fixed(seconds(1)));
    punctual::push::aim(&mut job, url);
    job
}

/// Jobs of a queue, in any state.
pub(crate) async fn jobs(engine: &Arc<dyn Engine>, queue: &str) -> Vec<JobRecord> {
    let mut found = Vec::new();
    for state in JobState::ALL {
        let list = List::new(ListBy::State {
            queue: queue.to_owned(),
            state,
        })
        .limit(100)
        .payloads(true);
        let listing = engine.list(&Namespace::default(), list).await;
        found.extend(listing.expect("an answer").jobs);
    }
    found
}

/// Answers from a list, one per question; the last one again and again.
#[derive(Debug)]
pub(crate) struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    pub(crate) asked: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |text: &&str| text.parse().expect("an address");
        Arc::new(Self {
            answers: answers
                .iter()
                .map(|one| one.iter().map(read).collect())
                .collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl Resolve for Scripted {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let nth = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[nth.min(self.answers.len() - 1)].clone())
    }
}
