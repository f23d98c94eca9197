//! The way back of a migration whose keys are used otherwise by now.

use super::*;

/// A job whose place holds something else stays here, whole, until the place is free again.
#[tokio::test]
async fn a_job_does_not_go_back_into_a_key_of_another_type() {
    for (library, dump, queue, key) in [
        ("bullmq", BULLMQ, "mail", "bull:mail:prioritized"),
        ("sidekiq", SIDEKIQ, "mail", "schedule"),
    ] {
        let mut redis = Redis::start().await;
        load(&mut redis, dump).await;
        let before = snapshot(&mut redis).await;
        let engine = engine();
        let (migration, into) = (migration(&redis, library, queue), Queue::new(&engine));
        let taken = run(&migration, &into).await.enqueued;
        let left: i64 = ask(&mut redis, &["EXISTS", key]).await;
        if left == 1 {
            redis.run(&["RENAME", key, "aside"]).await;
        }
        redis.run(&["SET", key, "x"]).await;
        let home = Namespace::default();
        let undo = || migration.undo(&into, &home);
        let first = undo().await.expect("it puts back the others");
        let names = |why: &String| why.contains(key) && why.contains("holds a string");
        let stay: u64 = first.stays.values().sum();
        assert!(stay > 0 && first.stays.keys().all(names), "{first:?}");
        assert_eq!(
            (first.returned + stay, first.conflicts),
            (taken, 0),
            "{first:?}"
        );
        let here = all_jobs(&engine).await;
        let pending = here.iter().filter(|job| job.state.is_pending());
        assert_eq!(pending.count() as u64, stay, "they wait here");
        redis.run(&["DEL", key]).await;
        if left == 1 {
            redis.run(&["RENAME", "aside", key]).await;
        }
        let second = undo().await.expect("it runs");
        assert_eq!(
            (second.returned, second.stays.len()),
            (stay, 0),
            "{second:?}"
        );
        assert_eq!(snapshot(&mut redis).await, before, "{library}");
    }
}

/// A job of BullMQ that producers may send once.
async fn held_by_a_key(redis: &mut Redis) {
    redis
        .run(&["HSET", "bull:k:meta", "version", "bullmq:5.81.5"])
        .await;
    redis
        .run(&[
            "HSET",
            "bull:k:1",
            "name",
            "pay",
            "data",
            "{}",
            "opts",
            "{}",
            "deid",
            "camp",
            "timestamp",
            "1795454266026",
        ])
        .await;
    redis.run(&["LPUSH", "bull:k:wait", "1"]).await;
    redis
        .run(&["SET", "bull:k:de:camp", "1", "PX", "600000"])
        .await;
}

/// Else it would swallow what producers send from now on.
#[tokio::test]
async fn a_deduplication_key_goes_with_its_job_and_comes_back() {
    let mut redis = Redis::start().await;
    held_by_a_key(&mut redis).await;
    let before = snapshot(&mut redis).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "bullmq", "k"), Queue::new(&engine));
    assert_eq!(run(&migration, &into).await.enqueued, 1);
    let held: i64 = ask(&mut redis, &["EXISTS", "bull:k:de:camp"]).await;
    assert_eq!(held, 0, "it is gone");
    let undone = migration.undo(&into, &Namespace::default()).await;
    assert_eq!(undone.expect("it runs").returned, 1);
    assert_eq!(snapshot(&mut redis).await, before);
    let left: i64 = ask(&mut redis, &["PTTL", "bull:k:de:camp"]).await;
    assert!((1..=600_000).contains(&left), "{left}");
}

