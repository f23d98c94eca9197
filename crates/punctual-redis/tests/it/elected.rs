use std::time::Duration;

use punctual::engine::Target;
use punctual::time::{Stopwatch, millis, seconds};
use punctual::{Engine, ErrorKind, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestSentinels, TestServer};
use tokio::task::block_in_place;

use crate::client::{here, job, options};

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

/// A replica that has what it has, and gets no more of its master.
fn cut_off(replica: &TestServer) {
    for set in ["masteruser", "masterauth"] {
        assert_eq!(replica.cli(&["CONFIG", "SET", set, "nobody"]), "OK");
    }
    replica.cli(&["CLIENT", "KILL", "TYPE", "master"]);
    let down = || {
        replica
            .cli(&["INFO", "replication"])
            .contains("master_link_status:down")
    };
    await_fact(down);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_two_replicas_has_is_lost_if_the_other_one_becomes_master() {
    let mut servers = block_in_place(TestSentinels::start);
    // However long the rest takes, no sentinel acts by itself, and none finds a replica too old.
    let patience = [
        "SENTINEL",
        "SET",
        "main",
        "down-after-milliseconds",
        "600000",
    ];
    block_in_place(|| servers.ask_all(&patience));
    let one = engine(&servers, "replica(1)", seconds(20)).await;
    let both = engine(&servers, "replica(2)", millis(1_500)).await;
    let [kept, lost, unanswered] = [job(), job(), job()];
    enqueue(&both, &kept).await.expect("both have it");
    block_in_place(|| {
        let replicas = servers.replicas_of_master();
        passes_over(&servers, replicas[0]);
        cut_off(replicas[1]);
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
