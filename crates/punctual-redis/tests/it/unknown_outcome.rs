//! Calls that were done, whose answer was lost, and which the server refuses when they are sent
//! again.

use std::sync::Arc;

use punctual::engine::EnqueueVerdict;
use punctual::{Engine, Error, ErrorKind, JobId, JobState, NewJob, Outcome, Result};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy, TestServer, Weather};
use tokio::task::JoinHandle;

use crate::client::{claim, connect, enqueue, here, job, state};

/// A setting under which a server refuses, and as what.
const REFUSALS: [(&str, ErrorKind); 2] = [
    ("maxmemory", ErrorKind::EngineFull),
    ("min-replicas-to-write", ErrorKind::DurabilityUnavailable),
];

struct Scene {
    server: TestServer,
    proxy: TestProxy,
    /// Behind the proxy.
    engine: Arc<RedisEngine>,
    direct: RedisEngine,
}

impl Scene {
    async fn start() -> Self {
        let server = TestServer::start();
        let proxy = TestProxy::to(server.port()).await;
        let engine = Arc::new(connect(&proxy.address()).await);
        let direct = connect(&server.address()).await;
        enqueue(&engine).await.expect("it greets");
        Self {
            server,
            proxy,
            engine,
            direct,
        }
    }

    fn sets(&self, name: &str, value: &str) {
        assert_eq!(self.server.cli(&["CONFIG", "SET", name, value]), "OK");
    }

    fn sends(&self, job: &NewJob) -> JoinHandle<Result<EnqueueVerdict>> {
        let (engine, job) = (self.engine.clone(), job.clone());
        tokio::spawn(async move {
            let sent = engine.enqueue(&here(), vec![job]).await?;
            Ok(sent.receipts[0].verdict)
        })
    }

    /// Awaits that a job is in a state, while no answer comes through, and has the server refuse
    /// from then on.
    async fn refuses_once(&self, job: JobId, is: JobState, setting: &str) {
        while state(&self.direct, job).await != Some(is) {
            tokio::task::yield_now().await;
        }
        self.sets(setting, "1");
        self.proxy.set_weather(Weather::Fair);
    }
}

fn is_open(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let reported = "unknown: send the same ids again";
    assert!(error.message().contains(reported), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_that_was_done_is_not_reported_as_refused() {
    for (setting, kind) in REFUSALS {
        let scene = Scene::start().await;
        let job = job();
        scene.proxy.set_weather(Weather::NoReplies);
        let sent = scene.sends(&job);
        scene.refuses_once(job.id, JobState::Ready, setting).await;
        is_open(&sent.await.expect("no panic").expect_err("it is open"));
        let fresh = enqueue(&scene.engine).await.expect_err("it is refused");
        assert_eq!(fresh.kind(), kind, "{fresh}");
        scene.sets(setting, "0");
        let again = scene.sends(&job).await.expect("no panic");
        assert_eq!(again.expect("enqueue"), EnqueueVerdict::Duplicate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_was_done_is_not_reported_as_refused() {
    let scene = Scene::start().await;
    let lease = claim(&scene.engine, 1).await.expect("claim").remove(0);
    let ended = lease.ends(Outcome::Completed);
    scene.proxy.set_weather(Weather::NoReplies);
    let engine = scene.engine.clone();
    let settled = tokio::spawn(async move { engine.settle(&here(), ended).await.map(drop) });
    let (setting, _) = REFUSALS[1];
    let id = lease.jobs[0].id;
    scene.refuses_once(id, JobState::Completed, setting).await;
    is_open(&settled.await.expect("no panic").expect_err("it is open"));
    scene.sets(setting, "0");
    assert!(lease.complete(&scene.engine).await.expect("settle"));
}
