//! The connection is cut at every byte of what leaves together, of leases that their claimer reads
//! by itself, of changes that wait for a replica, and of walks. These are long: the short form cuts
//! at every fifth byte.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use punctual::engine::{Action, Control, Edit, ExtendVerdict, Filter, Select, StatsRequest};
use punctual::time::Stopwatch;
use punctual::{Engine, JobId, JobState, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy as Proxy, TestServer};

use crate::client::{LIMIT, QUEUE, claim, comes_about, connect, drain, enqueue, here, job, state};
use crate::cuts::at_every_byte;
use crate::faults::rounds;

fn step() -> usize {
    5_usize.div_ceil(rounds(1))
}

/// An engine behind a proxy that has met its shard, and one that is not cut.
async fn cut_and_direct(server: &TestServer, options: &str) -> (Proxy, RedisEngine, RedisEngine) {
    let proxy = Proxy::to(server.port()).await;
    let engine = connect(&format!("{}{options}", proxy.address())).await;
    let direct = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    (proxy, engine, direct)
}

fn set(ids: impl IntoIterator<Item = JobId>) -> BTreeSet<JobId> {
    ids.into_iter().collect()
}

/// Calls of functions that take several, since the counters were set back.
fn taken_together(server: &TestServer) -> usize {
    let sent = server.cli(&["SLOWLOG", "GET", "-1"]);
    ["punctual_1_enqueues", "punctual_1_calls"]
        .iter()
        .map(|name| sent.matches(name).count())
        .sum()
}

/// Has the server note every call that it takes.
pub(crate) fn notes_all(server: &TestServer) {
    for (name, value) in [
        ("slowlog-log-slower-than", "0"),
        ("slowlog-max-len", "100000"),
    ] {
        assert_eq!(server.cli(&["CONFIG", "SET", name, value]), "OK");
    }
}

#[tokio::test]
async fn cut_enqueues_that_leave_together_are_each_done_once() {
    let server = TestServer::start();
    let (proxy, engine, direct) = cut_and_direct(&server, "").await;
    notes_all(&server);
    at_every_byte(&proxy, step(), || async {
        let jobs: Vec<NewJob> = (0..5).map(|_| job()).collect();
        let calls = jobs
            .iter()
            .map(async |job| engine.enqueue(&here(), vec![job.clone()]).await);
        for sent in join_all(calls).await {
            let verdict = sent.expect("enqueue").receipts[0].verdict;
            assert!(verdict.is_accepted(), "{verdict:?}");
        }
        let done = drain(&direct).await;
        assert_eq!(done.len(), jobs.len(), "each once");
        assert_eq!(set(done), set(jobs.iter().map(|job| job.id)));
    })
    .await;
    assert!(taken_together(&server) > 10, "they left together");
}

#[tokio::test]
async fn cut_claims_extends_and_settles_that_leave_together_are_each_done_once() {
    let server = TestServer::start();
    let (proxy, engine, direct) = cut_and_direct(&server, "").await;
    notes_all(&server);
    at_every_byte(&proxy, step(), || async {
        let mut ids = BTreeSet::new();
        for _ in 0..4 {
            ids.insert(enqueue(&direct).await.expect("enqueue"));
        }
        let claims = join_all((0..4).map(|_| claim(&engine, 1))).await;
        let leases: Vec<_> = claims
            .into_iter()
            .flat_map(|it| it.expect("claim"))
            .collect();
        assert_eq!(set(leases.iter().map(|lease| lease.jobs[0].id)), ids);
        for extended in join_all(leases.iter().map(|lease| lease.extend(&engine))).await {
            let extended = extended.expect("extend");
            assert!(
                matches!(extended, ExtendVerdict::Extended { .. }),
                "{extended:?}"
            );
        }
        for settled in join_all(leases.iter().map(|lease| lease.complete(&engine))).await {
            assert!(settled.expect("settle"), "its lease is valid");
        }
        for id in ids {
            assert_eq!(state(&direct, id).await, Some(JobState::Completed));
        }
    })
    .await;
    assert!(taken_together(&server) > 10, "they left together");
}

