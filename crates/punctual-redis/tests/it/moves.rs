//! A slot of many keys that moves under load, as slowly as its keys are many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use punctual::engine::{Claim, Target, WorkerId};
use punctual::time::{Stopwatch, Timestamp, millis, seconds, within};
use punctual::{
    Context, Due, Engine, Error, ErrorKind, JobId, JobRecord, JobState, NewJob, Outcome, Worker,
};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestCluster;

use crate::client::{Claimed, LIMIT, QUEUE, here, job, options};
use crate::hand::SHARD;

/// Queues with a job that waits; each has keys of its own.
const QUEUES: usize = 10_000;
/// Keys that an operator's tool carries at a time.
const AT_A_TIME: usize = 500;
/// The time limit of a call.
const DEADLINE: std::time::Duration = seconds(3);

async fn connect(cluster: &TestCluster, deadline: std::time::Duration) -> Arc<RedisEngine> {
    let options = options(&cluster.address()).deadline(deadline);
    Arc::new(RedisEngine::connect(options).await.expect("it is there"))
}

/// What callers were answered while they called all the time.
#[derive(Default)]
struct Known {
    enough: AtomicBool,
    /// Those that were acknowledged, by when they are due.
    kept: Mutex<BTreeMap<JobId, Timestamp>>,
    ended: Mutex<Vec<JobId>>,
    early: AtomicUsize,
    /// Errors of producers and of workers.
    errors: [Mutex<Vec<Error>>; 2],
}

impl Known {
    fn errors(&self, of: usize) -> usize {
        self.errors[of].lock().expect("no panic").len()
    }

    fn refused(&self, of: usize, error: Error) {
        self.errors[of].lock().expect("no panic").push(error);
    }
}

/// Sends jobs for now and soon, each until it is acknowledged.
async fn produces(engine: Arc<RedisEngine>, reported: Arc<Known>) {
    let mut number = 0;
    while !reported.enough.load(SeqCst) {
        number += 1;
        let job = job().due(match number % 2 {
            0 => Due::Now,
            _ => Due::After(millis(50)),
        });
        loop {
            match engine.enqueue(&here(), vec![job.clone()]).await {
                Ok(sent) => {
                    assert!(sent.receipts[0].verdict.is_accepted(), "{sent:?}");
                    let due = sent.receipts[0].due;
                    reported.kept.lock().expect("no panic").insert(job.id, due);
                    break;
                }
                Err(error) => reported.refused(0, error),
            }
        }
    }
}

async fn works(engine: Arc<RedisEngine>, reported: Arc<Known>) {
    while !reported.enough.load(SeqCst) {
        work(&engine, &reported).await;
    }
}

/// Claims and settles once, the settle until it is answered; how many jobs.
async fn work(engine: &RedisEngine, reported: &Known) -> usize {
    let wants = Claim::new(WorkerId::random(), QUEUE, 50).lease_duration(seconds(60));
    let claimed = loop {
        match engine.claim(&here(), wants.clone()).await {
            Ok(claimed) => break claimed,
            Err(error) => reported.refused(1, error),
        }
    };
    let mut count = 0;
    for lease in claimed.leases {
        let lease = Claimed {
            token: lease.token,
            jobs: lease.jobs,
        };
        let early = lease.jobs.iter().filter(|job| job.due > claimed.now);
        reported.early.fetch_add(early.count(), SeqCst);
        while let Err(error) = engine.settle(&here(), lease.ends(Outcome::Completed)).await {
            reported.refused(1, error);
        }
        count += lease.jobs.len();
        let ids = lease.jobs.iter().map(|job| job.id);
        reported.ended.lock().expect("no panic").extend(ids);
    }
    count
}

