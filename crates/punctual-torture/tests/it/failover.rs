use punctual::engine::Target;
use punctual::time::{Stopwatch, millis, seconds};
use punctual::{Engine, ErrorKind, Namespace, NewJob};
use punctual_redis::testing::TestSentinels;
use punctual_redis::{Options, RedisEngine};
use tokio::task::block_in_place;

/// An engine of those servers, once they can keep what is asked for.
async fn engine(
    servers: &TestSentinels,
    durability: &str,
    deadline: std::time::Duration,
) -> RedisEngine {
    let address = format!("{}?durability={durability}", servers.address());
    let options: Options = address.parse().expect("an address");
    let watch = Stopwatch::start();
    loop {
        match RedisEngine::connect(options.clone().deadline(deadline)).await {
            Ok(engine) => return engine,
            Err(error) => assert!(watch.elapsed() < LIMIT, "{error}"),
        }
    }
}

const LIMIT: std::time::Duration = seconds(60);

async fn enqueue(engine: &RedisEngine, job: &NewJob) -> punctual::Result<()> {
    let sent = engine.enqueue(&Namespace::default(), vec![job.clone()]);
    sent.await.map(drop)
}

async fn is_there(engine: &RedisEngine, job: &NewJob) -> bool {
    let targets = vec![Target::Id(job.id)];
    let got = engine.get(&Namespace::default(), targets, false).await;
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

/// Sentinels do not ask who was waited for. One of two replicas is not enough where the other one
/// may become master; both are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_of_two_replicas_has_is_lost_if_the_other_one_becomes_master() {
    let mut servers = block_in_place(TestSentinels::start);
    let one = engine(&servers, "replica(1)", seconds(20)).await;
    let both = engine(&servers, "replica(2)", millis(1_500)).await;
    let [kept, lost, unanswered] =
        ["kept", "lost", "unanswered"].map(|name| NewJob::new("mail", name));
    enqueue(&both, &kept).await.expect("both have it");
    block_in_place(|| {
        let followers = servers.followers();
        let never = ["CONFIG", "SET", "replica-priority", "0"];
        assert_eq!(followers[0].cli(&never), "OK");
        let know = |said: String| said.contains("slave-priority\n0");
        await_fact(|| servers.said_of_replicas().into_iter().all(know));
        let elsewhere = ["REPLICAOF", "127.0.0.1", "1"];
        assert_eq!(followers[1].cli(&elsewhere), "OK");
    });
    enqueue(&one, &lost).await.expect("one of them has it");
    let error = enqueue(&both, &unanswered)
        .await
        .expect_err("both are asked for");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    block_in_place(|| servers.kill_master());
    let after = engine(&servers, "memory", seconds(20)).await;
    assert!(is_there(&after, &kept).await, "both had it");
    assert!(!is_there(&after, &lost).await, "who has it is not master");
}
