//! Namespaces that are cut into shards: order, priority and bounds are each shard's own, the rest
//! of the law is as ever.

use punctual::conformance::{LAWS, first_broken};

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
