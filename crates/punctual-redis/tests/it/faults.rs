//! Servers that are killed, stopped, emptied and filled.

/// What a server refuses while something is wrong with it.
mod refusals;

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use punctual::engine::{
    Claim, Control, Controlled, Durability, ExtendVerdict, Guard, SettleVerdict, WaitFor, WorkerId,
};
use punctual::time::{Clock, Stopwatch, SystemClock, days, millis, seconds, within};
use punctual::{Due, Engine, ErrorKind, JobId, JobState, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{
    Claimed, QUEUE, claim, claim_as, connect, drain, enqueue, enqueue_surely, here, job,
    of_all_records, options, state,
};
use crate::hand::SHARD;
use crate::outbox::{ends_with, enqueues};

/// A worker whose own clock is a day behind that of the servers.
#[tokio::test]
async fn a_worker_whose_clock_is_a_day_off_is_on_time_and_never_early() {
    let server = TestServer::start();
    let engine = RedisEngine::connect_with_clock_ahead(options(&server.address()), days(1)).await;
    let engine = engine.expect("connect");
    let here_is = Clock::now(&SystemClock);
    for _ in 0..3 {
        let job = job().due(Due::After(millis(400)));
        let sent = engine.enqueue(&here(), vec![job]).await.expect("enqueue");
        let due = sent.receipts[0].due;
        assert!(due > here_is + days(1), "the servers' clock counts");
        let watch = Stopwatch::start();
        let (lease, now) = loop {
            let wants = Claim::new(WorkerId::random(), QUEUE, 1).lease_duration(millis(600));
            let mut claimed = engine.claim(&here(), wants).await.expect("claim");
            if let Some(lease) = claimed.leases.pop() {
                break (lease, claimed.now);
            }
            let until = claimed.wake_at.expect("a job is to come");
            let what = WaitFor::Work(vec![QUEUE.into()]);
            engine.wait(&here(), what, until).await.expect("wait");
        };
        assert!(now >= due, "early: {now} before {due}");
        assert!(watch.elapsed() >= millis(390), "early by our own watch");
        assert!(now - due < seconds(5), "late by {:?}", now - due);
        // Its lease is counted by the servers too.
        let lease = Claimed {
            token: lease.token,
            jobs: lease.jobs,
        };
        let extended = lease.extend(&engine).await.expect("extend");
        assert!(matches!(extended, ExtendVerdict::Extended { .. }));
        assert!(lease.complete(&engine).await.expect("settle"));
    }
}

/// How often the loops of faults go round: `PUNCTUAL_FAULTS` times as often as the short form.
pub(crate) fn rounds(short: usize) -> usize {
    let times = std::env::var("PUNCTUAL_FAULTS").ok();
    short * times.map_or(1, |times| times.parse().expect("a number of times"))
}

pub(crate) const ALWAYS: [&str; 6] = TestServer::KEEPS_ALL;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_that_syncs_always_loses_nothing() {
    let mut server = TestServer::with(&ALWAYS);
    let engine =
        std::sync::Arc::new(connect(&format!("{}?durability=fsync", server.address())).await);
    let mut kept = HashSet::new();
    for _ in 0..rounds(5) {
        let producer = {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                loop {
                    match enqueue(&engine).await {
                        Ok(id) => acknowledged.push(id),
                        Err(error) => {
                            assert!(error.is_retryable(), "{error}");
                            return acknowledged;
                        }
                    }
                    if acknowledged.len() >= 300 {
                        return acknowledged;
                    }
                }
            })
        };
        while drain(&engine).await.is_empty() {}
        server.kill();
        server.restart();
        let back = Stopwatch::start();
        let first = claim(&engine, 1).await.expect("the server is back");
        assert!(back.elapsed() < seconds(5), "{:?}", back.elapsed());
        for lease in first {
            assert!(lease.complete(&engine).await.expect("settle"));
        }
        kept.extend(producer.await.expect("no panic"));
        drain(&engine).await;
    }
    for id in kept {
        assert_eq!(state(&engine, id).await, Some(JobState::Completed), "{id}");
    }
}

