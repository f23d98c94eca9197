//! Many who sleep until the same due: one of them comes.

/// How often waiters poll for lost wakeups.
mod polls;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Claim, Claimed, WaitFor, Waited, WakeBy, WorkerId, WorkerPlace};
use punctual::time::{ManualClock, Timestamp, millis, minutes, seconds};
use punctual::{Context, Due, Engine, JobRecord, NewJob, Outcome, Worker};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::{QUEUE, connect, here, job, options};

fn due_in(delay: std::time::Duration) -> NewJob {
    job().due(Due::After(delay))
}

/// Enqueues jobs, and receives what wakes them.
async fn enqueue(engine: &RedisEngine, jobs: Vec<NewJob>) {
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    woken(engine).await;
}

fn work() -> WaitFor {
    WaitFor::Work(vec![QUEUE.into()])
}

/// Whether a wakeup has woken that was not received before.
async fn woken(engine: &RedisEngine) -> bool {
    let waited = engine.wait(&here(), work(), Timestamp::ZERO).await;
    waited.expect("wait") == Waited::Work
}

async fn claim(engine: &RedisEngine, worker: WorkerId, limit: usize) -> Claimed {
    let claim = Claim::new(worker, QUEUE, limit);
    engine.claim(&here(), claim).await.expect("claim")
}

/// Counts the claims that a server is sent.
struct Counter {
    monitor: Child,
    port: u16,
}

