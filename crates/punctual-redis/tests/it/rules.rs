//! The minimal rules are enough, and no more than that, wherever the servers stand.

use std::sync::Arc;

use punctual::engine::{
    Action, Claim, Control, Edit, EnqueueVerdict, List, ListBy, Select, SettleVerdict,
    StatsRequest, Target, WaitFor, Waited, WorkerId,
};
use punctual::time::{Stopwatch, Timestamp, within};
use punctual::{Effect, Engine, JobId, JobState, Namespace, NewJob, Outcome};
use punctual_redis::testing::{TestCluster, TestSentinels, TestServer, ask};
use punctual_redis::{ACL_RULES, RedisEngine};
use tokio::task::block_in_place;

use crate::client::{
    Claimed, LIMIT, QUEUE, claim, comes_about, connect, enqueue, here, job, options, state,
};
use crate::guarded::commands;
use crate::hand::{SHARD, raw};
use crate::outbox::{ends_with, enqueues, follower};
use crate::versions::{counted, namespaces};

/// Those of our users, before the `@` of an address.
const WHO: &str = "punctual:hunter2";

/// Makes the user; a server's users are its own, whichever its master is.
fn has_user(port: u16, rules: &str) {
    let user = ["ACL", "SETUSER", "punctual", "reset", "on", ">hunter2"];
    let words: Vec<&str> = user.into_iter().chain(rules.split_whitespace()).collect();
    assert_eq!(ask(port, &words), "OK");
}

/// The rules for sentinels, as the page ships them.
fn rules_of_sentinels() -> &'static str {
    let page = include_str!("../../../../docs/engines/redis.md");
    let block = page.split("```text").nth(2);
    let block = block.and_then(|rest| rest.split("```").next());
    let line = block.expect("the page has the line");
    let (_, rules) = line.split_once(">PASSWORD").expect("of a user");
    rules.trim()
}

/// What users were denied there.
fn denied(ports: &[u16]) -> Vec<String> {
    let logs = ports.iter().map(|port| ask(*port, &["ACL", "LOG"]));
    logs.filter(|log| !log.is_empty()).collect()
}

async fn lease(engine: &RedisEngine, namespace: &Namespace, queue: &str, most: usize) -> Claimed {
    let wants = Claim::new(WorkerId::random(), queue, most);
    let mut claimed = engine.claim(namespace, wants).await.expect("claim");
    let lease = claimed.leases.remove(0);
    Claimed {
        token: lease.token,
        jobs: lease.jobs,
    }
}

/// Waits in a task of its own.
fn waits(
    engine: &Arc<RedisEngine>,
    namespace: &Namespace,
    what: WaitFor,
    now: Timestamp,
) -> tokio::task::JoinHandle<Waited> {
    let (engine, namespace) = (engine.clone(), namespace.clone());
    tokio::spawn(async move {
        let waited = engine.wait(&namespace, what, now + LIMIT).await;
        waited.expect("wait")
    })
}

async fn over(wait: tokio::task::JoinHandle<Waited>) -> Waited {
    let waited = within(LIMIT, wait).await.expect("it is woken");
    waited.expect("no panic")
}

/// Everything that workers, producers and people do, each wait woken for by another engine.
async fn does_it_all(
    engine: &Arc<RedisEngine>,
    other: &RedisEngine,
    namespace: &Namespace,
    ports: &[u16],
) {
    let now = engine.info().await.expect("info").now;
    // Wakeups of before are taken without a wait.
    let both = WaitFor::Work(vec!["mail".into(), QUEUE.into()]);
    let taken = engine.wait(namespace, both, Timestamp::ZERO).await;
    taken.expect("wait");
    // More than one queue, the second one while the first is listened to.
    let mail = waits(engine, namespace, WaitFor::Work(vec!["mail".into()]), now);
    let listens = |port: &u16| ask(*port, &["CLIENT", "LIST"]).contains("cmd=bzpopmin");
    comes_about("a client listens", || ports.iter().any(listens)).await;
    let orders = waits(engine, namespace, WaitFor::Work(vec![QUEUE.into()]), now);
    let begins = WaitFor::Changes(None);
    let begun = engine.wait(namespace, begins, Timestamp::ZERO).await;
    let Ok(Waited::Changes { cursor, .. }) = begun else {
        panic!("{begun:?}")
    };
    let feed = waits(engine, namespace, WaitFor::Changes(Some(cursor)), now);
    for (queue, wait) in [("mail", mail), (QUEUE, orders)] {
        let jobs: Vec<_> = (0..10).map(|_| NewJob::new(queue, "{}")).collect();
        other.enqueue(namespace, jobs).await.expect("enqueue");
        assert_eq!(over(wait).await, Waited::Work);
    }
    assert!(matches!(over(feed).await, Waited::Changes { .. }));
    // Of ten that are alike the claimer reads the records itself.
    for queue in ["mail", QUEUE] {
        let lease = lease(engine, namespace, queue, 10).await;
        assert_eq!(lease.jobs.len(), 10);
        let settled = WaitFor::Settled(lease.jobs.iter().map(|job| job.id).collect());
        let settled = waits(engine, namespace, settled, now);
        let extended = engine.extend(namespace, vec![lease.extension()]).await;
        extended.expect("extend");
        let completed = other
            .settle(namespace, lease.ends(Outcome::Completed))
            .await;
        completed.expect("settle");
        assert_eq!(over(settled).await, Waited::Settled);
    }
    reads_and_edits(engine, namespace).await;
    let examined = engine.maintain().await;
    examined.expect("maintain");
    let health = engine.info().await.expect("info").health;
    assert!(health.ok, "{:?}", health.problems);
}

