//! The verbs in words.

use punctual::engine::{Control, EnqueueVerdict, Target};
use punctual::time::{Timestamp, millis, seconds};
use punctual::{
    Due, Engine, Group, Hold, JobId, JobRecord, JobState, NewJob, OnRetry, Unique, UniquePolicy,
};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, here};
use crate::hand::{Hand, SHARD, bytes_of, text};

/// A job with every option that has a word, and those words.
fn job_in_words() -> (NewJob, Vec<String>) {
    let mut job = NewJob::new("mail", r#"{"to":"ann"}"#);
    job.kind = "mail.welcome".into();
    job.due = Due::At("2030-01-02T03:04:05.678Z".parse().expect("an instant"));
    job.priority = 2;
    job.unique = Some(
        Unique::new("ann: welcome é")
            .policy(UniquePolicy::After)
            .hold(Hold::For(millis(1_500))),
    );
    job.group = Some(Group::new("ann").on_retry(OnRetry::Pass));
    job.max_attempts = 7;
    job.max_crashes = Some(4);
    job.timeout = Some(seconds(9));
    job.expires_at = Some("2031-01-01T00:00:00Z".parse().expect("an instant"));
    job.retention = seconds(60);
    job.content_type = "text/plain".into();
    job.headers = vec![
        ("trace".into(), "a=b".into()),
        ("Traceparent".into(), String::new()),
    ];
    job.wait_for = vec!["upload".into(), "scan".into()];
    let ms = |at: Timestamp| (at.as_micros() / 1_000).to_string();
    let Due::At(due) = job.due else { panic!() };
    let words = [
        "mail",
        r#"{"to":"ann"}"#,
        "kind",
        "mail.welcome",
        "AT",
        &ms(due),
        "PRIORITY",
        "2",
        "UNIQUE",
        "ann: welcome é",
        "POLICY",
        "after",
        "HOLD",
        "1500",
        "GROUP",
        "ann",
        "ON_RETRY",
        "pass",
        "MAX_ATTEMPTS",
        "7",
        "MAX_CRASHES",
        "4",
        "TIMEOUT",
        "9000",
        "EXPIRES_AT",
        &ms(job.expires_at.expect("set")),
        "RETENTION",
        "60000",
        "CONTENT_TYPE",
        "text/plain",
        "HEADER",
        "trace=a=b",
        "HEADER",
        "Traceparent=",
        "WAIT_FOR",
        "upload",
        "WAIT_FOR",
        "scan",
        "WAIT_FOR",
        "upload",
        "ID",
        &job.id.to_string(),
    ];
    let words = words.map(ToString::to_string).to_vec();
    (job, words)
}

async fn record(hand: &Hand, id: JobId) -> JobRecord {
    let got = hand.engine.get(&here(), vec![Target::Id(id)], false).await;
    let got = got.expect("get").remove(0).expect("it is there");
    got.job().expect("not only a tombstone").clone()
}

async fn verdict(hand: &Hand, job: &NewJob) -> EnqueueVerdict {
    let sent = hand.engine.enqueue(&here(), vec![job.clone()]).await;
    sent.expect("enqueue").receipts[0].verdict
}

#[tokio::test]
async fn a_pushed_job_is_what_the_library_sends() {
    let hand = Hand::new().await;
    let (job, words) = job_in_words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let pushed = hand.call("push", &words);
    assert_eq!(pushed["verdict"], "created", "{pushed}");
    let pushed = record(&hand, job.id).await;
    // The same content: the hash of the functions is that of the crate.
    assert_eq!(verdict(&hand, &job).await, EnqueueVerdict::Duplicate);
    assert_eq!(hand.call("push", &words)["verdict"], "duplicate");
    let mut other = job.clone().id(JobId::new());
    other.unique = None;
    assert_eq!(verdict(&hand, &other).await, EnqueueVerdict::Created);
    let sent = record(&hand, other.id).await;
    let mut same = pushed.clone();
    same.id = sent.id;
    same.unique = None;
    same.enqueued_at = sent.enqueued_at;
    assert_eq!(same, sent);
    assert_eq!(pushed.unique, job.unique);
    let changed = job.payload("{}".into());
    assert_eq!(verdict(&hand, &changed).await, EnqueueVerdict::IdConflict);
}

#[tokio::test]
async fn a_push_names_its_durability() {
    for (setting, durability) in [("no", "memory"), ("yes", "os")] {
        let server = TestServer::with(&["--appendonly", setting]);
        let pushed = Hand::at(server).await.call("push", &["mail", "x"]);
        assert_eq!(pushed["durability"], durability);
    }
}

#[tokio::test]
async fn the_content_hash_is_that_of_the_crate_at_every_length() {
    let hand = Hand::new().await;
    for length in [0, 1, 7, 8, 9, 16, 255, 256, 257, 264, 511, 513, 4_099] {
        let payload: Vec<u8> = (0..length)
            .map(|i| (i * 37 % 251) as u8 ^ (i >> 3) as u8)
            .collect();
        let job = NewJob::new(QUEUE, payload.clone());
        let id = job.id.to_string();
        let words = [QUEUE.as_bytes(), &payload, b"ID", id.as_bytes()];
        let pushed = hand.call_bytes(SHARD, "push", &words).expect("push");
        assert_eq!(pushed["verdict"], "created");
        assert_eq!(
            verdict(&hand, &job).await,
            EnqueueVerdict::Duplicate,
            "of {length} bytes"
        );
    }
}

#[tokio::test]
async fn a_pushed_job_gets_an_id_of_its_shard() {
    let hand = Hand::new().await;
    let mut ids = std::collections::HashSet::new();
    for shard in [0, 3, 1_023] {
        for _ in 0..100 {
            let key = format!("punctual:{{default/{shard}}}");
            let pushed = hand.call_bytes(&key, "push", &bytes_of(&["mail", "x"]));
            let pushed = pushed.expect("push");
            let id: JobId = text(&pushed, "id").parse().expect("a UUID");
            assert_eq!(id.shard(), shard);
            assert_eq!(id.as_bytes()[6] >> 4, 7, "{id}");
            assert!(ids.insert(id));
        }
    }
}

#[tokio::test]
async fn a_job_goes_through_its_life_at_redis_cli() {
    let hand = Hand::new().await;
    let call = |function: &str, words: &[&str]| -> serde_json::Value {
        let function = format!("punctual_1_{function}");
        let said = hand
            .server
            .cli(&[&["FCALL", &function, "1", SHARD], words].concat());
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    };
    call("push", &["mail", r#"{"to":"ann"}"#, "UNIQUE", "k"]);
    let lease = call("claim", &["mail", "LEASE_MS", "60000", "WORKER", "by-hand"]);
    let job = &lease["jobs"][0];
    assert_eq!(job["payload"]["to"], "ann", "{lease}");
    assert_eq!(job["attempt"], 1);
    let (token, id) = (text(&lease, "token"), text(job, "id"));
    let note = format!("{id}=half");
    let extended = call("extend", &[token, "JOB", id, "PROGRESS", &note]);
    assert_eq!(extended["verdict"], "extended");
    let got = call("get", &["mail", "k"]);
    assert_eq!(got["job"]["state"], "active");
    assert_eq!(got["job"]["progress_text"], "half");
    assert_eq!(
        call("cancel", &["mail", "k"])["verdict"],
        "cancel_requested"
    );
    assert_eq!(call("extend", &[token])["cancel_requested"][0], id);
    let settled = call("settle", &[token, id, "completed", "RESULT", "[1]"]);
    assert_eq!(settled["jobs"][0]["state"], "completed");
    let reported = call("explain", &[id]);
    assert_eq!(reported["reasons"][0]["reason"], "completed");
    assert_eq!(reported["job"]["result"], serde_json::json!([1]));
    let stats = call("stats", &["mail"]);
    assert_eq!(stats["queues"][0]["active"], 0, "{stats}");
    assert_eq!(stats["workers"][0]["host"], "by-hand");
}

#[tokio::test]
async fn a_lease_is_settled_in_parts() {
    let hand = Hand::new().await;
    for payload in ["1", "2", "3", "4"] {
        hand.call("push", &["mail", payload, "RETENTION", "60000"]);
    }
    let lease = hand.call("claim", &["mail", "LIMIT", "4"]);
    let token = text(&lease, "token");
    let ids: Vec<&str> = (0..4).map(|i| text(&lease["jobs"][i], "id")).collect();
    let words = [
        token,
        ids[0],
        "completed",
        "RESULT",
        "{}",
        ids[1],
        "retry",
        "AFTER",
        "60000",
        "ERROR",
        "no \"route\"",
    ];
    let settled = hand.call("settle", &words);
    let states: Vec<_> = (0..2).map(|i| text(&settled["jobs"][i], "state")).collect();
    assert_eq!(states, ["completed", "scheduled"], "{settled}");
    assert_eq!(
        hand.call("settle", &words)["jobs"][1]["verdict"],
        "repeated"
    );
    let retried = hand.call("get", &[ids[1]]);
    assert_eq!(retried["job"]["last_error"], "no \"route\"");
    assert_eq!(retried["job"]["failures"], 1);
    let past = &retried["job"]["attempts"][0];
    assert_eq!(
        (&past["attempt"], text(past, "outcome"), text(past, "error")),
        (&1.into(), "retry", "no \"route\"")
    );
    assert_eq!(past["started_at"], retried["job"]["started_at"]);
    assert!(past["worker"].is_string() && past["ended_at"].is_string());
    let reported = hand.call("extend", &[token, "JOB", ids[0], "JOB", ids[2]]);
    assert_eq!(reported["lost"], serde_json::json!([ids[0]]));
    let rest = [token, ids[2], "snooze", "AFTER", "1", ids[3], "released"];
    assert_eq!(hand.call("settle", &rest)["jobs"][1]["state"], "ready");
    assert_eq!(hand.call("extend", &[token])["verdict"], "lease_lost");
    // The lease is over: what it says of jobs that are others' by now changes nothing.
    let again = hand.call("claim", &["mail", "LIMIT", "4"]);
    let late = hand.call("settle", &[token, ids[3], "dead"]);
    assert_eq!(late["jobs"][0]["verdict"], "repeated");
    let text_of = text(&again, "token");
    let done = hand.call("settle", &[text_of, ids[3], "dead", "ERROR", "refused"]);
    assert_eq!(done["jobs"][0]["state"], "dead");
    assert_eq!(
        hand.call("settle", &[token, ids[3], "completed", "ATTEMPT", "1"])["jobs"][0]["verdict"],
        "lease_lost"
    );
}

#[tokio::test]
async fn a_claim_with_the_same_nonce_answers_the_same_lease() {
    let hand = Hand::new().await;
    hand.call("push", &["mail", "1"]);
    hand.call("push", &["mail", "2"]);
    let words = ["mail", "WORKER", "w", "NONCE", "one"];
    let first = hand.call("claim", &words);
    assert_eq!(hand.call("claim", &words)["token"], first["token"]);
    let next = hand.call("claim", &["mail", "WORKER", "w", "NONCE", "two"]);
    assert_ne!(next["token"], first["token"]);
    assert_eq!(next["jobs"][0]["payload"], 2);
}

#[tokio::test]
async fn explain_says_what_to_remove() {
    let hand = Hand::new().await;
    let reported = |id: &str| {
        let reported = hand.call("explain", &[id]);
        let reasons = reported["reasons"].as_array().expect("reasons").clone();
        let name = |reason: &serde_json::Value| text(reason, "reason").to_owned();
        reasons.iter().map(name).collect::<Vec<_>>()
    };
    let push = |words: &[&str]| text(&hand.call("push", words), "id").to_owned();
    let later = push(&["mail", "1", "DELAY", "60000"]);
    assert_eq!(reported(&later), ["not_due"]);
    let held = push(&["mail", "1", "WAIT_FOR", "scan"]);
    assert_eq!(reported(&held), ["waits_for_names"]);
    let first = push(&["mail", "1", "GROUP", "g"]);
    let second = push(&["mail", "2", "GROUP", "g"]);
    assert_eq!(reported(&first), ["no_worker"]);
    let queue = || "mail".to_owned();
    let pause = Control::Pause { queue: queue() };
    hand.engine.control(&here(), pause).await.expect("pause");
    assert_eq!(reported(&first), ["queue_paused", "no_worker"]);
    let resume = Control::Resume { queue: queue() };
    hand.engine.control(&here(), resume).await.expect("resume");
    hand.call("claim", &["mail", "KIND", "other", "LIMIT", "1"]);
    assert_eq!(reported(&first), ["active"]);
    assert_eq!(reported(&second), ["group_active", "no_worker_for_kind"]);
    let child = push(&["mail", "3", "WAIT_FOR", &later]);
    assert_eq!(reported(&child), ["waits_for_names"]);
    hand.call("cancel", &[&later]);
    assert_eq!(reported(&later), ["cancelled"]);
    assert_eq!(reported(&child), ["never_released", "waits_for_names"]);
    let reason = hand.call("explain", &[&child])["reasons"][0].clone();
    assert_eq!(reason["by"], *later);
    let sentence = text(&reason, "text");
    assert!(sentence.starts_with("nothing will release it"), "{reason}");
    let absent = JobId::new().to_string();
    assert!(hand.call("explain", &[&absent])["job"].is_null());
}

#[tokio::test]
async fn reads_by_hand_show_what_no_sweep_has_seen() {
    let hand = Hand::new().await;
    let pushed = hand.call("push", &["mail", "1", "DELAY", "1"]);
    hand.call("push", &["mail", "2", "DELAY", "100000000"]);
    let id = text(&pushed, "id");
    // Reads change nothing: only time makes it ready.
    let written = hand.digest();
    let state = || text(&hand.call("get", &[id])["job"], "state").to_owned();
    while state() == "scheduled" {}
    assert_eq!(state(), "ready");
    let counts = hand.call("stats", &["mail"])["queues"][0].clone();
    assert_eq!(counts["ready"], 1, "{counts}");
    assert_eq!(counts["scheduled"], 1, "{counts}");
    assert_eq!(hand.digest(), written);
}

#[tokio::test]
async fn any_payload_comes_back_as_it_was() {
    let hand = Hand::new().await;
    let whole: &[(&[u8], &str, &str)] = &[
        (br#"{"a":[1,-2.5e3,true,null,"\u0000"]}"#, "payload", ""),
        ("{\"é\":\"日本\"}".as_bytes(), "payload", ""),
        (b"hello \"you\"\\", "payload_text", ""),
        (b"", "payload_text", ""),
        (b"{\"a\":\n1}", "payload_text", ""),
        (b"01", "payload_text", ""),
        (b"nan", "payload_text", ""),
        (b"[1,]", "payload_text", ""),
        ("\"\u{202e}\"".as_bytes(), "payload_text", ""),
        (b"a\0b", "payload_base64", "YQBi"),
        (b"\xff\xfe", "payload_base64", "//4="),
        (b"\xed\xa0\x80\x7f", "payload_base64", "7aCAfw=="),
        (b"\"\xc3\"", "payload_base64", "IsMi"),
    ];
    for (payload, field, base64) in whole {
        let pushed = hand.call_bytes(SHARD, "push", &[b"mail", payload]);
        let id = text(&pushed.expect("push"), "id").to_owned();
        let got = hand.call("get", &[&id]);
        let value = &got["job"][field];
        match *field {
            "payload" => {
                let sent: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
                assert_eq!(*value, sent);
            }
            "payload_text" => assert_eq!(value.as_str().map(str::as_bytes), Some(*payload)),
            _ => {
                assert_eq!(value, base64, "{got}");
                let again = hand.call("push", &["mail", base64, "BASE64", "ID", &id]);
                assert_eq!(again["verdict"], "duplicate", "base64 is read back");
            }
        }
    }
}

#[tokio::test]
async fn cancel_by_hand_says_what_became_of_it() {
    let hand = Hand::new().await;
    hand.call("push", &["mail", "1", "UNIQUE", "k", "DELAY", "60000"]);
    let cancelled = hand.call("cancel", &["mail", "k"]);
    assert_eq!(cancelled["verdict"], "done");
    assert_eq!(cancelled["state"], "cancelled");
    let id = text(&cancelled, "id");
    assert_eq!(hand.call("cancel", &[id])["verdict"], "already_cancelled");
    let state = record(&hand, id.parse().expect("a UUID")).await.state;
    assert_eq!(state, JobState::Cancelled);
    assert_eq!(hand.call("cancel", &["mail", "k"])["verdict"], "not_found");
}

#[tokio::test]
async fn help_describes_every_function_and_its_examples_run() {
    let hand = Hand::new().await;
    let overview = hand.server.cli(&["FCALL", "punctual_1_help", "0"]);
    for function in [
        "push", "claim", "extend", "settle", "cancel", "get", "explain", "stats", "help",
    ] {
        assert!(overview.contains(&format!("punctual_1_{function} ")));
        let lease = hand
            .server
            .cli(&["FCALL", "punctual_1_help", "0", function]);
        let example = lease.lines().last().expect("an example");
        assert!(example.starts_with("FCALL"), "{lease}");
        let id = JobId::new().to_string();
        let fence = "0".repeat(32);
        let example = example
            .replace("TOKEN", &fence)
            .replace(" ID", &format!(" {id}"));
        let words: Vec<&str> = example
            .split(' ')
            .map(|word| word.trim_matches('\''))
            .collect();
        let said = hand.server.cli(&words);
        assert!(!said.contains("PUNCTUAL"), "{example}: {said}");
    }
}
