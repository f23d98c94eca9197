//! The tables of the contract say what the code does.

use std::collections::BTreeSet;

use punctual::engine::Got;
use punctual::job::{LogLine, Memo, MemoSource, PastAttempt, PastOutcome};
use punctual::time::millis;
use punctual::{ErrorKind, JobRecord, Limits, MemoryEngine, NewJob, Queue};
use punctual_contract::errors::{ERRORS, Origin};
use punctual_contract::fields::{self, CONSTANTS, SENT};
use punctual_contract::limits::LIMITS;
use punctual_contract::texts::TEXTS;
use serde_json::{Value, json};

#[test]
fn limits_are_those_of_the_table() {
    let there = serde_json::to_value(Limits::default()).expect("JSON");
    let listed = LIMITS.iter().filter(|limit| limit.is_adjustable);
    let values = listed.map(|limit| {
        let value = match limit.rust {
            "span" => json!(millis(limit.value)),
            _ => json!(limit.value),
        };
        (limit.name.to_owned(), value)
    });
    assert_eq!(there, Value::Object(values.collect()));
}

#[test]
fn error_codes_are_those_of_the_table() {
    let of_kinds = |origin| matches!(origin, Origin::Kind | Origin::KindAndFunctions);
    let listed = ERRORS.iter().filter(|error| of_kinds(error.origin));
    let named: BTreeSet<&str> = listed.map(|error| error.code).collect();
    let there: BTreeSet<&str> = ErrorKind::ALL.map(ErrorKind::code).into();
    assert_eq!(there, named);
}

#[test]
fn fields_and_defaults_of_a_job_are_those_of_the_table() {
    let mut job = NewJob::new("orders", "");
    job.max_crashes = Some(3);
    job.share = Some("acme".into());
    job.limits = vec!["smtp".into()];
    job.cost = 2;
    job.remember = Some(punctual::time::hours(1));
    job = job
        .step("order-7", "pack")
        .after(punctual::JobId::new(), punctual::flow::On::Failed);
    let there = serde_json::to_value(&job).expect("JSON");
    let there = there.as_object().expect("a map");
    let names: BTreeSet<&str> = there.keys().map(String::as_str).collect();
    assert_eq!(names, SENT.iter().map(|field| field.name).collect());
    for name in ["priority", "max_attempts", "max_crashes", "content_type"] {
        let default = fields::field(name).and_then(|field| field.default_json);
        assert_eq!(default, Some(there[name].to_string().as_str()), "{name}");
    }
}

#[test]
fn bounds_of_a_job_are_those_of_the_table() {
    type Set = fn(&mut NewJob, u32);
    let sets: [(&str, Set); 3] = [
        ("priority", |job, value| job.priority = value as u8),
        ("max_attempts", |job, value| job.max_attempts = value),
        ("max_crashes", |job, value| job.max_crashes = Some(value)),
    ];
    for (name, set) in sets {
        let field = fields::field(name).expect(name);
        let is_taken = |value: u64| {
            let mut job = NewJob::new("orders", "");
            set(&mut job, u32::try_from(value).expect("a count"));
            job.check(&Limits::default()).is_ok()
        };
        let (min, max) = (field.min.expect(name), field.max.expect(name));
        assert!(is_taken(min) && is_taken(max), "{name}");
        assert!(min == 0 || !is_taken(min - 1), "{name} under {min}");
        let is_last = max == u64::from(u32::MAX);
        assert!(is_last || !is_taken(max + 1), "{name} over {max}");
    }
}

#[test]
fn constants_of_fields_are_those_of_the_fields() {
    let value = |name: &str| {
        let found = CONSTANTS.iter().find(|constant| constant.name == name);
        found.map(|constant| constant.value.to_owned())
    };
    let priority = fields::field("priority").expect("a field");
    assert_eq!(
        value("PRIORITY_MAX"),
        priority.max.map(|max| max.to_string())
    );
    assert_eq!(value("PRIORITY_DEFAULT").as_deref(), priority.default_json);
    let default = |name: &str| fields::field(name).and_then(|field| field.default_json);
    assert_eq!(
        value("MAX_ATTEMPTS_DEFAULT").as_deref(),
        default("max_attempts")
    );
    assert_eq!(
        value("CONTENT_TYPE_DEFAULT").as_deref(),
        default("content_type")
    );
}

