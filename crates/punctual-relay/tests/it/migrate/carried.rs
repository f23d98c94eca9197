//! What a job has beside its payload is carried over, or keeps it where it is, with the reason.

use super::*;

/// What a dry run and a run say of one job of a queue.
async fn both(redis: &mut Redis, library: &str) -> (Vec<String>, Vec<String>, Vec<JobRecord>) {
    let migration = migration(redis, library, "mail");
    let plan = migration.plan().await.expect("a plan");
    let engine = engine();
    let moved = run(&migration, &Queue::new(&engine)).await;
    let takes: u64 = plan.takes.values().map(|samples| samples.jobs).sum();
    assert_eq!(takes, moved.enqueued, "{plan:?} {moved:?}");
    let planned = plan.stays.into_keys().collect();
    let stays = moved.stays.into_keys().collect();
    (planned, stays, all_jobs(&engine).await)
}

async fn rq_job(redis: &mut Redis, fields: &[&str]) {
    let usual = [
        "HSET",
        "rq:job:1",
        "data",
        "x",
        "description",
        "shop.send()",
    ];
    let created = [
        "created_at",
        "2026-11-26T11:00:00Z",
        "enqueued_at",
        "2026-11-26T11:00:01Z",
    ];
    redis.run(&[&usual[..], &created, fields].concat()).await;
    redis.run(&["RPUSH", "rq:queue:mail", "1"]).await;
}

#[tokio::test]
async fn what_rq_does_around_a_job_keeps_it_there() {
    for (fields, beside, why) in [
        (
            &["success_callback_name", "shop.done"][..],
            None,
            "callback",
        ),
        (&["failure_callback_name", "shop.failed"], None, "callback"),
        (&["stopped_callback_name", "shop.failed"], None, "callback"),
        (
            &["repeats_left", "3", "repeat_intervals", "[10]"],
            None,
            "repeats",
        ),
        (
            &["retries_left", "3", "retry_intervals", "10 s"],
            None,
            "malformed",
        ),
        (&["ttl", "soon"], None, "malformed"),
        (&[], Some("rq:job:1:dependents"), "another job waits"),
    ] {
        let mut redis = Redis::start().await;
        rq_job(&mut redis, fields).await;
        if let Some(key) = beside {
            redis.run(&["SADD", key, "2"]).await;
        }
        let before = snapshot(&mut redis).await;
        let (planned, stays, jobs) = both(&mut redis, "rq").await;
        assert_eq!((planned.len(), jobs.len()), (1, 0), "{why}");
        assert!(planned[0].contains(why), "{planned:?}");
        assert_eq!(planned, stays);
        assert!(snapshot(&mut redis).await == before, "{why}");
    }
}

