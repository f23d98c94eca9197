//! The engine keeps the law on three masters of a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use punctual::conformance::{LAWS, first_broken};
use punctual::engine::{
    Claim, Extend, List, ListBy, Settle, StatsRequest, Target, WaitFor, WorkerId,
};
use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual::{
    Context, Engine, Error, ErrorKind, JobId, JobRecord, JobState, Namespace, NewJob, Outcome,
    Worker,
};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestCluster;
use tokio::sync::Semaphore;

use crate::client::{Claimed, QUEUE, claim_as, connect, enqueue, here, options, state};
use crate::harness::OnCluster;

#[test]
fn every_twelfth_law_holds_on_a_cluster() {
    let broken = first_broken(LAWS.iter().step_by(12), OnCluster::default());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
}

/// All of them; the deep tier has this one.
#[test]
fn every_law_holds_on_a_cluster() {
    let broken = first_broken(LAWS, OnCluster::default());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
}

/// So no law was passed over for want of what it needs.
#[test]
fn every_capability_is_claimed() {
    crate::harness::claims_all(&OnCluster::default());
}

/// Three shards on a master each, which go on when another one is away.
fn three_masters() -> TestCluster {
    let mut cluster = TestCluster::start();
    for nth in 0..3 {
        cluster.move_slot(&format!("punctual:{{default/{nth}}}"), nth);
    }
    for node in cluster.nodes() {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster
}

async fn in_shards(cluster: &TestCluster) -> RedisEngine {
    let options = options(&format!("{}?shards=3", cluster.address())).deadline(millis(700));
    RedisEngine::connect(options).await.expect("it is there")
}

/// Enqueues jobs until each shard that is there has got some.
async fn enqueue_some(engine: &RedisEngine, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.extend(enqueue(engine).await.ok());
    }
    ids
}

#[tokio::test]
async fn one_master_that_is_away_keeps_no_other_shard_from_its_turn() {
    let mut cluster = three_masters();
    let engine = in_shards(&cluster).await;
    enqueue_some(&engine, 60).await;
    let mut leases: Vec<Claimed> = Vec::new();
    while leases.iter().map(|lease| lease.jobs.len()).sum::<usize>() < 60 {
        let wants = Claim::new(WorkerId::random(), QUEUE, 60);
        leases.extend(claim_as(&engine, wants).await.expect("claim"));
    }
    assert_eq!(leases.len(), 3, "one of each shard");
    cluster.nodes()[1].kill();
    let beats: Vec<Extend> = leases.iter().map(Claimed::extension).collect();
    let error = engine
        .extend(&here(), beats)
        .await
        .expect_err("one is unknown");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let ended = Settle::new(
        leases
            .iter()
            .flat_map(|lease| lease.ends(Outcome::Completed).leases)
            .collect(),
    );
    let error = engine
        .settle(&here(), ended)
        .await
        .expect_err("one is unknown");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let mut settled = 0;
    for lease in &leases {
        let got = engine
            .get(&here(), vec![Target::Id(lease.jobs[0].id)], false)
            .await;
        let Ok(got) = got else { continue };
        let is = got[0].as_ref().map(|job| job.state());
        assert_eq!(is, Some(JobState::Completed), "{:?}", lease.token);
        settled += 1;
    }
    assert_eq!(settled, 2, "both that are there took their part");
}

#[tokio::test]
async fn jobs_of_other_shards_go_on_while_a_master_is_away() {
    let mut cluster = three_masters();
    let engine = Arc::new(in_shards(&cluster).await);
    enqueue_some(&engine, 9).await;
    let drained = crate::client::drain(&engine).await;
    assert_eq!(drained.len(), 9);
    cluster.nodes()[1].kill();
    let ids = enqueue_some(&engine, 12).await;
    type Runs = Arc<Mutex<BTreeMap<JobId, u32>>>;
    let runs = Runs::default();
    let lease_duration = seconds(2);
    let noted = runs.clone();
    let worker = Worker::new(engine.clone())
        .lease_duration(lease_duration)
        .concurrency(16)
        .queues([QUEUE])
        .handle_any(move |_: JobRecord, ctx: Context| {
            let noted = noted.clone();
            async move {
                *noted.lock().expect("no panic").entry(ctx.id()).or_default() += 1;
                pause(lease_duration + lease_duration / 2).await;
                Outcome::Completed
            }
        });
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let watch = Stopwatch::start();
    for id in &ids {
        while state(&engine, *id).await != Some(JobState::Completed) {
            assert!(watch.elapsed() < seconds(60), "{:?}", runs.lock());
            tokio::task::yield_now().await;
        }
    }
    worker.abort();
    let runs = runs.lock().expect("no panic");
    for id in &ids {
        assert_eq!(runs.get(id), Some(&1), "{id}");
    }
}

