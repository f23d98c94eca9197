//! Namespaces that are cut into shards: order, priority and bounds are each shard's own, the rest
//! of the law is as ever.

use punctual::Engine;
use punctual::conformance::{LAWS, first_broken};
use punctual::engine::StatsRequest;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, connect, here, job};
use crate::harness::OnShards;

/// Laws of what does not look from one job to another.
const TOPICS: [&str; 12] = [
    "effects::",
    "enqueue::",
    "expiry::",
    "guards::",
    "names::",
    "namespaces::",
    "retry::",
    "schedule_runs::",
    "schedules::",
    "settle::",
    "signals::",
    "topics::",
];

/// Those of them that look at bounds, of a queue and of a call, which are each shard's own.
const NOT: [&str; 4] = [
    "effects::an_effect_into_a_full_queue_is_taken",
    "schedule_runs::a_full_queue_takes_a_run",
    "expiry::a_claim_settles_some_of_many_expired_jobs",
    "guards::a_full_queue_refuses_one_guarded_job",
];

#[test]
fn laws_of_single_jobs_hold_over_several_shards() {
    let of_topics = LAWS.iter().filter(|law| {
        let mut topics = TOPICS.iter();
        !NOT.contains(&law.name) && topics.any(|topic| law.name.starts_with(topic))
    });
    let broken = first_broken(of_topics, OnShards::default());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
}

/// Each shard counts its own jobs of a share.
#[tokio::test]
async fn shares_of_several_shards_are_added_up() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    let of = |n: usize| job().share(["a", "a", "b", "c"][n % 4]);
    let jobs = (0..40).map(of).collect();
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    for (most, expected) in [
        (1, &[("a", 20)][..]),
        (9, &[("a", 20), ("b", 10), ("c", 10)]),
    ] {
        let request = StatsRequest::default()
            .queues(vec![QUEUE.into()])
            .shares(most);
        let mut stats = engine.stats(&here(), request).await.expect("stats");
        let mut shares = stats.queues.remove(0).shares;
        shares.sort_by(|a, b| a.share.cmp(&b.share));
        let ready: Vec<_> = shares.iter().map(|one| (&*one.share, one.ready)).collect();
        assert_eq!(ready, expected);
    }
}
