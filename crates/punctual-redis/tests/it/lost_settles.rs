//! A settle that was taken, whose answer was lost, and which the engine sends again by itself.

use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{LeaseReport, Settle, SettleVerdict, Settlement};
use punctual::{Engine, ErrorKind, JobState, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy, TestServer, Weather};
use tokio::task::JoinHandle;

use crate::client::{Claimed, claim, connect, enqueue, here, state};

struct Lost {
    _server: TestServer,
    proxy: TestProxy,
    /// Behind the proxy.
    engine: Arc<RedisEngine>,
    direct: RedisEngine,
    lease: Claimed,
    settle: Settle,
}

impl Lost {
    async fn of(outcome: Outcome) -> Self {
        let server = TestServer::start();
        let proxy = TestProxy::to(server.port()).await;
        let engine = Arc::new(connect(&proxy.address()).await);
        let direct = connect(&server.address()).await;
        enqueue(&direct).await.expect("enqueue");
        let lease = claim(&engine, 1).await.expect("claim").remove(0);
        let ended = Settlement::new(lease.jobs[0].id, 1, outcome);
        let settle = Settle::new(vec![LeaseReport::new(lease.token, vec![ended])]);
        Self {
            _server: server,
            proxy,
            engine,
            direct,
            lease,
            settle,
        }
    }

    /// Sends the settle and awaits that it is taken, while no answer comes through.
    async fn taken(&self, is_taken: JobState) -> JoinHandle<punctual::Result<Vec<SettleVerdict>>> {
        self.proxy.set_weather(Weather::NoReplies);
        let (engine, settle) = (self.engine.clone(), self.settle.clone());
        let sent = tokio::spawn(async move {
            let settled = engine.settle(&here(), settle).await?;
            Ok(settled.verdicts.into_iter().flatten().collect())
        });
        while state(&self.direct, self.lease.jobs[0].id).await != Some(is_taken) {
            tokio::task::yield_now().await;
        }
        sent
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_was_taken_is_known_again_while_the_job_runs_once_more() {
    let lost = Lost::of(retry()).await;
    let sent = lost.taken(JobState::Ready).await;
    assert_eq!(claim(&lost.direct, 1).await.expect("claim").len(), 1);
    lost.proxy.set_weather(Weather::Fair);
    let verdicts = sent.await.expect("no panic").expect("settle");
    assert_eq!(verdicts, [SettleVerdict::Repeated]);
}

/// The tombstone of a later attempt stands where that of the first stood: no reader can distinguish
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_was_taken_is_not_said_to_have_lost_its_lease() {
    let lost = Lost::of(retry()).await;
    let sent = lost.taken(JobState::Ready).await;
    let again = claim(&lost.direct, 1).await.expect("claim").remove(0);
    let ended = Settlement::new(again.jobs[0].id, 2, Outcome::Completed);
    let settle = Settle::new(vec![LeaseReport::new(again.token, vec![ended])]);
    lost.direct.settle(&here(), settle).await.expect("settle");
    lost.proxy.set_weather(Weather::Fair);
    let error = sent.await.expect("no panic").expect_err("it is open");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    assert!(error.message().contains("unknown"), "{error}");
    let settled = lost.engine.settle(&here(), lost.settle.clone()).await;
    let verdicts = settled.expect("settle").verdicts;
    assert_eq!(
        verdicts,
        [[SettleVerdict::LeaseLost]],
        "reported once it is sure"
    );
}

fn retry() -> Outcome {
    Outcome::Retry {
        after: Some(Duration::ZERO),
    }
}
