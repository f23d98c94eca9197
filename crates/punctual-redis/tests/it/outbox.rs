//! Effects for other shards: never lost, never twice, whichever process dies on the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{
    Claim, EnqueueVerdict, LeaseReport, Settle, SettleVerdict, Settlement, Target, WorkerId,
};
use punctual::time::{ManualClock, Stopwatch, Timestamp, minutes, seconds};
use punctual::{Effect, Engine, ErrorKind, JobId, JobState, NewJob, Outcome, Unique};
use punctual_redis::testing::{TestCluster, TestProxy as Proxy, TestServer, Way};
use punctual_redis::{Options, RedisEngine};

use crate::client::{
    Claimed, claim, claim_as, connect, enqueue, here, of_all_records, options, state,
};
use crate::hand::raw;

/// Where effects go, one under each of so many keys: some of them for every shard.
const FOLLOWERS: &str = "followers";

pub(crate) fn follower(number: usize) -> NewJob {
    let mut job = NewJob::new(FOLLOWERS, "{}");
    job.unique = Some(Unique::new(format!("follower:{number}")));
    job
}

pub(crate) fn ends_with(lease: &Claimed, effects: Vec<Effect>) -> Settle {
    let job = &lease.jobs[0];
    let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Completed);
    settlement.effects = effects;
    let leases = vec![LeaseReport::new(lease.token, vec![settlement])];
    Settle::new(leases)
}

pub(crate) fn enqueues(jobs: &[NewJob]) -> Vec<Effect> {
    let effect = |job: &NewJob| Effect::Enqueue(Box::new(job.clone()));
    jobs.iter().map(effect).collect()
}

/// Claims and completes every follower that there is.
pub(crate) async fn take_followers(engine: &RedisEngine) -> Vec<JobId> {
    let mut ids = Vec::new();
    loop {
        let wants = Claim::new(WorkerId::random(), FOLLOWERS, 100);
        let leases = claim_as(engine, wants).await.expect("claim");
        if leases.is_empty() {
            ids.sort_unstable();
            return ids;
        }
        for lease in leases {
            assert!(lease.complete(engine).await.expect("settle"));
            ids.extend(lease.jobs.iter().map(|job| job.id));
        }
    }
}

/// An engine whose time a test moves, with every namespace in two shards.
struct Timed {
    engine: Arc<RedisEngine>,
    clock: ManualClock,
}

impl Timed {
    async fn at(address: &str, now: Timestamp) -> Self {
        let options: Options = address.parse().expect("a good address");
        let clock = ManualClock::new(now);
        let engine = RedisEngine::connect_with_clock(options.shards(2), clock.clone()).await;
        let engine = Arc::new(engine.expect("the server is there"));
        // The first contact gives the servers this engine's time.
        engine.maintain().await.expect("maintain");
        let _ = state(&engine, JobId::new()).await;
        Self { engine, clock }
    }

    async fn advance(&self, span: std::time::Duration) -> Timestamp {
        let now = punctual::time::Clock::now(&self.clock) + span;
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
        now
    }
}

#[tokio::test]
async fn effects_under_keys_of_every_shard_are_caused_at_once() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=2", server.address())).await;
    enqueue(&engine).await.expect("enqueue");
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    let followers: Vec<NewJob> = (0..8).map(follower).collect();
    let settled = engine
        .settle(&here(), ends_with(&lease, enqueues(&followers)))
        .await;
    let SettleVerdict::Settled { effects, .. } = &settled.expect("settle").verdicts[0][0] else {
        panic!("the lease is valid");
    };
    assert_eq!(effects[..], [Some(EnqueueVerdict::Created); 8]);
    for shard in ["punctual:{default/0}:u", "punctual:{default/1}:u"] {
        assert_ne!(server.cli(&["HLEN", shard]), "0", "some are for {shard}");
    }
    let keys = server.cli(&["KEYS", "punctual:{default/*}:o*"]);
    assert!(
        !keys.contains(":o\n") && !keys.contains(":ot"),
        "all were acknowledged: {keys}"
    );
    assert_eq!(take_followers(&engine).await.len(), 8);
}

