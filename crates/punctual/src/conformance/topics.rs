//! Laws of topics: a publish reaches every subscription of one version, each once, or none.

use super::case::*;
use crate::engine::{
    Capability, Control, Controlled, EnqueueVerdict, OnFull, QueueSettings, RecordValue,
};
use crate::error::{Error, ErrorKind};
use crate::job::{JobId, JobState, NewJob};
use crate::queue::{Published, Queue};
use crate::time::{hours, minutes};
use crate::topic::{DEPTH_HEADER, Filter, SUBJECT_HEADER, SUBSCRIPTIONS_MAX, Subscription, TOPICS};

/// A handle that remembers what it has read.
fn queue(case: &Case) -> Queue {
    Queue::new(case.engine())
}

async fn subscribe(case: &Case, pattern: &str, subscription: Subscription) {
    let subscribed = queue(case).topics().subscribe(pattern, subscription).await;
    assert!(subscribed.expect("it is subscribed"));
}

async fn publish(case: &Case, subject: &str, job: NewJob) -> Published {
    let published = queue(case).publish_job(subject, job).await;
    published.expect("it is published")
}

fn receivers(published: &Published) -> Vec<&str> {
    let names = published.copies.iter();
    names.map(|copy| copy.subscription.as_str()).collect()
}

/// Jobs that wait in a queue.
async fn waiting(case: &Case, queue: &str) -> u64 {
    let stats = case.stats().await.queues;
    let of = stats.iter().find(|stats| stats.queue == queue);
    of.map_or(0, |stats| stats.counts.pending())
}

/// Each subscription that matches has one copy in its queue, with the subject and the headers.
pub(super) async fn a_publish_reaches_every_match_once(case: Case) {
    subscribe(&case, "orders.*.paid", Subscription::to("mail").name("a")).await;
    subscribe(&case, "orders.>", Subscription::to("audit").name("b")).await;
    subscribe(&case, "orders.>", Subscription::to("audit").name("c")).await;
    subscribe(
        &case,
        "orders.eu.shipped",
        Subscription::to("mail").name("d"),
    )
    .await;
    let sent = job().header("country", "de");
    let published = publish(&case, "orders.eu.paid", sent.clone()).await;
    assert_eq!((published.id, published.matched), (sent.id, 3));
    assert_eq!(receivers(&published), ["a", "b", "c"]);
    let verdicts = published.copies.iter().map(|copy| copy.verdict);
    assert!(
        verdicts
            .into_iter()
            .all(|verdict| verdict.is_none_or(|it| it == EnqueueVerdict::Created))
    );
    assert_eq!(
        (waiting(&case, "mail").await, waiting(&case, "audit").await),
        (1, 2)
    );
    let copy = published.copies[0].id.expect("a copy is a job");
    let copy = case.get(copy).await;
    assert_eq!(
        (&*copy.queue, &*copy.kind, &copy.payload),
        ("mail", "mail", &sent.payload)
    );
    for (name, value) in [
        ("country", "de"),
        (SUBJECT_HEADER, "orders.eu.paid"),
        (DEPTH_HEADER, "1"),
    ] {
        let header = (name.to_owned(), value.to_owned());
        assert!(
            copy.headers.contains(&header),
            "{name} of {:?}",
            copy.headers
        );
    }
}

/// A handle that knows older subscriptions publishes under the present ones.
pub(super) async fn a_publish_meets_one_version(case: Case) {
    let old = queue(&case);
    let first = old.publish_job("a", job()).await.expect("published");
    assert_eq!(first.matched, 0);
    subscribe(&case, "a", Subscription::to("mail").name("late")).await;
    subscribe(&case, "a", Subscription::to("audit").name("later")).await;
    let second = old.publish_job("a", job()).await.expect("published");
    assert_eq!(receivers(&second), ["late", "later"]);
    assert!(second.version > first.version);
    let gone = queue(&case).topics().unsubscribe("late").await;
    assert!(gone.expect("unsubscribed"));
    let third = old.publish_job("a", job()).await.expect("published");
    assert_eq!(receivers(&third), ["later"]);
    assert_eq!(
        waiting(&case, "mail").await,
        1,
        "what lies in its queue stays"
    );
}

