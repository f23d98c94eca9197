//! Packed calls by hand: whatever a field holds, the call is refused, or what it asks for works.

use std::iter;
use std::time::Duration;

use punctual::engine::{
    Action, Claim, ClaimMode, Edit, EnqueueVerdict, Filter, LeaseReport, Select, Settle,
    SettleVerdict, Settlement, StatsRequest, WorkerId,
};
use punctual::job::CLAIM_BYTES_MAX;
use punctual::time::minutes;
use punctual::{Engine, Namespace, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{Claimed, QUEUE, all_records, claim_as, connect, drain, here};
use crate::hand::raw;
use crate::packer::{
    ANY, base_of, bundle, call, claim_of, enqueue, every_option, front, good_calls, history, map,
    one_job, packed_job, step, uniform,
};

/// Whatever was stored is run and settled, every look at it is answered, and nothing is left that
/// keeps workers awake.
async fn works(engine: &RedisEngine, namespace: &Namespace, what: &str) {
    let queues = engine
        .stats(namespace, StatsRequest::default().history(true).due(true))
        .await;
    let queues = queues
        .unwrap_or_else(|error| panic!("{what}: stats: {error}"))
        .queues;
    for queue in &queues {
        let queue = queue.queue.clone();
        let resumed = engine
            .control(namespace, punctual::engine::Control::Resume { queue })
            .await;
        resumed.unwrap_or_else(|error| panic!("{what}: resume: {error}"));
    }
    for _ in 0..3 {
        let select = Select::Filter {
            filter: Filter::default(),
            cursor: None,
            limit: 100,
        };
        let edit = Edit::new(select, Action::RunNow);
        let edited = engine.edit(namespace, edit).await;
        edited.unwrap_or_else(|error| panic!("{what}: edit: {error}"));
        for queue in &queues {
            for mode in [ClaimMode::Shared, ClaimMode::Alone] {
                let claim = Claim::new(WorkerId::random(), queue.queue.clone(), 10).mode(mode);
                let claimed = engine.claim(namespace, claim).await;
                let claimed = claimed.unwrap_or_else(|error| panic!("{what}: claim: {error}"));
                for lease in claimed.leases {
                    let end = |job: &punctual::JobRecord| {
                        Settlement::new(job.id, job.attempt, Outcome::Completed)
                    };
                    let leases = vec![LeaseReport::new(
                        lease.token,
                        lease.jobs.iter().map(end).collect(),
                    )];
                    let settled = engine.settle(namespace, Settle::new(leases)).await;
                    let settled = settled.unwrap_or_else(|error| panic!("{what}: settle: {error}"));
                    let good = |it: &SettleVerdict| matches!(it, SettleVerdict::Settled { .. });
                    assert!(
                        settled.verdicts.concat().iter().all(good),
                        "{what}: {settled:?}"
                    );
                }
            }
        }
    }
    for queue in &queues {
        let claim = Claim::new(WorkerId::random(), queue.queue.clone(), 10);
        let claimed = engine.claim(namespace, claim).await.expect("claim");
        assert!(
            claimed.wake_at.is_none_or(|at| at > claimed.now),
            "{what}: workers spin: {claimed:?}"
        );
    }
    let left = engine
        .stats(namespace, StatsRequest::default())
        .await
        .expect("stats");
    for queue in left.queues {
        let open = queue.counts.pending() + queue.counts.of(punctual::JobState::Active);
        assert_eq!(open, 0, "{what}: {queue:?}");
    }
}

/// The same in words, many times as fast: of the thousands that are tried, few are looked at as the
/// engine does it.
fn works_in_words(server: &TestServer, namespace: &Namespace, what: &str) {
    let base = base_of(namespace);
    let said = |function: &str, words: &[&[u8]]| {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        let said = call(server, &base, function, &words);
        assert!(!said.starts_with('-'), "{what}: {function}: {said}");
        said
    };
    let read = |function: &str, words: &[&[u8]]| -> serde_json::Value {
        serde_json::from_str(said(function, words)[1..].trim_end()).expect("one line of JSON")
    };
    let queues = read("stats", &[])["queues"].clone();
    let queues: Vec<&str> = queues
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|it| it["queue"].as_str())
        .collect();
    for queue in &queues {
        let name = [&[0xd9, queue.len() as u8][..], queue.as_bytes()].concat();
        said(
            "control",
            &[&[&ANY[..], &map(&[("c", &[1]), ("q", &name)])].concat()],
        );
    }
    for _ in 0..3 {
        let run_now = map(&[("f", &map(&[])), ("a", &[2]), ("li", &[50])]);
        said("edit", &[&[&ANY[..], &run_now].concat()]);
        for queue in &queues {
            for more in [&[][..], &[b"ALONE".as_slice()]] {
                let words = [&[queue.as_bytes(), b"LIMIT", b"10"][..], more].concat();
                let lease = read("claim", &words);
                let token = lease["token"].as_str().unwrap_or_default();
                for job in lease["jobs"].as_array().into_iter().flatten() {
                    let id = job["id"].as_str().expect("an id");
                    let settled = read("settle", &[token.as_bytes(), id.as_bytes(), b"completed"]);
                    assert_eq!(settled["jobs"][0]["verdict"], "settled", "{what}");
                }
            }
        }
    }
    for queue in &queues {
        let lease = read("claim", &[queue.as_bytes()]);
        assert_ne!(lease["wake_in_ms"], 0, "{what}: workers spin: {lease}");
    }
    for queue in read("stats", &[])["queues"]
        .as_array()
        .into_iter()
        .flatten()
    {
        for state in ["held", "scheduled", "ready", "active"] {
            assert_eq!(queue[state], 0, "{what}: {queue}");
        }
    }
}