/// It has had its effects: there it would have them again.
#[tokio::test]
async fn a_job_that_has_run_and_failed_here_does_not_go_back() {
    let mut redis = Redis::start().await;
    held_by_a_key(&mut redis).await;
    let tries = r#"{"attempts":3,"backoff":{"type":"fixed","delay":60000}}"#;
    redis.run(&["HSET", "bull:k:1", "opts", tries]).await;
    let engine = engine();
    let (migration, into) = (migration(&redis, "bullmq", "k"), Queue::new(&engine));
    assert_eq!(run(&migration, &into).await.enqueued, 1);
    let worker = punctual::Worker::new(&engine).queues(["into"]).handle_any(
        |_: JobRecord, _: punctual::Context| async {
            Err::<(), _>(punctual::Error::new(punctual::ErrorKind::Handler, "no"))
        },
    );
    let fails = worker.run_until_idle();
    fails.await.expect("it works");
    let undone = migration.undo(&into, &Namespace::default()).await;
    let undone = undone.expect("it runs");
    assert_eq!((undone.returned, undone.ran), (0, 1), "{undone:?}");
}

/// As a kill between a receipt and its note leaves it: put back, the job would run twice.
#[tokio::test]
async fn a_resume_into_another_queue_is_refused_and_puts_nothing_back() {
    let mut redis = Redis::start().await;
    held_by_a_key(&mut redis).await;
    let engine = engine();
    let (first, into) = (migration(&redis, "bullmq", "k"), Queue::new(&engine));
    assert_eq!(run(&first, &into).await.enqueued, 1);
    let unstored = "punctual:migrated:bullmq:k:unstored";
    redis.run(&["HSET", unstored, "1", "1"]).await;
    let address = format!("bullmq://127.0.0.1:{}/k", redis.server.port());
    let other = Migration::new(&address, "other").expect("an address");
    let (mut moved, never) = (Moved::default(), std::future::pending());
    let home = Namespace::default();
    let ran = other.run((&into, &home), days(7), false, &mut moved, never);
    let refused = ran.await;
    let refused = refused.expect_err("the engine has it").to_string();
    assert!(refused.contains("another queue"), "{refused}");
    let waiting: i64 = ask(&mut redis, &["EXISTS", "bull:k:wait"]).await;
    assert_eq!((waiting, all_jobs(&engine).await.len()), (0, 1));
    // The same migration again ends it.
    assert_eq!(run(&first, &into).await.duplicates, 1);
}

/// Cancelled nowhere, a job that went back would run in both places.
#[tokio::test]
async fn an_undo_or_a_run_at_another_engine_is_refused() {
    let mut redis = Redis::start().await;
    held_by_a_key(&mut redis).await;
    let first = engine();
    let (migration, into) = (migration(&redis, "bullmq", "k"), Queue::new(&first));
    assert_eq!(run(&migration, &into).await.enqueued, 1);
    let taken = snapshot(&mut redis).await;
    redis
        .run(&[
            "HSET", "bull:k:2", "name", "pay", "data", "{}", "opts", "{}",
        ])
        .await;
    redis.run(&["LPUSH", "bull:k:wait", "2"]).await;
    let home = Namespace::default();
    let other = Namespace::new("other").expect("a name");
    let another = Queue::new(engine());
    for (queue, namespace) in [(&another, &home), (&into, &other)] {
        let queue = queue.namespace(namespace.clone());
        let undone = migration.undo(&queue, namespace).await;
        let why = undone.expect_err("its jobs are elsewhere").to_string();
        assert!(why.contains("another engine or namespace"), "{why}");
        assert!(
            why.contains("the queue into of the namespace default"),
            "{why}"
        );
        let (mut moved, never) = (Moved::default(), std::future::pending());
        let ran = migration.run((&queue, namespace), days(7), false, &mut moved, never);
        let why = ran.await.expect_err("they are elsewhere").to_string();
        assert!(why.contains("another engine or namespace"), "{why}");
        assert_eq!(moved.enqueued, 0);
        unlock(&mut redis, "bullmq", "k").await;
    }
    redis.run(&["DEL", "bull:k:2", "bull:k:wait"]).await;
    assert_eq!(snapshot(&mut redis).await, taken, "nothing is touched");
    // Once all is back, the next run may go anywhere.
    let undone = migration.undo(&into, &home).await;
    assert_eq!(undone.expect("it runs").returned, 1);
    assert_eq!(run(&migration, &another).await.enqueued, 1);
}