/// A power cut may tear a transaction, as every call is one. A Redis that starts with such an end
/// goes on behind it, within the transaction, and at its next start drops all that came since:
/// unless it begins a new file before the first call, as every new connection has it do. Seed 302
/// of `redis-power` lost 81 of 980 jobs by it.
#[tokio::test]
async fn what_comes_after_a_torn_call_is_kept() {
    let mut server = TestServer::with(&ALWAYS);
    let engine = connect(&format!("{}?durability=fsync", server.address())).await;
    let before = enqueue(&engine).await.expect("enqueue");
    for _ in 0..2 {
        a_new_file_is_written(&server).await;
        server.kill();
        tear_the_end(&server);
        server.restart();
        let after = enqueue(&engine).await.expect("enqueue");
        a_new_file_is_written(&server).await;
        server.kill();
        server.restart();
        for id in [before, after] {
            assert_eq!(state(&engine, id).await, Some(JobState::Ready), "{id}");
        }
        assert_eq!(server.cli(&["EXISTS", "torn"]), "0");
    }
}

/// Once a start is enough, and other clients need not ask again.
#[tokio::test]
async fn a_server_begins_one_new_file_a_start() {
    let mut server = TestServer::with(&ALWAYS);
    for _ in 0..2 {
        for _ in 0..3 {
            let engine = connect(&server.address()).await;
            enqueue(&engine).await.expect("enqueue");
            a_new_file_is_written(&server).await;
        }
        assert!(persistence(&server).contains("aof_rewrites:1\r\n"));
        server.restart();
    }
    server.restart_with(&[&ALWAYS[..], &["--aof-load-truncated", "no"]].concat());
    let engine = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    assert!(persistence(&server).contains("aof_rewrites:0\r\n"));
}

/// Who may not have a new file begun gets that error, or promised no more than there is.
#[tokio::test]
async fn fsync_needs_the_right_to_begin_a_new_file() {
    let server = TestServer::with(&ALWAYS);
    server.cli(&["ACL", "SETUSER", "default", "-bgrewriteaof"]);
    let asked = format!("{}?durability=fsync", server.address());
    let refused = RedisEngine::connect(options(&asked)).await.map(drop);
    let refused = refused.expect_err("it is not kept");
    assert_eq!(refused.kind(), ErrorKind::DurabilityUnavailable);
    assert!(refused.message().contains("+bgrewriteaof"), "{refused}");
    let engine = connect(&server.address()).await;
    let info = engine.info().await.expect("info");
    assert_eq!(info.durability, Durability::Os);
    server.cli(&["CONFIG", "SET", "aof-load-truncated", "no"]);
    assert_eq!(
        connect(&asked).await.info().await.expect("info").durability,
        Durability::Fsync
    );
}

/// The right, or the memory for a fork, may be gone after a restart: nothing is acknowledged until
/// it is back.
#[tokio::test]
async fn fsync_is_not_promised_behind_a_torn_end_after_a_restart() {
    let mut server = TestServer::with(&ALWAYS);
    let address = format!("{}?durability=fsync", server.address());
    let synced = options(&address).deadline(millis(500));
    let synced = RedisEngine::connect(synced).await.expect("it is kept");
    let written = connect(&format!("{}?durability=os", server.address())).await;
    enqueue(&synced).await.expect("enqueue");
    a_new_file_is_written(&server).await;
    server.kill();
    let user = "--user default on nopass ~* &* +@all -bgrewriteaof";
    let user: Vec<&str> = user.split(' ').collect();
    server.restart_with(&[&ALWAYS[..], &user].concat());
    // A busy machine may answer later than the deadline: then the call is refused for that.
    let refused = within(seconds(30), async {
        loop {
            let refused = enqueue(&synced).await.expect_err("it is not kept");
            assert!(refused.is_retryable(), "{refused}");
            if !refused.message().contains("no answer in time") {
                return refused;
            }
        }
    });
    let refused = refused.await.expect("an answer");
    assert!(refused.message().contains("+bgrewriteaof"), "{refused}");
    let health = synced.info().await.expect("info").health;
    assert!(!health.ok && health.problems[0].contains("+bgrewriteaof"));
    enqueue(&written)
        .await
        .expect("no more was promised than is kept");
    server.cli(&["ACL", "SETUSER", "default", "+bgrewriteaof"]);
    enqueue(&synced).await.expect("it is kept again");
    let health = synced.info().await.expect("info").health;
    assert!(health.ok, "{:?}", health.problems);
}

