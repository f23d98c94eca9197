//! Several engines on one server, as several processes are: who is woken for, and how soon.

use std::cell::Cell;
use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Claim, StatsRequest, WaitFor, Waited, WorkerId};
use punctual::job::{Hold, UniquePolicy};
use punctual::time::{Clock, ManualClock, Stopwatch, days, millis, seconds, within};
use punctual::{Due, Engine, Namespace, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestSentinels, TestServer, ask};
use tokio::task::{JoinError, JoinHandle};

use crate::client::{
    LIMIT, QUEUE, claim, comes_about, connect, drain, enqueue_surely, here, job, options,
};
use crate::cuts_together::notes_all;
use crate::dropped::times;
use crate::versions::counted;

/// Waits for work of a queue in a task of its own, once it is known that there is none.
async fn waits(engine: &Arc<RedisEngine>, queue: &str) -> JoinHandle<Waited> {
    let now = engine.info().await.expect("info").now;
    let what = WaitFor::Work(vec![queue.into()]);
    let engine = engine.clone();
    let wait = async move {
        engine
            .wait(&here(), what, now + seconds(60))
            .await
            .expect("wait")
    };
    tokio::spawn(wait)
}

/// Engines whose clock stands still. A waiter never polls by itself then: what wakes him has
/// woken.
async fn that_never_poll(address: &str) -> [Arc<RedisEngine>; 3] {
    let clock = ManualClock::new(START);
    let engine = || async {
        let engine = RedisEngine::connect_with_clock(options(address), clock.clone()).await;
        Arc::new(engine.expect("the servers are there"))
    };
    [engine().await, engine().await, engine().await]
}

/// A call that blocks on wakeups ends by itself after 20 s, and the next one may receive what the
/// first did not ask for.
const WOKEN_WITHIN: std::time::Duration = seconds(15);

async fn is_woken(wait: impl Future<Output = Result<Waited, JoinError>>) {
    let waited = within(WOKEN_WITHIN, wait).await.expect("it is woken");
    assert_eq!(waited.expect("no panic"), Waited::Work);
}

/// Whether a connection blocks on wakeups.
fn has_listener(server: &TestServer) -> bool {
    server.cli(&["CLIENT", "LIST"]).contains("cmd=bzpopmin")
}

