//! Topics over several shards: the subscriptions are in each, and a shard that lags is mended.

use punctual::engine::{Guard, LeaseReport, Settle, SettleVerdict, Settlement};
use punctual::time::Stopwatch;
use punctual::topic::{Subscription, TOPICS};
use punctual::{Engine, JobId, NewJob, Outcome, Queue};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{Claimed, LIMIT, claim, connect, enqueue, here};

const FIRST: &str = "punctual:{default/0}:rec";
const OTHER: &str = "punctual:{default/1}:rec";

async fn two_shards(server: &TestServer) -> (std::sync::Arc<RedisEngine>, Queue) {
    let engine = connect(&format!("{}?shards=2", server.address())).await;
    let engine = std::sync::Arc::new(engine);
    let queue = Queue::new(engine.clone());
    let subscription = Subscription::to("mail").name("mailer");
    let subscribed = queue.topics().subscribe("a.*", subscription).await;
    assert!(subscribed.expect("subscribed"));
    (engine, queue)
}

fn of_record(server: &TestServer, key: &str) -> String {
    server.cli(&["HGET", key, TOPICS])
}

/// A lease of the second shard.
async fn lease_of_other(engine: &RedisEngine) -> Claimed {
    for _ in 0..64 {
        enqueue(engine).await.expect("enqueue");
        for lease in claim(engine, 1).await.expect("claim") {
            if lease.token.nonce & 1 == 1 {
                return lease;
            }
        }
    }
    panic!("no job came into the second shard");
}

async fn settle(engine: &RedisEngine, lease: &Claimed, version: u64) -> SettleVerdict {
    let job = &lease.jobs[0];
    let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Completed);
    settlement.guard = Some(Guard::new(TOPICS, version));
    let leases = vec![LeaseReport::new(lease.token, vec![settlement])];
    let settled = engine.settle(&here(), Settle::new(leases)).await;
    settled.expect("settle").verdicts.remove(0).remove(0)
}

#[tokio::test]
async fn every_shard_has_the_subscriptions_and_a_settle_mends_one_that_lags() {
    let server = TestServer::start();
    let (engine, queue) = two_shards(&server).await;
    let kept = of_record(&server, FIRST);
    assert!(
        kept.contains("mailer") && kept == of_record(&server, OTHER),
        "{kept}"
    );
    let published = queue.publish_job("a.b", NewJob::new("x", "{}")).await;
    let version = published.expect("published").version;
    let lease = lease_of_other(&engine).await;
    server.cli(&["HDEL", OTHER, TOPICS]);
    let met = settle(&engine, &lease, version).await;
    assert_eq!(met, SettleVerdict::GuardConflict { version: 0 });
    assert_eq!(of_record(&server, OTHER), kept);
    let met = settle(&engine, &lease, version).await;
    assert!(matches!(met, SettleVerdict::Settled { .. }), "{met:?}");
}

#[tokio::test]
async fn maintenance_mends_a_shard_that_lags() {
    let server = TestServer::start();
    let (engine, _queue) = two_shards(&server).await;
    let kept = of_record(&server, FIRST);
    server.cli(&["HDEL", OTHER, TOPICS]);
    let watch = Stopwatch::start();
    while of_record(&server, OTHER) != kept {
        assert!(watch.elapsed() < LIMIT, "it is not mended");
        engine.maintain().await.expect("maintain");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn copies_of_both_shards_arrive_once_under_one_message() {
    let server = TestServer::start();
    let (engine, queue) = two_shards(&server).await;
    let topics = queue.topics();
    for nth in 0..8 {
        let one = Subscription::to(format!("q{nth}")).name(format!("n{nth}"));
        topics.subscribe("a.>", one).await.expect("subscribed");
    }
    let id = JobId::new();
    let publish = || queue.publish_job("a.b", NewJob::new("x", "{}")).id(id);
    let first = publish().await.expect("published");
    assert_eq!(first.matched, 9);
    let again = publish().await.expect("published");
    for (first, again) in first.copies.iter().zip(&again.copies) {
        assert_eq!(first.id, again.id);
        let name = again.verdict.map(|verdict| verdict.name());
        assert!(name.is_none_or(|name| name == "duplicate"), "{again:?}");
    }
    let stats = engine
        .stats(&here(), Default::default())
        .await
        .expect("stats");
    let pending: u64 = stats
        .queues
        .iter()
        .map(|queue| queue.counts.pending())
        .sum();
    assert_eq!(pending, 9);
}
