//! Migrations from dumps that the real libraries wrote: what each job becomes, kills at every
//! step, and the way back.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use punctual::time::{ManualClock, Timestamp, days};
use punctual::{JobRecord, JobState, MemoryEngine, Namespace, Queue, RetryPolicy};
use punctual_relay::migrate::{Migration, Moved, Returned};
use serde_json::Value;

use crate::support::{Redis, jobs as all_jobs};

mod carried;
mod undo;

const BULLMQ: &str = include_str!("migrate/fixtures/bullmq-6.7.0.jsonl");
const BULLMQ_5: &str = include_str!("migrate/fixtures/bullmq-5.81.5.jsonl");
const SIDEKIQ: &str = include_str!("migrate/fixtures/sidekiq-6.4.1.jsonl");
const CELERY: &str = include_str!("migrate/fixtures/celery-5.7.0.jsonl");
const RQ: &str = include_str!("migrate/fixtures/rq-3.0.0.jsonl");

/// Each library, its dump, its queue, and how many of its jobs can be carried.
const ALL: [(&str, &str, &str, usize); 5] = [
    ("bullmq", BULLMQ, "mail", 9),
    ("bullmq", BULLMQ_5, "mail", 9),
    ("sidekiq", SIDEKIQ, "mail", 6),
    ("celery", CELERY, "celery", 7),
    ("rq", RQ, "mail", 3),
];

/// An engine at the hour of the dumps: what was due in an hour then is not due yet.
fn engine() -> Arc<MemoryEngine> {
    let hour = Timestamp::from_millis(1_795_692_900_000);
    Arc::new(MemoryEngine::with_clock(ManualClock::new(hour)))
}

async fn load(redis: &mut Redis, dump: &str) {
    for line in dump.lines() {
        let words: Vec<Value> = serde_json::from_str(line).expect("a command");
        let bytes = words.iter().map(|word| match word {
            Value::String(text) => text.clone().into_bytes(),
            other => BASE64_STANDARD
                .decode(other["base64"].as_str().expect("base64"))
                .expect("base64"),
        });
        let bytes: Vec<Vec<u8>> = bytes.collect();
        let mut command = redis::cmd(std::str::from_utf8(&bytes[0]).expect("a name"));
        command.arg(&bytes[1..]);
        let _: redis::Value = command
            .query_async(&mut redis.client)
            .await
            .expect("it answers");
    }
}

/// Everything that the library has, as text; without what wakes its workers.
async fn snapshot(redis: &mut Redis) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for key in redis.keys().await {
        if key.starts_with("punctual:") || key.ends_with(":marker") {
            continue;
        }
        let kind: String = ask(redis, &["TYPE", &key]).await;
        let read: &[&str] = match kind.as_str() {
            "list" => &["LRANGE", &key, "0", "-1"],
            "hash" => &["HGETALL", &key],
            "zset" => &["ZRANGE", &key, "0", "-1", "WITHSCORES"],
            "set" => &["SMEMBERS", &key],
            _ => &["GET", &key],
        };
        let value = redis.run(read).await;
        let mut words = match value {
            redis::Value::Array(words) | redis::Value::Set(words) => words,
            redis::Value::Map(pairs) => pairs
                .into_iter()
                .map(|pair| redis::Value::Array(vec![pair.0, pair.1]))
                .collect(),
            word => vec![word],
        };
        if kind == "hash" {
            words = words
                .chunks(2)
                .map(|two| redis::Value::Array(two.to_vec()))
                .collect();
        }
        let mut words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        // Canvas among the tasks of Celery stays, and what comes back is beside it; so does a job
        // of RQ for which another one waits.
        if kind == "hash" || kind == "set" || key == "celery" || key == "rq:queue:mail" {
            words.sort();
        }
        all.insert(key, words.join(" "));
    }
    all
}

async fn ask<T: redis::FromRedisValue>(redis: &mut Redis, words: &[&str]) -> T {
    let value = redis.run(words).await;
    redis::from_redis_value(value).expect("the type")
}

fn migration(redis: &Redis, library: &str, queue: &str) -> Migration {
    let address = format!("{library}://127.0.0.1:{}/{queue}", redis.server.port());
    Migration::new(&address, "into").expect("an address")
}

async fn run(migration: &Migration, queue: &Queue) -> Moved {
    let mut moved = Moved::default();
    let never = std::future::pending();
    let home = Namespace::default();
    let ran = migration.run((queue, &home), days(7), false, &mut moved, never);
    ran.await.expect("it runs");
    moved
}