/// The same message again stores no second copy; a subscription made since has its first.
pub(super) async fn a_repeated_publish_makes_no_copy(case: Case) {
    subscribe(&case, "a", Subscription::to("mail").name("one")).await;
    let sent = job();
    publish(&case, "a", sent.clone()).await;
    subscribe(&case, "a", Subscription::to("audit").name("two")).await;
    let again = publish(&case, "a", sent.clone()).await;
    assert_eq!(again.matched, 2);
    let verdicts: Vec<_> = again.copies.iter().map(|copy| copy.verdict).collect();
    for (verdict, expected) in verdicts
        .into_iter()
        .zip([EnqueueVerdict::Duplicate, EnqueueVerdict::Created])
    {
        assert!(
            verdict.is_none_or(|verdict| verdict == expected),
            "{verdict:?}"
        );
    }
    assert_eq!(
        (waiting(&case, "mail").await, waiting(&case, "audit").await),
        (1, 1)
    );
    let other = publish(
        &case,
        "a",
        NewJob {
            id: JobId::new(),
            ..sent
        },
    )
    .await;
    assert_ne!(other.copies[0].id, again.copies[0].id);
    assert_eq!(waiting(&case, "mail").await, 2);
}

/// A publish without a matching subscription says so.
pub(super) async fn a_message_without_a_match_says_so(case: Case) {
    let published = publish(&case, "orders.eu.paid", job()).await;
    assert_eq!((published.matched, published.copies.len()), (0, 0));
    subscribe(&case, "orders.eu", Subscription::to("mail").name("a")).await;
    assert_eq!(publish(&case, "orders.eu.paid", job()).await.matched, 0);
    assert_eq!(waiting(&case, "mail").await, 0);
}

/// A full queue refuses its own copy; the others are stored.
pub(super) async fn a_full_subscriber_loses_no_other(case: Case) {
    let settings = QueueSettings::new().max_pending(0).on_full(OnFull::Refuse);
    case.configure(settings, 0).await;
    subscribe(&case, "a", Subscription::to(QUEUE).name("full")).await;
    subscribe(&case, "a", Subscription::to("mail").name("open")).await;
    let published = publish(&case, "a", job()).await;
    assert_eq!(published.matched, 2);
    let expected = [EnqueueVerdict::Full, EnqueueVerdict::Created];
    for (copy, expected) in published.copies.iter().zip(expected) {
        assert!(
            copy.verdict.is_none_or(|verdict| verdict == expected),
            "{copy:?}"
        );
    }
    assert_eq!(
        (waiting(&case, QUEUE).await, waiting(&case, "mail").await),
        (0, 1)
    );
}

/// A subscription may cancel by the message's unique key instead.
pub(super) async fn a_subscription_cancels_by_key(case: Case) {
    let reminder = case.enqueue(job_in(hours(1)).unique("order-7")).await;
    let other = case.enqueue(job_in(hours(1)).unique("order-8")).await;
    subscribe(
        &case,
        "orders.*.paid",
        Subscription::cancels(QUEUE).name("a"),
    )
    .await;
    let without = publish(&case, "orders.eu.paid", NewJob::new("x", "{}")).await;
    assert_eq!(without.matched, 0, "there is no key to cancel by");
    let paid = NewJob::new("x", "{}").unique("order-7");
    let published = publish(&case, "orders.eu.paid", paid).await;
    assert_eq!((published.matched, published.copies[0].id), (1, None));
    assert_eq!(case.state(reminder).await, JobState::Cancelled);
    assert_eq!(case.state(other).await, JobState::Scheduled);
}

/// Which subjects a pattern matches.
pub(super) async fn patterns_match_as_the_table_says(case: Case) {
    let patterns = [
        "a", "a.b", "a.*", "*.b", "*", "*.*", "a.>", ">", "a.*.c", "a.*.>",
    ];
    for pattern in patterns {
        subscribe(&case, pattern, Subscription::to("mail").name(pattern)).await;
    }
    let table: [(&str, &[&str]); 6] = [
        ("a", &["*", ">", "a"]),
        ("b", &["*", ">"]),
        ("a.b", &["*.*", "*.b", ">", "a.*", "a.>", "a.b"]),
        ("b.b", &["*.*", "*.b", ">"]),
        ("a.x.c", &[">", "a.*.>", "a.*.c", "a.>"]),
        ("a.x.y.z", &[">", "a.*.>", "a.>"]),
    ];
    for (subject, expected) in table {
        let published = publish(&case, subject, job()).await;
        assert_eq!(receivers(&published), expected, "{subject}");
    }
}

