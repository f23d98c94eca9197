//! Unit tests of `push`.

use super::*;
use crate::time::seconds;
use crate::worker::fixtures::record;

const URL: &str = "https://example.com/done";

fn asking() -> JobRecord {
    let mut job = record();
    job.attempt = 3;
    job.failures = 2;
    job.max_attempts = 5;
    job.headers = vec![
        ("Punctual-Callback".to_owned(), URL.to_owned()),
        ("traceparent".to_owned(), "00-aa-bb-01".to_owned()),
    ];
    job
}

fn reported(job: &JobRecord, outcome: Outcome) -> Option<serde_json::Value> {
    let settlement = Settlement::new(job.id, job.attempt, outcome);
    let callback = callback(job, &settlement)?;
    Some(serde_json::from_slice(&callback.payload).expect("JSON"))
}

#[test]
fn a_job_for_a_url_lies_in_the_pushed_queue_of_its_name() {
    for (queue, wanted, kind) in [
        ("mail", "http:mail", "mail"),
        ("http:mail", "http:mail", "http:mail"),
        ("", DEFAULT_QUEUE, "http"),
    ] {
        let mut job = NewJob::new(queue, "");
        aim(&mut job, "https://a.example/");
        aim(&mut job, URL);
        assert_eq!((&*job.queue, &*job.kind), (wanted, kind));
        assert_eq!(job.headers, [(TARGET.to_owned(), URL.to_owned())]);
    }
}

#[test]
fn a_job_for_a_broker_lies_in_the_queue_of_its_name() {
    for (queue, wanted, kind) in [
        ("http:aq", "amqp:http:aq", "http:aq"),
        ("mail", "amqp:mail", "mail"),
        ("amqp:mail", "amqp:mail", "amqp:mail"),
        ("", AMQP_DEFAULT_QUEUE, "amqp"),
    ] {
        let mut job = NewJob::new(queue, "");
        aim(&mut job, "amqp:orders/paid");
        assert_eq!((&*job.queue, &*job.kind), (wanted, kind));
        assert!(is_amqp_queue(&job.queue) && !is_queue(&job.queue));
    }
}

#[test]
fn a_malformed_target_of_a_broker_is_refused_with_the_remedy() {
    let (long_name, long_key) = ("e".repeat(128), "k".repeat(256));
    for (target, part) in [
        ("amqp:orders".to_owned(), "no / between"),
        ("amqp:".to_owned(), "no / between"),
        ("amqp:/".to_owned(), "neither"),
        (
            "amqp://guest@broker/orders".to_owned(),
            "address of a broker",
        ),
        ("AMQP:orders/paid".to_owned(), "start with amqp:"),
        ("amqp:ord ers/paid".to_owned(), "a-z A-Z 0-9"),
        (format!("amqp:{long_name}/k"), "127 bytes"),
        (format!("amqp:e/{long_key}"), "255 bytes"),
        ("amqp:e/a\nb".to_owned(), "control characters"),
    ] {
        assert!(AmqpTarget::is(&target), "{target}");
        let error = AmqpTarget::parse(&target).expect_err("it is malformed");
        let text = error.message();
        assert!(text.starts_with("target_refused: "), "{text}");
        assert!(
            text.contains(part) && text.contains("write amqp:EXCHANGE/KEY"),
            "{text}"
        );
    }
    let wide = AmqpTarget::parse("amqp:e/a/b c").expect("keys may have both");
    assert_eq!((wide.exchange, wide.key), ("e", "a/b c"));
    assert!(!AmqpTarget::is("https://a.example/") && !AmqpTarget::is("amq"));
}

