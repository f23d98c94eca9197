//! Namespaces that are cut into shards: order, priority and bounds are each shard's own, the rest
//! of the law is as ever.

use punctual::conformance::{LAWS, first_broken};

use crate::harness::OnShards;

/// Laws of what does not look from one job to another.
const TOPICS: [&str; 7] = [
    "effects::",
    "enqueue::",
    "expiry::",
    "names::",
    "namespaces::",
    "retry::",
    "settle::",
];

/// One of these that looks at the bound of a queue, which is each shard's own.
const NOT: &str = "effects::an_effect_into_a_full_queue_is_taken";

#[test]
fn laws_of_single_jobs_hold_over_several_shards() {
    let of_topics = LAWS.iter().filter(|law| {
        let mut topics = TOPICS.iter();
        law.name != NOT && topics.any(|topic| law.name.starts_with(topic))
    });
    let broken = first_broken(of_topics, OnShards::default());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
}