/// As many jobs as their claimer reads by itself: enough for a bundle, and each sent alone.
#[tokio::test]
async fn a_cut_lease_that_its_claimer_reads_comes_whole() {
    let server = TestServer::start();
    let (proxy, engine, direct) = cut_and_direct(&server, "").await;
    notes_all(&server);
    for of_bundle in [true, false] {
        at_every_byte(&proxy, step(), || async {
            let payload = |nth: usize| format!("\"number {nth}\"");
            let jobs: Vec<NewJob> = (0..9).map(|nth| NewJob::new(QUEUE, payload(nth))).collect();
            let ids = set(jobs.iter().map(|job| job.id));
            match of_bundle {
                true => {
                    let sent = engine
                        .enqueue(&here(), jobs.clone())
                        .await
                        .expect("enqueue");
                    assert!(sent.receipts.iter().all(|it| it.verdict.is_accepted()));
                }
                false => {
                    for job in &jobs {
                        direct
                            .enqueue(&here(), vec![job.clone()])
                            .await
                            .expect("enqueue");
                    }
                }
            }
            let mut claimed = BTreeSet::new();
            let watch = Stopwatch::start();
            while claimed.len() < ids.len() {
                assert!(watch.elapsed() < LIMIT, "only {claimed:?} came");
                for lease in claim(&engine, 9).await.expect("claim") {
                    for job in &lease.jobs {
                        let sent = jobs
                            .iter()
                            .find(|it| it.id == job.id)
                            .expect("one of these");
                        assert_eq!(job.payload, sent.payload);
                        assert_eq!(job.attempt, 1);
                        assert!(claimed.insert(job.id), "once");
                    }
                    assert!(lease.complete(&engine).await.expect("settle"));
                }
            }
            assert_eq!(claimed, ids);
        })
        .await;
        let sent = server.cli(&["SLOWLOG", "GET", "-1"]);
        let reads = if of_bundle {
            "punctual:{default/0}:sd:"
        } else {
            "punctual:{default/0}:b:"
        };
        assert!(
            sent.matches("HMGET").count() > 10 && sent.contains(reads),
            "it reads them by itself"
        );
        server.cli(&["SLOWLOG", "RESET"]);
    }
}

#[tokio::test]
async fn a_cut_change_that_waits_for_a_replica_is_done_once() {
    let server = TestServer::start();
    let follows = [
        "--save",
        "",
        "--replicaof",
        &format!("127.0.0.1 {}", server.port()),
    ];
    let _replica = TestServer::with(&follows);
    let is_online = || {
        server
            .cli(&["INFO", "replication"])
            .contains("state=online")
    };
    comes_about("a replica", is_online).await;
    let (proxy, engine, direct) = cut_and_direct(&server, "?durability=replica(1)").await;
    at_every_byte(&proxy, step(), || async {
        let job = job();
        let sent = engine.enqueue(&here(), vec![job.clone()]).await;
        let verdict = sent.expect("enqueue").receipts[0].verdict;
        assert!(verdict.is_accepted(), "{verdict:?}");
        let lease = claim(&engine, 1).await.expect("claim").remove(0);
        assert!(lease.complete(&engine).await.expect("settle"));
        assert_eq!(state(&direct, job.id).await, Some(JobState::Completed));
    })
    .await;
    let waits = server.cli(&["INFO", "commandstats"]);
    assert!(waits.contains("cmdstat_wait:"), "a replica was waited for");
}

#[tokio::test]
async fn a_cut_walk_ends_with_everything_done() {
    let server = TestServer::start();
    let (proxy, engine, direct) = cut_and_direct(&server, "").await;
    let waiting = || async {
        let stats = direct.stats(&here(), StatsRequest::default()).await;
        stats.expect("stats").queues[0].counts.of(JobState::Ready)
    };
    let three_wait = || async {
        for _ in 0..3 {
            enqueue(&direct).await.expect("enqueue");
        }
        assert_eq!(waiting().await, 3);
    };
    at_every_byte(&proxy, step(), || async {
        three_wait().await;
        let purge = Control::Purge {
            queue: QUEUE.into(),
            cursor: None,
            limit: 100,
        };
        engine.control(&here(), purge).await.expect("purge");
        assert_eq!(waiting().await, 0);
    })
    .await;
    at_every_byte(&proxy, step(), || async {
        three_wait().await;
        let cancel = Edit::new(
            Select::Filter {
                filter: Filter::default()
                    .queue(QUEUE.to_owned())
                    .state(Some(JobState::Ready)),
                cursor: None,
                limit: 100,
            },
            Action::Cancel,
        );
        engine.edit(&here(), cancel).await.expect("edit");
        assert_eq!(waiting().await, 0);
    })
    .await;
}
