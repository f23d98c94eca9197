//! Tests of the command: topics.

use crate::support::Punctual;

const MAILER: &[&str] = &[
    "topics",
    "subscribe",
    "orders.*.paid",
    "mail",
    "--name",
    "mailer",
    "--filter",
    "country in [de,at]",
];

#[test]
fn a_message_goes_to_the_queues_that_match() {
    let punctual = Punctual::new();
    let subscribed = punctual.one(MAILER);
    assert_eq!(subscribed["changed"], true);
    assert_eq!(
        punctual.one(MAILER)["changed"],
        false,
        "again it is the same"
    );
    punctual
        .run(&["topics", "subscribe", "orders.>", "audit"])
        .exits(0);
    let listed = punctual.run(&["topics", "list"]).exits(0).stdout;
    assert!(
        listed.contains("audit:orders.>") && listed.contains("country in [de,at]"),
        "{listed}"
    );
    let message = ["topics", "publish", "orders.eu.paid", r#"{"order":7}"#];
    let published = punctual.one(&[&message[..], &["--header", "country=de"]].concat());
    assert_eq!(published["matched"], 2);
    assert_eq!(published["copies"][1]["verdict"], "created");
    let matched = [
        "topics",
        "match",
        "orders.eu.paid",
        "--header",
        "country=fr",
    ];
    let reported = punctual.run(&matched).exits(0).stdout;
    assert!(
        reported.contains("the filter is `country in [de,at]`"),
        "{reported}"
    );
    punctual.run(&["topics", "unsubscribe", "mailer"]).exits(0);
    punctual.run(&["topics", "unsubscribe", "mailer"]).exits(3);
    // A copy that cancels has no job yet: what it lacks is left out.
    let cancels = ["topics", "subscribe", "orders.>", "reminders", "--cancel"];
    punctual.run(&cancels).exits(0);
    let published = punctual.one(&[&message[..], &["--unique", "order-7"]].concat());
    let copies = published["copies"].as_array().expect("copies");
    let cancelled = copies.iter().find(|copy| copy["queue"] == "reminders");
    let cancelled = cancelled.and_then(|copy| copy.as_object());
    assert_eq!(cancelled.expect("a copy").len(), 2, "{published}");
    let absent = punctual
        .run(&["topics", "publish", "parcels.lost"])
        .exits(0);
    assert!(
        absent.stdout.contains("no subscription receives it"),
        "{absent:?}"
    );
}

#[test]
fn malformed_patterns_and_filters_are_wrong_usage() {
    let punctual = Punctual::new();
    let subscribe = |pattern: &str, filter: &str| {
        let args = ["topics", "subscribe", pattern, "mail", "--filter", filter];
        punctual.run(&args).exits(2).stderr
    };
    assert!(subscribe("a.>.b", "a exists").contains("use `*` for one token"));
    assert!(subscribe("a..b", "a exists").contains("empty token"));
    assert!(subscribe("a", "amount >= many").contains("NAME in [a,b]"));
}

#[test]
fn an_export_carries_subscriptions() {
    let punctual = Punctual::new();
    punctual.run(MAILER).exits(0);
    punctual.run(&["export", "jobs.jsonl"]).exits(0);
    let other = ["--engine", "file:./other"];
    let import = [&["import", "jobs.jsonl"], &other[..]].concat();
    punctual.run(&import).exits(0);
    let listed = |more: &[&str]| punctual.one(&[&["topics", "list"], more].concat());
    assert_eq!(listed(&other), listed(&[]));
    let again = punctual.run(&import).exits(0).stdout;
    assert!(again.contains("1 record unchanged"), "{again}");
}