/// Polls so often, and is killed then: whether it ended before.
async fn killed_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |context: &mut Context<'_>| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// A killed process holds the lock for some seconds: a test does not wait.
async fn unlock(redis: &mut Redis, library: &str, queue: &str) {
    redis
        .run(&["DEL", &format!("punctual:migrated:{library}:{queue}:lock")])
        .await;
}

fn header<'a>(job: &'a JobRecord, name: &str) -> &'a str {
    let found = job.headers.iter().find(|(header, _)| header == name);
    found.map_or("", |(_, value)| value)
}

/// Jobs by the name that they had.
async fn by_name(engine: &Arc<MemoryEngine>) -> BTreeMap<String, JobRecord> {
    let jobs = all_jobs(engine).await;
    let named = jobs
        .into_iter()
        .map(|job| (header(&job, "migrated-name").to_owned(), job));
    named.collect()
}

#[tokio::test]
async fn jobs_of_bullmq_keep_their_content_dues_and_tries() {
    for dump in [BULLMQ, BULLMQ_5] {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        let engine = engine();
        let queue = Queue::new(&engine);
        let moved = run(&migration(&redis, "bullmq", "mail"), &queue).await;
        assert_eq!(moved.enqueued, 9, "{moved:?}");
        let jobs = by_name(&engine).await;
        let ann = &jobs["5"];
        assert_eq!((ann.kind.as_str(), ann.max_attempts), ("send", 1));
        assert_eq!(
            &ann.payload[..],
            br#"{"to":"ann","big":"9007199254740993"}"#
        );
        let bob = &jobs["order-7"];
        assert_eq!(bob.max_attempts, 3);
        assert_eq!(bob.retry, RetryPolicy::fixed(Duration::from_secs(5)));
        assert_eq!((jobs["7"].priority, ann.priority), (3, 0));
        let eve = &jobs["9"];
        assert_eq!(eve.state, JobState::Scheduled);
        let delayed: f64 = dump_score(dump, "bull:mail:delayed", "9");
        assert_eq!(eve.due.as_micros(), (delayed / 4096.0) as u64 * 1_000);
        let once = &jobs["3"];
        assert_eq!((once.failures, once.max_attempts), (1, 5));
        assert_eq!(once.last_error.as_deref(), Some("first try"));
        let boom = &jobs["2"];
        assert_eq!(boom.state, JobState::Dead);
        assert_eq!(boom.last_error.as_deref(), Some("smtp refused"));
        assert_eq!(header(boom, "migrated-from"), "bullmq:mail");
        let odd = &jobs["11"];
        assert_eq!(&odd.payload[..], r#""héllo 漢字 \u0000""#.as_bytes());
        assert!(
            moved.stays.keys().any(|why| why.starts_with("flow")),
            "{moved:?}"
        );
        assert!(
            moved.stays.keys().any(|why| why.starts_with("scheduler")),
            "{moved:?}"
        );
    }
}

fn dump_score(dump: &str, key: &str, member: &str) -> f64 {
    let line = dump
        .lines()
        .find(|line| line.contains(&format!("\"{key}\"")));
    let words: Vec<String> = serde_json::from_str(line.expect("the key")).expect("texts");
    let at = words
        .iter()
        .rposition(|word| word == member)
        .expect("a member");
    words[at - 1].parse().expect("a number")
}

#[tokio::test]
async fn jobs_of_sidekiq_keep_their_arguments_dues_and_tries() {
    let mut redis = Redis::start().await;
    load(&mut redis, SIDEKIQ).await;
    let engine = engine();
    let moved = run(&migration(&redis, "sidekiq", "mail"), &Queue::new(&engine)).await;
    assert_eq!(moved.enqueued, 6, "{moved:?}");
    let jobs = all_jobs(&engine).await;
    let of = |payload: &str| {
        let found = jobs.iter().find(|job| job.payload == payload.as_bytes());
        found.unwrap_or_else(|| panic!("{payload}"))
    };
    let hard = of(r#"["ann",1,{"deep":[1,2.5,null]}]"#);
    assert_eq!((hard.kind.as_str(), hard.max_attempts), ("HardJob", 6));
    let soft = of("[9007199254740993]");
    assert_eq!(
        (soft.kind.as_str(), soft.max_attempts),
        ("Shop::SoftJob", 1)
    );
    let fails = of(r#"["fails"]"#);
    // Its next try was due when the dump was made.
    assert_eq!((fails.failures, fails.state), (1, JobState::Ready));
    assert_eq!(
        fails.last_error.as_deref(),
        Some("ArgumentError: smtp refused")
    );
    assert_eq!(of(r#"["dies"]"#).state, JobState::Dead);
    assert_eq!(of(r#"["later"]"#).state, JobState::Scheduled);
    // Those of other queues stay, also in the sets that all share.
    let left = snapshot(&mut redis).await;
    assert!(left["schedule"].contains("OtherJob"), "{left:?}");
    assert!(
        left.contains_key("queue:other") && !left.contains_key("retry"),
        "{left:?}"
    );
}

#[tokio::test]
async fn tasks_of_celery_keep_their_eta_expiry_and_body() {
    let mut redis = Redis::start().await;
    load(&mut redis, CELERY).await;
    let engine = engine();
    let queue = Queue::new(&engine);
    let migration = migration(&redis, "celery", "celery");
    let plan = migration.plan().await.expect("a plan");
    let held = plan
        .stays
        .keys()
        .find(|why| why.contains("worker holds it"));
    assert!(held.is_some(), "{plan:?}");
    let moved = run(&migration, &queue).await;
    assert_eq!(
        (moved.enqueued, moved.stays.values().sum::<u64>()),
        (7, 1),
        "{moved:?}"
    );
    let stopped = self::migration(&redis, "celery", "celery").workers_stopped();
    assert_eq!(run(&stopped, &queue).await.enqueued, 1);
    let jobs = all_jobs(&engine).await;
    let of = |id: &str| {
        let found = jobs
            .iter()
            .find(|job| header(job, "celery-id").starts_with(id));
        found.unwrap_or_else(|| panic!("{id}"))
    };
    assert_eq!(of("1111").kind, "shop.send");
    assert!(of("1111").payload.starts_with(br#"[["ann"], {"n": 1}"#));
    assert_eq!(of("2222").state, JobState::Scheduled);
    assert_eq!(of("6666").due.to_string(), "2099-06-01T12:00:00.123456Z");
    let expires = of("3333").expires_at.expect("it expires");
    assert_eq!(
        (expires.to_string().as_str(), of("3333").failures),
        ("2099-01-01T00:00:00Z", 2)
    );
    assert_eq!(of("4444").priority, 6);
    assert_eq!(of("5555").content_type, "application/octet-stream");
}

#[tokio::test]
async fn jobs_of_rq_are_opaque_bytes_with_their_dues() {
    let mut redis = Redis::start().await;
    load(&mut redis, RQ).await;
    let engine = engine();
    let moved = run(&migration(&redis, "rq", "mail"), &Queue::new(&engine)).await;
    assert_eq!(moved.enqueued, 3, "{moved:?}");
    let waits = "another job waits for it: let RQ run both";
    assert_eq!(moved.stays.get(waits), Some(&1), "{moved:?}");
    let jobs = by_name(&engine).await;
    assert_eq!(jobs["late"].kind, "shopjobs.send");
    assert_eq!(jobs["late"].payload[..2], [0x78, 0x9c], "zlib");
    let two = &jobs["two"];
    assert_eq!(header(two, "rq-meta"), "gAWVCgAAAAAAAAB9lIwBYZRLAXMu");
    assert_eq!(
        (two.max_attempts, two.timeout),
        (4, Some(Duration::from_secs(77)))
    );
    assert_eq!(jobs["late"].due.to_string(), "2099-06-01T00:00:00Z");
    assert_eq!(jobs["boom"].state, JobState::Dead);
}

#[tokio::test]
async fn a_plan_takes_nothing_and_says_what_a_run_takes() {
    for (library, dump, queue, jobs) in ALL {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        let before = snapshot(&mut redis).await;
        let plan = migration(&redis, library, queue)
            .plan()
            .await
            .expect("a plan");
        let takes: u64 = plan.takes.values().map(|samples| samples.jobs).sum();
        assert_eq!(takes as usize, jobs, "{plan:?}");
        assert_eq!(plan.kinds.values().sum::<u64>() as usize, jobs);
        assert!(snapshot(&mut redis).await == before, "{library}");
        assert_eq!(
            redis.run(&["KEYS", "punctual:*"]).await,
            redis::Value::Array(vec![])
        );
    }
}

#[tokio::test]
async fn killed_at_any_step_a_migration_loses_and_doubles_nothing() {
    for (library, dump, queue, jobs) in ALL {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        let engine = engine();
        let migration = migration(&redis, library, queue);
        let into = Queue::new(&engine);
        let mut kills = 0;
        for polls in 1.. {
            unlock(&mut redis, library, queue).await;
            let mut moved = Moved::default();
            let never = std::future::pending();
            let home = Namespace::default();
            let running = migration.run((&into, &home), days(7), false, &mut moved, never);
            if let Some(ended) = killed_after(polls, running).await {
                ended.expect("it runs");
                break;
            }
            kills += 1;
        }
        assert!(kills > 5, "{library}: {kills} kills");
        assert_eq!(all_jobs(&engine).await.len(), jobs, "{library}");
        let left: Vec<String> = ask(&mut redis, &["KEYS", "*:unstored"]).await;
        assert_eq!(left, Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_undo_leaves_everything_as_it_was_also_if_it_is_killed() {
    for (library, dump, queue, jobs) in ALL {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        let before = snapshot(&mut redis).await;
        let engine = engine();
        let migration = migration(&redis, library, queue);
        let into = Queue::new(&engine);
        run(&migration, &into).await;
        assert!(snapshot(&mut redis).await != before, "{library}");
        let namespace = Namespace::default();
        for polls in 1.. {
            unlock(&mut redis, library, queue).await;
            let undoing = migration.undo(&into, &namespace);
            if let Some(returned) = killed_after(polls, undoing).await {
                assert_eq!(returned.expect("it runs").ran, 0, "{library}");
                break;
            }
        }
        assert!(snapshot(&mut redis).await == before, "{library}");
        let pending = |job: &JobRecord| job.state.is_pending() || job.state == JobState::Dead;
        let left = all_jobs(&engine).await;
        assert!(!left.iter().any(pending), "{library}: {left:?}");
        // And forth again: the jobs are new ones.
        assert_eq!(
            run(&migration, &into).await.enqueued as usize,
            jobs,
            "{library}"
        );
    }
}

#[tokio::test]
async fn an_undo_leaves_what_has_run() {
    let mut redis = Redis::start().await;
    load(&mut redis, BULLMQ).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "bullmq", "mail"), Queue::new(&engine));
    run(&migration, &into).await;
    let worker = punctual::Worker::new(&engine)
        .queues(["into"])
        .handle_any(async |_: JobRecord, _: punctual::Context| Ok::<(), punctual::Error>(()));
    worker.run_until_idle().await.expect("it runs");
    let Returned { returned, ran, .. } = migration
        .undo(&into, &Namespace::default())
        .await
        .expect("it runs");
    assert_eq!((returned, ran), (3, 6), "delayed and failed ones came back");
}

#[tokio::test]
async fn a_name_that_is_used_again_is_another_job() {
    let mut redis = Redis::start().await;
    load(&mut redis, BULLMQ).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "bullmq", "mail"), Queue::new(&engine));
    run(&migration, &into).await;
    let hash = "bull:mail:order-7";
    redis
        .run(&[
            "HSET",
            hash,
            "name",
            "send",
            "data",
            "{}",
            "timestamp",
            "1",
            "opts",
            "{}",
        ])
        .await;
    redis.run(&["LPUSH", "bull:mail:wait", "order-7"]).await;
    let again = run(&migration, &into).await;
    assert_eq!((again.enqueued, again.duplicates), (1, 0));
    // The first one cannot go back while its name is in use.
    redis
        .run(&["HSET", hash, "name", "send", "data", "{}"])
        .await;
    let returned = migration
        .undo(&into, &Namespace::default())
        .await
        .expect("it runs");
    assert_eq!(returned.conflicts, 2, "{returned:?}");
}

#[tokio::test]
async fn what_is_no_queue_of_the_library_is_named() {
    let mut redis = Redis::start().await;
    let plan = async |redis: &Redis, library: &str| {
        let error = migration(redis, library, "mail").plan().await;
        error.expect_err("an error").to_string()
    };
    let missing = plan(&redis, "bullmq").await;
    assert!(
        missing.contains("check the queue and the prefix"),
        "{missing}"
    );
    redis
        .run(&["HSET", "bull:mail:meta", "version", "bullmq:9.0.0"])
        .await;
    let newer = plan(&redis, "bullmq").await;
    assert!(newer.contains("bullmq:9.0.0"), "{newer}");
    redis.run(&["SET", "bull:mail:meta", "x"]).await;
    let odd = plan(&redis, "bullmq").await;
    assert!(odd.contains("no hash, as BullMQ writes it"), "{odd}");
    // What is no job stays, and blocks no other.
    redis.run(&["LPUSH", "queue:mail", "no json"]).await;
    let item = r#"{"class":"A","args":[],"jid":"x","queue":"mail"}"#;
    redis.run(&["LPUSH", "queue:mail", item]).await;
    let engine = engine();
    let moved = run(&migration(&redis, "sidekiq", "mail"), &Queue::new(&engine)).await;
    assert_eq!(moved.enqueued, 1);
    assert_eq!(moved.stays["it is no job of Sidekiq"], 1);
    redis.run(&["SET", "rq:queue:mail", "text"]).await;
    let wrong = plan(&redis, "rq").await;
    assert!(wrong.contains("another type"), "{wrong}");
}

#[tokio::test]
async fn a_key_of_another_type_stays_and_blocks_no_other() {
    for (library, dump, queue, carried, words) in [
        (
            "bullmq",
            BULLMQ,
            "mail",
            9,
            &[
                &["SET", "bull:mail:h10", "x"][..],
                &["LPUSH", "bull:mail:wait", "h10"],
            ][..],
        ),
        (
            "rq",
            RQ,
            "mail",
            3,
            &[
                &["SET", "rq:job:wt", "x"],
                &["RPUSH", "rq:queue:mail", "wt"],
                &["DEL", "rq:finished:mail"],
                &["SET", "rq:finished:mail", "x"],
            ],
        ),
        (
            "sidekiq",
            SIDEKIQ,
            "mail",
            5,
            &[&["DEL", "retry"], &["SET", "retry", "x"]],
        ),
        (
            "celery",
            CELERY,
            "celery",
            7,
            &[&["SET", "unacked_index", "x"]],
        ),
    ] {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        for line in words {
            redis.run(line).await;
        }
        let keys: Vec<&str> = words
            .iter()
            .filter(|line| line[0] == "SET")
            .map(|line| line[1])
            .collect();
        let mut migration = migration(&redis, library, queue);
        if library == "celery" {
            migration = migration.workers_stopped();
        }
        let plan = migration.plan().await.expect("a plan");
        let takes: u64 = plan.takes.values().map(|samples| samples.jobs).sum();
        let engine = engine();
        let moved = run(&migration, &Queue::new(&engine)).await;
        assert_eq!(
            (takes, moved.enqueued),
            (carried, carried),
            "{library}: {plan:?} {moved:?}"
        );
        for key in keys {
            let names = |why: &String| why.contains(key) && why.contains("holds a string");
            assert!(plan.stays.keys().any(names), "{key}: {plan:?}");
            // What is done is not read.
            if !key.starts_with("rq:finished") {
                assert!(moved.stays.keys().any(names), "{key}: {moved:?}");
            }
            let held: String = ask(&mut redis, &["GET", key]).await;
            assert_eq!(held, "x");
        }
    }
}

#[tokio::test]
async fn reasons_are_bounded() {
    let mut redis = Redis::start().await;
    for n in 0..200 {
        let (key, job) = (format!("rq:job:{n}"), n.to_string());
        redis.run(&["SET", &key, "x"]).await;
        redis.run(&["RPUSH", "rq:queue:mail", &job]).await;
    }
    let migration = migration(&redis, "rq", "mail");
    let plan = migration.plan().await.expect("a plan");
    assert_eq!(plan.stays.len(), 101);
    assert_eq!(
        plan.stays.values().map(|samples| samples.jobs).sum::<u64>(),
        200
    );
    let moved = run(&migration, &Queue::new(engine())).await;
    assert_eq!(
        (moved.stays.len(), moved.stays.values().sum::<u64>()),
        (101, 200)
    );
}

#[tokio::test]
async fn a_database_that_a_server_lacks_is_named() {
    let redis = Redis::start().await;
    let address = format!("rq://127.0.0.1:{}/mail?db=99", redis.server.port());
    let migration = Migration::new(&address, "into").expect("an address");
    let error = migration.plan().await.expect_err("no such database");
    assert_eq!(error.kind(), punctual::ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(
        text.contains("database") && !text.contains("running"),
        "{text}"
    );
}
