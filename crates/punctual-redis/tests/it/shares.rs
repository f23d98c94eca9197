//! Shares on Redis: what they leave, what a lost record does to them, and shards.

use std::ops::Range;

use punctual::conformance::START;
use punctual::engine::{
    Claim, Control, Controlled, Lease, LeaseReport, QueueSettings, Rate, RecordValue, Settle,
    Settlement, ShareSettings, StatsRequest, WorkerId,
};
use punctual::time::{ManualClock, seconds};
use punctual::{Engine, ErrorKind, JobRecord, MemoryEngine, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, claim, connect, here, records_of};

fn of(share: &str) -> NewJob {
    NewJob::new(QUEUE, "{}").share(share)
}

async fn limit(engine: &impl Engine, shares: ShareSettings) -> punctual::Result<Controlled> {
    let write = Control::Write {
        name: format!("queue/{QUEUE}"),
        expected: 0,
        value: Some(RecordValue::Queue(QueueSettings::new().shares(shares))),
    };
    engine.control(&here(), write).await
}

/// Keys and fields that only shares have.
fn left(server: &TestServer) -> Vec<String> {
    let keys = server.cli(&["KEYS", "*"]);
    let kinds = [":ss:", ":sy:", ":st:", ":sp:", ":si:", ":sb:"];
    let keys = keys
        .lines()
        .filter(|key| kinds.iter().any(|kind| key.contains(kind)));
    let field = server.cli(&["HGET", "punctual:{default/0}:s", &format!("y{QUEUE}")]);
    let field = Some(field.as_str()).filter(|field| !field.is_empty());
    keys.chain(field).map(str::to_owned).collect()
}

#[tokio::test]
async fn empty_shares_leave_no_bytes() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let jobs = (0..400).map(|nth| of(&format!("share {}", nth % 90)));
    engine
        .enqueue(&here(), jobs.collect())
        .await
        .expect("enqueue");
    assert!(!left(&server).is_empty(), "shares have keys of their own");
    let mut ended = 0;
    while ended < 400 {
        for lease in claim(&engine, 100).await.expect("claim") {
            ended += lease.jobs.len();
            engine
                .settle(&here(), lease.ends(Outcome::Completed))
                .await
                .expect("settle");
        }
    }
    assert_eq!(left(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_record_leaves_no_slot_of_its_share_behind() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    limit(&engine, ShareSettings::new().concurrency(1))
        .await
        .expect("limits");
    let jobs = vec![of("a"), of("a"), of("a")];
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    let first = claim(&engine, 5).await.expect("claim").remove(0);
    assert_eq!(first.jobs.len(), 1);
    let id = first.jobs[0].id;
    let records = records_of("punctual:{default/0}", id);
    let id: String = (id.as_bytes().iter())
        .map(|byte| format!("\\{byte:03}"))
        .collect();
    let script = format!("return redis.call('HDEL', KEYS[1], '{id}')");
    let gone = server.cli(&["EVAL", &script, "1", &records]);
    assert_eq!(gone, "1");
    let over = "for _, it in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, it) end
        for _, q in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZADD', KEYS[2], 1, q) end
        return 1";
    let lease = format!("punctual:{{default/0}}:eo:{QUEUE}");
    server.cli(&["EVAL", over, "2", &lease, "punctual:{default/0}:e"]);
    for _ in 0..30 {
        engine.maintain().await.expect("maintain");
    }
    let next = claim(&engine, 5).await.expect("claim").remove(0);
    assert_eq!(next.jobs.len(), 1, "the slot is free again");
    let request = StatsRequest::default().shares(10);
    let stats = engine.stats(&here(), request).await.expect("stats");
    let share = &stats.queues[0].shares[0];
    assert_eq!((share.ready, share.active), (1, 1));
}

#[tokio::test]
async fn shards_refuse_limits_of_shares_and_take_turns() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    for shares in [
        ShareSettings::new().concurrency(1),
        ShareSettings::new().rate(Rate::window(1, seconds(1))),
    ] {
        let refused = limit(&engine, shares).await.expect_err("several shards");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    }
    let weights = ShareSettings::new().weight("a", 3);
    limit(&engine, weights).await.expect("weights are fine");
    let jobs = (0..30).map(|nth| of(["a", "b", "c"][nth % 3]));
    engine
        .enqueue(&here(), jobs.collect())
        .await
        .expect("enqueue");
    let homes = (0..3).filter(|shard| {
        let key = format!("punctual:{{default/{shard}}}:sy:{QUEUE}");
        let places: u64 = server.cli(&["ZCARD", &key]).parse().expect("a number");
        assert_eq!(places % 10, 0, "all jobs of a share are in one shard");
        places > 0
    });
    assert!(homes.count() >= 1);
    let block = Control::BlockShare {
        queue: QUEUE.into(),
        share: "a".into(),
        span: seconds(60),
    };
    let blocked = engine.control(&here(), block).await.expect("block");
    assert_eq!(blocked, Controlled::Done(true));
    let leases = claim(&engine, 100).await.expect("claim");
    let jobs = leases.iter().flat_map(|lease| &lease.jobs);
    let shares: Vec<_> = jobs.map(|job| job.share.clone()).collect();
    assert_eq!(shares.len(), 20, "{shares:?}");
    assert!(!shares.contains(&Some("a".into())));
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    /// Jobs of shares that have one job, of shares that have some, of shares that have many, and
    /// jobs without a share.
    fn jobs(&mut self, round: usize) -> Vec<NewJob> {
        let count = 1 + self.below(30);
        let job = |nth| match self.below(12) {
            0..=3 => of(&format!("many {}", self.below(4))),
            4 => of(&format!("some {}", self.below(40))).priority(3),
            5 | 6 => NewJob::new(QUEUE, "{}"),
            _ => of(&format!("alone {round} {nth}")),
        };
        (0..count).map(job).collect()
    }
}

