//! Unit tests of `commands::demo::orders`.

use super::*;
use punctual::time::{minutes, seconds};

#[test]
fn the_orders_are_what_the_demo_promises() {
    let orders = parse(BUILT_IN.as_bytes(), usize::MAX).expect("good orders");
    assert_eq!(orders.len(), 3_000);
    let share = |holds: fn(&Order) -> bool| {
        orders.iter().filter(|order| holds(order)).count() as f64 / orders.len() as f64
    };
    let races = |order: &Order| {
        let near = |at: &Duration| at.abs_diff(order.pay_within) <= seconds(1);
        order.payments.iter().any(near)
    };
    assert!(share(races) >= 0.05);
    assert!(share(|order| order.payments.is_empty()) > 0.2);
    assert!(share(|order| order.payments.len() == 2) > 0.05);
    let late = |order: &Order| {
        order
            .payments
            .first()
            .is_some_and(|at| *at > order.pay_within + seconds(5))
    };
    assert!(share(late) > 0.05);
}

#[test]
fn wrong_orders_are_named_by_line() {
    let good = r#"{"order":1,"created_at":"2026-11-20T18:00:00Z","pay_within":"30m","cents":1,"payments":["2026-11-20T18:01:00Z"]}"#;
    let one = parse(good.as_bytes(), 9).expect("an order").remove(0);
    assert_eq!(
        (one.pay_within, &one.payments[..]),
        (minutes(30), &[minutes(1)][..])
    );

    let refused = |text: String| parse(text.as_bytes(), 9).expect_err("refused");
    assert_eq!(refused(format!("{good}\nx")).0, 2);
    assert!(
        refused(format!("{good}\n{}", &good[..40]))
            .1
            .starts_with("truncated")
    );
    assert!(refused(good.replace("18:01", "17:59")).1.contains("before"));
    assert!(refused(good.replace("30m", "30")).1.contains("not a span"));
    assert!(refused(format!("{good}\n{good}")).1.contains("twice"));
}
