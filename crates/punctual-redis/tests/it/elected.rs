//! Sentinels elect without asking which replica was waited for.

use std::time::Duration;

use punctual::engine::Target;
use punctual::time::{Stopwatch, millis, seconds};
use punctual::{Engine, ErrorKind, JobState, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestSentinels, TestServer};
use tokio::task::block_in_place;

use crate::client::{claim, connect, here, job, options, state};

/// An engine of those servers, once they can keep what is asked for.
async fn engine(servers: &TestSentinels, durability: &str, deadline: Duration) -> RedisEngine {
    let address = format!("{}?durability={durability}", servers.address());
    let watch = Stopwatch::start();
    loop {
        match RedisEngine::connect(options(&address).deadline(deadline)).await {
            Ok(engine) => return engine,
            Err(error) => assert!(watch.elapsed() < LIMIT, "{error}"),
        }
    }
}

const LIMIT: Duration = seconds(90);

async fn enqueue(engine: &RedisEngine, job: &NewJob) -> punctual::Result<()> {
    engine.enqueue(&here(), vec![job.clone()]).await.map(drop)
}

async fn is_there(engine: &RedisEngine, job: &NewJob) -> bool {
    let got = engine.get(&here(), vec![Target::Id(job.id)], false).await;
    got.expect("an answer")[0].is_some()
}

/// Blocks until a fact holds.
fn await_fact(fact: impl Fn() -> bool) {
    let watch = Stopwatch::start();
    while !fact() {
        assert!(watch.elapsed() < LIMIT, "it does not come about");
        std::thread::yield_now();
    }
}

/// A replica that shall not become master, as every sentinel knows.
fn passes_over(servers: &TestSentinels, replica: &TestServer) {
    assert_eq!(
        replica.cli(&["CONFIG", "SET", "replica-priority", "0"]),
        "OK"
    );
    let know = |said: &String| said.contains("slave-priority\n0");
    await_fact(|| {
        servers
            .ask_all(&["SENTINEL", "REPLICAS", "main"])
            .iter()
            .all(know)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_two_replicas_has_is_lost_if_the_other_one_becomes_master() {
    let mut servers = block_in_place(TestSentinels::start);
    // However long the rest takes, no sentinel acts by itself, and none finds a replica too old.
    let time_limit = [
        "SENTINEL",
        "SET",
        "main",
        "down-after-milliseconds",
        "600000",
    ];
    block_in_place(|| servers.ask_all(&time_limit));
    let one = engine(&servers, "replica(1)", seconds(20)).await;
    let both = engine(&servers, "replica(2)", millis(1_500)).await;
    let [kept, lost, unanswered] = [job(), job(), job()];
    enqueue(&both, &kept).await.expect("both have it");
    block_in_place(|| {
        let replicas = servers.replicas_of_master();
        passes_over(&servers, replicas[0]);
        replicas[1].cut_off_from_master();
    });
    enqueue(&one, &lost).await.expect("one of them has it");
    let refused = enqueue(&both, &unanswered).await;
    let error = refused.expect_err("both are asked for");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    block_in_place(|| servers.replace_master());
    let after = engine(&servers, "memory", seconds(20)).await;
    assert!(is_there(&after, &kept).await, "both had it");
    assert!(!is_there(&after, &lost).await, "who has it is not master");
}

/// A replica that was started again after its master and it had been killed: what an election of it
/// would make of the queue. `old` was there when it came to be, `new` since.
async fn started_again(keeping: &[&str]) -> (RedisEngine, NewJob, NewJob, [TestServer; 2]) {
    let (old, new) = (job(), job());
    let mut master = TestServer::with(keeping);
    let alone = connect(&master.address()).await;
    enqueue(&alone, &old).await.expect("a master");
    let port = master.port().to_string();
    let follows = [keeping, &["--replicaof", "127.0.0.1", &port]].concat();
    let mut replica = block_in_place(|| TestServer::with(&follows));
    let is_online = || {
        master
            .cli(&["INFO", "replication"])
            .contains("state=online")
    };
    block_in_place(|| {
        await_fact(is_online);
        await_fact(|| replica.has_written_down());
    });
    let address = format!("{}?durability=replica(1)", master.address());
    let engine = connect(&address).await;
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    assert!(lease.complete(&engine).await.expect("settle"));
    enqueue(&engine, &new).await.expect("the replica has it");
    block_in_place(|| {
        master.kill();
        replica.kill();
        replica.restart_with(keeping);
    });
    let after = connect(&replica.address()).await;
    (after, old, new, [master, replica])
}

/// A server writes down what it gets from its master as a whole, whatever its settings, and starts
/// with that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_writes_nothing_down_starts_again_with_what_once_was() {
    let (after, old, new, _servers) = started_again(&["--save", ""]).await;
    assert_eq!(state(&after, old.id).await, Some(JobState::Ready));
    assert!(!is_there(&after, &new).await, "it was acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_writes_everything_down_starts_again_with_all_it_had() {
    let (after, old, new, _servers) = started_again(&TestServer::KEEPS_ALL).await;
    assert_ne!(state(&after, old.id).await, Some(JobState::Ready));
    assert_eq!(state(&after, new.id).await, Some(JobState::Ready));
}