/// As a replica does that was set up otherwise and has become master.
#[tokio::test]
async fn a_new_master_is_held_to_what_was_promised() {
    let mut server = TestServer::with(&ALWAYS);
    let address = format!("{}?durability=fsync", server.address());
    let time_limit = options(&address).deadline(millis(2_000));
    let engine = RedisEngine::connect(time_limit).await.expect("it is kept");
    enqueue(&engine).await.expect("enqueue");
    for (setting, remedy) in [
        ("--appendfsync everysec", "set appendfsync always"),
        ("--appendonly no", "set appendonly yes"),
        (
            "--maxmemory-policy allkeys-lru",
            "set maxmemory-policy noeviction",
        ),
        (
            "--no-appendfsync-on-rewrite yes",
            "set no-appendfsync-on-rewrite no",
        ),
    ] {
        let setting: Vec<&str> = setting.split(' ').collect();
        server.kill();
        server.restart_with(&[&ALWAYS[..], &setting].concat());
        let refused = enqueue(&engine).await.expect_err("it is not kept");
        assert!(refused.is_retryable(), "{refused}");
        assert!(refused.message().contains(remedy), "{refused}");
        let health = engine.info().await.expect("info").health;
        assert!(
            !health.ok && health.problems[0].contains(remedy),
            "{health:?}"
        );
        server.kill();
        server.restart_with(&ALWAYS);
        enqueue(&engine).await.expect("it is kept again");
        let health = engine.info().await.expect("info").health;
        assert!(health.ok, "{:?}", health.problems);
    }
}

fn persistence(server: &TestServer) -> String {
    server.cli(&["INFO", "persistence"])
}

async fn a_new_file_is_written(server: &TestServer) {
    while persistence(server).contains("aof_rewrite_in_progress:1") {
        tokio::task::yield_now().await;
    }
}

/// Adds half a transaction to what the server has written last.
fn tear_the_end(server: &TestServer) {
    let folder = server.directory().join("appendonlydir");
    let manifest = folder.join("appendonly.aof.manifest");
    let manifest = std::fs::read_to_string(manifest).expect("a manifest");
    let last = manifest.lines().last().expect("a file");
    let last = last.split_whitespace().nth(1).expect("its name");
    let log = std::fs::OpenOptions::new()
        .append(true)
        .open(folder.join(last));
    let torn = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\ntorn\r\n$1\r\n1\r\n*3\r\n$3\r\nSE";
    log.and_then(|mut log| log.write_all(torn))
        .expect("room on the disk");
}

/// It writes before it answers, and syncs later: a kill takes only what it holds back while a sync
/// is slow, for 2 s at most.
#[tokio::test]
async fn a_killed_server_that_syncs_each_second_loses_its_last_two_at_most() {
    let mut server = TestServer::with(&["--save", "", "--appendonly", "yes"]);
    let engine = connect(&format!("{}?durability=os", server.address())).await;
    for round in 0..rounds(1) {
        let watch = Stopwatch::start();
        let mut acknowledged = Vec::new();
        let is_young = |(_, at): &(JobId, Duration)| watch.elapsed() - *at < millis(2_600);
        while acknowledged.first().is_none_or(is_young) {
            let id = enqueue(&engine).await.expect("enqueue");
            acknowledged.push((id, watch.elapsed()));
        }
        server.kill();
        let killed = watch.elapsed();
        server.restart();
        let back = Stopwatch::start();
        let first = claim(&engine, 1).await.expect("the server is back");
        assert!(back.elapsed() < seconds(5), "{:?}", back.elapsed());
        assert_eq!(first.len(), 1, "jobs of before the kill are there");
        let mut lost = 0;
        for (id, at) in &acknowledged {
            if state(&engine, *id).await.is_none() {
                lost += 1;
                assert!(killed - *at < seconds(2) + millis(300), "{id} was old");
            }
        }
        println!("round {round}: {lost} of {} lost", acknowledged.len());
        assert!(first[0].complete(&engine).await.expect("settle"));
        assert!(
            killed - acknowledged[0].1 > seconds(2) + millis(300),
            "some are older than the window"
        );
        drain(&engine).await;
    }
}

#[tokio::test]
async fn a_call_goes_on_over_a_restart() {
    let mut server = TestServer::with(&ALWAYS);
    let engine = connect(&server.address()).await;
    let id = enqueue(&engine).await.expect("enqueue");
    server.restart();
    let back = Stopwatch::start();
    assert_eq!(claim(&engine, 1).await.expect("claim")[0].jobs[0].id, id);
    assert!(back.elapsed() < seconds(1), "{:?}", back.elapsed());
}

