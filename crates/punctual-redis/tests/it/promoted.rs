//! Masters of a cluster that hand over to their replica, or die, under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use punctual::time::{Stopwatch, seconds, within};
use punctual::{ErrorKind, JobId, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestCluster;
use tokio::sync::watch;
use tokio::task::{JoinHandle, block_in_place};

use crate::client::{LIMIT, connect, drain, enqueue, state};
use crate::faults::rounds;
use crate::hand::SHARD;

/// Sends jobs until a test stops it, each by a call that is answered within its deadline.
fn produce(engine: &Arc<RedisEngine>) -> (Arc<AtomicBool>, JoinHandle<Vec<JobId>>) {
    let enough = Arc::new(AtomicBool::new(false));
    let (engine, done) = (engine.clone(), enough.clone());
    let sends = async move {
        let mut sent = Vec::new();
        while !done.load(SeqCst) {
            sent.push(enqueue(&engine).await.expect("within the deadline"));
        }
        sent
    };
    (enough, tokio::spawn(sends))
}

async fn to_replica(cluster: &TestCluster) -> Arc<RedisEngine> {
    Arc::new(connect(&format!("{}?durability=replica(1)", cluster.address())).await)
}

/// Claims and completes until something came.
async fn claims_again(worker: &RedisEngine) -> Vec<JobId> {
    let back = Stopwatch::start();
    loop {
        let done = drain(worker).await;
        assert!(back.elapsed() < LIMIT, "nothing is claimed any more");
        if !done.is_empty() {
            return done;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_under_load_loses_nothing_and_costs_no_call_an_error() {
    // There and back: masters vote about the same one only once in two of their node timeouts, and
    // a hand-over that gets no vote keeps all who write waiting for five seconds.
    for _ in 0..rounds(2).div_ceil(2) {
        let cluster = block_in_place(TestCluster::start_replicated);
        let worker = connect(&cluster.address()).await;
        let waits_not = Arc::new(connect(&cluster.address()).await);
        for engine in [to_replica(&cluster).await, waits_not] {
            let (enough, sent) = produce(&engine);
            claims_again(&worker).await;
            let cluster = &cluster;
            block_in_place(|| cluster.fail_over(SHARD));
            claims_again(&worker).await;
            enough.store(true, SeqCst);
            let sent = sent.await.expect("no error");
            drain(&worker).await;
            for id in sent {
                assert_eq!(state(&worker, id).await, Some(JobState::Completed), "{id}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_under_load_loses_nothing_that_its_replica_has() {
    let mut cluster = block_in_place(TestCluster::start_replicated);
    for node in cluster.nodes() {
        let time_limit = ["CONFIG", "SET", "cluster-node-timeout", "1000"];
        assert_eq!(node.cli(&time_limit), "OK");
    }
    let kept = to_replica(&cluster).await;
    let goes_on = Arc::new(connect(&cluster.address()).await);
    let worker = connect(&cluster.address()).await;
    // Without a replica nothing more is acknowledged.
    let (acknowledges, count) = watch::channel(0);
    let acknowledged = tokio::spawn(async move {
        let mut sent = Vec::new();
        loop {
            match enqueue(&kept).await {
                Ok(id) => {
                    sent.push(id);
                    acknowledges.send_replace(sent.len());
                }
                Err(error) => return (sent, error),
            }
        }
    });
    let (enough, sent) = produce(&goes_on);
    let mut done: HashSet<JobId> = HashSet::new();
    let stopwatch = Stopwatch::start();
    while done.len() < 50 || *count.borrow() <= 10 {
        assert!(stopwatch.elapsed() < LIMIT, "only {} are done", done.len());
        done.extend(drain(&worker).await);
    }
    block_in_place(|| cluster.kill_owner(SHARD));
    done.extend(claims_again(&worker).await);
    enough.store(true, SeqCst);
    sent.await.expect("no error");
    let refused = within(seconds(30), acknowledged).await;
    let refused = refused.expect("it has no replica any more");
    let (acknowledged, error) = refused.expect("no panic");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    done.extend(drain(&worker).await);
    let lost = acknowledged.iter().filter(|id| !done.contains(id)).count();
    assert_eq!(lost, 0, "of {}", acknowledged.len());
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
}