async fn engines(server: &TestServer) -> [Arc<RedisEngine>; 3] {
    let address = server.address();
    let engine = || async { Arc::new(connect(&address).await) };
    [engine().await, engine().await, engine().await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_another_process_is_woken() {
    let server = TestServer::start();
    let [producer, worker, other] = that_never_poll(&server.address()).await;
    assert!(claim(&worker, 1).await.expect("claim").is_empty());
    assert!(claim(&other, 1).await.expect("claim").is_empty());
    let waits_one = waits(&worker, QUEUE).await;
    let waits_other = waits(&other, QUEUE).await;
    producer
        .enqueue(&here(), vec![job()])
        .await
        .expect("enqueue");
    let first = async {
        tokio::select! {
            woken = waits_one => woken,
            woken = waits_other => woken,
        }
    };
    is_woken(first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unneeded_wakeup_goes_to_another_process() {
    let server = TestServer::start();
    let [producer, gone, worker] = that_never_poll(&server.address()).await;
    assert!(claim(&gone, 1).await.expect("claim").is_empty());
    // It listens no more, but its connection still blocks on the wakeup.
    let wait = waits(&gone, QUEUE).await;
    comes_about("a client listens", || has_listener(&server)).await;
    wait.abort();
    let _ = wait.await;
    let wait = waits(&worker, QUEUE).await;
    producer
        .enqueue(&here(), vec![job()])
        .await
        .expect("enqueue");
    is_woken(wait).await;
    assert_eq!(drain(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_added_later_receives_wakeups() {
    let server = TestServer::start();
    let [producer, worker, _] = that_never_poll(&server.address()).await;
    let first = waits(&worker, QUEUE).await;
    comes_about("a client listens", || has_listener(&server)).await;
    let second = waits(&worker, "mail").await;
    producer
        .enqueue(&here(), vec![NewJob::new("mail", "{}")])
        .await
        .expect("enqueue");
    is_woken(second).await;
    assert!(!first.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeups_arrive_within_a_second_of_a_restart() {
    let mut server = TestServer::with(&crate::faults::ALWAYS);
    let [producer, worker, _] = that_never_poll(&server.address()).await;
    for engine in [&producer, &worker] {
        assert!(claim(engine, 1).await.expect("claim").is_empty());
    }
    let wait = waits(&worker, QUEUE).await;
    comes_about("a client listens", || has_listener(&server)).await;
    // It comes back without the functions.
    server.cli(&["FUNCTION", "FLUSH"]);
    tokio::task::block_in_place(|| server.restart());
    notes_all(&server);
    // Tries are half a second apart at most, as `servers` asserts, and the first of them does that
    // does not come while the server still reads its file.
    comes_about("a client listens again", || has_listener(&server)).await;
    let refused = server.cli(&["INFO", "errorstats"]);
    let mut refused = refused.lines().filter(|it| it.starts_with("errorstat_"));
    let wrong = refused.find(|it| !it.starts_with("errorstat_LOADING:"));
    assert_eq!(wrong, None, "one more try");
    let sent = producer.enqueue(&here(), vec![job()]).await;
    sent.expect("enqueue");
    // The functions are looked for before a call, so that it is not sent in vain.
    let called = server.cli(&["SLOWLOG", "GET", "-1"]);
    let called = |function: &str| called.lines().filter(|it| *it == function).count();
    assert_eq!(called("punctual_test_version"), 1);
    assert_eq!(called("punctual_test_enqueue"), 1);
    is_woken(wait).await;
    assert_eq!(drain(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_receives_wakeups_after_a_failover() {
    let mut servers = TestSentinels::start();
    let address = servers.address();
    let [producer, worker, _] = that_never_poll(&address).await;
    assert!(claim(&worker, 1).await.expect("claim").is_empty());
    let wait = waits(&worker, QUEUE).await;
    let master = servers.ask_all(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
    let port = master[0].lines().nth(1).and_then(|port| port.parse().ok());
    let port = port.expect("a sentinel knows a master");
    let has_listener = || ask(port, &["CLIENT", "LIST"]).contains("cmd=bzpopmin");
    comes_about("a client listens", has_listener).await;
    // Both replicas have what one change finds, and so all that came before it.
    let [sure, ..] = that_never_poll(&format!("{address}?durability=replica(2)")).await;
    let sent = sure.enqueue(&here(), vec![NewJob::new("mail", "{}")]).await;
    sent.expect("enqueue");
    tokio::task::block_in_place(|| servers.kill_master());
    enqueue_surely(&producer, &job()).await;
    // No other caller of its process calls, and meets that the master is another one.
    is_woken(wait).await;
    assert_eq!(drain(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_wakeup_costs_a_second() {
    let server = TestServer::start();
    let [producer, worker, _] = engines(&server).await;
    assert!(claim(&worker, 1).await.expect("claim").is_empty());
    // One client receives the wakeup before all others and does nothing about it.
    let listeners = || {
        server
            .cli(&["CLIENT", "LIST"])
            .matches("cmd=bzpopmin")
            .count()
    };
    let deaf = std::process::Command::new("redis-cli")
        .args(["-p", &server.port().to_string()])
        .args(["BZPOPMIN", "punctual:{default/0}:d:orders", "60"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("redis-cli runs");
    comes_about("the deaf one listens", || listeners() >= 1).await;
    let wait = waits(&worker, QUEUE).await;
    comes_about("the other one listens", || listeners() >= 2).await;
    let watch = Stopwatch::start();
    notes_all(&server);
    producer
        .enqueue(&here(), vec![job()])
        .await
        .expect("enqueue");
    let received = deaf.wait_with_output().expect("it ends").stdout;
    let received = String::from_utf8_lossy(&received);
    assert!(
        received.contains(":d:orders"),
        "it received no wakeup: {received}"
    );
    // A waiter alone polls each second, as `waiting` asserts; the first look finds it, and
    // some may have come before it.
    let waited = within(seconds(30), wait).await;
    let waited = waited.expect("it polls by itself");
    assert_eq!(waited.expect("no panic"), Waited::Work);
    let polls = times(&server, "listen");
    let most = watch.elapsed().as_secs() as usize + 2;
    assert!((1..=most).contains(&polls), "{polls} polls");
}

/// So many questions at most of a client that asks without end are answered, between a due and the
/// claim of its job: some ten milliseconds of a quiet machine.
const ASKED_MAX: usize = 50;

/// On one thread, so that whatever keeps the worker waiting keeps who asks waiting too.
#[tokio::test]
async fn a_job_is_on_time_and_never_early() {
    let server = TestServer::start();
    let [producer, worker, asker] = engines(&server).await;
    // Who asks of the same namespace would cause what is due.
    let elsewhere = Namespace::new("elsewhere").expect("a good name");
    for delay in [millis(40), millis(90), millis(150)] {
        let job = job().due(Due::After(delay));
        let sent = producer.enqueue(&here(), vec![job]).await.expect("enqueue");
        let due = sent.receipts[0].due;
        let asked = Cell::new(0);
        let asks = async {
            loop {
                let answer = asker.stats(&elsewhere, StatsRequest::default()).await;
                let is_due = answer.expect("stats").now >= due;
                asked.set(asked.get() + usize::from(is_due));
                assert!(asked.get() <= ASKED_MAX, "no worker comes");
            }
        };
        let comes = async {
            loop {
                let wants = Claim::new(Default::default(), QUEUE, 1);
                let claimed = worker.claim(&here(), wants).await.expect("claim");
                if !claimed.leases.is_empty() {
                    break claimed.now;
                }
                assert_eq!(claimed.wake_at, Some(due), "it learns when to come");
                let what = WaitFor::Work(vec![QUEUE.into()]);
                worker.wait(&here(), what, due).await.expect("wait");
            }
        };
        let came = tokio::select! {
            came = comes => came,
            never = asks => never,
        };
        assert!(came >= due, "{came} is before {due}");
    }
    // What is due within the next millisecond does not come along with what is due.
    for _ in 0..20 {
        let spans = [millis(5), millis(5) + millis(1) / 2];
        let jobs = spans.map(|span| job().due(Due::After(span)));
        let sent = producer.enqueue(&here(), jobs.to_vec()).await;
        let mut left: Vec<_> = sent.expect("enqueue").receipts;
        while !left.is_empty() {
            let wants = Claim::new(Default::default(), QUEUE, 2);
            let claimed = worker.claim(&here(), wants).await.expect("claim");
            for came in claimed.leases.iter().flat_map(|lease| &lease.jobs) {
                let place = left.iter().position(|receipt| receipt.id == came.id);
                let due = left.remove(place.expect("it comes once")).due;
                assert!(claimed.now >= due, "{} is before {due}", claimed.now);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_finds_a_suspect() {
    let server = TestServer::start();
    let [producer, crashes, worker] = engines(&server).await;
    let sent = producer.enqueue(&here(), vec![job()]).await;
    sent.expect("enqueue");
    // Claimed twice, and never settled.
    let watch = Stopwatch::start();
    loop {
        assert!(watch.elapsed() < LIMIT, "no suspicion falls on it");
        let claim =
            punctual::engine::Claim::new(Default::default(), QUEUE, 1).lease_duration(millis(1));
        let claimed = crashes.claim(&here(), claim).await.expect("claim");
        if claimed.suspects_wait {
            break;
        }
    }
    let now = producer.info().await.expect("info").now;
    let what = || WaitFor::Work(vec![QUEUE.into()]);
    // No wakeup is left that could say so.
    producer.wait(&here(), what(), now).await.expect("wait");
    let waited = worker.wait(&here(), what(), now + seconds(60)).await;
    assert_eq!(waited.expect("wait"), Waited::Work);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_calls_seldom() {
    let server = TestServer::start();
    let [_, worker, _] = engines(&server).await;
    assert!(claim(&worker, 1).await.expect("claim").is_empty());
    let wait = waits(&worker, QUEUE).await;
    let calls = || {
        let stats = server.cli(&["INFO", "commandstats"]);
        let of_ours = |line: &str| {
            ["cmdstat_fcall", "cmdstat_bzpopmin", "cmdstat_zadd"]
                .iter()
                .any(|it| line.starts_with(it))
        };
        let counts = stats.lines().filter(|line| of_ours(line)).map(|line| {
            let count = line
                .split("calls=")
                .nth(1)
                .and_then(|rest| rest.split(',').next());
            count
                .and_then(|count| count.parse::<u32>().ok())
                .expect("a count")
        });
        counts.sum::<u32>()
    };
    let before = calls();
    assert!(within(seconds(5), wait).await.is_none(), "nothing comes");
    let after = calls() - before;
    assert!(after <= 10, "{after} calls in 5 s");
}

/// Where jobs of its own may be kept back, a worker comes for expiries of other queues too, if
/// seldom.
#[tokio::test]
async fn expiries_of_other_queues_wake_seldom() {
    const FOREIGN: u64 = 400;
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let engine = RedisEngine::connect_with_clock(options(&server.address()), clock.clone());
    let engine = engine.await.expect("the server is there");
    let in_group = || job().group("a");
    let expires = |number: u64| {
        NewJob::new("otp", "{}")
            .expires_at(START + millis(10 * number))
            .unique_with(
                number.to_string(),
                UniquePolicy::Keep,
                Hold::For(millis(10 * number)),
            )
    };
    let mut jobs: Vec<NewJob> = (1..=FOREIGN).map(expires).collect();
    jobs.extend([in_group(), in_group()]);
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    assert_eq!(claim(&engine, 1).await.expect("claim").len(), 1);
    let (end, mut claims) = (START + millis(10 * FOREIGN), 0);
    while clock.now() < end {
        let wants = Claim::new(WorkerId::random(), QUEUE, 1);
        let claimed = engine.claim(&here(), wants).await.expect("claim");
        assert!(claimed.leases.is_empty(), "the group is busy");
        let wake_at = claimed.wake_at.expect("its lease ends");
        assert!(wake_at > clock.now(), "it would claim without end");
        engine.set_time(wake_at).await.expect("the server is there");
        clock.set(wake_at);
        claims += 1;
    }
    assert!(claims <= FOREIGN / 7 + 1, "{claims} claims");
}

/// What wakes a client that is gone is received by none, and goes by itself; so do its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeup_keys_of_dead_processes_expire() {
    let server = TestServer::start();
    let [producer, gone, _] = engines(&server).await;
    let job = job();
    let sent = producer.enqueue(&here(), vec![job.clone()]).await;
    let now = sent.expect("enqueue").now;
    let settles = WaitFor::Settled(vec![job.id]);
    let watched = || server.cli(&["HLEN", "punctual:{default/0}:ws"]);
    let here = here();
    let waits = gone.wait(&here, settles, now + days(30));
    tokio::select! {
        waited = waits => panic!("it is not settled: {waited:?}"),
        () = comes_about("it is to be woken for", || watched().trim() == "1") => {}
    }
    let changes = gone.wait(&here, WaitFor::Changes(None), now).await;
    changes.expect("wait");
    drop(gone);
    comes_about("no client listens", || !has_listener(&server)).await;
    // Names of processes are bytes that no shell passes on.
    let seconds_left = |names: &str| {
        let each = "local out = {} for _, key in ipairs(redis.call('KEYS', ARGV[1])) do \
                    out[#out + 1] = redis.call('TTL', key) end return out";
        let left = server.cli(&["EVAL", each, "0", names]);
        let left = left.lines().map(|it| it.parse::<i64>().expect("seconds"));
        left.collect::<Vec<_>>()
    };
    let names = seconds_left("punctual:{default/0}:ws");
    assert!(matches!(names[..], [1..=120]), "{names:?}");
    drain(&producer).await;
    let wakeups = seconds_left("punctual:{default/0}:p:*");
    assert!(matches!(wakeups[..], [1..=60]), "{wakeups:?}");
    let polls = || counted(&server, "commandstats", "cmdstat_exists:calls=");
    let before = polls();
    enqueue_surely(&producer, &crate::client::job()).await;
    drain(&producer).await;
    assert_eq!(polls(), before, "no waiter is left, for a month or not");
}
