//! Functions that go, or become older ones, while many call: no caller notices, and each call is
//! sent once more at most.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use futures_util::future::join_all;
use punctual::conformance::START;
use punctual::engine::{
    Claim, EnqueueVerdict, List, ListBy, SettleVerdict, Target, WaitFor, Waited, WorkerId,
};
use punctual::time::{ManualClock, Stopwatch, days};
use punctual::{Engine, JobId, JobState, Namespace, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestServer};

use crate::client::{Claimed, LIMIT, QUEUE, here, job, options};
use crate::faults::rounds;
use crate::versions::{Trouble, counted, namespaces};

/// Who calls at the same time.
const CALLERS: u32 = 64;

/// Its clock stands still, so nothing is done behind the back of the counters.
async fn connect(address: &str) -> RedisEngine {
    let engine = RedisEngine::connect_with_clock(options(address), ManualClock::new(START)).await;
    engine.expect("the servers are there")
}

fn absent() -> Vec<Target> {
    vec![Target::Id(JobId::new())]
}

/// Places with an engine: a namespace each, and the node that answers for it.
async fn on_one_server(test: impl AsyncFn(&RedisEngine, &TestServer, &Namespace)) {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    test(&engine, &server, &here()).await;
}

async fn on_each_node(test: impl AsyncFn(&RedisEngine, &TestServer, &Namespace)) {
    let mut cluster = TestCluster::start();
    let namespaces = namespaces(&mut cluster);
    let engine = connect(&cluster.address()).await;
    for (namespace, node) in namespaces.iter().zip(cluster.nodes()) {
        test(&engine, node, namespace).await;
    }
}

/// Loads of the functions, and calls that met none, since the counters were set back.
fn loads_and_misses(node: &TestServer) -> (u32, u32) {
    let loads = counted(node, "commandstats", "cmdstat_function|load:calls=");
    let unknown = counted(node, "errorstats", "errorstat_ERR:count=");
    let refused = counted(node, "errorstats", "errorstat_PUNCTUAL:count=");
    (loads, unknown + refused)
}

async fn each_asks_once_more(engine: &RedisEngine, node: &TestServer, namespace: &Namespace) {
    let met = engine.get(namespace, absent(), false).await;
    met.expect("get");
    for trouble in [Trouble::Flushed, Trouble::Older, Trouble::Flushed] {
        trouble.befall(node);
        node.cli(&["CONFIG", "RESETSTAT"]);
        let reads = (0..CALLERS).map(|_| engine.get(namespace, absent(), false));
        for read in join_all(reads).await {
            read.unwrap_or_else(|error| panic!("{trouble:?}, {namespace}: {error}"));
        }
        let sent = counted(node, "commandstats", "cmdstat_fcall_ro:calls=");
        let (loads, misses) = loads_and_misses(node);
        assert_eq!(loads, 1, "{trouble:?}, {namespace}");
        // Besides those who missed them one caller asks for the version, once: flushed functions do
        // not answer that either.
        let answered = match trouble {
            Trouble::Flushed => 0,
            _ => 1,
        };
        assert_eq!(
            sent,
            CALLERS + misses + answered,
            "{trouble:?}, {namespace}"
        );
        assert!(misses <= CALLERS + 1, "{trouble:?}: {misses} missed");
        assert!(misses > 3, "{trouble:?}: {misses} called at once");
    }
}

#[tokio::test]
async fn flushed_functions_cost_each_of_many_callers_one_retry() {
    on_one_server(each_asks_once_more).await;
}

#[tokio::test]
async fn flushed_functions_of_any_node_cost_each_of_many_callers_one_retry() {
    on_each_node(each_asks_once_more).await;
}

/// A function that refuses, alone or for several calls, as if it did not know what it is asked.
fn refusing(name: &str) -> &'static str {
    match name {
        "enqueue" => "function() refuse('invalid_input', 'flags are not known') end",
        _ => {
            "function(_, args)\n\
               local how, out = {}, {}\n\
               for k = 1, #args do how[k], out[k + 1] = '\\1', 'PUNCTUAL invalid_input flags are not known' end\n\
               out[1] = table.concat(how)\n\
               return out\n\
             end"
        }
    }
}