/// Calls that meet a move which takes longer than they may end with it at their deadline; those
/// with time are answered after it, nothing is lost and nothing is early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_slot_that_moves_slowly_costs_calls_only_their_deadline() {
    let cluster = TestCluster::start();
    let engine = connect(&cluster, DEADLINE).await;
    let filler = connect(&cluster, seconds(60)).await;
    for from in (0..QUEUES).step_by(500) {
        let jobs = (from..from + 500).map(|queue| NewJob::new(format!("q{queue}"), "{}"));
        filler
            .enqueue(&here(), jobs.collect())
            .await
            .expect("enqueue");
    }
    let reported = Arc::new(Known::default());
    let load = [
        tokio::spawn(produces(engine.clone(), reported.clone())),
        tokio::spawn(works(engine.clone(), reported.clone())),
    ];
    while reported.ended.lock().expect("no panic").len() < 50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (reported.errors(0), reported.errors(1)),
        (0, 0),
        "before the move"
    );
    let owner = cluster.owner_of(SHARD);
    let to = (owner + 1) % 3;
    let moving = tokio::task::block_in_place(|| cluster.begin_move(SHARD, to));
    let moving = moving.expect("it is elsewhere");
    let all = moving.left();
    assert!(all > QUEUES, "{all} keys");
    tokio::task::block_in_place(|| {
        while moving.left() > all / 2 {
            moving.carry(AT_A_TIME);
        }
    });
    // It stands still with half of the keys there until a caller of each kind has run out of time.
    while reported.errors(0) == 0 || reported.errors(1) == 0 {
        assert!(load.iter().all(|it| !it.is_finished()), "they go on");
        tokio::task::yield_now().await;
    }
    // One who has time begins in the middle of it.
    let patient = connect(&cluster, seconds(120)).await;
    let (patiently, waits) = (patient.clone(), job());
    let id = waits.id;
    let waits = tokio::spawn(async move { patiently.enqueue(&here(), vec![waits]).await });
    let port = moving.to().port().to_string();
    tokio::task::block_in_place(|| {
        while moving.carry(AT_A_TIME) > 0 {}
        moving.end();
    });
    // The first call after it, by who has five seconds.
    let first = connect(&cluster, seconds(5)).await;
    let wants = Claim::new(WorkerId::random(), "q0", 1);
    let claimed = first.claim(&here(), wants).await.expect("in five seconds");
    assert_eq!(claimed.leases.len(), 1, "what was there has come along");
    waits.await.expect("no panic").expect("it had time");
    reported.enough.store(true, SeqCst);
    for one in load {
        one.await.expect("no panic");
    }
    for error in reported
        .errors
        .iter()
        .flat_map(|it| it.lock().expect("no panic").drain(..).collect::<Vec<_>>())
    {
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
        assert!(
            error.message().contains("is moving from redis at"),
            "{error}"
        );
        assert!(error.message().contains(&port), "where to: {error}");
    }
    assert_eq!(reported.early.load(SeqCst), 0, "early");
    // Those for soon are due by the time that all others are done.
    let mut kept = reported.kept.lock().expect("no panic").clone();
    kept.insert(id, Timestamp::ZERO);
    loop {
        work(&patient, &reported).await;
        let ended = reported.ended.lock().expect("no panic");
        if ended.iter().filter(|id| kept.contains_key(id)).count() >= kept.len() {
            break;
        }
    }
    let ended = reported.ended.lock().expect("no panic");
    let mut times = BTreeMap::new();
    ended
        .iter()
        .for_each(|id| *times.entry(*id).or_insert(0) += 1);
    assert!(kept.keys().all(|id| times.get(id) == Some(&1)), "each once");
}

/// Jobs that wait in the slot, each of a hundred queues having some.
const WAITING: usize = 5_000;
/// Keys that are carried at a time where no caller is to wait for long.
const FEW: usize = 50;