#[tokio::test]
async fn a_server_that_is_away_is_reported_within_the_deadline() {
    let mut server = TestServer::start();
    let options = options(&server.address()).deadline(millis(300));
    let engine = RedisEngine::connect(options).await.expect("connect");
    enqueue(&engine).await.expect("enqueue");
    server.kill();
    let watch = Stopwatch::start();
    let error = enqueue(&engine).await.expect_err("no server is there");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    assert!(watch.elapsed() < seconds(2), "{:?}", watch.elapsed());
}

#[tokio::test]
async fn a_stopped_server_expires_no_lease() {
    let mut server = TestServer::start();
    let options = options(&server.address()).deadline(millis(700));
    let engine = RedisEngine::connect(options).await.expect("connect");
    for _ in 0..50 {
        enqueue(&engine).await.expect("enqueue");
    }
    let lease_duration = millis(300);
    let wants =
        Claim::new(WorkerId::random(), crate::client::QUEUE, 50).lease_duration(lease_duration);
    let lease = claim_as(&engine, wants).await.expect("claim").remove(0);
    assert_eq!(lease.jobs.len(), 50);
    server.stop();
    // It fails after more than two leases.
    let error = lease.extend(&engine).await.expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    server.go_on();
    assert_eq!(
        claim(&engine, 50).await.expect("claim").len(),
        0,
        "no process crashed"
    );
    let extended = lease.extend(&engine).await.expect("extend");
    assert!(
        matches!(extended, ExtendVerdict::Extended { .. }),
        "{extended:?}"
    );
    assert!(lease.complete(&engine).await.expect("settle"));
}

#[tokio::test]
async fn flushed_functions_cost_a_caller_nothing() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    for _ in 0..20 {
        server.cli(&["FUNCTION", "FLUSH"]);
        let id = enqueue(&engine).await.expect("enqueue");
        server.cli(&["FUNCTION", "FLUSH"]);
        let lease = claim(&engine, 1).await.expect("claim").remove(0);
        assert_eq!(lease.jobs[0].id, id);
        server.cli(&["SCRIPT", "FLUSH"]);
        server.cli(&["FUNCTION", "FLUSH", "ASYNC"]);
        assert!(lease.complete(&engine).await.expect("settle"));
    }
}

/// A library of the same name that knows its version and nothing else.
fn library_of_version(version: u32) -> String {
    format!(
        "#!lua name=punctual_1\nredis.register_function{{function_name='punctual_1_version', \
         flags={{'no-writes'}}, callback=function() return {version} end}}"
    )
}

#[tokio::test]
async fn older_functions_are_replaced() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    for _ in 0..5 {
        server.cli(&["FUNCTION", "LOAD", "REPLACE", &library_of_version(0)]);
        enqueue(&engine).await.expect("enqueue");
    }
    server.cli(&["FUNCTION", "LOAD", "REPLACE", &library_of_version(0)]);
    let another = connect(&server.address()).await;
    assert_eq!(drain(&another).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_come_and_go_under_load_cost_no_caller_an_error() {
    let server = TestServer::start();
    let engine = std::sync::Arc::new(connect(&server.address()).await);
    let enough = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (sends, done) = (engine.clone(), enough.clone());
    let producer = tokio::spawn(async move {
        let mut sent = HashSet::new();
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            sent.insert(enqueue(&sends).await.expect("enqueue"));
        }
        sent
    });
    let (claims, done) = (engine.clone(), enough.clone());
    let worker = tokio::spawn(async move {
        let mut seen = Vec::new();
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            seen.extend(drain(&claims).await);
        }
        seen
    });
    let older = library_of_version(0);
    for _ in 0..rounds(20) {
        server.cli(&["FUNCTION", "FLUSH"]);
        server.cli(&["FUNCTION", "LOAD", "REPLACE", &older]);
        server.cli(&["SCRIPT", "FLUSH"]);
        server.cli(&["FUNCTION", "FLUSH", "ASYNC"]);
    }
    enough.store(true, std::sync::atomic::Ordering::SeqCst);
    let sent = producer.await.expect("no panic");
    let mut seen = worker.await.expect("no panic");
    seen.extend(drain(&engine).await);
    assert_eq!(seen.len(), sent.len(), "each once");
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), sent);
}