/// The functions of the server as an older version has them: of the same names, though not all, and
/// `refuses` refuses what it does not know yet.
fn older_ones(node: &TestServer, refuses: &str) -> String {
    let version = format!("local VERSION = {}\n", RedisEngine::functions_version());
    let function = match refuses {
        "enqueue" => "Enqueue.call",
        _ => "Calls.enqueues",
    };
    let registered = |it: &str| format!("several('{refuses}', {it}, {{}}, 1)\n");
    let mut text = code(node);
    for (now, before) in [
        (version, "local VERSION = 0\n".into()),
        ("verb('list', Inspect.list, READS)\n".into(), String::new()),
        (registered(function), registered(refusing(refuses))),
    ] {
        assert_eq!(text.matches(&now).count(), 1, "{now}");
        text = text.replace(&now, &before);
    }
    text
}

fn code(node: &TestServer) -> String {
    let listed = [
        "FUNCTION",
        "LIST",
        "WITHCODE",
        "LIBRARYNAME",
        "punctual_test",
    ];
    let listed = node.cli(&listed);
    let code = listed.split_once("#!lua").expect("the code is listed").1;
    format!("#!lua{code}\n")
}

fn load(node: &TestServer, text: &str) {
    let said = node.cli(&["FUNCTION", "LOAD", "REPLACE", text]);
    assert_eq!(said, "punctual_test");
}

fn version(node: &TestServer) -> i64 {
    let said = node.cli(&["FCALL_RO", "punctual_test_version", "0"]);
    said.parse().expect("a number")
}

async fn older_ones_are_replaced(engine: &RedisEngine, node: &TestServer, namespace: &Namespace) {
    engine.get(namespace, absent(), false).await.expect("get");
    // A call alone, and many that leave together.
    for (count, refuses) in [(1, "enqueue"), (30, "enqueues")] {
        load(node, &older_ones(node, refuses));
        assert_eq!(version(node), 0);
        let jobs: Vec<_> = (0..count).map(|_| job()).collect();
        let calls = jobs
            .iter()
            .map(|job| engine.enqueue(namespace, vec![job.clone()]));
        for sent in join_all(calls).await {
            let verdict = sent.expect("enqueue").receipts[0].verdict;
            assert_eq!(verdict, EnqueueVerdict::Created);
        }
        assert_eq!(version(node), RedisEngine::functions_version());
    }
    load(node, &older_ones(node, "enqueue"));
    let by = ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    };
    let (mut cursor, mut listed) = (None, 0);
    loop {
        let list = List::new(by.clone()).cursor(cursor).limit(100);
        let listing = engine.list(namespace, list).await.expect("list");
        listed += listing.jobs.len();
        cursor = listing.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, 31, "each is there once");
    // Those that refuse nothing are noticed by the look at the servers.
    let version_alone = code(node).replace(
        &format!("local VERSION = {}\n", RedisEngine::functions_version()),
        "local VERSION = 0\n",
    );
    load(node, &version_alone);
    engine.info().await.expect("info");
    engine.get(namespace, absent(), false).await.expect("get");
    assert_eq!(version(node), RedisEngine::functions_version());
}

