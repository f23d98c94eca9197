//! Servers with the functions of an earlier program: what it has stored goes on under those of today, and wherever they come
//! back they cost nobody an error.

use std::collections::BTreeSet;

use punctual::conformance::START;
use punctual::engine::{Action, Edit, EnqueueVerdict, Got, Select, StatsRequest, Target};
use punctual::time::{ManualClock, days, millis, minutes, seconds};
use punctual::{Due, Engine, Group, Hold, JobId, NewJob, OnRetry, State, Unique, UniquePolicy};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestServer};

use crate::client::{Claimed, QUEUE, connect, drain, here, options, state};
use crate::versions::{Trouble, Troubled, namespaces};

/// The functions of an earlier program.
const EARLIER: &str = include_str!("../fixtures/functions-13.txt");
const EARLIER_VERSION: &str = "13";

/// The same under the name that tests use, with a clock that they move.
fn for_tests() -> String {
    let text = EARLIER.replace("punctual_1", "punctual_test");
    text.replace("--TEST ", "").replace("--SMALL ", "")
}

fn version(server: &TestServer) -> String {
    server.cli(&["FCALL_RO", "punctual_1_version", "0"])
}

fn job() -> NewJob {
    NewJob::new(QUEUE, "{}")
}

fn keyed(key: &str) -> NewJob {
    NewJob {
        unique: Some(Unique {
            key: key.into(),
            policy: UniquePolicy::Keep,
            hold: Hold::default(),
        }),
        ..job()
    }
}

fn in_group(queue: &str) -> NewJob {
    NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        ..NewJob::new(queue, "{}")
    }
}