/// Values that a byte may have instead: those beside the bounds, its neighbours, and none of the
/// good ones.
fn others(byte: u8) -> Vec<u8> {
    let mut out = vec![0, 10, 128, 255, byte.wrapping_add(1)];
    out.sort_unstable();
    out.dedup();
    out.retain(|it| *it != byte);
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seventh_byte_of_a_packed_call_is_refused_or_works() {
    wrong_bytes_are_refused_or_work(7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_byte_of_a_packed_call_is_refused_or_works_on_more_seeds() {
    wrong_bytes_are_refused_or_work(1).await;
}

async fn wrong_bytes_are_refused_or_work(step: usize) {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let (mut refused, mut taken) = (0, 0);
    let calls = good_calls();
    for (nth, (function, arguments)) in calls.iter().enumerate() {
        let namespace = Namespace::new(format!("good{nth}")).expect("a good name");
        let is_read = ["list", "edit"].contains(function);
        let fill = |namespace: &Namespace| {
            // What reads a job's fields needs a job: one that has failed before.
            if is_read {
                let job = one_job(&history(), 3);
                call(&server, &base_of(namespace), "enqueue", &[job]);
            }
        };
        fill(&namespace);
        let said = call(&server, &base_of(&namespace), function, arguments);
        assert!(!said.starts_with('-'), "{nth} {function}: {said}");
        works(&engine, &namespace, function).await;
        for (part, bytes) in arguments.iter().enumerate() {
            // The instance is of no server here: another one is refused as data that is gone.
            let from = if part == 0 { 8 } else { nth % step };
            for at in (from..bytes.len()).step_by(step) {
                for other in others(bytes[at]) {
                    let mut wrong = arguments.clone();
                    wrong[part][at] = other;
                    let what = format!("{function} {nth}: argument {part}, byte {at} is {other}");
                    let namespace =
                        Namespace::new(format!("n{nth}-{part}-{at}-{other}")).expect("a good name");
                    fill(&namespace);
                    let said = call(&server, &base_of(&namespace), function, &wrong);
                    if said.starts_with('-') {
                        refused += 1;
                        assert!(said.starts_with("-PUNCTUAL "), "{what}: {said}");
                        let records = all_records(&base_of(&namespace));
                        let records = records.iter().map(String::as_bytes);
                        let words: Vec<_> = iter::once(&b"EXISTS"[..]).chain(records).collect();
                        let has_some = raw(server.port(), &words) != b":0\r\n";
                        assert_eq!(has_some, is_read, "{what}: {said}");
                    } else if ["enqueue", "claim", "control"].contains(function) {
                        taken += 1;
                        if taken % 32 == 0 {
                            works(&engine, &namespace, &what).await;
                        } else {
                            works_in_words(&server, &namespace, &what);
                        }
                    }
                }
            }
        }
    }
    assert!(
        refused > 1_000 / step && taken > 1_000 / step,
        "{refused} refused, {taken} taken"
    );
}

/// Else it would have none, or one, whatever it holds: it would be busy for ever, or free for ever.
#[tokio::test]
async fn a_worker_that_names_no_slots_has_as_many_as_it_claimed() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let queues: &[u8] = b"\x91\xa6orders";
    for (limit, record) in [
        (7, map(&[("h", b"\xa1h"), ("q", queues)])),
        (5, map(&[("s", &[0]), ("q", queues)])),
        (3, b"no map".to_vec()),
        (2, Vec::new()),
    ] {
        let claim = claim_of(limit, &record);
        let said = call(&server, &base_of(&here()), "claim", &[claim]);
        assert!(!said.starts_with('-'), "{limit}: {said}");
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        let workers = stats.expect("stats").workers;
        let by_hand = WorkerId(u128::from_be_bytes([1; 16]));
        let seen = workers.iter().find(|seen| seen.worker.id == by_hand);
        let slots = seen.expect("it was seen").worker.slots;
        assert_eq!(slots, u32::from(limit), "{record:?}");
    }
}

/// Whatever a claim asks for, in either form: of plain jobs, which are counted in chunks, and of
/// others.
#[tokio::test]
async fn a_claim_by_hand_returns_at_most_four_mebibytes() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let payload = 64 << 10;
    for retention in [Duration::ZERO, minutes(1)] {
        let large = |_| NewJob::new(QUEUE, vec![b'.'; payload]).retention(retention);
        for _ in 0..4 {
            let sent = engine.enqueue(&here(), (0..24).map(large).collect()).await;
            sent.expect("enqueue");
        }
        let mut claim = [&ANY[..], &[1; 24], &10_000_000_u64.to_be_bytes()].concat();
        claim[8] = u8::from(retention.is_zero());
        claim.extend(200_u16.to_be_bytes());
        claim.extend([0xff; 4]);
        claim.extend([0, 1, QUEUE.len() as u8]);
        claim.extend(QUEUE.bytes());
        claim.extend(map(&[]));
        let said = call(&server, &base_of(&here()), "claim", &[claim]);
        let bytes: usize = said[1..].trim_end().parse().expect("the length of a reply");
        let most = CLAIM_BYTES_MAX + 64 * 200;
        assert!((most * 9 / 10..most).contains(&bytes), "{bytes} of {most}");
        assert_eq!(drain(&engine).await.len(), 96 - bytes / payload);
    }
}

/// Each call of this kind once carried a priority that no lane has: its queue never came to rest.
#[tokio::test]
async fn a_priority_of_10_to_255_is_refused_in_every_form() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let base = base_of(&here());
    for priority in 10..=255 {
        let mut front = front(0, "mail", &[]);
        front[0] = priority;
        let mut head_and_job = uniform(1, &[]);
        head_and_job[20] = priority;
        let at = head_and_job.len() - (front.len() + 2);
        head_and_job[at] = priority;
        let mut bundle = bundle();
        (bundle[0][20], bundle[2][12]) = (priority, priority);
        let one = enqueue(&[packed_job(1, &front, b"{}")]);
        for call_ in [vec![one], vec![head_and_job], bundle.to_vec()] {
            let said = call(&server, &base, "enqueue", &call_);
            assert!(
                said.starts_with("-PUNCTUAL invalid_input priority"),
                "{said}"
            );
        }
    }
    works(&engine, &here(), "nothing").await;
}

