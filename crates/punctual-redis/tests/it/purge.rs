//! A purge cancels plain jobs together, whatever waits beside them.

use punctual::engine::{Control, Controlled, StatsRequest};
use punctual::time::{hours, minutes};
use punctual::{Due, Engine, JobState, NewJob, UniquePolicy};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, connect, drain, here, job};

/// Functions that were called since the server started.
fn calls(server: &TestServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_fcall:calls="));
    let count = line.and_then(|line| line.split(',').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn a_purge_takes_250_plain_jobs_a_call_and_leaves_nothing() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let delayed = |after| job().due(Due::After(after));
    let unique = |nth: usize| {
        job().unique_with(
            format!("key {nth}"),
            UniquePolicy::Keep,
            punctual::Hold::UntilSettled,
        )
    };
    let kept = |job: NewJob| {
        job.retention(hours(1))
            .headers(vec![("trace".into(), "1".into())])
    };
    let held = job().wait_for(["paid"]);
    let mut jobs = Vec::new();
    jobs.extend((0..2_000).map(|_| job()));
    jobs.extend((0..500).map(|_| delayed(minutes(10))));
    jobs.extend((0..500).map(|_| delayed(hours(200))));
    // As the command enqueues them.
    jobs.extend((0..1_000).map(|_| kept(job())));
    jobs.extend((0..500).map(|_| kept(delayed(minutes(10)))));
    jobs.extend((0..60).map(unique));
    jobs.push(held);
    let sent = jobs.len();
    for jobs in jobs.chunks(1_000) {
        engine
            .enqueue(&here(), jobs.to_vec())
            .await
            .expect("enqueue");
    }
    let before = calls(&server);
    let (mut cursor, mut cancelled) = (None, 0);
    loop {
        let control = Control::Purge {
            queue: QUEUE.into(),
            cursor,
            limit: 1_000,
        };
        let purged = engine.control(&here(), control).await.expect("purge");
        let Controlled::Purged {
            matched,
            cursor: next,
            ..
        } = purged
        else {
            panic!("{purged:?}");
        };
        cancelled += matched;
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(cancelled, sent);
    let took = calls(&server) - before;
    assert!(took <= 36, "{took} calls for {sent} jobs");
    let stats = engine.stats(&here(), StatsRequest::default()).await;
    let counts = stats.expect("stats").queues.remove(0).counts;
    assert_eq!(counts.pending(), 0);
    assert_eq!(counts.of(JobState::Cancelled), sent as u64);
    // The queue goes on, and a key is free again.
    let again = engine.enqueue(&here(), vec![unique(7), job()]).await;
    again.expect("enqueue");
    assert_eq!(drain(&engine).await.len(), 2);
}
