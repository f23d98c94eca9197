//! Unit tests of `api::claims`.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use http_body_util::BodyExt;
use punctual::time::{ManualClock, Timestamp, seconds, within};
use punctual::{Engine, JobId, JobState, MemoryEngine, Namespace, NewJob};

use super::*;
use crate::access::Tokens;
use crate::http::Caller;
use crate::serve::Gateway;

/// A gateway whose engine has one job, and whose time stands still: no lease ends.
struct Bench {
    shared: Shared,
    caller: Caller,
    engine: Arc<MemoryEngine>,
    job: JobId,
}

async fn bench() -> Bench {
    let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
    let engine = Arc::new(MemoryEngine::with_clock(clock));
    let job = NewJob::new("a", "1");
    let id = job.id;
    let namespace = Namespace::default();
    let enqueued = engine.enqueue(&namespace, vec![job]).await;
    enqueued.expect("a receipt");
    Bench {
        shared: Gateway::new(engine.clone(), Tokens::open()).shared(),
        caller: Caller::local(namespace),
        engine,
        job: id,
    }
}

impl Bench {
    fn request(&self) -> ClaimRequest {
        serde_json::from_str(r#"{"queues":["a"]}"#).expect("a claim")
    }

    async fn becomes(&self, state: JobState) {
        let is = async || {
            let targets = vec![self.job.into()];
            let got = self
                .engine
                .get(&self.caller.namespace, targets, false)
                .await;
            got.expect("get")[0].as_ref().expect("it is there").state() == state
        };
        let comes = async {
            while !is().await {
                tokio::task::yield_now().await;
            }
        };
        let reported = within(seconds(10), comes).await;
        reported.unwrap_or_else(|| panic!("it is never {state}"));
    }
}

#[tokio::test]
async fn a_lease_that_was_answered_and_never_read_is_handed_back() {
    let bench = bench().await;
    let mut claiming = Box::pin(claim_for(&bench.shared, &bench.caller, bench.request()));
    let first = poll_fn(|context| Poll::Ready(claiming.as_mut().poll(context).is_pending()));
    assert!(first.await, "another task asks the engine");
    // Answered by now, without a word to who asked.
    bench.becomes(JobState::Active).await;
    drop(claiming);
    bench.becomes(JobState::Ready).await;
}

#[tokio::test]
async fn a_lease_is_released_unless_its_answer_is_written() {
    let bench = bench().await;
    let claim = async || {
        let allowed = Allowed(bench.caller.clone(), std::marker::PhantomData);
        let answer = claim(State(bench.shared.clone()), allowed, Read(bench.request())).await;
        answer.unwrap_or_else(|problem| panic!("{problem:?}"))
    };
    drop(claim().await);
    bench.becomes(JobState::Ready).await;
    let written = claim().await.into_body().collect().await;
    let written = written.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&written);
    assert!(text.contains(&bench.job.to_string()), "{text}");
    // Whatever would hand it back has its turn.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    bench.becomes(JobState::Active).await;
}