#[tokio::test]
async fn each_step_of_a_call_has_its_name_checked() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let base = base_of(&here());
    for bad in [b"s ".as_slice(), b"\xff1", b"s\0"] {
        let jobs = [step(1, b"s1"), step(2, b"s2"), step(3, bad)];
        let said = call(&server, &base, "enqueue", &[enqueue(&jobs)]);
        assert!(said.starts_with("-PUNCTUAL invalid_name step"), "{said}");
    }
    let jobs = [step(1, b"s1"), step(2, b"s2"), step(3, b"s3")];
    let said = call(&server, &base, "enqueue", &[enqueue(&jobs)]);
    assert!(!said.starts_with('-'), "{said}");
    works(&engine, &here(), "nothing").await;
}

/// Jobs that differ in one value are read in a loop of their own: it checks each value.
#[tokio::test]
async fn each_value_of_jobs_that_are_alike_is_checked() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let base = base_of(&here());
    let jobs_of = |name: &str, last: &[u8]| {
        let good: &[u8] = match name {
            "ex" => &[0xa8, 0, 6, 0x7f, 0, 0, 0, 0, 0],
            _ => b"\xa3key",
        };
        let job = |(id, value): (u128, &[u8])| {
            packed_job(id, &front(3, "mail", &map(&[(name, value)])), b"{}")
        };
        let values = [good, good, good, last];
        let numbered = (1..).zip(values);
        enqueue(&numbered.map(job).collect::<Vec<_>>())
    };
    for (name, bad) in [
        ("ex", b"\xa8\xff\xff\xff\xff\xff\xff\xff\xff".as_slice()),
        ("ex", &[0xa8, 3, 0x90, 0, 0, 0, 0, 0, 0]),
        ("u", b"\xa3k\xffy"),
        ("g", b"\xa3k\xffy"),
        ("sh", b"\xa3k\xffy"),
    ] {
        let said = call(&server, &base, "enqueue", &[jobs_of(name, bad)]);
        assert!(
            said.starts_with("-PUNCTUAL invalid_"),
            "{name} {bad:?}: {said}"
        );
    }
    works(&engine, &here(), "nothing").await;
}

