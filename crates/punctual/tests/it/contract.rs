//! The tables of the contract say what the code does.

use std::collections::BTreeSet;

use punctual::time::millis;
use punctual::{ErrorKind, Limits, NewJob};
use punctual_contract::errors::{ERRORS, Origin};
use punctual_contract::fields::{self, CONSTANTS, SENT};
use punctual_contract::limits::LIMITS;
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