/// One claim of both engines: their jobs in order are the same.
async fn claim_of_both(
    memory: &MemoryEngine,
    redis: &RedisEngine,
    limit: usize,
) -> [Vec<Lease>; 2] {
    let claim = Claim::new(WorkerId::random(), QUEUE, limit).lease_duration(seconds(30));
    let one = memory.claim(&here(), claim.clone()).await.expect("claim");
    let other = redis.claim(&here(), claim).await.expect("claim");
    let order = |leases: &[Lease]| -> Vec<_> {
        let jobs = leases.iter().flat_map(|lease| &lease.jobs);
        jobs.map(|job| (job.share.clone(), job.id)).collect()
    };
    assert_eq!(order(&one.leases), order(&other.leases));
    [one.leases, other.leases]
}

/// Of some jobs of a lease, a third is retried at once if there are `retries`, and the rest
/// completes.
fn ends(lease: &Lease, jobs: Range<usize>, retries: bool) -> Settle {
    let end = |(nth, job): (usize, &JobRecord)| {
        let outcome = match nth % 3 {
            1 if retries => Outcome::Retry {
                after: Some(seconds(0)),
            },
            _ => Outcome::Completed,
        };
        Settlement::new(job.id, job.attempt, outcome)
    };
    let jobs = lease.jobs[jobs].iter().enumerate().map(end).collect();
    Settle::new(vec![LeaseReport::new(lease.token, jobs)])
}

/// Active jobs of shares as the queue counts them, and as the rows of its shares do.
fn active_of(server: &TestServer) -> (u64, u64) {
    const COUNT: &str = "local state = redis.call('HGET', KEYS[1], ARGV[1]) \
        local all = state and struct.unpack('>I4', state, 10) or 0 \
        local rows, sum = redis.call('HVALS', KEYS[2]), 0 \
        for _, row in ipairs(rows) do sum = sum + struct.unpack('>I4', row, 3) end \
        return all .. ' ' .. sum";
    let (shard, field) = ("punctual:{default/0}:s", format!("y{QUEUE}"));
    let rows = format!("punctual:{{default/0}}:ss:{QUEUE}");
    let counted = server.cli(&["EVAL", COUNT, "2", shard, &rows, &field]);
    let (all, sum) = counted.trim().split_once(' ').expect("two numbers");
    (
        all.parse().expect("a number"),
        sum.parse().expect("a number"),
    )
}