#[tokio::test]
async fn newer_functions_are_respected() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    // As this version's, but for its number.
    let ours = server.cli(&["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "punctual_1"]);
    let code = ours.split_once("#!lua").expect("the code is listed").1;
    let version = format!("local VERSION = {}", RedisEngine::functions_version());
    assert!(code.contains(&version), "the number is to be found");
    let newer = format!(
        "#!lua{}",
        code.replacen(&version, "local VERSION = 9999", 1)
    );
    let said = server.cli(&["FUNCTION", "LOAD", "REPLACE", &newer]);
    assert_eq!(said, "punctual_1");
    let another = connect(&server.address()).await;
    assert_eq!(drain(&another).await.len(), 1);
    assert_eq!(server.cli(&["FCALL_RO", "punctual_1_version", "0"]), "9999");
}

#[tokio::test]
async fn lost_data_are_reported_and_never_a_new_queue() {
    let mut server = TestServer::start();
    let engine = connect(&server.address()).await;
    let worker = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    claim(&worker, 0).await.expect_err("a malformed claim");
    claim(&worker, 1).await.expect("claim");
    for lose in ["FLUSHALL", "restart"] {
        match lose {
            "restart" => server.restart(),
            _ => drop(server.cli(&["FLUSHALL"])),
        }
        for error in [
            enqueue(&engine).await.expect_err("the data are gone"),
            claim(&worker, 1).await.expect_err("the data are gone"),
        ] {
            assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
        }
        let health = worker.info().await.expect("info").health;
        assert!(
            !health.ok && health.problems[0].contains("lost"),
            "{health:?}"
        );
    }
    assert_eq!(
        of_all_records(&server, &["--raw", "EXISTS"], "punctual:{default/0}"),
        "0"
    );
    let begun_anew = connect(&server.address()).await;
    enqueue(&begun_anew)
        .await
        .expect("who starts after it begins anew");
}

#[tokio::test]
async fn a_full_server_refuses_jobs_and_lets_them_end() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut waiting = JobId::new();
    for _ in 0..10 {
        waiting = enqueue(&engine).await.expect("enqueue");
    }
    let purged = NewJob::new("purged", "{}");
    let sent = engine.enqueue(&here(), vec![purged]).await;
    sent.expect("enqueue");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = enqueue(&engine).await.expect_err("full");
    assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}");
    assert!(error.message().contains("maxmemory; give"), "{error}");
    let guarded = Control::Guarded {
        guard: Guard::new("offsets", 0),
        value: None,
        effects: enqueues(&[NewJob::new("followers", "{}")]),
    };
    let error = engine.control(&here(), guarded).await.expect_err("full");
    assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}");
    let lease = claim(&engine, 4).await.expect("claim").remove(0);
    assert!(matches!(
        lease.extend(&engine).await,
        Ok(ExtendVerdict::Extended { .. })
    ));
    let (first, rest) = lease.split(1);
    // Refused, it would run again and again.
    let effect = enqueues(&[NewJob::new("followers", "{}")]);
    let settled = engine.settle(&here(), ends_with(&first, effect)).await;
    let settled = settled.expect("settle").verdicts.remove(0).remove(0);
    assert!(
        matches!(settled, SettleVerdict::Settled { .. }),
        "{settled:?}"
    );
    assert!(rest.complete(&engine).await.expect("settle"));
    let cancelled = server.cli(&[
        "FCALL",
        "punctual_1_cancel",
        "1",
        SHARD,
        &waiting.to_string(),
    ]);
    assert!(cancelled.contains("cancelled"), "{cancelled}");
    let purge = Control::Purge {
        queue: "purged".into(),
        cursor: None,
        limit: 10,
    };
    let purged = engine.control(&here(), purge).await.expect("purge");
    assert!(
        matches!(purged, Controlled::Purged { matched: 1, .. }),
        "{purged:?}"
    );
    assert_eq!(drain(&engine).await.len(), 5);
    engine.maintain().await.expect("maintain");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    enqueue(&engine).await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_answer_to_another() {
    let server = TestServer::start();
    let engine = std::sync::Arc::new(connect(&server.address()).await);
    for round in 0..300_u32 {
        let job = job();
        let dropped = engine.clone();
        let task = tokio::spawn(async move { dropped.enqueue(&here(), vec![job]).await });
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
        // The next answers are of the next calls.
        assert!(state(&engine, punctual::JobId::new()).await.is_none());
        let next = crate::client::job();
        enqueue_surely(&engine, &next).await;
        assert_eq!(state(&engine, next.id).await, Some(JobState::Ready));
    }
    let mut seen = HashSet::new();
    assert!(
        drain(&engine).await.into_iter().all(|id| seen.insert(id)),
        "each once"
    );
}