/// With default settings on all sides no caller notices that a slot of some thousand jobs moves,
/// but for the time it takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_of_thousands_of_jobs_moves_within_the_default_deadline() {
    let cluster = TestCluster::start();
    let by_default = async || {
        let engine = RedisEngine::connect(options(&cluster.address())).await;
        Arc::new(engine.expect("it is there"))
    };
    let (producer, worker) = (by_default().await, by_default().await);
    let mut waiting = Vec::new();
    for _ in 0..WAITING / 500 {
        let jobs = (0..500).map(|number| {
            NewJob::new(format!("q{}", number % 100), "{}")
                .due(Due::After(seconds(3_600 + number % 7)))
        });
        let jobs: Vec<_> = jobs.collect();
        waiting.extend(jobs.iter().map(|job| job.id));
        producer.enqueue(&here(), jobs).await.expect("enqueue");
    }
    let reported = Arc::new(Known::default());
    let load = [
        tokio::spawn(produces(producer.clone(), reported.clone())),
        tokio::spawn(works(worker.clone(), reported.clone())),
    ];
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let mail = Worker::new(by_default().await).queues([MAIL]).handle_any(
        move |job: JobRecord, _: Context| {
            let _ = ran.send(job.id);
            async { Outcome::Completed }
        },
    );
    let mail = tokio::spawn(mail.run_until(std::future::pending::<()>()));
    let mut sent = Vec::new();
    for _ in 0..3 {
        let before = reported.ended.lock().expect("no panic").len();
        let has_worked = || reported.ended.lock().expect("no panic").len() >= before + 50;
        meets("they go on", &load, has_worked).await;
        let to = (cluster.owner_of(SHARD) + 1) % 3;
        let letter = NewJob::new(MAIL, "{}");
        sent.push(letter.id);
        let moving = tokio::task::block_in_place(|| cluster.begin_move(SHARD, to));
        let moving = moving.expect("it is elsewhere");
        let all = moving.left();
        assert!(all > 100, "{all} keys");
        // This call begins in the middle of it.
        let sends = {
            let producer = producer.clone();
            tokio::spawn(async move { producer.enqueue(&here(), vec![letter]).await })
        };
        tokio::task::block_in_place(|| {
            while moving.carry(FEW) > 0 {}
            moving.end();
        });
        let receipts = sends.await.expect("no panic").expect("in five seconds");
        assert!(receipts.receipts[0].verdict.is_accepted());
    }
    let before = reported.ended.lock().expect("no panic").len();
    let has_worked = || reported.ended.lock().expect("no panic").len() >= before + 50;
    meets("they go on", &load, has_worked).await;
    reported.enough.store(true, SeqCst);
    for one in load {
        one.await.expect("no panic");
    }
    for errors in &reported.errors {
        let errors = errors.lock().expect("no panic");
        assert!(errors.is_empty(), "{:?}", errors.first());
    }
    assert_eq!(reported.early.load(SeqCst), 0, "early");
    let kept = reported.kept.lock().expect("no panic").clone();
    let is_done = |reported: &Known| {
        let ended = reported.ended.lock().expect("no panic");
        ended.len() >= kept.len()
    };
    let began = Stopwatch::start();
    while !is_done(&reported) {
        work(&worker, &reported).await;
        assert!(began.elapsed() < LIMIT, "some are lost");
    }
    let mut ended = reported.ended.lock().expect("no panic").clone();
    ended.sort_unstable();
    assert!(ended.iter().eq(kept.keys()), "each once");
    let mut ran = Vec::new();
    while ran.len() < sent.len() {
        let next = within(LIMIT, runs.recv()).await.expect("it is not lost");
        ran.push(next.expect("the worker goes on"));
    }
    mail.abort();
    let _ = mail.await;
    ran.extend(std::iter::from_fn(|| runs.try_recv().ok()));
    assert_eq!(ran, sent, "each once, in order");
    for ids in waiting.chunks(1_000) {
        let targets = ids.iter().copied().map(Target::Id).collect();
        let got = producer.get(&here(), targets, false).await.expect("get");
        for job in got {
            let is = job.map(|job| job.state());
            assert_eq!(is, Some(JobState::Scheduled), "it has come along");
        }
    }
}

/// Another queue, of a worker.
const MAIL: &str = "mail";
async fn meets(what: &str, load: &[tokio::task::JoinHandle<()>], fact: impl Fn() -> bool) {
    let watch = Stopwatch::start();
    while !fact() {
        assert!(watch.elapsed() < LIMIT, "{what} no more");
        assert!(load.iter().all(|it| !it.is_finished()), "{what} no more");
        tokio::task::yield_now().await;
    }
}