async fn reads_and_edits(engine: &RedisEngine, namespace: &Namespace) {
    let one = job();
    let target = || vec![Target::Id(one.id)];
    let sent = engine.enqueue(namespace, vec![one.clone()]).await;
    sent.expect("enqueue");
    let list = List::new(ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    })
    .limit(10)
    .payloads(true);
    let listed = engine.list(namespace, list).await.expect("list");
    assert!(listed.jobs.iter().any(|job| job.id == one.id));
    let stats = engine.stats(namespace, StatsRequest::default()).await;
    assert!(!stats.expect("stats").queues.is_empty());
    let edit = Edit::new(Select::Targets(target()), Action::Cancel);
    assert_eq!(engine.edit(namespace, edit).await.expect("edit").matched, 1);
    let queue = QUEUE.to_owned();
    let resumed = engine.control(namespace, Control::Resume { queue }).await;
    resumed.expect("control");
    let got = engine.get(namespace, target(), true).await.expect("get");
    let is = got[0].as_ref().map(|got| got.state());
    assert_eq!(is, Some(JobState::Cancelled));
}

/// An engine's maintenance has run since, without an error.
async fn maintenance_runs(engine: &RedisEngine) {
    let watch = Stopwatch::start();
    loop {
        let asked = watch.elapsed();
        let maintenance = engine.info().await.expect("info").health.loops.remove(0);
        assert_eq!(maintenance.restarts, 0, "it meets no error");
        if maintenance.age < asked {
            return;
        }
        assert!(asked < LIMIT, "it goes round no more");
    }
}