#[tokio::test]
async fn the_ttl_of_rq_is_an_expiry_and_comes_back() {
    let mut redis = Redis::start().await;
    rq_job(&mut redis, &["ttl", "4000000", "meta", "m"]).await;
    redis.run(&["PEXPIRE", "rq:job:1", "500000"]).await;
    let before = snapshot(&mut redis).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "rq", "mail"), Queue::new(&engine));
    run(&migration, &into).await;
    let jobs = all_jobs(&engine).await;
    let expires = jobs[0].expires_at.map(|at| at.to_string());
    assert_eq!(expires.as_deref(), Some("2027-01-11T18:06:41Z"));
    assert_eq!(header(&jobs[0], "rq-meta"), "bQ==");
    let parked: i64 = ask(&mut redis, &["PTTL", "punctual:migrated:rq:mail:job:1"]).await;
    assert!(parked > 500_000, "it is kept: {parked}");
    let undone = migration.undo(&into, &Namespace::default()).await;
    assert_eq!(undone.expect("it runs").returned, 1);
    assert!(snapshot(&mut redis).await == before);
    let left: i64 = ask(&mut redis, &["PTTL", "rq:job:1"]).await;
    assert!((1..=500_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_parent_of_a_flow_stays_also_once_its_children_are_done() {
    for (end, kind) in [
        ("dependencies", "SADD"),
        ("processed", "HSET"),
        ("failed", "HSET"),
    ] {
        let mut redis = Redis::start().await;
        let meta = "bull:mail:meta";
        redis.run(&["HSET", meta, "version", "bullmq:6.7.0"]).await;
        let job = [
            "HSET",
            "bull:mail:1",
            "name",
            "sum",
            "data",
            "{}",
            "opts",
            "{}",
        ];
        redis.run(&job).await;
        redis.run(&["LPUSH", "bull:mail:wait", "1"]).await;
        let key = format!("bull:mail:1:{end}");
        let beside = [kind, &key, "bull:mail:2", "7"];
        redis
            .run(&beside[..if kind == "SADD" { 3 } else { 4 }])
            .await;
        let (planned, stays, jobs) = both(&mut redis, "bullmq").await;
        assert!(planned[0].starts_with("flow"), "{planned:?}");
        assert_eq!((planned, jobs.len()), (stays, 0), "{end}");
    }
}

#[tokio::test]
async fn a_paused_queue_is_taken_only_into_one_that_is_paused() {
    let item = r#"{"class":"A","args":[],"jid":"x","queue":"mail"}"#;
    for (library, words) in [
        (
            "bullmq",
            &[
                &[
                    "HSET",
                    "bull:mail:meta",
                    "version",
                    "bullmq:6.7.0",
                    "paused",
                    "1",
                ][..],
                &[
                    "HSET",
                    "bull:mail:1",
                    "name",
                    "a",
                    "data",
                    "{}",
                    "opts",
                    "{}",
                ],
                &["LPUSH", "bull:mail:paused", "1"],
            ][..],
        ),
        (
            "sidekiq",
            &[&["SADD", "paused", "mail"], &["LPUSH", "queue:mail", item]],
        ),
        (
            "rq",
            &[
                &["SET", "rq:suspended", "1"],
                &["HSET", "rq:job:1", "data", "x", "description", "a()"],
                &["RPUSH", "rq:queue:mail", "1"],
            ],
        ),
    ] {
        let mut redis = Redis::start().await;
        for line in words {
            redis.run(line).await;
        }
        let migration = migration(&redis, library, "mail");
        assert!(
            migration.plan().await.expect("a plan").is_paused,
            "{library}"
        );
        let engine = engine();
        let (queue, home) = (Queue::new(&engine), Namespace::default());
        let (mut moved, never) = (Moved::default(), std::future::pending());
        let ran = migration.run((&queue, &home), days(7), false, &mut moved, never);
        let why = ran.await.expect_err("it would start here").to_string();
        assert!(why.contains("paused over there"), "{library}: {why}");
        assert_eq!(all_jobs(&engine).await.len(), 0, "{library}");
        let pause = punctual::engine::Control::Pause {
            queue: "into".into(),
        };
        let engine: Arc<dyn punctual::Engine> = engine;
        engine.control(&home, pause).await.expect("it pauses");
        assert_eq!(run(&migration, &queue).await.enqueued, 1, "{library}");
    }
}

#[tokio::test]
async fn a_job_of_active_job_has_the_class_that_runs() {
    let mut redis = Redis::start().await;
    let wrapper = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper";
    let item = format!(
        r#"{{"class":"{wrapper}","wrapped":"SendMail","args":[{{"job_class":"SendMail"}}],
        "jid":"x","queue":"mail","tags":["a"],"retry_for":3600}}"#
    );
    redis.run(&["LPUSH", "queue:mail", &item]).await;
    let (_, stays, jobs) = both(&mut redis, "sidekiq").await;
    assert_eq!(stays, [""; 0]);
    let job = &jobs[0];
    assert_eq!(job.kind, "SendMail");
    assert_eq!(&job.payload[..], br#"[{"job_class":"SendMail"}]"#);
    for (name, value) in [
        ("sidekiq-class", wrapper),
        ("sidekiq-tags", r#"["a"]"#),
        ("sidekiq-retry_for", "3600"),
    ] {
        assert_eq!(header(job, name), value);
    }
}

#[tokio::test]
async fn options_of_sidekiq_that_do_not_fit_keep_a_job_there() {
    let long = "x".repeat(300);
    for (field, why) in [
        (
            r#""lock":"until_executed""#.to_owned(),
            "a lock of a plugin",
        ),
        (r#""unique_for":60"#.to_owned(), "a lock of a plugin"),
        (format!(r#""cattr":"{long}""#), "does not fit into a header"),
        (r#""a b":1"#.to_owned(), "does not fit into a header"),
    ] {
        let mut redis = Redis::start().await;
        let item = format!(r#"{{"class":"A","args":[],"jid":"x","queue":"mail",{field}}}"#);
        redis.run(&["LPUSH", "queue:mail", &item]).await;
        let (planned, stays, jobs) = both(&mut redis, "sidekiq").await;
        assert!(planned[0].contains(why), "{planned:?}");
        assert_eq!((planned, jobs.len()), (stays, 0));
    }
}

/// Celery writes no creation, and others may lack it: such a job counts from its taking.
#[tokio::test]
async fn a_job_without_a_creation_is_due_when_it_is_taken() {
    let mut redis = Redis::start().await;
    load(&mut redis, CELERY).await;
    let item = r#"{"class":"A","args":[],"jid":"x","queue":"mail"}"#;
    redis.run(&["LPUSH", "queue:mail", item]).await;
    for (library, name) in [("celery", "celery"), ("sidekiq", "mail")] {
        let engine = Arc::new(MemoryEngine::new());
        let before = Timestamp::from_millis(
            punctual::time::Clock::now(&punctual::time::SystemClock).as_millis(),
        );
        run(&migration(&redis, library, name), &Queue::new(&engine)).await;
        let jobs = all_jobs(&engine).await;
        assert!(!jobs.is_empty(), "{library}");
        for job in jobs {
            assert!(
                job.enqueued_at >= before && job.due >= before,
                "{library}: {job:?}"
            );
        }
    }
}

#[tokio::test]
async fn two_entries_of_one_jid_are_two_jobs_also_after_a_kill() {
    let item = |n| format!(r#"{{"class":"A","args":[{n}],"jid":"x","queue":"mail"}}"#);
    for polls in 1.. {
        let mut redis = Redis::start().await;
        redis
            .run(&["LPUSH", "queue:mail", &item(1), &item(2)])
            .await;
        redis
            .run(&["ZADD", "retry", "1", &item(3), "2", &item(4)])
            .await;
        let before = snapshot(&mut redis).await;
        let engine = engine();
        let (migration, into) = (migration(&redis, "sidekiq", "mail"), Queue::new(&engine));
        let home = Namespace::default();
        let (mut moved, never) = (Moved::default(), std::future::pending());
        let running = migration.run((&into, &home), days(7), false, &mut moved, never);
        let is_over = killed_after(polls, running).await.is_some();
        unlock(&mut redis, "sidekiq", "mail").await;
        run(&migration, &into).await;
        let mut payloads: Vec<_> = all_jobs(&engine).await;
        payloads.sort_by_key(|job| job.payload.clone());
        let payloads: Vec<&[u8]> = payloads.iter().map(|job| &job.payload[..]).collect();
        assert_eq!(payloads, [b"[1]", b"[2]", b"[3]", b"[4]"], "{polls}");
        let undone = migration.undo(&into, &home).await.expect("it runs");
        assert_eq!((undone.returned, undone.conflicts), (4, 0));
        assert!(snapshot(&mut redis).await == before, "{polls}");
        if is_over {
            break;
        }
    }
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_named_with_those_that_are() {
    let mut redis = Redis::start().await;
    for dump in [BULLMQ, SIDEKIQ, CELERY, RQ] {
        load(&mut redis, dump).await;
    }
    for (library, there) in [
        ("bullmq", "mail"),
        ("sidekiq", "mail, other"),
        ("celery", "celery"),
        ("rq", "mail"),
    ] {
        let migration = migration(&redis, library, "mial");
        let engine = engine();
        let (queue, home) = (Queue::new(&engine), Namespace::default());
        let (mut moved, never) = (Moved::default(), std::future::pending());
        let ran = migration.run((&queue, &home), days(7), true, &mut moved, never);
        for error in [
            migration.plan().await.expect_err("it is mistyped"),
            ran.await.expect_err("it is mistyped"),
            migration.undo(&queue, &home).await.expect_err("none ran"),
        ] {
            assert_eq!(error.kind(), punctual::ErrorKind::NotFound, "{error}");
            let text = error.to_string();
            let is_undo = text.contains("no migration of the queue has run");
            assert!(
                is_undo || text.contains(&format!("queues there: {there}")),
                "{text}"
            );
        }
        let left: Vec<String> = ask(&mut redis, &["KEYS", "punctual:*"]).await;
        assert_eq!(left, [""; 0], "{library}");
    }
    // One that is empty by now is there.
    redis
        .run(&["DEL", "queue:mail", "schedule", "retry", "dead"])
        .await;
    let plan = migration(&redis, "sidekiq", "mail").plan().await;
    assert!(plan.expect("it is known").takes.is_empty());
}

/// A server at `maxmemory` can be emptied.
#[tokio::test]
async fn a_server_without_memory_is_migrated() {
    let mut redis = Redis::start().await;
    load(&mut redis, BULLMQ).await;
    let before = snapshot(&mut redis).await;
    redis.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "bullmq", "mail"), Queue::new(&engine));
    assert_eq!(run(&migration, &into).await.enqueued, 9);
    let undone = migration.undo(&into, &Namespace::default()).await;
    assert_eq!(undone.expect("it runs").returned, 9);
    assert!(snapshot(&mut redis).await == before);
}