/// A job as an engine keeps it.
async fn kept() -> JobRecord {
    let queue = Queue::new(MemoryEngine::new());
    let sent = queue.enqueue_job(NewJob::new("orders", "")).await;
    let id = sent.expect("a job").id;
    match queue.get(id).await.expect("an answer") {
        Some(Got::Job(record, _)) => *record,
        other => panic!("no record of {id}: {other:?}"),
    }
}

/// A job of each refusal of the table, by the name of its text.
fn refused(kept: &JobRecord) -> Vec<(&'static str, NewJob)> {
    let job = || NewJob::new("orders", "");
    let later = punctual::time::days(400);
    let long = "x".repeat(123);
    let other = punctual::JobId::new();
    let after = |job: NewJob, id| job.after(id, punctual::flow::On::Failed);
    let mut all: Vec<(&'static str, NewJob)> = Vec::new();
    let mut add = |name, set: &dyn Fn(&mut NewJob)| {
        let mut one = job();
        set(&mut one);
        all.push((name, one));
    };
    add("TEXT_RESERVED_ID", &|job| {
        job.id = NewJob::new("orders", "").step("order-7", "pack").id;
    });
    add("TEXT_NAME_RULE", &|job| job.queue = "a b".into());
    add("TEXT_PAYLOAD", &|job| job.payload = vec![0; 262_145].into());
    add("TEXT_CONTENT_TYPE", &|job| job.content_type.clear());
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    add("TEXT_HEADER_NAME", &|job| job.headers = header("a b", ""));
    add("TEXT_HEADER_VALUE", &|job| job.headers = header("a", "\n"));
    let large = "x".repeat(8_192);
    add("TEXT_HEADERS", &|job| job.headers = header("a", &large));
    add("TEXT_BEYOND_TIME", &|job| {
        job.retention = punctual::time::days(4_000_000);
    });
    add("TEXT_PRIORITY", &|job| job.priority = 10);
    add("TEXT_KEY_RULE", &|job| job.share = Some(String::new()));
    let refresh = |max_wait| {
        let policy = punctual::UniquePolicy::Refresh { max_wait };
        Some(punctual::Unique::new("k").policy(policy))
    };
    add("TEXT_MAX_WAIT", &|job| job.unique = refresh(later));
    add("TEXT_MAX_WAIT_DELAY", &|job| {
        job.unique = refresh(millis(1));
        job.due = punctual::Due::After(millis(2));
    });
    let names = |count: usize| (0..count).map(|nth| nth.to_string()).collect();
    add("TEXT_LIMITS_COUNT", &|job| job.limits = names(4));
    add("TEXT_LIMIT_TWICE", &|job| {
        job.limits = vec!["a".into(), "a".into()];
    });
    add("TEXT_LIMIT_NAME", &|job| job.limits = vec![long.clone()]);
    add("TEXT_COST", &|job| job.cost = 1_001);
    add("TEXT_COST_WITHOUT_LIMIT", &|job| job.cost = 2);
    add("TEXT_MAX_ATTEMPTS", &|job| job.max_attempts = 0);
    add("TEXT_MAX_CRASHES", &|job| job.max_crashes = Some(0));
    add("TEXT_RETRY_FACTOR", &|job| {
        job.retry = punctual::RetryPolicy::Exponential {
            base: millis(1),
            factor: 0.5,
            cap: millis(1),
            jitter: false,
        };
    });
    add("TEXT_RETRY_LIST", &|job| {
        job.retry = punctual::RetryPolicy::List(Vec::new());
    });
    add("TEXT_RETRY_SPAN", &|job| {
        job.retry = punctual::RetryPolicy::fixed(later);
    });
    add("TEXT_TIMEOUT", &|job| job.timeout = Some(later));
    add("TEXT_REMEMBER", &|job| job.remember = Some(later));
    add("TEXT_WAIT_FOR", &|job| job.wait_for = names(65));
    add("TEXT_AFTER_COUNT", &|job| {
        let many = 0..=punctual::flow::EDGES_PER_CALL;
        *job = many.fold(job.clone(), |job, _| after(job, punctual::JobId::new()));
    });
    add("TEXT_AFTER_ITSELF", &|job| {
        *job = after(job.clone(), job.id);
    });
    add("TEXT_AFTER_TWICE", &|job| {
        *job = after(after(job.clone(), other), other);
    });
    let step = || job().step("order-7", "pack");
    add("TEXT_STEP_ID", &|job| {
        *job = step();
        job.id = other;
    });
    add("TEXT_CALLBACK_AFTER", &|job| {
        *job = after(
            job.clone()
                .callback("order-7", punctual::flow::Role::OnDone),
            other,
        );
    });
    add("TEXT_AFTER_CALLBACK", &|job| {
        let callback = job.clone();
        let callback = callback.callback("order-7", punctual::flow::Role::OnDone);
        *job = after(step(), callback.id);
    });
    add("TEXT_STEP_PAST", &|job| {
        *job = step();
        job.history = Some(Box::new(kept.clone()));
    });
    all.extend(refused_imports(kept));
    all
}

/// A job with a past of each refusal of the table.
fn refused_imports(kept: &JobRecord) -> Vec<(&'static str, NewJob)> {
    let mut all = Vec::new();
    let mut import = |name, set: &dyn Fn(&mut JobRecord)| {
        let mut past = kept.clone();
        set(&mut past);
        let mut job = NewJob::new("orders", "");
        job.history = Some(Box::new(past));
        all.push((name, job));
    };
    let line = |text: String| LogLine::new(kept.enqueued_at, 1, text);
    let memo = |bytes: usize| {
        let value = vec![0; bytes].into();
        Memo::new("charge", MemoSource::Step, value, kept.enqueued_at)
    };
    let attempt = |error: String| {
        let at = kept.enqueued_at;
        PastAttempt::new(1, at, at, PastOutcome::Retry).error(error)
    };
    import("TEXT_PAST_BYTES", &|past| {
        past.result = Some(vec![0; 65_537].into())
    });
    import("TEXT_LOG", &|past| {
        past.log = vec![line("x".repeat(65_537))]
    });
    import("TEXT_MEMO_BYTES", &|past| past.memos = vec![memo(8_193)]);
    import("TEXT_MEMOS", &|past| past.memos = vec![memo(1); 65]);
    import("TEXT_PAST_ATTEMPTS", &|past| {
        past.attempts = vec![attempt(String::new()); 11];
    });
    import("TEXT_PAST_ERROR", &|past| {
        past.attempts = vec![attempt("x".repeat(65_537))];
    });
    import("TEXT_PAST_COUNT", &|past| past.crashes = 1_000_000_001);
    all
}

#[tokio::test]
async fn refusals_of_a_job_are_those_of_the_table() {
    let listed = || TEXTS.iter().filter(|text| !text.fields.is_empty());
    let mut seen = BTreeSet::new();
    for (name, job) in refused(&kept().await) {
        let text = listed().find(|text| text.name == name).expect(name);
        let error = job.check(&Limits::default()).expect_err(name);
        assert_eq!(error.kind().code(), text.code, "{name}");
        let message = error.message();
        match text.is_end {
            true => assert!(message.ends_with(text.text), "{name}: {message}"),
            false => assert_eq!(message, text.text, "{name}"),
        }
        for field in text.fields {
            assert!(
                fields::field(field).is_some(),
                "{name} is of a field {field}"
            );
        }
        seen.insert(name);
    }
    assert_eq!(seen, listed().map(|text| text.name).collect());
}
