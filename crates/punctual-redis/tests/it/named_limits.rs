//! Named limits on Redis: what they leave, what a lost record does to them, shards, and that any
//! calls are answered as the memory engine answers them.

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, ClaimMode, Control, Controlled, Edit, Lease, LeaseReport, LimitSettings,
    NamedLimit, Rate, RecordValue, Select, Settle, Settlement, Target, WorkerId,
};
use punctual::schedule::{Schedule, SpecBuilder, Template};
use punctual::time::{ManualClock, Timestamp, hours, millis, seconds};
use punctual::{Due, Engine, ErrorKind, Group, JobId, JobRecord, MemoryEngine, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, claim, connect, here, records_of};

fn with(limit: &str) -> NewJob {
    NewJob::new(QUEUE, "{}").limit(limit)
}

async fn set(engine: &impl Engine, name: &str, settings: Option<LimitSettings>) {
    let record = format!("limit/{name}");
    let read = Control::Read {
        name: record.clone(),
    };
    let Controlled::Record(known) = engine.control(&here(), read).await.expect("read") else {
        panic!("a read answers a record");
    };
    let write = Control::Write {
        name: record,
        expected: known.map_or(0, |known| known.version),
        value: settings.map(RecordValue::Limit),
    };
    engine.control(&here(), write).await.expect("write");
}

async fn limits(engine: &impl Engine) -> Vec<NamedLimit> {
    let asked = Control::Limits {
        after: String::new(),
        limit: 100,
    };
    match engine.control(&here(), asked).await.expect("limits") {
        Controlled::Limits(limits) => limits,
        other => panic!("a read answers limits, not {other:?}"),
    }
}

/// Keys and fields that only named limits have.
fn left(server: &TestServer) -> Vec<String> {
    let keys = server.cli(&["KEYS", "*"]);
    let kinds = ["}:nl", "}:nn", "}:ni", ":nk:", ":no:"];
    let keys = keys
        .lines()
        .filter(|key| kinds.iter().any(|kind| key.contains(kind)));
    let field = |name: &str| server.cli(&["HGET", "punctual:{default/0}:s", name]);
    let fields = [field(&format!("j{QUEUE}")), field("g")];
    let fields = fields.into_iter().filter(|field| !field.is_empty());
    keys.map(str::to_owned).chain(fields).collect()
}

#[tokio::test]
async fn limits_that_nothing_uses_leave_no_bytes() {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let options = server.address().parse().expect("a good address");
    let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
    let engine = engine.expect("the server is there");
    engine.set_time(START).await.expect("the server is there");
    set(&engine, "smtp", Some(LimitSettings::new().concurrency(2))).await;
    let jobs = (0..200).map(|nth| with(&format!("smtp:{}", nth % 30)).limit("all"));
    let enqueued = engine.enqueue(&here(), jobs.collect()).await;
    enqueued.expect("enqueue");
    assert!(!left(&server).is_empty(), "limits have keys of their own");
    let mut ended = 0;
    while ended < 200 {
        for lease in claim(&engine, 100).await.expect("claim") {
            ended += lease.jobs.len();
            let ends = lease.ends(Outcome::Completed);
            engine.settle(&here(), ends).await.expect("settle");
        }
    }
    set(&engine, "smtp", None).await;
    // Jobs waited when others ended, so since when each limit is open is remembered for a minute.
    let later = START + seconds(61);
    engine.set_time(later).await.expect("the server is there");
    clock.set(later);
    for _ in 0..3 {
        engine.maintain().await.expect("maintain");
    }
    assert_eq!(left(&server), Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_record_leaves_no_slot_of_its_limit_behind() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    set(&engine, "smtp", Some(LimitSettings::new().concurrency(1))).await;
    let jobs = vec![with("smtp"), with("smtp"), with("smtp")];
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    let first = claim(&engine, 5).await.expect("claim").remove(0);
    assert_eq!(first.jobs.len(), 1);
    let id: String = (first.jobs[0].id.as_bytes().iter())
        .map(|byte| format!("\\{byte:03}"))
        .collect();
    let script = format!("return redis.call('HDEL', KEYS[1], '{id}')");
    let records = records_of("punctual:{default/0}", first.jobs[0].id);
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
    let smtp = limits(&engine).await.remove(0);
    assert_eq!((smtp.active, smtp.waiting), (1, 1));
}

#[tokio::test]
async fn shards_refuse_named_limits() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    let job = engine.enqueue(&here(), vec![with("smtp")]).await;
    let limit = RecordValue::Limit(LimitSettings::new().concurrency(1));
    let write = Control::Write {
        name: "limit/smtp".into(),
        expected: 0,
        value: Some(limit),
    };
    let block = Control::BlockLimit {
        name: "smtp".into(),
        span: seconds(60),
    };
    let mut spec = SpecBuilder::default();
    spec.at.push(START);
    let template = Template::of(with("smtp")).expect("a template");
    let schedule = Control::Write {
        name: "schedule/beat".into(),
        expected: 0,
        value: Some(RecordValue::Schedule(Box::new(Schedule::new(
            spec, template,
        )))),
    };
    let written = engine.control(&here(), write).await;
    let planned = engine.control(&here(), schedule).await;
    let blocked = engine.control(&here(), block).await;
    let refused = [
        job.map(drop),
        written.map(drop),
        planned.map(drop),
        blocked.map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("each shard would let as many start");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("without `shards`"), "{error}");
    }
}