/// Nothing but what the rules name may be said by the user.
fn may_no_more(port: u16, rules: &str, names: impl IntoIterator<Item = String>) -> usize {
    let allowed = |name: &str| {
        let container = name.split('|').next();
        let mut rules = rules.split_whitespace();
        rules.any(|rule| {
            let rule = rule.strip_prefix('+');
            rule == Some(name) || rule == container
        })
    };
    // A client that has not authenticated yet may say these.
    let nobodys = ["auth", "hello", "quit", "reset"];
    let mut refused = 0;
    for name in names {
        if allowed(&name) || nobodys.contains(&name.as_str()) {
            continue;
        }
        let dry = |more: usize| {
            let mut dry: Vec<&[u8]> = vec![b"ACL", b"DRYRUN", b"punctual"];
            dry.extend(name.split('|').map(str::as_bytes));
            dry.extend(vec![b"punctual:a" as &[u8]; more]);
            String::from_utf8(raw(port, &dry)).expect("UTF-8")
        };
        let answer = (0..9)
            .map(dry)
            .find(|it| !it.contains("wrong number of arguments"));
        let Some(answer) = answer else {
            continue; // A container: each of its commands is asked for.
        };
        assert_ne!(answer.trim_end(), "+OK", "{name}");
        refused += usize::from(answer.starts_with('$'));
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_are_enough_and_minimal_on_a_cluster() {
    let mut cluster = block_in_place(TestCluster::start_replicated);
    let namespaces = namespaces(&mut cluster);
    let ports: Vec<u16> = cluster.nodes().iter().map(TestServer::port).collect();
    ports.iter().for_each(|port| has_user(*port, ACL_RULES));
    let address = format!("redis+cluster://{WHO}@127.0.0.1:{}", ports[0]);
    // What moves within the default deadline is another test's; this one asks for every command of
    // a move.
    let connect = || RedisEngine::connect(options(&address).deadline(LIMIT));
    let engine = Arc::new(connect().await.expect("they are there"));
    let other = connect().await.expect("they are there");
    for namespace in &namespaces {
        does_it_all(&engine, &other, namespace, &ports).await;
    }
    // Who took another one for the owner is sent on; no client read in between.
    enqueue(&engine).await.expect("enqueue");
    let before = cluster.owner_of(SHARD);
    block_in_place(|| cluster.move_slot(SHARD, (before + 1) % 3));
    let redirects = counted(
        &cluster.nodes()[before],
        "errorstats",
        "errorstat_MOVED:count=",
    );
    does_it_all(&engine, &other, &here(), &ports).await;
    let sent_on = counted(
        &cluster.nodes()[before],
        "errorstats",
        "errorstat_MOVED:count=",
    );
    assert!(sent_on > redirects, "{sent_on} after {redirects}");
    // A call in the middle of a move waits for its end.
    let owner = cluster.owner_of(SHARD);
    forget_wakeups(ports[owner]);
    let asks = || ask(ports[owner], &["INFO", "errorstats"]).contains("errorstat_ASK:");
    let moving = block_in_place(|| cluster.begin_move(SHARD, (owner + 1) % 3));
    let moving = moving.expect("it is elsewhere");
    block_in_place(|| while moving.carry(1) > 0 {});
    let calls = {
        let engine = engine.clone();
        tokio::spawn(async move { enqueue(&engine).await })
    };
    comes_about("it is sent elsewhere", asks).await;
    block_in_place(|| moving.end());
    let id = calls.await.expect("no panic").expect("after the move");
    assert_eq!(state(&engine, id).await, Some(JobState::Ready));
    crate::client::drain(&other).await;
    does_it_all(&engine, &other, &here(), &ports).await;
    maintenance_runs(&engine).await;
    // A replica takes its master's place.
    block_in_place(|| cluster.fail_over(SHARD));
    does_it_all(&engine, &other, &here(), &ports).await;
    effects_cross(&address).await;
    let server_infos = RedisEngine::examine(options(&address))
        .await
        .expect("doctor");
    assert_eq!(server_infos.len(), 6, "replicas too");
    assert!(
        server_infos.iter().all(|one| one.silent.is_none()),
        "{server_infos:?}"
    );
    assert_eq!(denied(&ports), [""; 0]);
    for node in &*cluster.nodes() {
        let refused = may_no_more(node.port(), ACL_RULES, commands(node));
        assert!(refused > 200, "{refused}");
    }
}

/// Wakeups of processes, which are named by bytes of any kind: redis-cli carries no such names.
fn forget_wakeups(port: u16) {
    let forget = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
    ask(port, &["EVAL", forget, "0", &format!("{SHARD}:p:*")]);
}

/// Effects for other shards, which may be on other nodes.
async fn effects_cross(address: &str) {
    let mut options = options(&address.replace("?", "?shards=2&"));
    options = options.shards(2);
    let engine = RedisEngine::connect(options).await.expect("it is there");
    let shards = Namespace::new("in-shards").expect("a good name");
    let sent = engine.enqueue(&shards, vec![job()]).await;
    sent.expect("enqueue");
    let lease = lease(&engine, &shards, QUEUE, 1).await;
    let mut effects = enqueues(&(0..8).map(follower).collect::<Vec<_>>());
    effects.push(Effect::Clear {
        job: JobId::new(),
        name: "paid".into(),
    });
    let settled = engine.settle(&shards, ends_with(&lease, effects)).await;
    let SettleVerdict::Settled { effects, .. } = &settled.expect("settle").verdicts[0][0] else {
        panic!("the lease is valid");
    };
    assert_eq!(effects[..8], [Some(EnqueueVerdict::Created); 8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_are_enough_behind_sentinels_and_with_replicas() {
    let mut servers = block_in_place(TestSentinels::start);
    let mut ports: Vec<u16> = servers
        .replicas_of_master()
        .iter()
        .map(|it| it.port())
        .collect();
    let master = servers.ask_all(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
    let master = master[0].lines().nth(1).and_then(|port| port.parse().ok());
    let master: u16 = master.expect("a port");
    ports.push(master);
    ports.iter().for_each(|port| has_user(*port, ACL_RULES));
    let asks = ["ACL", "SETUSER", "asks", "on", ">sesame"].into_iter();
    let asks: Vec<&str> = asks
        .chain(rules_of_sentinels().split_whitespace())
        .collect();
    assert_eq!(servers.ask_all(&asks), ["OK"; 3]);
    let address = servers.address().replace("://", &format!("://{WHO}@"));
    let address =
        format!("{address}?sentinel_user=asks&sentinel_password=sesame&durability=replica(1)");
    let connect = || RedisEngine::connect(options(&address).deadline(LIMIT));
    let engine = Arc::new(connect().await.expect("they are there"));
    let other = connect().await.expect("they are there");
    does_it_all(&engine, &other, &here(), &ports).await;
    maintenance_runs(&engine).await;
    effects_cross(&address).await;
    let server_infos = RedisEngine::examine(options(&address))
        .await
        .expect("doctor");
    assert_eq!(server_infos.len(), 3, "replicas too");
    assert!(
        server_infos.iter().all(|one| one.silent.is_none()),
        "{server_infos:?}"
    );
    let waited = ask(master, &["INFO", "commandstats"]);
    assert!(waited.contains("cmdstat_wait:"), "replicas are waited for");
    assert_eq!(denied(&ports), [""; 0]);
    block_in_place(|| servers.kill_master());
    ports.retain(|port| *port != master);
    enqueue(&engine).await.expect("after the failover");
    let lease = claim(&engine, 10).await.expect("claim").remove(0);
    assert!(lease.complete(&other).await.expect("settle"));
    does_it_all(&engine, &other, &here(), &ports).await;
    assert_eq!(denied(&ports), [""; 0]);
    // Each of the sentinels, too, is asked no more than the rules name, and allows no more.
    assert_eq!(servers.ask_all(&["ACL", "LOG"]), [""; 3]);
    for forbidden in [
        "SENTINEL MASTERS",
        "SENTINEL FAILOVER main",
        "SENTINEL SET main quorum 1",
        "SENTINEL REMOVE main",
        "SENTINEL RESET main",
        "INFO",
        "PING",
        "SUBSCRIBE +switch-master",
        "ACL LIST",
        "SHUTDOWN",
    ] {
        let dry = ["ACL", "DRYRUN", "asks"].into_iter();
        let dry: Vec<&str> = dry.chain(forbidden.split(' ')).collect();
        for said in servers.ask_all(&dry) {
            assert!(said.contains("has no permissions"), "{forbidden}: {said}");
        }
    }
}

/// What the client itself sends, besides what leads to servers of sentinels and of clusters.
const SENT: &[(&str, &[&str])] = &[
    (
        "1?durability=fsync",
        &[
            "bgrewriteaof",
            "info",
            "select",
            "config|get",
            "function|load",
            "fcall",
            "fcall_ro",
            "bzpopmin",
            "zmpop",
            "pexpire",
            "sadd",
            "smembers",
        ],
    ),
    ("1?durability=replica(1)", &["wait"]),
];

/// Whatever of it is possible: it ends where something is denied.
async fn does_what_it_may(address: String, port: u16) {
    let engine = Arc::new(connect(&address).await);
    does_it_all(&engine, &engine, &here(), &[port]).await;
}

/// Without a rule, its command is denied to a user who only does what all do.
async fn is_missed(rule: &str, address: &str, server: &TestServer) {
    server.cli(&["FLUSHALL"]);
    server.cli(&["FUNCTION", "FLUSH"]);
    server.cli(&["ACL", "LOG", "RESET"]);
    server.cli(&["ACL", "SETUSER", "punctual", &format!("-{rule}")]);
    let does = tokio::spawn(does_what_it_may(address.to_owned(), server.port()));
    let object = format!("object\n{rule}\n");
    let is_reported = || server.cli(&["ACL", "LOG"]).contains(&object);
    comes_about(rule, is_reported).await;
    does.abort();
    let _ = does.await;
    server.cli(&["ACL", "SETUSER", "punctual", &format!("+{rule}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_rule_is_there_for_nothing() {
    let server = TestServer::with(&crate::faults::ALWAYS);
    let follows = format!("127.0.0.1 {}", server.port());
    let replica = TestServer::with(&["--save", "", "--replicaof", &follows]);
    let is_online = || {
        server
            .cli(&["INFO", "replication"])
            .contains("state=online")
    };
    comes_about("a replica", is_online).await;
    has_user(server.port(), ACL_RULES);
    let mut known: Vec<String> = Vec::new();
    for (options, rules) in SENT {
        let address = format!("redis://{WHO}@127.0.0.1:{}/{options}", server.port());
        for rule in *rules {
            is_missed(rule, &address, &server).await;
            known.push(format!("+{rule}"));
        }
    }
    drop(replica);
    // Two tests above prove these: a user who is denied them finds no server.
    known.extend(["+role".into(), "+cluster|slots".into()]);
    let listed = ["FUNCTION", "LIST", "WITHCODE"];
    connect(&server.address())
        .await
        .maintain()
        .await
        .expect("maintain");
    let code = server.cli(&listed);
    let rules = ACL_RULES
        .split_whitespace()
        .filter(|rule| rule.starts_with('+'));
    let idle: Vec<&str> = rules
        .filter(|rule| !known.iter().any(|known| known == rule))
        .filter(|rule| !code.contains(&format!("'{}'", rule[1..].to_uppercase())))
        .collect();
    assert_eq!(idle, [""; 0]);
}