#[tokio::test]
async fn too_many_jobs_of_one_call_are_refused_before_anything_is_written() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    drain(&engine).await;
    let base = base_of(&here());
    let calls = |count: u16| -> Vec<Vec<u8>> {
        let jobs = |of: u16| (0..1_000_u128).map(move |nth| u128::from(of) * 1_000 + nth + 1);
        let job = |id| packed_job(id, &front(0, "mail", &[]), b"{}");
        (0..count)
            .map(|of| enqueue(&jobs(of).map(job).collect::<Vec<_>>()))
            .collect()
    };
    let digest = server.cli(&["DEBUG", "DIGEST"]);
    for (function, arguments) in [
        ("enqueues", calls(11)),
        ("enqueue", vec![uniform(10_001, &[])]),
        (
            "extend",
            vec![[&ANY[..], &[0xff, 0xff], &[7; 2_000]].concat()],
        ),
        (
            "settle",
            vec![
                [
                    &ANY[..],
                    &[0, 1],
                    &[7; 16],
                    &[0, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff],
                    &[8; 1 << 20],
                ]
                .concat(),
            ],
        ),
        (
            "edit",
            vec![
                [
                    &ANY[..],
                    b"\x82\xa1a\0\xa1t\xdc\x27\x11",
                    &b"\x91\xa1x".repeat(10_001),
                ]
                .concat(),
            ],
        ),
    ] {
        let said = call(&server, &base, function, &arguments);
        assert!(
            said.starts_with("-PUNCTUAL batch_too_large"),
            "{function}: {said}"
        );
        assert_eq!(server.cli(&["DEBUG", "DIGEST"]), digest, "{function}");
    }
    let said = call(&server, &base, "enqueues", &calls(10));
    assert!(said.starts_with('*'), "{said}");
    assert_eq!(drain(&engine).await.len(), 10_000);
}

