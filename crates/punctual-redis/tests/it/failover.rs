//! Masters that fail and slots that move, under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use punctual::engine::Target;
use punctual::time::{Stopwatch, millis, seconds};
use punctual::{Engine, ErrorKind, JobId, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestSentinels, TestServer};
use tokio::task::JoinHandle;

use crate::client::{claim, connect, drain, enqueue, enqueue_surely, here, job, options, state};
use crate::faults::rounds;

const PATIENT: std::time::Duration = seconds(20);

/// An engine with time, once its replicas are there.
async fn patient(address: &str) -> Arc<RedisEngine> {
    loop {
        match RedisEngine::connect(options(address).deadline(PATIENT)).await {
            Ok(engine) => return Arc::new(engine),
            Err(error) if error.kind() == ErrorKind::DurabilityUnavailable => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends jobs until a test stops it, again and again where one is not answered; those that were
/// acknowledged.
fn produce(engine: &Arc<RedisEngine>) -> (Arc<AtomicBool>, JoinHandle<Vec<JobId>>) {
    let enough = Arc::new(AtomicBool::new(false));
    let (engine, done) = (engine.clone(), enough.clone());
    let sends = async move {
        let mut sent = Vec::new();
        while !done.load(SeqCst) || sent.is_empty() {
            let job = job();
            enqueue_surely(&engine, &job).await;
            sent.push(job.id);
        }
        sent
    };
    (enough, tokio::spawn(sends))
}

/// Sends jobs for as long as they are answered, and answers what was acknowledged of them and what
/// ended it.
fn produce_until_refused(engine: &Arc<RedisEngine>) -> JoinHandle<Vec<JobId>> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let mut sent = Vec::new();
        while let Ok(id) = enqueue(&engine).await {
            sent.push(id);
        }
        sent
    })
}

/// The same where every call is to be answered within its deadline.
fn produce_without_error(engine: &Arc<RedisEngine>) -> (Arc<AtomicBool>, JoinHandle<Vec<JobId>>) {
    let enough = Arc::new(AtomicBool::new(false));
    let (engine, done) = (engine.clone(), enough.clone());
    let sends = async move {
        let mut sent = Vec::new();
        while !done.load(SeqCst) || sent.is_empty() {
            sent.push(enqueue(&engine).await.expect("within the deadline"));
        }
        sent
    };
    (enough, tokio::spawn(sends))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_waited_for() {
    let cluster = TestCluster::start();
    let engine = patient(&cluster.address()).await;
    let another = patient(&cluster.address()).await;
    let mut kept = HashSet::new();
    for to in [1, 2, 0].into_iter().cycle().take(rounds(3)) {
        let (enough, sent) = produce_without_error(&engine);
        while drain(&another).await.is_empty() {}
        let cluster = &cluster;
        tokio::task::block_in_place(|| cluster.move_slot("punctual:{default/0}", to));
        while drain(&another).await.is_empty() {}
        enough.store(true, SeqCst);
        kept.extend(sent.await.expect("no panic"));
        drain(&another).await;
    }
    for id in kept {
        assert_eq!(state(&engine, id).await, Some(JobState::Completed), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_nothing_that_a_replica_has() {
    let mut servers = TestSentinels::start();
    let engine = patient(&format!("{}?durability=replica(2)", servers.address())).await;
    let sent = produce_until_refused(&engine);
    let mut done: HashSet<JobId> = HashSet::new();
    while done.len() < 20 {
        done.extend(drain(&engine).await);
    }
    tokio::task::block_in_place(|| servers.kill_master());
    // With one of two replicas gone to be master, two are no more: what is sent now is not
    // answered.
    let one = patient(&format!("{}?durability=replica(1)", servers.address())).await;
    let watch = Stopwatch::start();
    enqueue_surely(&one, &job()).await;
    assert!(watch.elapsed() < seconds(5), "{:?}", watch.elapsed());
    let acknowledged = sent.await.expect("no panic");
    done.extend(drain(&one).await);
    assert!(acknowledged.len() >= 20, "{} jobs", acknowledged.len());
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|id| !done.contains(id))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {} lost",
        lost.len(),
        acknowledged.len()
    );
}

/// A client that does not wait for replicas may lose what the new master had not got: it is
/// counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_over_in_five_seconds_and_what_it_lost_is_counted() {
    let mut servers = TestSentinels::start();
    let engine = patient(&servers.address()).await;
    let (enough, sent) = produce(&engine);
    while claim(&engine, 1).await.expect("claim").is_empty() {}
    tokio::task::block_in_place(|| servers.kill_master());
    let watch = Stopwatch::start();
    enqueue_surely(&engine, &job()).await;
    while claim(&engine, 1).await.expect("claim").is_empty() {}
    assert!(watch.elapsed() < seconds(5), "{:?}", watch.elapsed());
    enough.store(true, SeqCst);
    let kept = sent.await.expect("no panic");
    let mut lost = 0;
    for ids in kept.chunks(1_000) {
        // Those that were done leave a tombstone for two minutes.
        let targets = ids.iter().copied().map(Target::Id).collect();
        let got = engine.get(&here(), targets, false).await.expect("get");
        lost += got.iter().filter(|job| job.is_none()).count();
    }
    println!("{lost} of {} acknowledged jobs lost", kept.len());
    assert!(kept.len() > lost, "those after the failover are there");
}

#[tokio::test]
async fn a_change_is_answered_once_replicas_have_it() {
    let master = TestServer::start();
    let replicates = format!("127.0.0.1 {}", master.port());
    let mut replica = TestServer::with(&["--save", "", "--replicaof", &replicates]);
    while !master
        .cli(&["INFO", "replication"])
        .contains("state=online")
    {
        std::thread::yield_now();
    }
    let address = format!("{}?durability=replica(1)", master.address());
    let engine = RedisEngine::connect(options(&address).deadline(millis(1_500))).await;
    let engine = engine.expect("a replica is there");
    let first = enqueue(&engine).await.expect("enqueue");
    replica.stop();
    let unknown = job();
    let sent = engine.enqueue(&here(), vec![unknown.clone()]).await;
    let error = sent.expect_err("no replica answers");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    replica.go_on();
    enqueue_surely(&engine, &unknown).await;
    drop(master);
    assert_eq!(replica.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    let after = connect(&replica.address()).await;
    let mut left = drain(&after).await;
    left.sort_unstable();
    let mut expected = [first, unknown.id];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn replicas_that_are_not_there_are_refused() {
    let server = TestServer::start();
    let address = format!("{}?durability=replica(1)", server.address());
    let error = RedisEngine::connect(options(&address))
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::DurabilityUnavailable, "{error}");
}
