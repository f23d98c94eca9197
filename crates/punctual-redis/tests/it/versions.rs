//! Functions that are missing, flushed or older on any node, and clients of two versions side by
//! side.

use std::collections::BTreeSet;

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, Control, Edit, ExtendVerdict, List, ListBy, Select, SettleVerdict, StatsRequest,
    Target, WaitFor, Waited, WorkerId,
};
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, JobId, JobState, Namespace, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestServer};

use crate::client::{Claimed, QUEUE, claim, connect, drain, here, job, options, state};

/// How the functions of a node come to nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    Flushed,
    /// Ones that know their version and nothing else.
    Older,
}

impl Trouble {
    pub(crate) fn befall(self, node: &TestServer) {
        let older = "#!lua name=punctual_test\nredis.register_function{function_name=\
            'punctual_test_version', flags={'no-writes'}, callback=function() return 0 end}";
        let said = match self {
            Self::Flushed => node.cli(&["FUNCTION", "FLUSH"]),
            Self::Older => node.cli(&["FUNCTION", "LOAD", "REPLACE", older]),
        };
        assert!(["OK", "punctual_test"].contains(&said.as_str()), "{said}");
    }
}

/// A number that a server counts, such as how often a function was not found.
pub(crate) fn counted(node: &TestServer, section: &str, name: &str) -> u32 {
    let reported = node.cli(&["INFO", section]);
    let line = reported.lines().find_map(|line| line.strip_prefix(name));
    let number = line.map(|line| {
        line.trim_end()
            .split(',')
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    number.map_or(0, |number| number.parse().expect("a number"))
}

/// A namespace on each node of a cluster.
pub(crate) fn namespaces(cluster: &mut TestCluster) -> Vec<Namespace> {
    let nodes = cluster.nodes();
    let of = |place: usize| {
        let names = (0..).map(|number| format!("n{number}"));
        let mut names = names.filter(|name| {
            let slot = nodes[0].cli(&["CLUSTER", "KEYSLOT", &format!("punctual:{{{name}/0}}")]);
            slot.parse::<usize>().expect("a slot") * 3 / 16_384 == place
        });
        Namespace::new(names.next().expect("there are many")).expect("a good name")
    };
    (0..3).map(of).collect()
}

/// An engine on one node of a cluster, with trouble before each call.
struct Troubled<'a> {
    engine: &'a RedisEngine,
    node: &'a TestServer,
    namespace: &'a Namespace,
    trouble: Trouble,
}

impl Troubled<'_> {
    /// One call after the trouble: no error, one load, and one retry.
    async fn call<T>(&self, verb: &str, call: impl Future<Output = punctual::Result<T>>) -> T {
        self.trouble.befall(self.node);
        self.node.cli(&["CONFIG", "RESETSTAT"]);
        let answer = call.await;
        let trouble = match self.trouble {
            Trouble::Flushed => "flushed",
            Trouble::Older => "older",
        };
        let what = format!("{verb}, {trouble}, {}", self.namespace);
        let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
        let loads = counted(self.node, "commandstats", "cmdstat_function|load:calls=");
        let not_found = counted(self.node, "errorstats", "errorstat_ERR:count=");
        match self.trouble {
            // The call's, and that of who asks for the version before the load; `info` reads the
            // servers too, whose question for the version may come before the load or after.
            Trouble::Flushed => {
                let asks = if verb == "info" { 1..=2 } else { 1..=1 };
                let is_one_retry = loads == 1 && asks.contains(&(not_found - 1));
                assert!(is_one_retry, "{what}: {loads} loads, {not_found} not found");
            }
            Trouble::Older => assert_eq!((loads, not_found), (1, 1), "{what}"),
        }
        answer
    }

    async fn every_verb(&self) {
        let (engine, namespace) = (self.engine, self.namespace);
        let job = job();
        let target = || vec![Target::Id(job.id)];
        let sent = engine.enqueue(namespace, vec![job.clone()]);
        assert!(
            self.call("enqueue", sent).await.receipts[0]
                .verdict
                .is_accepted()
        );
        let got = self
            .call("get", engine.get(namespace, target(), true))
            .await;
        assert_eq!(
            got[0].as_ref().map(|got| got.state()),
            Some(JobState::Ready)
        );
        let list = List::new(ListBy::State {
            queue: QUEUE.into(),
            state: JobState::Ready,
        })
        .limit(10)
        .payloads(true);
        let listed = self.call("list", engine.list(namespace, list)).await;
        assert_eq!(listed.jobs.len(), 1);
        let stats = engine.stats(namespace, StatsRequest::default());
        assert_eq!(self.call("stats", stats).await.queues.len(), 1);
        let edit = Edit::new(Select::Targets(target()), Action::Reprioritise(3));
        let edited = self.call("edit", engine.edit(namespace, edit)).await;
        assert_eq!(edited.matched, 1);
        let resume = Control::Resume {
            queue: QUEUE.into(),
        };
        let resumed = engine.control(namespace, resume);
        self.call("control", resumed).await;
        let claim = Claim::new(WorkerId::random(), QUEUE, 1);
        let mut claimed = self.call("claim", engine.claim(namespace, claim)).await;
        let lease = claimed.leases.remove(0);
        let lease = Claimed {
            token: lease.token,
            jobs: lease.jobs,
        };
        let extends = engine.extend(namespace, vec![lease.extension()]);
        let extended = self.call("extend", extends).await.verdicts;
        assert!(
            matches!(extended[..], [ExtendVerdict::Extended { .. }]),
            "{extended:?}"
        );
        let settle = lease.ends(Outcome::Completed);
        let settled = self.call("settle", engine.settle(namespace, settle)).await;
        let settled = settled.verdicts.concat();
        assert!(
            matches!(settled[..], [SettleVerdict::Settled { .. }]),
            "{settled:?}"
        );
        let settled = WaitFor::Settled(vec![job.id]);
        let waited = engine.wait(namespace, settled, START + punctual::time::days(9));
        assert_eq!(self.call("wait", waited).await, Waited::Settled);
        self.changes_and_rounds().await;
    }

    /// The first wait returns no changes. Waits for work look by a clock that goes on: see
    /// `flushes`.
    async fn changes_and_rounds(&self) {
        let (engine, namespace) = (self.engine, self.namespace);
        let begins = engine.wait(namespace, WaitFor::Changes(None), Timestamp::ZERO);
        let Waited::Changes { cursor, .. } = self.call("changes", begins).await else {
            panic!("it begins");
        };
        let job = job();
        let (sent, forever) = (vec![job.clone()], START + punctual::time::days(9));
        let sent = engine.enqueue(namespace, sent).await.expect("enqueue");
        assert!(sent.receipts[0].verdict.is_accepted());
        let later = engine.wait(namespace, WaitFor::Changes(Some(cursor)), forever);
        let Waited::Changes { changes, gap, .. } = self.call("changes", later).await else {
            panic!("it has changed");
        };
        assert!(!gap && changes.iter().any(|change| change.id == job.id));
        let cancels = Edit::new(Select::Targets(vec![Target::Id(job.id)]), Action::Cancel);
        let cancelled = self.call("edit", engine.edit(namespace, cancels)).await;
        assert_eq!(cancelled.matched, 1);
        self.call("maintain", engine.maintain()).await;
        let info = self.call("info", engine.info()).await;
        assert!(info.health.ok, "{:?}", info.health.problems);
        // If that saw no functions before they were loaded, the next call asks for them first:
        // here, where no test counts.
        let got = engine.get(namespace, vec![Target::Id(job.id)], false).await;
        got.expect("get");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_any_node_lacks_cost_each_verb_one_retry() {
    let mut cluster = TestCluster::start();
    let namespaces = namespaces(&mut cluster);
    // Its clock stands still, so nothing is done behind the back of the counters.
    let engine =
        RedisEngine::connect_with_clock(options(&cluster.address()), ManualClock::new(START));
    let engine = engine.await.expect("the nodes are there");
    for (namespace, node) in namespaces.iter().zip(cluster.nodes()) {
        engine
            .get(namespace, vec![Target::Id(JobId::new())], false)
            .await
            .expect("get");
        for trouble in [Trouble::Flushed, Trouble::Older] {
            let troubled = Troubled {
                engine: &engine,
                node,
                namespace,
                trouble,
            };
            troubled.every_verb().await;
        }
    }
    for node in cluster.nodes() {
        Trouble::Flushed.befall(node);
    }
    engine.maintain().await.expect("all of them at once");
    assert!(engine.info().await.expect("info").health.ok);
}

/// Engines of two releases share a queue. The newer functions replace the older ones, the older
/// engine works on with them and never puts its own back, and every job completes once.
#[tokio::test]
async fn clients_of_two_versions_work_side_by_side() {
    let server = TestServer::start();
    let version = || server.cli(&["FCALL_RO", "punctual_1_version", "0"]);
    let old = RedisEngine::connect_with_functions_numbered(options(&server.address()), 0).await;
    let old = old.expect("the server is there");
    let mut sent = enqueue_alike(&old, 20).await;
    assert_eq!(version(), "0");
    let new = connect(&server.address()).await;
    let todays = RedisEngine::functions_version().to_string();
    for round in 0..4 {
        sent.extend(enqueue_alike(&new, 20).await);
        sent.extend(enqueue_alike(&old, 20).await);
        assert_eq!(version(), todays);
        for (claims, settles) in [(&old, &new), (&new, &old)] {
            // Of its own, of the other's, and of both.
            for lease in claim(claims, 15).await.expect("claim") {
                lease.extend(settles).await.expect("extend");
                let (some, rest) = lease.clone().split(round * 5);
                for part in [some, rest] {
                    assert!(part.complete(settles).await.expect("settle"));
                }
            }
        }
        // Both make their connections anew, and look for their functions.
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    drain(&old).await;
    assert_eq!(version(), todays);
    for id in sent {
        assert_eq!(state(&new, id).await, Some(JobState::Completed));
        assert_eq!(state(&old, id).await, Some(JobState::Completed));
    }
}

/// Jobs that differ in nothing but id and payload: they are stored as one.
async fn enqueue_alike(engine: &RedisEngine, count: usize) -> BTreeSet<JobId> {
    let jobs: Vec<NewJob> = (0..count)
        .map(|number| NewJob::new(QUEUE, format!("{number}")))
        .collect();
    let ids = jobs.iter().map(|job| job.id).collect();
    let sent = engine.enqueue(&here(), jobs).await.expect("enqueue");
    assert!(
        sent.receipts
            .iter()
            .all(|receipt| receipt.verdict.is_accepted())
    );
    ids
}
