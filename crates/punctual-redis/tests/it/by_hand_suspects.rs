//! A worker by hand that knows nothing of suspects makes progress, and one that runs alone stays
//! alone.

use punctual::Engine;
use serde_json::Value;

use crate::hand::{Hand, SHARD, text};

/// Every lease is over now, and its jobs are back.
async fn leases_end(hand: &Hand) {
    let script = "local n = 0
        for _, q in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
          redis.call('ZADD', KEYS[1], 1, q)
          for _, key in ipairs({KEYS[1] .. 'o:' .. q, KEYS[1] .. 'w:' .. q}) do
            for _, it in ipairs(redis.call('ZRANGE', key, 0, -1)) do n = n + redis.call('ZADD', key, 'CH', 1, it) end
          end
        end
        return n";
    let ended = hand
        .server
        .cli(&["EVAL", script, "1", &format!("{SHARD}:e")]);
    assert_ne!(ended, "0", "there are leases");
    hand.engine.maintain().await.expect("maintain");
}

fn push(hand: &Hand) -> String {
    text(&hand.call("push", &["orders", "{}"]), "id").to_owned()
}

fn claim(hand: &Hand, more: &[&str]) -> (Value, Vec<String>) {
    let words = [&["orders", "LIMIT", "10"], more].concat();
    let lease = hand.call("claim", &words);
    let jobs = lease["jobs"].as_array().expect("a list");
    let ids = jobs.iter().map(|job| text(job, "id").to_owned()).collect();
    (lease, ids)
}

fn completes(hand: &Hand, lease: &Value, id: &str) {
    let settled = hand.call("settle", &[text(lease, "token"), id, "completed"]);
    assert_eq!(settled["jobs"][0]["verdict"], "settled", "{settled}");
}

/// A job that was in two leases that ran out.
async fn suspect(hand: &Hand) -> String {
    let id = push(hand);
    for _ in 0..2 {
        assert_eq!(claim(hand, &[]).1, std::slice::from_ref(&id));
        leases_end(hand).await;
    }
    id
}

#[tokio::test]
async fn a_worker_without_a_lease_gets_a_suspect_and_nothing_beside_it() {
    let hand = Hand::new().await;
    let (suspect, other) = (suspect(&hand).await, push(&hand));
    // Who shares its name with others may run something already.
    let (lease, ids) = claim(&hand, &[]);
    assert_eq!(ids, std::slice::from_ref(&other));
    assert_eq!(lease["suspects_wait"], true);
    hand.call("settle", &[text(&lease, "token"), &other, "released"]);
    let (alone, ids) = claim(&hand, &["WORKER", "ann"]);
    assert_eq!(
        ids,
        std::slice::from_ref(&suspect),
        "the suspect comes first"
    );
    assert_eq!(alone["alone"], true);
    let (nothing, ids) = claim(&hand, &["WORKER", "ann"]);
    assert!(ids.is_empty(), "{nothing}");
    assert_eq!(nothing["wake_at"], alone["lease_until"]);
    completes(&hand, &alone, &suspect);
    let (lease, ids) = claim(&hand, &["WORKER", "ann"]);
    assert_eq!(ids, std::slice::from_ref(&other));
    assert!(lease["alone"].is_null());
    completes(&hand, &lease, &other);
}

#[tokio::test]
async fn a_worker_with_a_lease_gets_no_suspect() {
    let hand = Hand::new().await;
    let (suspect, other) = (suspect(&hand).await, push(&hand));
    let (alone, _) = claim(&hand, &["WORKER", "ann"]);
    let (held, ids) = claim(&hand, &["WORKER", "bob"]);
    assert_eq!(ids, std::slice::from_ref(&other));
    hand.call("settle", &[text(&alone, "token"), &suspect, "released"]);
    let (lease, ids) = claim(&hand, &["WORKER", "bob"]);
    assert!(ids.is_empty() && lease["suspects_wait"] == true, "{lease}");
    completes(&hand, &held, &other);
    assert_eq!(
        claim(&hand, &["WORKER", "bob"]).1,
        std::slice::from_ref(&suspect)
    );
    // It counts as alone: one more crash is its last.
    leases_end(&hand).await;
    let state = hand.call("explain", &[&suspect])["state"].clone();
    assert_eq!(state, "dead");
}