async fn enqueue(engine: &RedisEngine, jobs: &[NewJob]) -> Vec<EnqueueVerdict> {
    let sent = engine.enqueue(&here(), jobs.to_vec()).await;
    let receipts = sent.expect("enqueue").receipts;
    receipts.iter().map(|receipt| receipt.verdict).collect()
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Words to a function of the server, whichever it has.
fn by_hand(server: &TestServer, function: &str, words: &[&str]) -> serde_json::Value {
    let function = format!("punctual_1_{function}");
    let call = ["FCALL", &function, "1", crate::hand::SHARD];
    let said = server.cli(&[&call, words].concat());
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

/// An earlier program and its functions, then one of today beside it: nothing that is there is lost, doubled or out of order.
#[tokio::test]
async fn what_an_earlier_program_has_stored_goes_on_under_todays() {
    let server = TestServer::start();
    let loaded = server.cli_with(&["FUNCTION", "LOAD", "REPLACE"], EARLIER);
    assert_eq!(loaded, "punctual_1");
    let old = RedisEngine::connect_with_functions(options(&server.address()), EARLIER).await;
    let old = old.expect("the server is there");

    // A lease that runs over the upgrade, in a sheaf; a part of it is done before.
    let running: Vec<_> = (0..20).map(|_| NewJob::new("running", "{}")).collect();
    enqueue(&old, &running).await;
    let wants = punctual::engine::Claim {
        lease_duration: minutes(10),
        ..punctual::engine::Claim::new(Default::default(), "running", 20)
    };
    let lease = crate::client::claim_as(&old, wants).await;
    let (done, lease) = lease.expect("claim").remove(0).split(5);
    assert!(done.complete(&old).await.expect("settle"));
    // Plain and alike, with a key, by hand, due later; one that failed once.
    let alike: Vec<_> = (0..30).map(|_| job()).collect();
    enqueue(&old, &alike).await;
    let key = keyed("order:7");
    enqueue(&old, std::slice::from_ref(&key)).await;
    let pushed = by_hand(&server, "push", &[QUEUE, r#"{"n":1}"#, "UNIQUE", "order:8"]);
    let pushed: JobId = pushed["id"].as_str().expect("an id").parse().expect("one");
    let soon = NewJob {
        due: Due::After(millis(200)),
        ..job()
    };
    let far = NewJob {
        due: Due::After(days(2)),
        ..NewJob::new("far", "{}")
    };
    enqueue(&old, &[soon.clone(), far.clone()]).await;
    let failed = NewJob::new("failed", "{}");
    enqueue(&old, std::slice::from_ref(&failed)).await;
    let failing = by_hand(&server, "claim", &["failed"]);
    let token = failing["token"].as_str().expect("a token");
    by_hand(
        &server,
        "settle",
        &[token, &failed.id.to_string(), "retry", "AFTER", "1"],
    );
    let group: Vec<_> = (0..3).map(|_| in_group("serial")).collect();
    enqueue(&old, &group).await;
    let held = NewJob {
        wait_for: vec!["upload".into()],
        ..NewJob::new("held", "{}")
    };
    enqueue(&old, std::slice::from_ref(&held)).await;
    let kept = NewJob {
        retention: minutes(5),
        ..NewJob::new("kept", "{}")
    };
    enqueue(&old, std::slice::from_ref(&kept)).await;
    let keeps = by_hand(&server, "claim", &["kept"]);
    let token = keeps["token"].as_str().expect("a token");
    by_hand(
        &server,
        "settle",
        &[token, &kept.id.to_string(), "completed", "RESULT", "[1]"],
    );
    assert_eq!(version(&server), EARLIER_VERSION);

    let new = connect(&server.address()).await;
    assert_eq!(state(&new, key.id).await, Some(State::Ready));
    let todays = RedisEngine::functions_version().to_string();
    assert_eq!(version(&server), todays, "whoever comes with newer ones");
    // Both go on, beside each other, and nobody puts the earlier ones back.
    lease.extend(&old).await.expect("extend");
    let (some, rest) = lease.split(7);
    assert!(some.complete(&new).await.expect("settle"));
    assert!(rest.complete(&old).await.expect("settle"));
    for id in ids(&running) {
        assert_eq!(state(&new, id).await, Some(State::Completed));
    }
    // An enqueue whose answer was lost over the upgrade; a key that is held.
    use EnqueueVerdict::{Duplicate, Merged};
    assert_eq!(enqueue(&new, &[alike[3].clone()]).await, [Duplicate]);
    assert_eq!(enqueue(&new, &[running[0].clone()]).await, [Duplicate]);
    let merged = enqueue(&new, &[keyed("order:7"), keyed("order:8")]).await;
    assert!(
        matches!(merged[..], [Merged { .. }, Merged { .. }]),
        "{merged:?}"
    );
    let mut ran: BTreeSet<JobId> = BTreeSet::new();
    let mut expected: BTreeSet<JobId> = ids(&alike).into_iter().collect();
    expected.extend([key.id, pushed, soon.id]);
    while ran.len() < expected.len() {
        for id in drain(&new).await {
            assert!(ran.insert(id), "once each");
        }
    }
    assert_eq!(ran, expected);
    // In order, one after the other.
    for expected in ids(&group) {
        let lease = take(&new, "serial").await;
        assert_eq!(ids_of(&lease), [expected]);
        assert!(take_some(&new, "serial").await.is_empty());
        assert!(lease.complete(&new).await.expect("settle"));
    }
    let again = take(&new, "failed").await;
    assert_eq!((again.jobs[0].id, again.jobs[0].attempt), (failed.id, 2));
    assert_eq!(again.jobs[0].failures, 1);
    edit(&new, far.id, Action::RunNow).await;
    assert_eq!(ids_of(&take(&new, "far").await), [far.id]);
    assert_eq!(state(&new, held.id).await, Some(State::Held));
    edit(&new, held.id, Action::RunNow).await;
    assert_eq!(ids_of(&take(&new, "held").await), [held.id]);
    let got = new.get(&here(), vec![Target::Id(kept.id)], false).await;
    let got = got.expect("get").remove(0);
    let Some(Got::Job(record, _)) = got else {
        panic!("it is kept: {got:?}");
    };
    assert_eq!(record.state, State::Completed);
    assert_eq!(record.result.as_deref(), Some(b"[1]".as_slice()));
    let stats = new.stats(&here(), StatsRequest::default()).await;
    for queue in stats.expect("stats").queues {
        let counts = [State::Ready, State::Scheduled, State::Held];
        let open: u64 = counts.iter().map(|it| queue.counts.of(*it)).sum();
        assert_eq!(open, 0, "{} has more than there is", queue.queue);
    }
}

async fn edit(engine: &RedisEngine, id: JobId, action: Action) {
    let edit = Edit {
        select: Select::Targets(vec![Target::Id(id)]),
        action,
        dry_run: false,
    };
    let edited = engine.edit(&here(), edit).await.expect("edit");
    assert_eq!(edited.matched, 1);
}

async fn take_some(engine: &RedisEngine, queue: &str) -> Vec<Claimed> {
    let wants = punctual::engine::Claim {
        lease_duration: seconds(30),
        ..punctual::engine::Claim::new(Default::default(), queue, 10)
    };
    let claimed = crate::client::claim_as(engine, wants).await;
    claimed.expect("claim")
}

async fn take(engine: &RedisEngine, queue: &str) -> Claimed {
    loop {
        if let Some(lease) = take_some(engine, queue).await.pop() {
            return lease;
        }
    }
}

fn ids_of(lease: &Claimed) -> Vec<JobId> {
    lease.jobs.iter().map(|job| job.id).collect()
}

/// Earlier functions have every function, so most calls are answered by them; what they refuse is sent once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_functions_on_any_node_cost_each_verb_one_retry_at_most() {
    let mut cluster = TestCluster::start();
    let namespaces = namespaces(&mut cluster);
    let engine =
        RedisEngine::connect_with_clock(options(&cluster.address()), ManualClock::new(START));
    let engine = engine.await.expect("the nodes are there");
    let earlier = for_tests();
    for (namespace, node) in namespaces.iter().zip(cluster.nodes()) {
        let nobody = vec![Target::Id(JobId::new())];
        engine.get(namespace, nobody, false).await.expect("get");
        let troubled = Troubled {
            engine: &engine,
            node,
            namespace,
            trouble: Trouble::Earlier(&earlier),
        };
        troubled.every_verb().await;
    }
}