/// Shares of one job are known by the bytes of their row, and jobs of a share start and end
/// together; turns are as if it were not so.
#[tokio::test]
async fn shares_of_one_job_take_turns_with_others_as_in_memory() {
    for seed in 1..=6 {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let memory = MemoryEngine::with_clock(clock.clone());
        let options = server.address().parse().expect("a good address");
        let redis = RedisEngine::connect_with_clock(options, clock.clone()).await;
        let redis = redis.expect("the server is there");
        let mut dice = Dice(seed);
        let mut held = Vec::new();
        for round in 0..60 {
            let now = START + seconds(round as u64);
            redis.set_time(now).await.expect("a clock");
            clock.set(now);
            if round < 40 {
                let jobs = dice.jobs(round);
                memory
                    .enqueue(&here(), jobs.clone())
                    .await
                    .expect("enqueue");
                redis.enqueue(&here(), jobs).await.expect("enqueue");
            }
            let limit = 1 + dice.below(40) as usize;
            let [one, other] = claim_of_both(&memory, &redis, limit).await;
            held.extend(one.into_iter().zip(other).map(|pair| (pair, 0)));
            for ((one, other), from) in std::mem::take(&mut held) {
                let last = one.jobs.len();
                // Some leases stay a while, and some end in parts.
                let (till, retries) = match dice.below(6) {
                    0 => (from, false),
                    1 => (from + (last - from) / 2, false),
                    2 | 3 => (last, true),
                    _ => (last, false),
                };
                if till > from {
                    let settle = ends(&one, from..till, retries);
                    memory.settle(&here(), settle).await.expect("settle");
                    let settle = ends(&other, from..till, retries);
                    redis.settle(&here(), settle).await.expect("settle");
                }
                if till < last {
                    held.push(((one, other), till));
                }
            }
            let (all, sum) = active_of(&server);
            assert_eq!(
                all, sum,
                "active jobs of shares after round {round} of {seed}"
            );
        }
    }
}

/// Shares with a row, and those of them that stand in the order of turns as their row says.
fn standing(server: &TestServer) -> (u64, u64) {
    const COUNT: &str = "local all, stand = 0, 0 \
        local rows = redis.call('HGETALL', KEYS[1]) \
        for i = 1, #rows, 2 do \
            all = all + 1 \
            local turn = string.sub(rows[i + 1], 15, 18) .. string.sub(rows[i + 1], 20, 27) \
            if redis.call('ZSCORE', KEYS[2], turn .. rows[i]) then stand = stand + 1 end \
        end \
        return all .. ' ' .. stand";
    let rows = format!("punctual:{{default/0}}:ss:{QUEUE}");
    let turns = format!("punctual:{{default/0}}:st:{}:{QUEUE}", of("a").priority);
    let counted = server.cli(&["EVAL", COUNT, "2", &rows, &turns]);
    let (all, stand) = counted.trim().split_once(' ').expect("two numbers");
    (
        all.parse().expect("a number"),
        stand.parse().expect("a number"),
    )
}

/// Shares of unlike weights get as many jobs in a call: their rows differ in nothing but their next
/// turn.
#[tokio::test]
async fn rows_of_shares_that_differ_in_their_turn_alone_are_kept_apart() {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let memory = MemoryEngine::with_clock(clock.clone());
    let options = server.address().parse().expect("a good address");
    let redis = RedisEngine::connect_with_clock(options, clock.clone()).await;
    let redis = redis.expect("the server is there");
    redis.set_time(START).await.expect("a clock");
    let weights = ShareSettings::new().weight("b", 2).weight("c", 5);
    for engine in [&memory as &dyn Engine, &redis] {
        let write = Control::Write {
            name: format!("queue/{QUEUE}"),
            expected: 0,
            value: Some(RecordValue::Queue(
                QueueSettings::new().shares(weights.clone()),
            )),
        };
        engine.control(&here(), write).await.expect("weights");
    }
    let jobs: Vec<_> = (0..90).map(|nth| of(["a", "b", "c"][nth % 3])).collect();
    let sent = memory.enqueue(&here(), jobs.clone()).await;
    sent.expect("enqueue");
    redis.enqueue(&here(), jobs).await.expect("enqueue");
    assert_eq!(standing(&server), (3, 3), "all stand as their rows say");
    let mut ended = 0;
    for limit in [3, 1, 1, 2].into_iter().cycle() {
        let [one, other] = claim_of_both(&memory, &redis, limit).await;
        ended += one.iter().map(|lease| lease.jobs.len()).sum::<usize>();
        for (engine, leases) in [(&memory as &dyn Engine, one), (&redis, other)] {
            for lease in leases {
                let settle = ends(&lease, 0..lease.jobs.len(), false);
                engine.settle(&here(), settle).await.expect("settle");
            }
        }
        let (all, stand) = standing(&server);
        assert_eq!(all, stand, "shares that stand as their rows say");
        if ended == 90 {
            break;
        }
    }
}
