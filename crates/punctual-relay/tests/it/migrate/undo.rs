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