/// Clients that check nothing are refused too, and the job is not stored.
#[tokio::test]
async fn shards_refuse_named_limits_by_hand() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    let plain = NewJob::new(QUEUE, "{}");
    engine.enqueue(&here(), vec![plain]).await.expect("stored");
    let push = |shard: &str, words: &[&str]| {
        let mut call = vec!["FCALL", "punctual_1_push", "1", shard, "other", "{}"];
        call.extend(words);
        server.cli(&call)
    };
    for shard in ["punctual:{default/0}", "punctual:{default/1}"] {
        let refused = push(shard, &["LIMIT", "api"]);
        assert!(refused.contains("unsupported"), "{refused}");
        assert!(refused.contains("without `shards`"), "{refused}");
        let stored = push(shard, &[]);
        assert!(stored.contains("created"), "{stored}");
        let rows = server.cli(&["HEXISTS", &format!("{shard}:nl"), "api"]);
        assert_eq!(rows, "0");
    }
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

const QUEUES: [&str; 2] = [QUEUE, "other"];
const NAMES: [&str; 4] = ["a", "a:1", "a:2", "b"];

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn job(&mut self, now: Timestamp) -> NewJob {
        let mut job = NewJob::new(QUEUES[self.below(2) as usize], "{}");
        for name in NAMES {
            if job.limits.len() < 3 && self.below(3) == 0 {
                job = job.limit(name);
            }
        }
        if !job.limits.is_empty() {
            job.cost = 1 + self.below(4) as u32;
        }
        if self.below(4) == 0 {
            job.group = Some(Group::new(format!("g{}", self.below(2))));
        }
        if self.below(8) == 0 {
            job.due = Due::After(seconds(3));
        }
        if self.below(8) == 0 {
            job.expires_at = Some(now + seconds(20));
        }
        job
    }

    fn settings(&mut self) -> Option<LimitSettings> {
        let (new, most) = (LimitSettings::new(), 1 + self.below(4));
        match self.below(5) {
            0 => None,
            1 | 2 => Some(new.concurrency(most)),
            3 => Some(new.rate(Rate::window(most, seconds(4)))),
            _ => Some(new.concurrency(2).rate(Rate::smooth(most, seconds(4)))),
        }
    }
}