#[test]
fn only_an_outcome_that_ends_the_job_is_posted() {
    let job = asking();
    let state = |job: &JobRecord, outcome| {
        reported(job, outcome)
            .map(|reported| (reported["state"].clone(), reported["failures"].clone()))
    };
    let says = |state: &str, failures: u32| Some((state.into(), failures.into()));
    let retry = || Outcome::Retry { after: None };
    let snooze = || Outcome::Snooze { after: seconds(1) };
    assert_eq!(state(&job, Outcome::Completed), says("completed", 2));
    assert_eq!(state(&job, Outcome::Dead), says("dead", 3));
    assert_eq!(state(&job, Outcome::Cancelled), says("cancelled", 2));
    assert_eq!(state(&job, retry()), None);
    assert_eq!(state(&job, snooze()), None);
    assert_eq!(state(&job, Outcome::Released), None);

    let last = JobRecord {
        failures: 4,
        ..asking()
    };
    assert_eq!(state(&last, retry()), says("dead", 5));
    assert_eq!(state(&last, snooze()), None);

    let stopped = JobRecord {
        cancel_requested: true,
        ..asking()
    };
    assert_eq!(state(&stopped, retry()), says("cancelled", 3));
    assert_eq!(state(&stopped, Outcome::Released), says("cancelled", 2));
    assert_eq!(state(&stopped, Outcome::Completed), says("completed", 2));

    let silent = JobRecord {
        headers: Vec::new(),
        ..asking()
    };
    assert_eq!(state(&silent, Outcome::Completed), None);
}

#[test]
fn a_callback_has_one_id_per_attempt_and_keeps_the_trace() {
    let job = asking();
    let of = |attempt| {
        let mut settlement = Settlement::new(job.id, attempt, Outcome::Completed);
        settlement.result = Some(r#"{"sent": true}"#.into());
        callback(&job, &settlement).expect("it asked for one")
    };
    let one = of(3);
    assert_eq!(one, of(3));
    assert_ne!(one.id, of(4).id);
    assert_eq!(one.id.shard(), job.id.shard());
    assert_eq!(one.queue, CALLBACK_QUEUE);
    assert_eq!(target(&one.headers), Some(URL));
    assert_eq!(header(&one.headers, "traceparent"), Some("00-aa-bb-01"));
    assert_eq!(header(&one.headers, CALLBACK), None);
    let payload = std::str::from_utf8(&one.payload).expect("text");
    assert!(payload.contains(r#""result":{"sent": true}"#), "{payload}");

    let mut settlement = Settlement::new(job.id, 3, Outcome::Completed);
    settlement.result = Some("sent".into());
    let plain = callback(&job, &settlement).expect("it asked for one");
    assert!(plain.payload.ends_with(br#""result":"sent"}"#));
}

#[test]
fn a_callback_of_the_record_is_that_of_the_settlement_that_ended_it() {
    let job = JobRecord {
        failures: 4,
        ..asking()
    };
    let mut settlement = Settlement::new(job.id, 3, Outcome::Retry { after: None });
    settlement.error = Some("no answer".into());
    let kept = JobRecord {
        state: JobState::Dead,
        dead: Some(DeadReason::Exhausted),
        failures: 5,
        last_error: Some("no answer".into()),
        ..job.clone()
    };
    assert_eq!(callback(&job, &settlement), callback_of(&kept));
    assert!(callback_of(&kept).is_some());
    assert_eq!(callback_of(&asking()), None, "it has not ended");
    let silent = JobRecord {
        headers: Vec::new(),
        ..kept.clone()
    };
    assert_eq!(callback_of(&silent), None);
    // Redriven and cancelled before it was claimed again: that is another outcome.
    let expired = JobRecord {
        state: JobState::Cancelled,
        dead: None,
        cancelled: Some(CancelReason::Expired),
        ..kept.clone()
    };
    let (dead, expired) = (callback_of(&kept), callback_of(&expired));
    let (dead, expired) = (dead.expect("one"), expired.expect("another"));
    assert_ne!(dead.id, expired.id);
    let text = std::str::from_utf8(&expired.payload).expect("text");
    assert!(text.contains(r#""cancelled":"expired""#), "{text}");
}