/// Where a job will be is not known before it comes: every shard keeps its clear.
#[tokio::test]
async fn a_clear_before_its_job_counts_in_whichever_shard_it_comes_to() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    enqueue(&engine).await.expect("enqueue");
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    let held: Vec<NewJob> = (0..8).map(|it| follower(it).wait_for(["paid"])).collect();
    let clear = |job: &NewJob| Effect::Clear {
        job: job.id,
        name: "paid".into(),
    };
    let settle = ends_with(&lease, held.iter().map(clear).collect());
    engine.settle(&here(), settle).await.expect("settle");
    for shard in 0..3 {
        let kept = server.cli(&["ZCARD", &format!("punctual:{{default/{shard}}}:ec")]);
        assert_eq!(kept, "8", "shard {shard} keeps all");
    }
    let ids: Vec<JobId> = held.iter().map(|job| job.id).collect();
    engine.enqueue(&here(), held).await.expect("enqueue");
    let mut ran = take_followers(&engine).await;
    ran.sort_unstable();
    let mut expected = ids;
    expected.sort_unstable();
    assert_eq!(ran, expected);
}

/// A settle with effects is cut for good at one byte of all that goes to and fro until they are
/// acknowledged: the engine is dead from then on.
async fn dies_at(server: &TestServer, now: Timestamp, way: Way, bytes: usize) -> (bool, Timestamp) {
    let proxy = Proxy::to(server.port()).await;
    let dying = Timed::at(&proxy.address(), now).await;
    let held = follower(100).wait_for(["paid"]);
    let sent = vec![NewJob::new("orders", "{}"), held.clone()];
    dying.engine.enqueue(&here(), sent).await.expect("enqueue");
    let lease = claim(&dying.engine, 1).await.expect("claim").remove(0);
    let followers: Vec<NewJob> = (0..4).map(follower).collect();
    let mut effects = enqueues(&followers);
    effects.push(Effect::Clear {
        job: held.id,
        name: "paid".into(),
    });
    let settle = ends_with(&lease, effects);
    proxy.die_after(way, bytes);
    let namespace = here();
    let survived = tokio::select! {
        settled = dying.engine.settle(&namespace, settle.clone()) => settled.is_ok() && !proxy.is_dead(),
        () = proxy.death() => false,
    };

    let heir = Timed::at(&server.address(), now).await;
    // What came before the death is done, and forgotten, before the rest comes.
    let mut arrived = take_followers(&heir.engine).await;
    let verdict = &heir
        .engine
        .settle(&here(), settle)
        .await
        .expect("settle")
        .verdicts[0][0];
    assert_ne!(*verdict, SettleVerdict::LeaseLost, "{way:?} {bytes}");
    heir.advance(minutes(3)).await;
    heir.engine.maintain().await.expect("maintain");
    heir.engine.maintain().await.expect("maintain");
    arrived.extend(take_followers(&heir.engine).await);
    let mut expected: Vec<JobId> = followers.iter().map(|job| job.id).collect();
    expected.push(held.id);
    expected.sort_unstable();
    arrived.sort_unstable();
    assert_eq!(arrived, expected, "died at {way:?} {bytes}: each once");
    let left = server.cli(&["KEYS", "punctual:{default/*}:o[zt]*"]);
    assert_eq!(left, "", "nothing waits in an outbox");
    (survived, heir.advance(minutes(3)).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_of_a_client_that_died_at_any_byte_arrive_once() {
    let server = TestServer::start();
    let mut now = START;
    for way in [Way::Request, Way::Reply] {
        for bytes in (1..).step_by(17) {
            let (survived, then) = dies_at(&server, now, way, bytes).await;
            now = then;
            if survived {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_that_two_deliver_at_once_arrive_once() {
    let server = TestServer::start();
    let mut now = START;
    for _ in 0..5 {
        let proxy = Proxy::to(server.port()).await;
        let dying = Timed::at(&proxy.address(), now).await;
        enqueue(&dying.engine).await.expect("enqueue");
        let lease = claim(&dying.engine, 1).await.expect("claim").remove(0);
        let followers: Vec<NewJob> = (0..20).map(follower).collect();
        // The answer to the settle is the first that is lost.
        proxy.die_after(Way::Reply, 1);
        let namespace = here();
        tokio::select! {
            _ = dying.engine.settle(&namespace, ends_with(&lease, enqueues(&followers))) => {}
            () = proxy.death() => {}
        }
        let (one, other) = (
            Timed::at(&server.address(), now).await,
            Timed::at(&server.address(), now).await,
        );
        one.advance(seconds(20)).await;
        let waits = async || {
            let health = one.engine.info().await.expect("info").health;
            health.problem_texts().any(|it| it.contains("effects wait"))
        };
        assert!(waits().await, "an operator learns what is not delivered");
        let (first, second) = tokio::join!(one.engine.maintain(), other.engine.maintain());
        first.expect("maintain");
        second.expect("maintain");
        assert!(!waits().await, "and not of what is delivered");
        assert_eq!(take_followers(&one.engine).await.len(), 20);
        now = one.advance(minutes(3)).await;
        one.engine.maintain().await.expect("maintain");
        assert_eq!(take_followers(&one.engine).await, []);
    }
}

/// One call of `deliver` by hand: `[id, 0, a job of the queue "late"]`.
fn deliver(server: &TestServer, read_at: u64, ack: Option<[u64; 2]>, entry: &[u8; 16]) -> Vec<u8> {
    let number = |n: u64| [&[0xcf], &n.to_be_bytes()[..]].concat();
    let text = |text: &[u8]| [&[0xd9, text.len() as u8], text].concat();
    let job = [
        &[7; 16][..],
        &[0; 9],
        &[1; 8],
        &[0, 0, 5, 0, 4],
        b"late",
        &[0],
        b"{}",
    ]
    .concat();
    let mut map = vec![0x83 + u8::from(ack.is_some())];
    map.extend([text(b"f"), text(b"default/0"), text(b"t"), number(read_at)].concat());
    if let Some([by, before]) = ack {
        map.extend([text(b"k"), vec![0x92], number(by), number(before)].concat());
    }
    map.extend(
        [
            text(b"e"),
            vec![0x91, 0x93],
            text(entry),
            vec![0],
            text(&job),
        ]
        .concat(),
    );
    let blob = [&[0; 8][..], &map].concat();
    let call = [
        b"FCALL" as &[u8],
        b"punctual_1_deliver",
        b"1",
        b"punctual:{default/1}",
        &blob,
    ];
    raw(server.port(), &call)
}

#[tokio::test]
async fn what_was_read_long_ago_is_not_delivered_any_more() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=2", server.address())).await;
    assert!(state(&engine, JobId::new()).await.is_none());
    let late = async || {
        let leases = claim_as(&engine, Claim::new(WorkerId::random(), "late", 10)).await;
        let jobs = leases
            .expect("claim")
            .into_iter()
            .flat_map(|lease| lease.jobs);
        jobs.count()
    };
    let (old, new) = ([1; 16], [2; 16]);
    let posted = u64::from_be_bytes([1; 8]);
    deliver(&server, posted + 10, None, &old);
    assert_eq!(late().await, 1);
    // Its source has ack the old one off, so this shard forgets it with the next one, and the
    // job itself is gone: who still carries that reading must not be let in.
    of_all_records(&server, &["DEL"], "punctual:{default/1}");
    deliver(&server, posted + 30, Some([posted + 20, posted + 15]), &new);
    assert_eq!(late().await, 1);
    assert_eq!(
        server.cli(&["ZCARD", "punctual:{default/1}:oi:default/0"]),
        "1"
    );
    of_all_records(&server, &["DEL"], "punctual:{default/1}");
    deliver(&server, posted + 10, None, &old);
    assert_eq!(late().await, 0, "it was read too long ago");
    deliver(&server, posted + 30, None, &new);
    assert_eq!(late().await, 0, "it is known");
}

/// The masters of a cluster by the numbers of the shards that they hold.
fn shards_of(cluster: &mut TestCluster, count: usize) -> Vec<usize> {
    let node = &cluster.nodes()[0];
    let slot = |shard| {
        node.cli(&[
            "CLUSTER",
            "KEYSLOT",
            &format!("punctual:{{default/{shard}}}"),
        ])
    };
    let slots = (0..count).map(|shard| slot(shard).parse::<usize>().expect("a slot"));
    slots.map(|slot| slot * 3 / 16_384).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_away_holds_up_no_outcome_and_gets_its_effects_later() {
    const SHARDS: usize = 6;
    let mut cluster = TestCluster::start();
    let engine = connect(&format!("{}?shards={SHARDS}", cluster.address())).await;
    let ids = enqueue(&engine).await.expect("enqueue");
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    let masters = shards_of(&mut cluster, SHARDS);
    let here_is = masters[(lease.token.nonce & 0x3ff) as usize];
    let away = (here_is + 1) % 3;
    assert!(masters.contains(&away), "{masters:?}");
    // All shards are known before one of them goes.
    assert!(state(&engine, JobId::new()).await.is_none());
    cluster.nodes()[away].stop();
    let followers: Vec<NewJob> = (0..24).map(follower).collect();
    let watch = Stopwatch::start();
    let settled = engine
        .settle(&here(), ends_with(&lease, enqueues(&followers)))
        .await;
    let SettleVerdict::Settled {
        state: is, effects, ..
    } = &settled.expect("settle").verdicts[0][0]
    else {
        panic!("the lease is valid");
    };
    assert_eq!(*is, JobState::Completed);
    assert!(watch.elapsed() < seconds(2), "{:?}", watch.elapsed());
    assert!(
        effects.contains(&None),
        "some have no verdict yet: {effects:?}"
    );
    cluster.nodes()[away].go_on();
    let expected: BTreeSet<JobId> = followers.iter().map(|job| job.id).collect();
    let mut arrived = Vec::new();
    while arrived.len() < expected.len() {
        // The slowest way is that of maintenance.
        match engine.maintain().await {
            Err(error) => assert!(error.is_retryable(), "{error}"),
            Ok(_) => arrived.extend(take_followers(&engine).await),
        }
    }
    assert_eq!(arrived.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(state(&engine, ids).await, Some(JobState::Completed));
}

#[tokio::test]
async fn the_first_decides_how_many_shards_there_are() {
    let server = TestServer::start();
    let first = connect(&format!("{}?shards=3", server.address())).await;
    // A look at another namespace, or at nothing, decides nothing about this one.
    connect(&server.address()).await.info().await.expect("info");
    let mut sent = Vec::new();
    for _ in 0..20 {
        sent.push(enqueue(&first).await.expect("enqueue"));
    }
    let follows = connect(&server.address()).await;
    let targets: Vec<Target> = sent.iter().copied().map(Target::Id).collect();
    let got = follows.get(&here(), targets, false).await.expect("get");
    assert!(got.iter().all(Option::is_some), "every shard is looked at");
    for other in [1, 2, 4] {
        let before = server.cli(&["DEBUG", "DIGEST"]);
        let insists = RedisEngine::connect(options(&server.address()).shards(other)).await;
        let insists = insists.expect("the server is there");
        let error = enqueue(&insists).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(
            error.to_string().contains("connect with shards=3"),
            "{error}"
        );
        assert_eq!(server.cli(&["DEBUG", "DIGEST"]), before);
    }
    let same = connect(&format!("{}?shards=3", server.address())).await;
    assert_eq!(crate::client::drain(&same).await.len(), 20);
}