/// The two engines, which are asked the same.
struct Both {
    memory: MemoryEngine,
    redis: RedisEngine,
    clock: ManualClock,
    jobs: Vec<JobId>,
    leases: Vec<[Lease; 2]>,
}

impl Both {
    async fn new(server: &TestServer) -> Self {
        let clock = ManualClock::new(START);
        let options = server.address().parse().expect("a good address");
        let redis = RedisEngine::connect_with_clock(options, clock.clone()).await;
        Self {
            memory: MemoryEngine::with_clock(clock.clone()),
            redis: redis.expect("the server is there"),
            clock,
            jobs: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// Sets the time. What it causes is done just before, as a group that comes up in the
    /// microsecond of another job has no order with it.
    async fn set_time(&self, now: Timestamp) {
        for now in [now - millis(1), now] {
            self.redis.set_time(now).await.expect("a clock");
            self.clock.set(now);
            self.redis.maintain().await.expect("maintain");
            self.memory.maintain().await.expect("maintain");
        }
    }

    async fn enqueue(&mut self, jobs: Vec<NewJob>) {
        self.jobs.extend(jobs.iter().map(|job| job.id));
        let memory = self.memory.enqueue(&here(), jobs.clone()).await;
        memory.expect("enqueue");
        self.redis.enqueue(&here(), jobs).await.expect("enqueue");
    }

    /// The jobs of a claim are the same in order, and who comes again comes no later.
    async fn claim(&mut self, queue: &str, limit: usize, alone: bool, what: &str) {
        let claim = Claim::new(WorkerId::random(), queue, limit).lease_duration(hours(1));
        let mode = if alone {
            ClaimMode::Alone
        } else {
            ClaimMode::Shared
        };
        let claim = claim.mode(mode);
        let mut one = self
            .memory
            .claim(&here(), claim.clone())
            .await
            .expect("claim");
        let mut other = self.redis.claim(&here(), claim).await.expect("claim");
        let ids = |leases: &[Lease]| -> Vec<JobId> {
            let jobs = leases.iter().flat_map(|lease| &lease.jobs);
            jobs.map(|job| job.id).collect()
        };
        let (expected, claimed) = (ids(&one.leases), ids(&other.leases));
        assert_eq!(claimed, expected, "{what}");
        let (in_time, wakes) = (one.wake_at, other.wake_at);
        assert!(
            in_time.is_none_or(|at| wakes.is_some_and(|it| it <= at)),
            "{what}: {wakes:?}, not {in_time:?}"
        );
        let opened = |claimed: &punctual::engine::Claimed| {
            claimed.limited.first().map(|one| one.limits.clone())
        };
        assert_eq!(opened(&other), opened(&one), "{what}: opened");
        if let (Some(one), Some(other)) = (one.leases.pop(), other.leases.pop()) {
            self.leases.push([one, other]);
        }
    }

    async fn settle(&mut self, nth: u64, how: u64) {
        if self.leases.is_empty() {
            return;
        }
        let nth = nth as usize % self.leases.len();
        let [one, other] = self.leases.remove(nth);
        let outcome = match how % 5 {
            0 => Outcome::Completed,
            1 => Outcome::Released,
            2 => Outcome::Retry {
                after: Some(seconds(2)),
            },
            3 => Outcome::Snooze { after: seconds(1) },
            _ => Outcome::Dead,
        };
        let end = |job: &JobRecord| Settlement::new(job.id, job.attempt, outcome.clone());
        let ends = |lease: &Lease| {
            Settle::new(vec![LeaseReport::new(
                lease.token,
                lease.jobs.iter().map(end).collect(),
            )])
        };
        self.memory
            .settle(&here(), ends(&one))
            .await
            .expect("settle");
        self.redis
            .settle(&here(), ends(&other))
            .await
            .expect("settle");
    }

    async fn edit(&self, nth: u64, how: u64) {
        let Some(id) = self.jobs.get(nth as usize % self.jobs.len().max(1)) else {
            return;
        };
        let action = match how % 3 {
            0 => Action::Cancel,
            1 => Action::Reprioritise((how % 10) as u8),
            _ => Action::Reschedule(Due::After(millis(how))),
        };
        let edit = Edit::new(Select::Targets(vec![Target::Id(*id)]), action);
        self.memory.edit(&here(), edit.clone()).await.expect("edit");
        self.redis.edit(&here(), edit).await.expect("edit");
    }

    async fn block(&self, name: &str, span: u64) {
        let block = Control::BlockLimit {
            name: name.into(),
            span: seconds(span),
        };
        let one = self.memory.control(&here(), block.clone()).await;
        let other = self.redis.control(&here(), block).await;
        assert_eq!(other.expect("block"), one.expect("block"));
    }

    /// Each limit stands as it does in memory. Which jobs wait in its line and which in their lanes
    /// may differ, as to when in a sweep a slot is freed.
    async fn compare(&self, what: &str) {
        let stand = |mut all: Vec<NamedLimit>| -> Vec<NamedLimit> {
            all.iter_mut().for_each(|limit| limit.waiting = 0);
            all.retain(|limit| limit.active > 0 || limit.settings.is_some());
            all
        };
        let (redis, memory) = (limits(&self.redis).await, limits(&self.memory).await);
        assert_eq!(stand(redis), stand(memory), "{what}");
    }
}

#[tokio::test]
async fn any_calls_are_answered_as_in_memory() {
    for seed in 1..=3 {
        let server = TestServer::start();
        let mut both = Both::new(&server).await;
        let (mut dice, mut now) = (Dice(seed), START);
        for step in 0..120 {
            let what = format!("seed {seed}, step {step}");
            now = now + millis(2 + dice.below(1_500));
            both.set_time(now).await;
            let turn = dice.below(12);
            let what = format!("{what}, turn {turn}");
            match turn {
                0..=2 => {
                    let mut jobs: Vec<NewJob> =
                        (0..=dice.below(3)).map(|_| dice.job(now)).collect();
                    // Jobs of a call come into line lane by lane.
                    let priority = dice.below(3) as u8;
                    jobs.iter_mut().for_each(|job| job.priority = priority);
                    if jobs.iter().any(|job| job.group.is_some()) {
                        jobs.truncate(1); // see `set_time`
                    }
                    both.enqueue(jobs).await;
                }
                3..=6 => {
                    let limit = 1 + dice.below(5) as usize;
                    let (queue, alone) = (QUEUES[dice.below(2) as usize], dice.below(4) == 0);
                    both.claim(queue, limit, alone, &what).await;
                }
                7 | 8 => both.settle(dice.below(100), dice.below(100)).await,
                9 => both.edit(dice.below(1_000), dice.below(5_000)).await,
                10 => {
                    let (name, settings) = (NAMES[dice.below(4) as usize], dice.settings());
                    set(&both.memory, name, settings).await;
                    set(&both.redis, name, settings).await;
                }
                _ => {
                    let (name, span) = (NAMES[dice.below(4) as usize], dice.below(3) * 2);
                    both.block(name, span).await;
                }
            }
            both.compare(&what).await;
        }
        // All come to their turn, and nothing is left.
        for name in NAMES {
            set(&both.memory, name, None).await;
            set(&both.redis, name, None).await;
        }
        while !both.leases.is_empty() {
            both.settle(0, 0).await;
        }
        for round in 0..20 {
            now = now + seconds(40);
            both.set_time(now).await;
            for queue in QUEUES {
                for alone in [true, false] {
                    let what = format!("seed {seed}, round {round}");
                    both.claim(queue, 100, alone, &what).await;
                }
            }
            while !both.leases.is_empty() {
                both.settle(0, 0).await;
            }
        }
        both.set_time(now + hours(1)).await;
        both.redis.maintain().await.expect("maintain");
        assert_eq!(left(&server), Vec::<String>::new(), "seed {seed}");
    }
}