impl Counter {
    fn start(server: &TestServer) -> Self {
        let mut monitor = Command::new("redis-cli")
            .args(["-p", &server.port().to_string(), "MONITOR"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli runs");
        let mut first = [0; 1];
        let stdout = monitor.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(stdout, &mut first).expect("it watches");
        Self {
            monitor,
            port: server.port(),
        }
    }

    /// How many there were since it began.
    fn end(mut self) -> usize {
        let port = self.port.to_string();
        let said = Command::new("redis-cli")
            .args(["-p", &port, "ECHO", "all of it"])
            .output();
        assert!(said.expect("redis-cli runs").status.success());
        let stdout = self.monitor.stdout.take().expect("it is piped");
        let lines = BufReader::new(stdout)
            .lines()
            .map(|line| line.expect("text"));
        let claims = lines
            .take_while(|line| !line.contains("\"all of it\""))
            .map(|line| claims_in(&line))
            .sum();
        self.monitor.kill().expect("it runs");
        self.monitor.wait().expect("it ends");
        claims
    }
}

/// `... "FCALL" "punctual_1_calls" "1" "BASE" "LETTERS" ...`
fn claims_in(line: &str) -> usize {
    let words: Vec<&str> = line.split("\" \"").collect();
    match words.get(1) {
        Some(&"punctual_1_claim") => 1,
        Some(&"punctual_1_calls") => words[4].matches('C').count(),
        _ => 0,
    }
}

const WORKERS: usize = 20;
const JOBS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_workers_that_sleep_until_a_due_one_comes() {
    let server = TestServer::start();
    let producer = connect(&server.address()).await;
    let jobs = (1..=JOBS).map(|n| due_in(seconds(1) + millis(25) * n as u32));
    enqueue(&producer, jobs.collect()).await;
    let done = Arc::new(Semaphore::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let done = done.clone();
        let engine = connect(&server.address()).await;
        let worker =
            Worker::new(engine)
                .queues([QUEUE])
                .handle_any(move |_: JobRecord, _: Context| {
                    done.add_permits(1);
                    async { Outcome::Completed }
                });
        workers.spawn(async move { worker.run_until(std::future::pending::<()>()).await });
    }
    let counter = Counter::start(&server);
    let all = done.acquire_many(JOBS as u32).await.expect("it is open");
    drop(all);
    let claims = counter.end();
    // Each comes once or twice to begin with; all at every due would be 800.
    assert!(claims < 200, "{claims} claims for {JOBS} jobs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_come_is_stood_in_for() {
    let server = TestServer::start();
    let [producer, holder, other] = [
        connect(&server.address()).await,
        connect(&server.address()).await,
        connect(&server.address()).await,
    ];
    enqueue(&producer, vec![due_in(millis(300))]).await;
    let held = claim(&holder, WorkerId::random(), 8).await;
    assert!(held.leases.is_empty() && held.wake_at.is_some());
    let reported = claim(&other, WorkerId::random(), 8).await;
    assert_eq!(reported.wake_by, WakeBy::Another, "{reported:?}");
    let waited = other
        .wait(&here(), work(), reported.now + minutes(1))
        .await
        .expect("wait");
    assert_eq!(waited, Waited::Work);
    let claimed = claim(&other, WorkerId::random(), 8).await;
    assert_eq!(claimed.leases.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_ends_passes_its_lead_on() {
    let server = TestServer::start();
    let ends = Arc::new(connect(&server.address()).await);
    let [producer, other] = [
        connect(&server.address()).await,
        connect(&server.address()).await,
    ];
    enqueue(&producer, vec![due_in(minutes(30))]).await;
    let held = claim(&ends, WorkerId::random(), 8).await;
    let reported = claim(&other, WorkerId::random(), 8).await;
    assert_eq!(
        (held.wake_by, reported.wake_by),
        (WakeBy::Claimer, WakeBy::Another)
    );
    let until = reported.now + minutes(1);
    let waits = {
        let ends = ends.clone();
        tokio::spawn(async move { ends.wait(&here(), work(), until).await })
    };
    while !server.cli(&["CLIENT", "LIST"]).contains("cmd=bzpopmin") {
        tokio::task::yield_now().await;
    }
    waits.abort();
    let waited = other.wait(&here(), work(), until).await;
    assert_eq!(waited.expect("wait"), Waited::Work, "it is woken");
    let reported = claim(&other, WorkerId::random(), 8).await;
    assert_eq!(
        reported.wake_by,
        WakeBy::Claimer,
        "who was woken for takes care"
    );
}

/// One engine whose clock stands still.
async fn still(server: &TestServer) -> RedisEngine {
    let clock = ManualClock::new(START);
    let engine = RedisEngine::connect_with_clock(options(&server.address()), clock).await;
    engine.expect("the server is there")
}

#[tokio::test]
async fn the_first_that_learns_of_an_instant_comes_then() {
    let server = TestServer::start();
    let engine = still(&server).await;
    let [one, two, three] = [1, 2, 3].map(WorkerId);
    enqueue(&engine, vec![due_in(minutes(5))]).await;
    assert!(claim(&engine, one, 8).await.wake_by == WakeBy::Claimer);
    assert!(claim(&engine, two, 8).await.wake_by == WakeBy::Another);
    assert!(
        claim(&engine, one, 8).await.wake_by == WakeBy::Claimer,
        "it still does"
    );
    enqueue(&engine, vec![due_in(minutes(2))]).await;
    assert!(
        claim(&engine, three, 8).await.wake_by == WakeBy::Claimer,
        "it is earlier"
    );
    assert!(claim(&engine, one, 8).await.wake_by == WakeBy::Another);
    engine.set_time(START + seconds(31)).await.expect("set");
    assert!(
        claim(&engine, one, 8).await.wake_by == WakeBy::Claimer,
        "it may be gone"
    );
}

#[tokio::test]
async fn a_full_worker_passes_its_lead_on() {
    let server = TestServer::start();
    let engine = still(&server).await;
    let [one, two] = [1, 2].map(WorkerId);
    enqueue(&engine, vec![due_in(seconds(1)), due_in(minutes(2))]).await;
    assert!(claim(&engine, one, 8).await.wake_by == WakeBy::Claimer);
    assert!(claim(&engine, two, 8).await.wake_by == WakeBy::Another);
    engine.set_time(START + seconds(1)).await.expect("set");
    assert_eq!(claim(&engine, one, 1).await.leases.len(), 1);
    assert!(woken(&engine).await, "another worker is to come");
    assert!(claim(&engine, two, 8).await.wake_by == WakeBy::Claimer);
}

#[tokio::test]
async fn a_worker_that_does_not_return_never_leads() {
    let server = TestServer::start();
    let engine = still(&server).await;
    enqueue(&engine, vec![due_in(minutes(5))]).await;
    let by_hand = Claim::new(WorkerId(1), QUEUE, 8).place(WorkerPlace::Elsewhere);
    let reported = engine.claim(&here(), by_hand).await.expect("claim");
    assert_eq!(reported.wake_by, WakeBy::Claimer);
    let next = claim(&engine, WorkerId(2), 8).await;
    assert_eq!(next.wake_by, WakeBy::Claimer);
}
