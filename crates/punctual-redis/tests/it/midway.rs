//! Calls that end midway: what time had caused before that stands, and is counted.

use punctual::time::{Stopwatch, seconds};
use punctual::{ErrorKind, JobId};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, connect, enqueue, records_of};
use crate::hand::{Hand, SHARD, raw, text};
use crate::harness::{Place, UnderRules};

const TOKEN: &[u8] = b"00000000000000000000000000000000";
const ID: &[u8] = b"01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
/// Milliseconds that end beyond the year 9999.
const BEYOND: &[u8] = b"253402300799999";
const ANY_INSTANCE: [u8; 8] = [0; 8];

/// A job that has fallen due, which no sweep has noted yet; `more` words of its push.
fn fallen_due(hand: &Hand, more: &[&str]) -> String {
    let words = [&[QUEUE, "1", "DELAY", "1"], more].concat();
    let id = text(&hand.call("push", &words), "id").to_owned();
    let (pushed, began) = (micros(&hand.server), Stopwatch::start());
    while micros(&hand.server) <= pushed + 1_000 {
        assert!(began.elapsed() < seconds(5), "time goes on");
    }
    id
}

fn micros(server: &TestServer) -> u64 {
    let said = server.cli(&["TIME"]);
    let parts: Vec<u64> = said.split_whitespace().flat_map(str::parse).collect();
    parts[0] * 1_000_000 + parts[1]
}

/// Claims and completes by hand until nothing is there; the ids in order.
fn worked_off(hand: &Hand) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let lease = hand.call("claim", &[QUEUE, "LIMIT", "100"]);
        let jobs = lease["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        if jobs.is_empty() {
            return ids;
        }
        for job in jobs {
            let id = text(job, "id");
            hand.call("settle", &[text(&lease, "token"), id, "completed"]);
            ids.push(id.to_owned());
        }
    }
}

/// Packed calls of any instance that are good until their end is missing.
fn cut_short() -> Vec<(&'static str, Vec<u8>)> {
    let of = |parts: &[&[u8]]| [&ANY_INSTANCE[..], &parts.concat()].concat();
    vec![
        ("extend", of(&[&[0, 1], &[7; 10]])),
        ("settle", of(&[&[0, 1], &[7; 16], &[0, 0, 0, 0, 2, 0, 1]])),
        ("enqueue", of(&[&[0], &[0, 2], &[1; 60]])),
        ("watch", of(&[b"\x82\xa1t\xa1x\xa1p\x01"])),
        (
            "deliver",
            of(&[
                b"\x83\xa1f\xa1f\xa1t\xcf\0\x10\0\0\0\0\0\0\xa1e\x91\x93\xb0",
                &[9; 16],
                b"\x00\xb1",
                &[0; 17],
            ]),
        ),
        ("edit", of(&[b"\x82\xa1t\x91\x05\xa1a\x00"])),
    ]
}

#[tokio::test]
async fn what_was_due_before_a_call_that_is_refused_runs() {
    let hand = Hand::new().await;
    let mut refusals: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("settle", words(&[TOKEN, ID, b"retry", b"AFTER", BEYOND])),
        ("push", words(&[QUEUE.as_bytes(), b"1", b"DELAY", BEYOND])),
    ];
    refusals.extend(
        cut_short()
            .into_iter()
            .map(|(verb, call)| (verb, vec![call])),
    );
    for (verb, call) in &refusals {
        let due = fallen_due(&hand, &[]);
        let call: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
        let function = format!("punctual_1_{verb}");
        let head = [b"FCALL", function.as_bytes(), b"1", SHARD.as_bytes()];
        let said = raw(hand.server.port(), &[&head[..], &call].concat());
        assert!(
            said.starts_with(b"-"),
            "{verb} answered {}",
            said.escape_ascii()
        );
        assert_eq!(worked_off(&hand), [due], "after a refused {verb}");
        let next = fallen_due(&hand, &["UNIQUE", "k"]);
        assert_eq!(worked_off(&hand), [next], "later, after a refused {verb}");
    }
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

#[tokio::test]
async fn a_job_whose_record_was_deleted_stops_no_other() {
    let hand = Hand::new().await;
    for more in [&["UNIQUE", "k"][..], &[]] {
        let gone = fallen_due(&hand, more);
        let id: JobId = gone.parse().expect("an id");
        let deleted = raw(
            hand.server.port(),
            &[b"HDEL", records_of(SHARD, id).as_bytes(), id.as_bytes()],
        );
        assert_eq!(deleted, b":1\r\n", "it had a record");
        let due = fallen_due(&hand, &["GROUP", "g"]);
        assert_eq!(worked_off(&hand), [due], "beside one {more:?} that is gone");
        let counts = hand.call("stats", &[QUEUE])["queues"][0].clone();
        assert_eq!(
            (&counts["scheduled"], &counts["ready"]),
            (&0.into(), &0.into()),
            "{counts}"
        );
    }
}

#[tokio::test]
async fn beside_plain_jobs_too() {
    let hand = Hand::new().await;
    let both = [0, 1].map(|_| text(&hand.call("push", &[QUEUE, "1"]), "id").to_owned());
    let id: JobId = both[0].parse().expect("an id");
    raw(
        hand.server.port(),
        &[b"HDEL", records_of(SHARD, id).as_bytes(), id.as_bytes()],
    );
    assert_eq!(worked_off(&hand), both[1..]);
}

/// A key of the queue's list is another client's for a while.
#[tokio::test]
async fn a_sweep_that_broke_off_is_done_once_it_can_be() {
    let hand = Hand::new().await;
    let first = fallen_due(&hand, &[]);
    assert_eq!(worked_off(&hand), [first]);
    let due = fallen_due(&hand, &[]);
    let list = format!("{SHARD}:r:5:{QUEUE}");
    hand.server.cli(&["SET", &list, "mine"]);
    let refused = hand.refused(SHARD, "claim", &[QUEUE.as_bytes()]);
    assert!(refused.contains("data_damaged"), "{refused}");
    hand.server.cli(&["DEL", &list]);
    assert_eq!(worked_off(&hand), [due]);
}

#[tokio::test]
async fn missing_rights_are_reported_before_anything_is_written() {
    let place = UnderRules::and(&["-zremrangebyrank"]);
    let before = place.0.cli(&["DEBUG", "DIGEST"]);
    let engine = RedisEngine::connect(crate::client::options(&place.address())).await;
    let error = match engine {
        Ok(engine) => enqueue(&engine).await.expect_err("it may not"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let said = error.to_string();
    assert!(said.contains("ZREMRANGEBYRANK"), "{said}");
    assert!(said.contains("docs/engines/redis.md"), "{said}");
    assert_eq!(place.0.cli(&["DEBUG", "DIGEST"]), before);
    let whole = connect(&place.0.address()).await;
    enqueue(&whole).await.expect("others go on");
}
