//! A record that is lost takes nothing with it: its unique key, its group, and its place in every
//! index heal.

use serde_json::Value;

use crate::client::records_of;
use crate::hand::{Hand, SHARD, text};

const QUEUE: &str = "orders";

/// Deletes a job's record, as a person may by mistake.
fn lose(hand: &Hand, id: &str) {
    let script = "local id = ARGV[1]:gsub('-', ''):gsub('%x%x', function(x) return string.char(tonumber(x, 16)) end)
        return redis.call('HDEL', KEYS[1], id)";
    let records = records_of(SHARD, id.parse().expect("an id"));
    let gone = hand.server.cli(&["EVAL", script, "1", &records, id]);
    assert_eq!(gone, "1", "{id} is there");
}

/// Every lease is over now.
fn leases_end(hand: &Hand) {
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
}

/// What is to be healed is, however many steps that takes.
async fn maintained(hand: &Hand) {
    use punctual::Engine;
    for _ in 0..30 {
        hand.engine.maintain().await.expect("maintain");
    }
    let walk = hand.server.cli(&["HGET", &format!("{SHARD}:s"), "h"]);
    assert_eq!(walk, "", "the walk has come to its end");
}

fn push(hand: &Hand, more: &[&str]) -> String {
    let words = [&[QUEUE, "{}"], more].concat();
    let pushed = hand.call("push", &words);
    assert_eq!(text(&pushed, "verdict"), "created", "{pushed}");
    text(&pushed, "id").to_owned()
}

fn claimed(hand: &Hand) -> (Value, Vec<String>) {
    let lease = hand.call("claim", &[QUEUE, "LIMIT", "10"]);
    let jobs = lease["jobs"].as_array().expect("a list");
    let ids = jobs.iter().map(|job| text(job, "id").to_owned()).collect();
    (lease, ids)
}

fn count(hand: &Hand, state: &str) -> u64 {
    let stats = hand.call("stats", &[QUEUE]);
    stats["queues"][0][state].as_u64().expect("a number")
}

#[tokio::test]
async fn a_lost_job_frees_its_unique_key() {
    let hand = Hand::new().await;
    for more in [&[][..], &["DELAY", "3600000"], &["WAIT_FOR", "paid"]] {
        let first = push(&hand, &[&["UNIQUE", "key"], more].concat());
        lose(&hand, &first);
        let second = push(&hand, &["UNIQUE", "key", "POLICY", "replace"]);
        let (lease, ids) = claimed(&hand);
        assert_eq!(ids, std::slice::from_ref(&second), "{more:?}");
        hand.call("settle", &[text(&lease, "token"), &second, "completed"]);
    }
}

#[tokio::test]
async fn the_follower_of_a_lost_job_starts() {
    let hand = Hand::new().await;
    let first = push(&hand, &["UNIQUE", "key"]);
    assert_eq!(claimed(&hand).1, std::slice::from_ref(&first));
    let follower = push(&hand, &["UNIQUE", "key", "POLICY", "after"]);
    lose(&hand, &first);
    leases_end(&hand);
    maintained(&hand).await;
    assert_eq!(claimed(&hand).1, [follower]);
    assert_eq!(count(&hand, "active"), 1);
}

#[tokio::test]
async fn a_lost_job_gives_its_place_at_the_head_of_its_group() {
    let hand = Hand::new().await;
    let ids: Vec<String> = (0..5).map(|_| push(&hand, &["GROUP", "ann"])).collect();
    // It waits.
    lose(&hand, &ids[0]);
    assert_eq!(claimed(&hand).1, [ids[1].clone()]);
    // It runs.
    lose(&hand, &ids[1]);
    leases_end(&hand);
    maintained(&hand).await;
    let (lease, next) = claimed(&hand);
    assert_eq!(next, [ids[2].clone()]);
    // It holds its group until its retry.
    let words = [text(&lease, "token"), &ids[2], "retry", "AFTER", "1"];
    hand.call("settle", &words);
    lose(&hand, &ids[2]);
    while count(&hand, "scheduled") > 0 {
        maintained(&hand).await;
    }
    maintained(&hand).await;
    let (lease, next) = claimed(&hand);
    assert_eq!(next, [ids[3].clone()]);
    hand.call("settle", &[text(&lease, "token"), &ids[3], "completed"]);
    let (lease, next) = claimed(&hand);
    assert_eq!(next, [ids[4].clone()]);
    hand.call("settle", &[text(&lease, "token"), &ids[4], "completed"]);
    maintained(&hand).await;
    for index in ["g", "gm", "l"] {
        let left = hand
            .server
            .cli(&["EXISTS", &format!("{SHARD}:{index}:{QUEUE}")]);
        assert_eq!(left, "0", "{index}");
    }
}

#[tokio::test]
async fn lost_jobs_that_are_held_or_kept_are_counted_no_more() {
    let hand = Hand::new().await;
    let held = push(&hand, &["WAIT_FOR", "paid", "UNIQUE", "key"]);
    let dead: Vec<String> = (0..3).map(|_| push(&hand, &[])).collect();
    let (lease, _) = claimed(&hand);
    for id in &dead {
        hand.call("settle", &[text(&lease, "token"), id, "dead"]);
    }
    lose(&hand, &held);
    lose(&hand, &dead[0]);
    lose(&hand, &dead[2]);
    // The key is where it is noticed.
    let freed = push(&hand, &["UNIQUE", "key"]);
    maintained(&hand).await;
    assert_eq!((count(&hand, "held"), count(&hand, "dead")), (0, 1));
    assert_eq!(claimed(&hand).1, [freed]);
}