/// Tombstones of jobs that completed together have numbers that nothing else counts.
#[tokio::test]
async fn a_settled_job_is_known_whatever_was_settled_beside_it() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let plain = |queue: &str| (0..8).map(|_| NewJob::new(queue, "{}")).collect::<Vec<_>>();
    let (first, last) = (plain("first"), plain("last"));
    let grouped =
        (0..510).map(|nth| NewJob::new("grouped", "{}").group(format!("group {}", nth % 255)));
    let all = [first.clone(), grouped.collect(), last.clone()].concat();
    engine.enqueue(&here(), all).await.expect("enqueue");
    let mut leases: Vec<Claimed> = Vec::new();
    for queue in ["first", "grouped", "last"] {
        loop {
            let wants = Claim::new(WorkerId::random(), queue, 200);
            let claimed = claim_as(&engine, wants).await.expect("claim");
            if claimed.is_empty() {
                break;
            }
            leases.extend(claimed);
        }
    }
    let reports = leases
        .iter()
        .flat_map(|lease| lease.ends(Outcome::Completed).leases);
    let settle = Settle::new(reports.collect());
    let settled = engine.settle(&here(), settle).await.expect("settle");
    assert_eq!(settled.verdicts.concat().len(), 271);
    for jobs in [first, last] {
        let again = engine.enqueue(&here(), jobs).await.expect("enqueue");
        let verdicts = again.receipts.iter().map(|receipt| receipt.verdict);
        assert!(
            verdicts.clone().all(|it| it == EnqueueVerdict::Duplicate),
            "{:?}",
            verdicts.collect::<Vec<_>>()
        );
    }
}

/// A user without one of the rights is refused before the first write, whatever form a call has.
#[tokio::test]
async fn a_user_without_all_rights_writes_nothing() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    engine.maintain().await.expect("maintain");
    drain(&engine).await;
    let base = base_of(&here());
    let one = enqueue(&[packed_job(1, &front(0, "mail", &[]), b"{}")]);
    let examined = enqueue(&[packed_job(1, &front(3, "mail", &every_option()), b"{}")]);
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    let id = "00000000-0000-0000-0000-000000000001";
    for denied in ["hset", "rpush", "zadd"] {
        server.cli(&[
            "ACL",
            "SETUSER",
            "some",
            "reset",
            "on",
            "nopass",
            "~*",
            "+@all",
            &format!("-{denied}"),
        ]);
        for (function, arguments) in [
            ("enqueue", vec![one.clone()]),
            ("enqueues", vec![one.clone()]),
            ("enqueue", vec![examined.clone()]),
            ("enqueue", bundle().to_vec()),
            ("push", words(&[QUEUE, "{}", "ID", id])),
            ("push", words(&[QUEUE, "{}", "ID", id, "UNIQUE", "key"])),
        ] {
            let digest = server.cli(&["DEBUG", "DIGEST"]);
            let name = format!("punctual_1_{function}");
            let mut parts: Vec<&[u8]> = vec![b"FCALL", name.as_bytes(), b"1", base.as_bytes()];
            parts.extend(arguments.iter().map(Vec::as_slice));
            let said = as_user(&server, "some", &parts);
            assert!(
                said.contains("NOPERM"),
                "{function} without {denied}: {said}"
            );
            assert_eq!(
                server.cli(&["DEBUG", "DIGEST"]),
                digest,
                "{function} without {denied}"
            );
        }
    }
    let said = call(&server, &base, "enqueue", &[one]);
    assert!(said.starts_with('$'), "{said}");
    assert_eq!(drain(&engine).await.len(), 1);
}

/// What a user is answered, on a connection of his own.
fn as_user(server: &TestServer, user: &str, parts: &[&[u8]]) -> String {
    use std::io::{BufRead, BufReader, Write};
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    let login: [&[u8]; 3] = [b"AUTH", user.as_bytes(), b""];
    for words in [&login[..], parts] {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        stream.write_all(&command).expect("it reads");
    }
    let mut lines = BufReader::new(&stream).split(b'\n');
    let login = lines.next().expect("it answers").expect("a line");
    assert!(
        login.starts_with(b"+OK"),
        "{}",
        String::from_utf8_lossy(&login)
    );
    // Of calls that leave together: a line each, of how they went and of the refusal.
    let mut said = String::new();
    for _ in 0..6 {
        let line = lines.next().expect("it answers").expect("a line");
        said.push_str(&String::from_utf8_lossy(&line));
        if said.starts_with('-')
            || said.starts_with('+')
            || said.contains("-NOPERM")
            || said.contains("-PUNCTUAL")
        {
            break;
        }
    }
    said
}