#[tokio::test]
async fn a_worker_keeps_what_it_holds_of_other_shards_while_a_master_is_away() {
    let mut cluster = three_masters();
    let engine = Arc::new(in_shards(&cluster).await);
    let ids = enqueue_some(&engine, 24).await;
    type Runs = Arc<Mutex<BTreeMap<JobId, u32>>>;
    let runs = Runs::default();
    let (noted, gate) = (runs.clone(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let lease_duration = seconds(4);
    let worker = Worker::new(engine.clone())
        .lease_duration(lease_duration)
        .concurrency(24)
        .queues([QUEUE])
        .handle_any(move |_: JobRecord, ctx: Context| {
            let (noted, opened) = (noted.clone(), opened.clone());
            async move {
                *noted.lock().expect("no panic").entry(ctx.id()).or_default() += 1;
                let _ = opened.acquire().await;
                Outcome::Completed
            }
        });
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let watch = Stopwatch::start();
    while runs.lock().expect("no panic").len() < ids.len() {
        assert!(watch.elapsed() < seconds(30), "{:?}", runs.lock());
        tokio::task::yield_now().await;
    }
    cluster.nodes()[1].kill();
    // Long enough for a lease that is not prolonged to be given up.
    pause(lease_duration + lease_duration / 2).await;
    gate.close();
    let mut kept = 0;
    for id in &ids {
        let known = engine.get(&here(), vec![Target::Id(*id)], false).await;
        if known.is_err() {
            continue;
        }
        while state(&engine, *id).await != Some(JobState::Completed) {
            assert!(watch.elapsed() < seconds(60), "{:?}", runs.lock());
            tokio::task::yield_now().await;
        }
        assert_eq!(runs.lock().expect("no panic")[id], 1, "{id}");
        kept += 1;
    }
    worker.abort();
    assert!(kept > 0 && kept < ids.len(), "{kept}");
}

/// A caller of the silent one makes the client refresh the topology again and again: the others
/// wait for no silent witness.
#[tokio::test]
async fn a_master_that_is_silent_keeps_no_other_shard_from_its_answers() {
    let mut cluster = three_masters();
    let options = options(&format!("{}?shards=3", cluster.address())).deadline(seconds(1));
    let engine = RedisEngine::connect(options).await.expect("it is there");
    enqueue_some(&engine, 60).await;
    let mut leases: Vec<Claimed> = Vec::new();
    while leases.iter().map(|lease| lease.jobs.len()).sum::<usize>() < 60 {
        let wants = Claim::new(WorkerId::random(), QUEUE, 60);
        leases.extend(claim_as(&engine, wants).await.expect("claim"));
    }
    assert_eq!(leases.len(), 3, "one of each shard");
    // The first to be asked.
    let nodes = cluster.nodes().iter_mut();
    let silent = nodes.min_by_key(|node| node.port()).expect("three");
    silent.stop();
    let get = async |lease: &Claimed| {
        let ids = vec![Target::Id(lease.jobs[0].id)];
        let got = engine.get(&here(), ids, false).await;
        got.map(drop).map_err(|error| error.to_string())
    };
    let mut is_there = Vec::new();
    for lease in &leases {
        let answer = get(lease).await;
        is_there.push(answer.is_ok());
    }
    assert_eq!(is_there.iter().filter(|it| **it).count(), 2, "{is_there:?}");
    for _ in 0..4 {
        let each = leases.iter().cycle().take(60);
        let answers = within(seconds(2), join_all(each.map(get))).await;
        let answers = answers.expect("each call ends by its deadline");
        for (answer, is_there) in answers.into_iter().zip(is_there.iter().cycle()) {
            assert_eq!(answer.is_ok(), *is_there, "{answer:?}");
        }
    }
}

/// A caller that needs the shard that is unavailable learns which it is and where; all others go
/// on.
#[tokio::test]
async fn polls_name_the_shard_that_is_away_and_its_server() {
    let mut cluster = three_masters();
    let engine = in_shards(&cluster).await;
    let ids = enqueue_some(&engine, 30).await;
    let another = Namespace::new("another").expect("a good name");
    cluster.move_slot("punctual:{another/0}", 2);
    let mine = NewJob::new(QUEUE, "{}");
    let alone = connect(&cluster.address()).await;
    let sent = alone.enqueue(&another, vec![mine.clone()]).await;
    sent.expect("enqueue");
    let well = engine.info().await.expect("info").health;
    assert!(well.ok, "{:?}", well.problems);
    cluster.nodes()[1].kill();
    let server = format!("127.0.0.1:{}", cluster.nodes()[1].port());
    let is_named = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
        let said = error.to_string();
        assert!(said.contains(&server), "{said}");
        assert!(said.contains("shard: default/1"), "{said}");
    };

    let stats = engine.stats(&here(), StatsRequest::default()).await;
    is_named(&stats.expect_err("a part is missing"));
    let (mut list, mut listed) = (all_ready(), 0);
    loop {
        match engine.list(&here(), list.clone()).await {
            Ok(listing) => {
                listed += listing.jobs.len();
                list.cursor = Some(listing.cursor.expect("there is more"));
            }
            Err(error) => break is_named(&error),
        }
    }
    let (mut known, mut unknown) = (0, 0);
    for id in &ids {
        match engine.get(&here(), vec![Target::Id(*id)], false).await {
            Ok(got) => known += usize::from(got[0].is_some()),
            Err(error) => {
                is_named(&error);
                unknown += 1;
            }
        }
    }
    assert_eq!(known + unknown, ids.len());
    assert!(
        listed > 0 && listed < known,
        "{listed} of the first shard, {known} of two"
    );
    let info = engine.info().await.expect("others answer");
    assert!(!info.health.ok);
    let reported = info.health.problems.join("\n");
    assert!(
        reported.contains(&server) && reported.contains("shard default/1"),
        "{reported}"
    );

    // Whose jobs are elsewhere notices nothing.
    let got = alone.get(&another, vec![Target::Id(mine.id)], true).await;
    assert!(got.expect("get")[0].is_some());
    alone
        .stats(&another, StatsRequest::default())
        .await
        .expect("stats");
    let wants = Claim::new(WorkerId::random(), QUEUE, 10);
    let leases = alone.claim(&another, wants).await.expect("claim").leases;
    assert_eq!(leases[0].jobs[0].id, mine.id);
    let mut claimed = 0;
    while claimed < known {
        let wants = Claim::new(WorkerId::random(), QUEUE, 30);
        let leases = claim_as(&engine, wants).await.expect("claim");
        claimed += leases.iter().map(|lease| lease.jobs.len()).sum::<usize>();
    }
}

fn all_ready() -> List {
    List::new(ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    })
    .limit(100)
}

