//! Unit tests of `job_json`.

use super::*;
use punctual::job::{CancelReason, DeadReason, LogLine, PastAttempt, PastOutcome, Stop};
use punctual::time::{days, hours, millis, minutes, seconds};
use punctual::{
    Group, Hold, JobId, JobRecord, JobState, OnRetry, RetryPolicy, Unique, UniquePolicy,
};

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000 + second * 1_000_000 + 7)
}

fn record() -> JobRecord {
    let mut job = JobRecord::new(NewJob::new("orders", ""), at(60), at(0));
    job.id = JobId::derived("tests", "one");
    job.queue = "orders".into();
    job.kind = "orders.cancel".into();
    job.payload = Bytes::from_static(br#"{"order": 7,  "note":"x"}"#);
    job.content_type = "application/json".into();
    job.headers = vec![("b".into(), "1".into()), ("a".into(), "2".into())];
    job.expires_at = Some(at(900));
    job.priority = 3;
    job.unique = Some(
        Unique::new("order:7")
            .policy(UniquePolicy::After)
            .hold(Hold::For(minutes(5))),
    );
    job.group = Some(Group::new("customer:1").on_retry(OnRetry::Pass));
    job.max_attempts = 4;
    job.max_crashes = Some(2);
    job.retry = RetryPolicy::List(vec![seconds(1), millis(1_500)]);
    job.timeout = Some(seconds(30));
    job.retention = days(1);
    job.wait_for = vec!["stock".into()];
    job.state = JobState::Held;
    job.attempt = 2;
    job.failures = 1;
    job.crashes = 1;
    job.started_at = Some(at(5));
    job.last_error = Some("broken\nin two lines".into());
    job.result = Some(Bytes::from_static(b"\xff\x00raw"));
    job.progress = Some(Bytes::from_static(b"half"));
    job.log = vec![LogLine::new(at(4), 1, "half\tdone")];
    job.attempts = vec![
        PastAttempt::new(1, at(2), at(3), PastOutcome::Retry)
            .worker(0x5a)
            .error("broken\nin two lines".to_owned()),
        PastAttempt::new(2, at(5), at(15), PastOutcome::Crashed),
    ];
    job
}

/// Writes a record as a line, reads that, and answers the record of the import.
fn round_trip(record: &JobRecord) -> JobRecord {
    let line = serde_json::to_string(&JobJson::from(record)).expect("a line");
    assert!(!line.contains('\n'), "{line}");
    let job = JobJson::parse(&line)
        .and_then(JobJson::into_import)
        .unwrap_or_else(|error| panic!("{error}: {line}"));
    *job.history.expect("an import has a history")
}

#[test]
fn a_record_survives_its_line() {
    let held = record();
    assert_eq!(round_trip(&held), held);
}

#[test]
fn every_policy_reason_and_payload_survives_its_line() {
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::fixed(seconds(9)),
        RetryPolicy::Linear {
            base: millis(10),
            cap: hours(2),
            jitter: true,
        },
    ];
    for retry in policies {
        let mut job = record();
        job.retry = retry;
        assert_eq!(round_trip(&job), job);
    }
    for (reason, stop) in CancelReason::ALL.into_iter().zip(Stop::ALL) {
        let mut job = record();
        job.state = JobState::Cancelled;
        job.cancelled = Some(reason);
        job.stopped = Some(stop);
        job.finished_at = Some(at(9));
        job.cancel_requested = true;
        assert_eq!(round_trip(&job), job);
    }
    for reason in DeadReason::ALL {
        let mut job = record();
        job.state = JobState::Dead;
        job.dead = Some(reason);
        assert_eq!(round_trip(&job), job);
    }
    let payloads: [&[u8]; 8] = [
        b"",
        b"null",
        b" 1 ",
        b"{\n\"a\": 1\n}",
        b"plain text",
        b"\xff\xfe",
        b"1e400",
        "\"\u{202e}\"".as_bytes(),
    ];
    for payload in payloads {
        let mut job = record();
        job.payload = Bytes::from_static(payload);
        assert_eq!(round_trip(&job), job);
    }
}

#[test]
fn repeated_headers_keep_their_order() {
    let mut job = record();
    job.headers = vec![("a".into(), "2".into()), ("a".into(), "1".into())];
    assert_eq!(round_trip(&job), job);
}

#[test]
fn a_short_line_takes_the_rest_from_the_defaults() {
    let defaults = NewJob::new("mail", "").priority(1);
    let read = |text: &str| JobJson::parse(text)?.into_new_job(&defaults);
    let job =
        read(r#"{"payload":{"to": "x"},"delay":"30m","unique":"k","headers":{"b":"1","a":"2"}}"#)
            .expect("a job");
    assert_eq!(job.payload, r#"{"to": "x"}"#);
    assert_eq!(job.due, Due::After(minutes(30)));
    assert_eq!(
        (job.queue.as_str(), job.kind.as_str(), job.priority),
        ("mail", "mail", 1)
    );
    assert_eq!(job.headers[0].0, "b");
    assert_eq!(job.unique.expect("a key").key, "k");

    let other = read(r#"{"queue":"reports","group":{"key":"g"}}"#).expect("a job");
    assert_eq!(other.group, Some(Group::new("g").on_retry(OnRetry::Hold)));
    assert_eq!(
        (other.queue.as_str(), other.kind.as_str()),
        ("reports", "reports")
    );
}

#[test]
fn wrong_lines_say_what_is_wrong() {
    let defaults = NewJob::new("mail", "");
    let refusal = |text: &str| {
        let read = JobJson::parse(text).and_then(|line| line.into_new_job(&defaults));
        read.expect_err(text)
    };
    assert!(refusal("{\"payload\":1").contains("EOF"));
    assert!(refusal(r#"{"dealy":"5m"}"#).contains("unknown field `dealy`"));
    assert!(refusal(r#"{"delay":"five"}"#).contains("not a span"));
    assert!(refusal(r#"{"delay":5}"#).contains("a span such as"));
    assert!(refusal(r#"{"delay":"-5m"}"#).contains("not a span"));
    assert!(refusal(r#"{"at":"10000-01-01T00:00:00Z"}"#).contains("9999"));
    assert!(refusal(r#"{"delay":"5m","at":"2026-11-21T10:00:00Z"}"#).contains("both"));
    assert!(refusal(r#"{"payload":1,"payload_base64":"MQ=="}"#).contains("both"));
    assert!(refusal(r#"{"payload_base64":"§"}"#).contains("not base64"));
    assert!(refusal(r#"{"id":"seven"}"#).contains("not a UUID"));
    assert!(refusal(r#"{"unique":7}"#).contains("unique is 7 (column"));
    assert!(refusal(r#"{"state":"dead"}"#).contains("import"));
    assert!(refusal("[1]").contains("not a JSON object"));
}
