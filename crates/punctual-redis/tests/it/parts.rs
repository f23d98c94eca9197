//! Records are in 32 hashes by the time of their ids, so that each can move to another server.

use std::collections::BTreeSet;

use punctual::engine::{Action, Edit, EnqueueVerdict, List, ListBy, Select, Target};
use punctual::time::{hours, millis};
use punctual::{Due, Engine, JobId, Limits, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, all_records, claim, connect, drain, here, options, records_of};
use crate::hand::{SHARD, raw};

const PARTS: u64 = 32;

/// An id as if it was made in that half second.
fn id_of(part: u64) -> JobId {
    let mut id = *JobId::new().as_bytes();
    let millis = (1_790_000_000_000 / 512 / PARTS * PARTS + part) * 512 + 37 * (part % 11);
    id[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    JobId::from_bytes(id)
}

/// So many jobs, made one after the other over all parts.
fn over_time(count: u64, make: impl Fn(u64) -> NewJob) -> Vec<NewJob> {
    let job = |nth| {
        let mut job = make(nth);
        job.id = id_of(nth * PARTS / count);
        job
    };
    (0..count).map(job).collect()
}

fn plain(_: u64) -> NewJob {
    NewJob::new(QUEUE, "{}")
}

fn ids(jobs: &[NewJob]) -> BTreeSet<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// How many records each of the hashes has.
fn counts(server: &TestServer) -> Vec<u64> {
    let count = |key: &String| server.cli(&["--raw", "HLEN", key]).parse();
    let counts = all_records(SHARD).iter().map(count).collect();
    Result::expect(counts, "numbers")
}

async fn enqueues(engine: &RedisEngine, jobs: &[NewJob], verdict: EnqueueVerdict) {
    let sent = engine.enqueue(&here(), jobs.to_vec()).await;
    for receipt in sent.expect("enqueue").receipts {
        assert_eq!(receipt.verdict, verdict);
    }
}

/// Every job, page by page.
async fn listed(engine: &RedisEngine) -> Vec<JobId> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let list = List::new(ListBy::All).cursor(cursor).limit(70);
        let page = engine.list(&here(), list).await.expect("list");
        ids.extend(page.jobs.iter().map(|job| job.id));
        cursor = page.cursor;
        if cursor.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn each_hash_has_its_share_of_jobs_made_over_time() {
    let server = TestServer::start();
    let mut limits = Limits::default();
    limits.settled_window = millis(1);
    limits.cancelled_retention = millis(1);
    let engine = RedisEngine::connect(options(&server.address()).limits(limits)).await;
    let engine = engine.expect("it is there");
    let later = |job: NewJob| job.due(Due::After(hours(1)));
    let plain_later = over_time(320, |nth| later(plain(nth)));
    let keyed = over_time(320, |nth| plain(nth).unique(format!("key {nth}")));
    let bound = over_time(640, plain);
    let alone = over_time(64, plain);
    enqueues(&engine, &plain_later, EnqueueVerdict::Created).await;
    assert_eq!(counts(&server), [10; 32], "scheduled");
    enqueues(&engine, &keyed, EnqueueVerdict::Created).await;
    assert_eq!(counts(&server), [20; 32], "with keys");
    enqueues(&engine, &bound, EnqueueVerdict::Created).await;
    assert_eq!(counts(&server), [40; 32], "in bundles");
    for job in &alone {
        enqueues(&engine, std::slice::from_ref(job), EnqueueVerdict::Created).await;
    }
    assert_eq!(counts(&server), [42; 32], "one by one");
    for job in plain_later.iter().chain(&keyed).chain(&alone) {
        let there = raw(
            server.port(),
            &[
                b"HEXISTS",
                records_of(SHARD, job.id).as_bytes(),
                job.id.as_bytes(),
            ],
        );
        assert_eq!(there, b":1\r\n", "the id alone says where it is");
    }
    for jobs in [&plain_later, &keyed, &bound, &alone] {
        enqueues(&engine, jobs, EnqueueVerdict::Duplicate).await;
    }
    assert_eq!(counts(&server), [42; 32], "a resend adds nothing");
    let all: BTreeSet<JobId> = [&plain_later, &keyed, &bound, &alone]
        .into_iter()
        .flat_map(|jobs| ids(jobs))
        .collect();
    let found = listed(&engine).await;
    assert_eq!(found.len(), all.len(), "each is listed once");
    assert_eq!(BTreeSet::from_iter(found), all);
    let done = drain(&engine).await;
    assert_eq!(done.len(), 320 + 640 + 64, "each runs once");
    let cancel = Edit::new(
        Select::Targets(plain_later.iter().map(|job| Target::Id(job.id)).collect()),
        Action::Cancel,
    );
    assert_eq!(
        engine.edit(&here(), cancel).await.expect("edit").matched,
        320
    );
    while counts(&server) != [0; 32] {
        engine.maintain().await.expect("maintain");
    }
    let left = server.cli(&["--raw", "KEYS", "punctual:*:[bs][:dh]*"]);
    assert_eq!(left, "", "no hash is left of what is forgotten");
}

#[tokio::test]
async fn jobs_of_one_moment_are_in_one_hash() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut jobs = over_time(250, plain);
    jobs.iter_mut().for_each(|job| job.id = id_of(9));
    enqueues(&engine, &jobs, EnqueueVerdict::Created).await;
    let mut expected = [0; 32];
    expected[9] = 250;
    assert_eq!(counts(&server), expected);
}