/// What all nodes have counted under a name of a section of `INFO`.
fn counted(cluster: &mut TestCluster, section: &str, name: &str, count: &str) -> u64 {
    let nodes = cluster.nodes().iter();
    let each = nodes.map(|node| {
        let said = node.cli(&["INFO", section]);
        let line = said.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split(count).nth(1));
        let number = number.and_then(|rest| rest.trim_end().split(',').next());
        number.map_or(0, |number| number.parse::<u64>().expect("a number"))
    });
    each.sum()
}

/// What is refused to who listens says nothing of who answers for the slot: no system is asked that
/// anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_wakeups_still_trusts_answers() {
    let mut cluster = TestCluster::start();
    let engine = Arc::new(connect(&cluster.address()).await);
    enqueue(&engine).await.expect("it greets");
    let polls = |cluster: &mut TestCluster| {
        counted(cluster, "commandstats", "cmdstat_cluster|slots:", "calls=")
    };
    let refused =
        |cluster: &mut TestCluster| counted(cluster, "errorstats", "errorstat_NOPERM:", "count=");
    let before = polls(&mut cluster);
    assert!(before > 0, "who answers was asked");
    for node in cluster.nodes() {
        assert_eq!(node.cli(&["ACL", "SETUSER", "default", "-bzpopmin"]), "OK");
    }
    let waiting = engine.clone();
    let now = engine.info().await.expect("info").now;
    let waits = tokio::spawn(async move {
        let what = WaitFor::Work(vec!["mail".into()]);
        waiting.wait(&here(), what, now + seconds(60)).await
    });
    let watch = Stopwatch::start();
    while refused(&mut cluster) < 5 {
        assert!(watch.elapsed() < seconds(60), "it is never refused");
        enqueue(&engine).await.expect("enqueue");
    }
    assert_eq!(polls(&mut cluster), before);
    waits.abort();
}