/// Which messages filters let pass.
pub(super) async fn filters_pass_as_the_table_says(case: Case) {
    let filters = [
        "country in [de,at]",
        "country not in [de]",
        "country starts with d",
        "country exists",
        "country absent",
        "amount >= 100",
        "amount in 1..9.5",
        "@kind = paid",
        "@group = g",
        "@due within 1h",
    ];
    for filter in filters {
        let one = Subscription::to("mail").filter(filter.parse().expect("it is a filter"));
        subscribe(&case, "a", one.name(filter)).await;
    }
    let at = case.clock() + minutes(90);
    let soon = "@due within 1h";
    let plain = ["country absent", "country not in [de]", soon];
    let table = [
        (job(), plain.to_vec()),
        (
            job().header("country", "de"),
            vec![
                "country exists",
                "country in [de,at]",
                "country starts with d",
                soon,
            ],
        ),
        (
            job().header("country", "fr").delay(hours(2)),
            vec!["country exists", "country not in [de]"],
        ),
        (
            job().header("amount", "100").at(at),
            vec!["amount >= 100", plain[0], plain[1]],
        ),
        (
            job().header("amount", "9.5").delay(minutes(5)),
            vec!["amount in 1..9.5", plain[0], plain[1], soon],
        ),
        (job().header("amount", "many"), plain.to_vec()),
        (
            job().kind("paid").group("g"),
            vec!["@group = g", "@kind = paid", plain[0], plain[1], soon],
        ),
    ];
    for (sent, mut expected) in table {
        expected.sort_unstable();
        let published = publish(&case, "a", sent.clone()).await;
        assert_eq!(receivers(&published), expected, "{sent:?}");
    }
}

/// A namespace has at most 1,000 subscriptions, and one that is malformed is refused.
pub(super) async fn subscriptions_are_bounded(case: Case) {
    let list = |count: usize| {
        let one =
            |nth: usize| format!(r#"{{"name":"s{nth:04}","pattern":"a.{nth}","queue":"mail"}}"#);
        let all: Vec<String> = (0..count).map(one).collect();
        format!(r#"{{"subscriptions":[{}]}}"#, all.join(","))
    };
    let write = |text: String, expected| Control::Write {
        name: TOPICS.into(),
        expected,
        value: Some(RecordValue::Opaque(bytes(&text))),
    };
    let most = write(list(SUBSCRIPTIONS_MAX), 0);
    assert!(matches!(case.control(most).await, Controlled::Written(_)));
    assert_eq!(publish(&case, "a.999", job()).await.matched, 1);
    let error = refused(&case, "b", Subscription::to("mail")).await;
    assert!(error.to_string().contains("1,000 subscriptions"), "{error}");
    let over = case
        .try_control(write(list(SUBSCRIPTIONS_MAX + 1), 1))
        .await;
    assert_eq!(over.expect_err("too many").kind(), ErrorKind::InvalidInput);
    let number = Filter::kind().at_least(1.0);
    for (pattern, wrong) in [
        ("a..b", Subscription::to("mail")),
        ("a.>.b", Subscription::to("mail")),
        ("b", Subscription::to("http:x")),
        ("b", Subscription::to("mail").filter(number)),
    ] {
        let error = refused(&case, pattern, wrong).await;
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

async fn refused(case: &Case, pattern: &str, wrong: Subscription) -> Error {
    let topics = queue(case).topics();
    let subscribed = topics.subscribe(pattern, wrong).await;
    subscribed.expect_err("it is refused")
}

/// The record of topics holds nothing else, and is not removed.
pub(super) async fn a_record_of_topics_holds_subscriptions(case: Case) {
    assert!(case.claims(&[Capability::Guards]).await);
    let double = r#"{"subscriptions":[{"name":"a","pattern":"a","queue":"b"},
        {"name":"a","pattern":"a","queue":"b"}]}"#;
    for value in [Some("7"), Some("{}"), Some(double), None] {
        let write = Control::Write {
            name: TOPICS.into(),
            expected: 0,
            value: value.map(|text| RecordValue::Opaque(bytes(text))),
        };
        let error = case.try_control(write).await.expect_err("it is no list");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