#[tokio::test]
async fn older_functions_that_refuse_what_they_do_not_know_are_replaced() {
    on_one_server(older_ones_are_replaced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_functions_of_any_node_are_replaced() {
    on_each_node(older_ones_are_replaced).await;
}

/// The functions of the server as an older version has them that lacks one.
fn lacking(node: &TestServer, lacks: &str) -> String {
    let text = code(node).replace(
        &format!("local VERSION = {}\n", RedisEngine::functions_version()),
        "local VERSION = 0\n",
    );
    let registers = |line: &&str| line.starts_with(&format!("verb('{lacks}', "));
    assert_eq!(text.lines().filter(registers).count(), 1, "{lacks}");
    let kept: Vec<&str> = text.lines().filter(|line| !registers(line)).collect();
    kept.join("\n") + "\n"
}

/// What is behind an outcome, a wait and a look is asked once more too, if it is just this that its
/// server lacks.
#[tokio::test]
async fn any_function_that_is_lacking_costs_one_retry() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=2", server.address())).await;
    let (namespace, now) = (here(), START);
    engine.get(&namespace, absent(), false).await.expect("get");
    for lacks in ["maintain", "info", "watch", "changes", "outbox", "deliver"] {
        let job = job();
        let sent = engine.enqueue(&namespace, vec![job.clone()]).await;
        sent.expect("enqueue");
        let wants = Claim::new(WorkerId::random(), QUEUE, 1);
        let mut claimed = engine.claim(&namespace, wants).await.expect("claim");
        let lease = claimed.leases.remove(0);
        let lease = Claimed {
            token: lease.token,
            jobs: lease.jobs,
        };
        assert_eq!(lease.jobs[0].id, job.id);
        load(&server, &lacking(&server, lacks));
        server.cli(&["CONFIG", "RESETSTAT"]);
        let effects = (0..8).map(crate::outbox::follower).collect::<Vec<_>>();
        let until = now + days(9);
        match lacks {
            "maintain" => engine.maintain().await.map(drop).expect(lacks),
            "info" => assert!(engine.info().await.expect(lacks).health.ok),
            "watch" => {
                let settled = WaitFor::Settled(vec![JobId::new()]);
                let waited = engine.wait(&namespace, settled, until).await;
                assert_eq!(waited.expect(lacks), Waited::Settled, "no server knows it");
            }
            "changes" => {
                let begins = WaitFor::Changes(None);
                let waited = engine.wait(&namespace, begins, now).await;
                assert!(matches!(waited.expect(lacks), Waited::Changes { .. }));
            }
            _ => {
                let effects = crate::outbox::enqueues(&effects);
                let settle = crate::outbox::ends_with(&lease, effects);
                let settled = engine.settle(&namespace, settle).await.expect(lacks);
                let SettleVerdict::Settled { effects, .. } = &settled.verdicts[0][0] else {
                    panic!("{settled:?}");
                };
                assert!(effects.iter().all(Option::is_some), "{lacks}: {effects:?}");
                let others = crate::outbox::take_followers(&engine).await;
                assert_eq!(others.len(), 8, "{lacks}: each is there once");
            }
        }
        let (loads, misses) = loads_and_misses(&server);
        // Of two shards both may ask at the same time.
        assert_eq!(loads, 1, "{lacks}");
        assert!((1..=2).contains(&misses), "{lacks}: {misses} missed it");
        assert_eq!(version(&server), RedisEngine::functions_version());
        engine.maintain().await.expect("maintain");
        let drained = crate::client::drain(&engine).await;
        assert!(drained.len() <= 1, "{lacks}: {drained:?}");
        if !matches!(lacks, "outbox" | "deliver") {
            assert!(lease.complete(&engine).await.expect("settle"));
        }
    }
}

/// The same of a look for work, which is made once no wakeup announces any, by a clock that goes
/// on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_lacking_costs_one_retry() {
    for trouble in ["lacks it", "flushed"] {
        // A server of its own: where a client listened before, the wakeup may still be on its way
        // to an ear.
        let server = TestServer::start();
        let ahead = RedisEngine::connect_with_clock_ahead(options(&server.address()), days(1));
        let engine = ahead.await.expect("the server is there");
        let sent = engine.enqueue(&here(), vec![job()]).await;
        sent.expect("enqueue");
        let work = || WaitFor::Work(vec![QUEUE.into()]);
        let taken = engine.wait(&here(), work(), START).await;
        assert_eq!(taken.expect("wait"), Waited::Work, "its wakeup is taken");
        let until = engine.info().await.expect("info").now + days(9);
        // The server counts the load that the trouble is, too: none of the engine's is lost
        // between.
        server.cli(&["CONFIG", "RESETSTAT"]);
        let by_trouble = match trouble {
            "flushed" => {
                Trouble::Flushed.befall(&server);
                0
            }
            _ => {
                load(&server, &lacking(&server, "listen"));
                1
            }
        };
        let waited = engine.wait(&here(), work(), until).await;
        assert_eq!(waited.expect("wait"), Waited::Work, "{trouble}");
        let (loads, misses) = loads_and_misses(&server);
        assert_eq!(loads - by_trouble, 1, "{trouble}");
        assert!((1..=4).contains(&misses), "{trouble}: {misses} missed them");
        assert_eq!(crate::client::drain(&engine).await.len(), 1);
    }
}

/// What the callers of a load did.
#[derive(Default)]
struct Done {
    enough: AtomicBool,
    calls: AtomicU32,
}

/// Callers of each kind: producers, readers, workers.
const OF_EACH: u32 = 3;

async fn produces(engine: &RedisEngine, namespace: &Namespace, done: &Done) -> Vec<JobId> {
    let mut sent = Vec::new();
    while !done.enough.load(SeqCst) {
        let job = job();
        let receipts = engine.enqueue(namespace, vec![job.clone()]).await;
        let verdict = receipts.expect("enqueue").receipts[0].verdict;
        assert!(verdict.is_accepted(), "{verdict:?}");
        sent.push(job.id);
        done.calls.fetch_add(1, SeqCst);
    }
    sent
}

