//! A worker that was there all the time works again within five seconds of the end of what kept it
//! from that, by itself.

use std::time::Duration;

use punctual::engine::{Claim, ExtendVerdict, WorkerId};
use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::{Context, Due, Engine, ErrorKind, JobId, JobRecord, NewJob, Outcome, Worker};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestServer};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, block_in_place};

use crate::client::{QUEUE, claim_as, connect, enqueue, enqueue_surely, here, options};
use crate::hand::SHARD;

/// The first claim comes so soon after a recovery.
const CLAIMED_WITHIN: Duration = seconds(5);
/// How long a call may try that is to fail.
const SHORT: Duration = millis(700);
/// Two of them are long enough for a look to begin and to fail.
const LEASE_DURATION: Duration = millis(1_200);
/// The queue of the worker.
const MAIL: &str = "mail";

async fn connect_for(address: &str, deadline: Duration) -> RedisEngine {
    let engine = RedisEngine::connect(options(address).deadline(deadline)).await;
    engine.expect("the server is there")
}

/// A worker, and the jobs that it has run.
struct AtWork {
    producer: RedisEngine,
    ran: mpsc::UnboundedReceiver<JobId>,
    worker: JoinHandle<punctual::Result<()>>,
}

impl AtWork {
    /// One whose calls have little time, so that some of them fail while it lasts; it has worked.
    async fn on(address: &str) -> Self {
        let (done, ran) = mpsc::unbounded_channel();
        let worker = Worker::new(connect_for(address, SHORT).await)
            .queues([MAIL])
            .handle_any(move |job: JobRecord, _: Context| {
                let _ = done.send(job.id);
                async { Outcome::Completed }
            });
        let mut at_work = Self {
            producer: connect_for(address, seconds(60)).await,
            ran,
            worker: tokio::spawn(worker.run_until(std::future::pending::<()>())),
        };
        at_work.works_again(|| {}).await;
        at_work
    }

    /// Has a job sent while it lasts, ends it, and waits for the job to have run.
    async fn works_again(&mut self, ends: impl FnOnce()) {
        let mail = NewJob::new(MAIL, "{}");
        let id = mail.id;
        let sends = enqueue_surely(&self.producer, &mail);
        let runs = async {
            block_in_place(ends);
            let over = Stopwatch::start();
            let ran = within(seconds(60), self.ran.recv()).await;
            assert_eq!(ran.expect("it works again"), Some(id));
            over.elapsed()
        };
        let ((), took) = tokio::join!(sends, runs);
        assert!(took < CLAIMED_WITHIN, "{took:?}");
        assert!(!self.worker.is_finished(), "it needs no restart");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stood_still_for_two_leases() {
    let mut server = block_in_place(TestServer::start);
    let mut at_work = AtWork::on(&server.address()).await;
    let holder = connect_for(&server.address(), 2 * LEASE_DURATION).await;
    enqueue(&holder).await.expect("enqueue");
    let wants = Claim::new(WorkerId::random(), QUEUE, 1).lease_duration(LEASE_DURATION);
    let lease = claim_as(&holder, wants).await.expect("claim").remove(0);
    block_in_place(|| server.stop());
    // It fails after two leases; the worker polls each second, and fails too.
    let error = lease.extend(&holder).await.expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    at_work.works_again(|| server.go_on()).await;
    let extended = lease.extend(&holder).await.expect("extend");
    assert!(
        matches!(extended, ExtendVerdict::Extended { .. }),
        "{extended:?}"
    );
}

/// A server with an append-only file that is killed and started again.
async fn is_killed(settings: &[&str], durability: &str) {
    let mut server = block_in_place(|| TestServer::with(settings));
    let address = format!("{}?durability={durability}", server.address());
    let mut at_work = AtWork::on(&address).await;
    let caller = connect_for(&server.address(), SHORT).await;
    block_in_place(|| server.kill());
    let error = enqueue(&caller).await.expect_err("no server is there");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    at_work.works_again(|| server.restart()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed() {
    is_killed(&crate::faults::ALWAYS, "fsync").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_and_syncs_each_second() {
    is_killed(&["--save", "", "--appendonly", "yes"], "os").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_memory_was_full() {
    let server = block_in_place(TestServer::start);
    let mut at_work = AtWork::on(&server.address()).await;
    let caller = connect(&server.address()).await;
    let sets = |bytes| assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", bytes]), "OK");
    let soon = NewJob::new(MAIL, "{}").due(Due::After(millis(300)));
    enqueue_surely(&caller, &soon).await;
    block_in_place(|| sets("1"));
    // What is there already goes on.
    let ran = within(CLAIMED_WITHIN, at_work.ran.recv()).await;
    assert_eq!(ran.expect("though it is full"), Some(soon.id));
    let error = enqueue(&caller).await.expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}");
    block_in_place(|| sets("0"));
    at_work.works_again(|| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_has_moved() {
    let cluster = block_in_place(TestCluster::start);
    let mut at_work = AtWork::on(&cluster.address()).await;
    let caller = connect_for(&cluster.address(), SHORT).await;
    for _ in 0..20 {
        enqueue(&caller).await.expect("enqueue");
    }
    for _ in 0..3 {
        let to = (cluster.owner_of(SHARD) + 1) % 3;
        let moving = block_in_place(|| cluster.begin_move(SHARD, to));
        let moving = moving.expect("it is elsewhere");
        let half = moving.left() / 2;
        block_in_place(|| moving.carry(half));
        // It stands still with half of the keys there.
        let claim = Claim::new(WorkerId::random(), QUEUE, 1);
        let error = caller.claim(&here(), claim).await;
        let error = error.expect_err("half of a shard answers nothing");
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
        at_work
            .works_again(|| {
                while moving.carry(100) > 0 {}
                moving.end();
            })
            .await;
    }
}
