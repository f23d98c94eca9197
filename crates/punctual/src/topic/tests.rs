//! Unit tests of `topic`: what is refused, the text of filters, and loops.

use std::time::Duration;

use super::*;
use crate::job::NewJob;
use crate::time::hours;

fn refused(pattern: &str) -> String {
    check_pattern(pattern).unwrap_err().to_string()
}

#[test]
fn malformed_patterns_name_their_remedy() {
    for good in ["a", "*", ">", "#", "a.*.b", "a.>", "a.#", "ä.b-c_d/e"] {
        check_pattern(good).unwrap();
    }
    assert!(refused("a.>.b").contains("use `*` for one token"));
    assert!(refused("#.b").contains("use `*` for one token"));
    for empty in ["a..b", ".a", "a."] {
        assert!(refused(empty).contains("empty token"), "{empty}");
    }
    assert!(refused("").contains("1 to 256 bytes"));
    assert!(refused("a*.b").contains("a token of its own"));
    assert!(refused("a b").contains("space"));
    assert!(refused(&["a"; 33].join(".")).contains("at most 32"));
    for subject in ["a.*", "a.>", "#"] {
        let error = check_subject(subject).unwrap_err().to_string();
        assert!(error.contains("patterns of subscriptions"), "{error}");
    }
}

#[test]
fn filters_read_back_as_written() {
    let texts = [
        "country in [de,at]",
        "country not in [de]",
        "country starts with d",
        "country exists",
        "country absent",
        "amount >= 100",
        "amount <= -1.5",
        "amount in 1..9",
        "@kind in [paid]",
        "@due within 1h",
    ];
    for text in texts {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(filter.to_string(), text);
        let json = serde_json::to_string(&filter).unwrap();
        assert_eq!(
            serde_json::from_str::<Filter>(&json).unwrap(),
            filter,
            "{json}"
        );
    }
    assert_eq!(
        "a = b".parse::<Filter>().unwrap(),
        Filter::header("a").one_of(["b"])
    );
    assert_eq!(
        "a != b".parse::<Filter>().unwrap(),
        Filter::header("a").none_of(["b"])
    );
}

#[test]
fn malformed_filters_are_refused() {
    let texts = [
        "",
        "country",
        "country in",
        "country in de",
        "country in []",
        "amount >= many",
        "amount in 9..1",
        "@kind >= 1",
        "@payload = a",
        "a within 1h",
        "@due exists",
        "a b = c",
    ];
    for text in texts {
        assert!(text.parse::<Filter>().is_err(), "{text}");
    }
    let empty = ["a = ", "a != ", "a in []", "a not in []", "a in [b,,c]"];
    for text in empty {
        let error = text.parse::<Filter>().expect_err(text).to_string();
        assert!(
            error.contains("filter has an empty value"),
            "{text}: {error}"
        );
    }
    let without = Filter::header("a");
    for filter in [
        without.clone().one_of([""]),
        without.clone().none_of(Vec::<String>::new()),
        without.clone().prefix(""),
    ] {
        let error = filter.check().expect_err("an empty value").to_string();
        assert!(
            error.contains("filter has an empty value"),
            "{filter:?}: {error}"
        );
    }
    let nan = Filter::header("a").at_least(f64::NAN);
    assert!(nan.check().is_err());
    assert!(Filter::header("a").check().is_err(), "it tests nothing");
}

#[test]
fn a_loop_ends_at_32_publishes() {
    let mut job = NewJob::new("a", "{}");
    let all = Subscriptions {
        subscriptions: vec![Subscription::to("a").matching("x")],
    };
    let matcher = Matcher::new(1, all);
    for nth in 1..=PUBLISHES_MAX {
        let message = Message::new("x", job).unwrap();
        let (_, effect) = message.copies(&matcher, None).remove(0);
        let crate::job::Effect::Enqueue(copy) = effect else {
            panic!("a copy is enqueued");
        };
        job = *copy;
        let depth = push::header(&job.headers, DEPTH_HEADER).unwrap();
        assert_eq!(depth, nth.to_string());
    }
    let error = Message::new("x", job).unwrap_err().to_string();
    assert!(
        error.contains("loop") && error.contains("32 publishes"),
        "{error}"
    );
}

#[test]
fn why_a_message_does_not_match_is_said() {
    let filters = ["amount >= 5", "@due within 1h", "country in [de]"];
    let subscription = |filter: &str| {
        let one = Subscription::to("a").filter(filter.parse().unwrap());
        one.name(filter).matching("x.>")
    };
    let mut all = Subscriptions::default();
    for filter in filters {
        all.put(subscription(filter));
    }
    all.put(Subscription::cancels("a").name("z").matching("x.*"));
    let matcher = Matcher::new(1, all);
    let job = NewJob::new("a", "{}").header("amount", "many");
    let message = Message::new("x.y", job.delay(hours(2))).unwrap();
    let reasons: Vec<String> = (matcher.explain(&message, hours(2)).into_iter())
        .map(|line| line.why_not.unwrap_or_default())
        .collect();
    let expected = [
        "it is due in 2h, and the filter is `@due within 1h`",
        "amount is \"many\", which is no number, and the filter is `amount >= 5`",
        "it has no country, and the filter is `country in [de]`",
        "it cancels by the unique key, and the message has none",
    ];
    assert_eq!(reasons, expected);
    let other = Message::new("y", NewJob::new("a", "{}")).unwrap();
    let lines = matcher.explain(&other, Duration::ZERO);
    assert!(lines.iter().all(|line| {
        let why_not = line.why_not.as_deref();
        why_not.is_some_and(|why| why.contains("does not match the pattern"))
    }));
}