async fn reads(engine: &RedisEngine, namespace: &Namespace, done: &Done) -> Vec<JobId> {
    while !done.enough.load(SeqCst) {
        engine.get(namespace, absent(), false).await.expect("get");
        done.calls.fetch_add(1, SeqCst);
    }
    Vec::new()
}

/// Works until there is nothing more once a test stops it.
async fn works(engine: &RedisEngine, namespace: &Namespace, done: &Done) -> Vec<JobId> {
    let mut ended = Vec::new();
    loop {
        let last = done.enough.load(SeqCst);
        let wants = Claim::new(WorkerId::random(), QUEUE, 20);
        let claimed = engine.claim(namespace, wants).await.expect("claim");
        if last && claimed.leases.is_empty() {
            return ended;
        }
        for lease in claimed.leases {
            let lease = Claimed {
                token: lease.token,
                jobs: lease.jobs,
            };
            let settle = lease.ends(Outcome::Completed);
            engine.settle(namespace, settle).await.expect("settle");
            ended.extend(lease.jobs.iter().map(|job| job.id));
        }
        done.calls.fetch_add(1, SeqCst);
    }
}

async fn come_and_go_under_load(engine: RedisEngine, node: &TestServer, namespace: &Namespace) {
    engine.get(namespace, absent(), false).await.expect("get");
    let older = tokio::task::block_in_place(|| {
        ["enqueue", "enqueues"].map(|refuses| older_ones(node, refuses))
    });
    node.cli(&["CONFIG", "RESETSTAT"]);
    let (engine, done) = (Arc::new(engine), Arc::new(Done::default()));
    let mut callers = Vec::new();
    for _ in 0..OF_EACH {
        let of = || (engine.clone(), namespace.clone(), done.clone());
        let (producer, reader, worker) = (of(), of(), of());
        callers.push((
            tokio::spawn(async move { produces(&producer.0, &producer.1, &producer.2).await }),
            tokio::spawn(async move { reads(&reader.0, &reader.1, &reader.2).await }),
            tokio::spawn(async move { works(&worker.0, &worker.1, &worker.2).await }),
        ));
    }
    let (mut troubles, mut by_hand) = (0, 0);
    for round in 0..rounds(12) {
        // Some calls go well in between.
        let before = done.calls.load(SeqCst);
        let watch = Stopwatch::start();
        while done.calls.load(SeqCst) < before + 4 * OF_EACH {
            assert!(watch.elapsed() < LIMIT, "they go on no more");
            assert!(
                !callers
                    .iter()
                    .any(|it| it.0.is_finished() || it.1.is_finished() || it.2.is_finished())
            );
            tokio::task::yield_now().await;
        }
        tokio::task::block_in_place(|| match round % 4 {
            0 => Trouble::Flushed.befall(node),
            1 => Trouble::Older.befall(node),
            older_one => load(node, &older[older_one - 2]),
        });
        troubles += 1;
        by_hand += u32::from(round % 4 > 0);
    }
    done.enough.store(true, SeqCst);
    let (mut sent, mut ended) = (BTreeSet::new(), Vec::new());
    for (producer, reader, worker) in callers {
        sent.extend(producer.await.expect("no error"));
        reader.await.expect("no error");
        ended.extend(worker.await.expect("no error"));
    }
    ended.extend(works(&engine, namespace, &done).await);
    let (loads, misses) = loads_and_misses(node);
    assert!(
        loads - by_hand <= troubles,
        "{} loads for {troubles} troubles",
        loads - by_hand
    );
    // Each caller has one call under way, and one of them asks for the version.
    let most = troubles * (3 * OF_EACH + 1);
    assert!(
        misses <= most,
        "{misses} calls missed their functions, of {most} that may"
    );
    assert!(misses > 0, "none was under way");
    assert_eq!(ended.len(), sent.len(), "each once");
    assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_come_and_go_under_load_cost_each_call_one_retry() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    come_and_go_under_load(engine, &server, &here()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_lost_on_any_node_under_load_cost_each_call_one_retry() {
    let mut cluster = TestCluster::start();
    let namespaces = namespaces(&mut cluster);
    let address = cluster.address();
    for (namespace, node) in namespaces.iter().zip(cluster.nodes()) {
        let engine = connect(&address).await;
        come_and_go_under_load(engine, node, namespace).await;
    }
}
