//! The connection is cut under TLS, at every boundary of its records and many bytes between them,
//! and in a cluster.

use std::collections::BTreeSet;

use punctual::engine::ExtendVerdict;
use punctual::{Engine, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{Ending, TestCluster, TestProxy as Proxy, Way};

use crate::certificates::{path, that_shows};
use crate::client::{claim, comes_about, connect, drain, enqueue, here, job, state};
use crate::cuts::{at_bytes, at_every_byte};
use crate::faults::rounds;
use crate::hand::SHARD;

/// A job goes in; it is there once, as a client that is not cut sees.
async fn a_job_goes_in(engine: &RedisEngine, direct: &RedisEngine) {
    let job = job();
    let sent = engine.enqueue(&here(), vec![job.clone()]).await;
    let receipt = sent.expect("enqueue").receipts.remove(0);
    assert_eq!(receipt.id, job.id);
    assert!(receipt.verdict.is_accepted(), "{:?}", receipt.verdict);
    assert_eq!(drain(direct).await, [job.id]);
}

/// A job is claimed, extended and settled.
async fn a_job_is_done(engine: &RedisEngine, direct: &RedisEngine) {
    let id = enqueue(direct).await.expect("enqueue");
    let lease = claim(engine, 1).await.expect("claim").remove(0);
    assert_eq!((lease.jobs[0].id, lease.jobs[0].attempt), (id, 1));
    let extended = lease.extend(engine).await.expect("extend");
    assert!(
        matches!(extended, ExtendVerdict::Extended { .. }),
        "{extended:?}"
    );
    assert!(lease.complete(engine).await.expect("settle"));
    assert_eq!(state(direct, id).await, Some(JobState::Completed));
}

/// Where each record of a TLS stream ends, as it was received from the beginning of one.
fn ends_of_records(received: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, Vec::new());
    while let Some([kind, 3, _, high, low]) = received.get(at..at + 5) {
        assert!((20..=23).contains(kind), "a record begins at {at}");
        at += 5 + usize::from(u16::from_be_bytes([*high, *low]));
        ends.push(at);
    }
    assert_eq!(at, received.len(), "records fill it");
    ends
}

/// Bytes between two cuts: in one round, and by how much several rounds divide.
fn step(once: usize, divided: usize) -> usize {
    match rounds(1) {
        1 => once,
        rounds => divided.div_ceil(rounds),
    }
}

/// Each boundary, the bytes about it and those about the end of the header behind it, and many
/// others.
fn cuts_of(received: &[u8]) -> BTreeSet<usize> {
    let others = (0..received.len()).step_by(step(97, 37));
    let ends = ends_of_records(received);
    assert!(!ends.is_empty(), "nothing was said");
    let about = |end: usize| [end - 1, end, end + 1, end + 4, end + 5, end + 6];
    let starts = [0, 1, 4, 5, 6].into_iter();
    let all = ends.into_iter().flat_map(about).chain(starts).chain(others);
    all.filter(|at| *at <= received.len()).collect()
}

async fn at_the_records<F: Future<Output = ()>>(proxy: &Proxy, verb: impl Fn() -> F) {
    verb().await;
    proxy.listen();
    verb().await;
    for way in [Way::Request, Way::Reply] {
        let cuts = cuts_of(&proxy.received(way));
        at_bytes(proxy, way, cuts, &verb).await;
    }
}

#[tokio::test]
async fn calls_that_are_cut_under_tls_are_done_once() {
    let server = that_shows("server.pem", "no");
    let proxy = Proxy::to(server.port()).await;
    let to = |port| format!("rediss://localhost:{port}?ca={}", path("ca.pem"));
    let engine = connect(&to(proxy.port())).await;
    let direct = connect(&to(server.port())).await;
    at_the_records(&proxy, || a_job_goes_in(&engine, &direct)).await;
    at_the_records(&proxy, || a_job_is_done(&engine, &direct)).await;
    // A new connection each time: its contact is cut too.
    at_the_records(&proxy, || async {
        proxy.end_all(Ending::Closed);
        a_job_goes_in(&engine, &direct).await;
    })
    .await;
}

/// Before each node a proxy, by whose address the cluster announces it.
async fn behind_proxies(cluster: &mut TestCluster) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        let proxy = Proxy::to(node.port()).await;
        let port = proxy.port().to_string();
        let announces = ["CONFIG", "SET", "cluster-announce-port", &port];
        assert_eq!(node.cli(&announces), "OK");
        proxies.push(proxy);
    }
    for node in cluster.nodes() {
        let reports = |proxy: &Proxy| {
            let slots = node.cli(&["CLUSTER", "SLOTS"]);
            slots.lines().any(|line| line == proxy.port().to_string())
        };
        let reports_all = || proxies.iter().all(reports);
        comes_about("each node announces every proxy", reports_all).await;
    }
    proxies
}

/// The cut falls between an engine and the node of its jobs, and sometimes into its question who
/// that is.
#[tokio::test]
async fn calls_that_are_cut_in_a_cluster_are_done_once() {
    let mut cluster = TestCluster::start();
    let proxies = behind_proxies(&mut cluster).await;
    let owner = cluster.owner_of(SHARD);
    let proxy = &proxies[owner];
    let address = format!("redis+cluster://127.0.0.1:{}", proxy.port());
    let engine = connect(&address).await;
    // All ways lead through the proxies: a cut may meet a poll, too.
    let direct = connect(&address).await;
    a_job_goes_in(&engine, &direct).await;
    let step = step(11, 5);
    at_every_byte(proxy, step, || a_job_goes_in(&engine, &direct)).await;
    at_every_byte(proxy, step, || a_job_is_done(&engine, &direct)).await;
}