/// Bytes that no dump makes smaller, the number in front.
fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes: Vec<u8> = number.to_be_bytes().into();
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_be_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[tokio::test]
async fn key_sizes_are_about_those_of_dumps() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let body = payload(0, 300);
    for from in (0..4_000_u64).step_by(500) {
        let jobs = (from..from + 500).map(|nth| {
            let mut job = NewJob::new(QUEUE, body.clone());
            job.id = id_of(3);
            match nth % 2 {
                0 => job.due(Due::After(hours(1))),
                // Within the five minutes that are in the window whatever the time of day.
                _ => job.due(Due::After(millis(200_000 + nth))),
            }
        });
        enqueues(&engine, &jobs.collect::<Vec<_>>(), EnqueueVerdict::Created).await;
    }
    let sizes = engine
        .key_sizes(&here(), &[QUEUE.into()])
        .await
        .expect("sizes");
    let keys: Vec<&str> = sizes.iter().map(|size| size.key.as_str()).collect();
    let window = format!("{SHARD}:n:{QUEUE}");
    assert_eq!(keys, [format!("{SHARD}:b:3"), window], "the largest first");
    for size in sizes {
        let script = "return #redis.call('DUMP', KEYS[1])";
        let dump = server.cli(&["--raw", "EVAL", script, "1", &size.key]);
        let dump: u64 = dump.parse().expect("a number");
        assert!(
            size.bytes >= dump * 9 / 10 && size.bytes <= dump * 3 / 2,
            "{size:?}, a dump of {dump}"
        );
    }
}

/// Moves every key to another server, one at a time as a cluster does.
fn moves(from: &TestServer, to: &TestServer) {
    let keys = from.cli(&["--raw", "KEYS", "*"]);
    for key in keys.lines() {
        let port = to.port().to_string();
        let words = [
            &b"MIGRATE"[..],
            b"127.0.0.1",
            port.as_bytes(),
            key.as_bytes(),
            b"0",
            b"60000",
        ];
        let moved = raw(from.port(), &words);
        assert_eq!(moved, b"+OK\r\n", "{key}: {}", moved.escape_ascii());
    }
}

/// Enqueues so many jobs over time at a server, moves them to another, and runs all of them there.
async fn run_after_a_move(count: u64, bytes: usize, a_call: usize) {
    let (from, to) = (TestServer::start(), TestServer::start());
    let engine = connect(&from.address()).await;
    let body = payload(0, bytes);
    let jobs = over_time(count, plain);
    for (call, jobs) in jobs.chunks(a_call).enumerate() {
        let fill = |(nth, job): (usize, &NewJob)| {
            let mut job = job.clone();
            let mut bytes = body.clone();
            bytes[..8].copy_from_slice(&((call * a_call + nth) as u64).to_be_bytes());
            job.payload = bytes.into();
            job
        };
        let jobs: Vec<NewJob> = jobs.iter().enumerate().map(fill).collect();
        enqueues(&engine, &jobs, EnqueueVerdict::Created).await;
    }
    for (part, records) in counts(&from).into_iter().enumerate() {
        assert_eq!(records, count / PARTS, "of part {part}");
    }
    moves(&from, &to);
    assert_eq!(from.cli(&["--raw", "DBSIZE"]), "0");
    let engine = connect(&to.address()).await;
    let mut seen = BTreeSet::new();
    while seen.len() < jobs.len() {
        let leases = claim(&engine, 1_000).await.expect("claim");
        assert!(!leases.is_empty(), "{} of {count} came", seen.len());
        for lease in leases {
            for job in &lease.jobs {
                let number = job.payload[..8].try_into().map(u64::from_be_bytes);
                assert!(seen.insert(number.expect("eight bytes")), "once");
                assert_eq!(job.payload.len(), bytes);
                assert_eq!(job.payload[8..], body[8..]);
            }
            assert!(lease.complete(&engine).await.expect("settle"));
        }
    }
}

#[tokio::test]
async fn a_shard_that_moved_key_by_key_runs_all_its_jobs() {
    run_after_a_move(640, 100, 320).await;
}

/// As one key it could not be moved: its dump is over 512 MB. Of the deep tier.
#[tokio::test]
async fn a_shard_of_a_gigabyte_moves_key_by_key() {
    run_after_a_move(16_000, 64 << 10, 16).await;
}
