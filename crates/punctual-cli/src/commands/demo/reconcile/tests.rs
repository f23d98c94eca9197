//! Unit tests of `commands::demo::reconcile`.

use super::*;
use punctual::time::{minutes, seconds};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + ms)
}

fn order(number: u64) -> Order {
    Order {
        number,
        created: seconds(0),
        pay_within: minutes(30),
        payments: vec![],
    }
}

fn reconcile(accounts: Vec<Account>, runs: Vec<Timestamp>) -> Reconciliation {
    let orders: Vec<Order> = (1..=accounts.len() as u64).map(order).collect();
    let book = Book {
        accounts: (1..).zip(accounts).collect(),
        runs,
        ..Book::default()
    };
    Reconciliation::of(&book, &orders, 240.0)
}

fn placed() -> Account {
    Account {
        placed: Some((at(0), at(100))),
        ..Account::default()
    }
}

fn cancelled(ms: u64) -> Account {
    Account {
        cancelled: Some(at(ms)),
        ..placed()
    }
}

#[test]
fn paid_or_cancelled_on_time_is_good() {
    let paid = Account {
        paid: Some((1, at(50))),
        refunded: vec![2],
        ..placed()
    };
    let sum = reconcile(vec![paid, cancelled(101)], vec![at(0)]);
    assert!(sum.is_good());
    assert_eq!((sum.paid, sum.cancelled, sum.refunds), (1, 1, 1));
    assert_eq!(sum.lateness.max(), 1_000);
    let shape = serde_json::to_string(&sum.as_json()).expect("JSON");
    assert_eq!(
        shape,
        r#"{"orders":2,"paid":1,"cancelled":1,"both":0,"neither":0,"early":0,"lateness_ms":{"p50":1.0,"p99":1.0,"max":1.0}}"#
    );
}

#[test]
fn every_broken_promise_is_seen() {
    let both = Account {
        paid: Some((1, at(99))),
        ..cancelled(100)
    };
    let sum = reconcile(vec![both], vec![at(0)]);
    assert!(!sum.is_good());
    assert_eq!(sum.both, 1);

    let sum = reconcile(vec![placed()], vec![at(0)]);
    assert!(!sum.is_good());
    assert_eq!(sum.neither, 1);

    let sum = reconcile(vec![cancelled(99)], vec![at(0)]);
    assert!(!sum.is_good());
    assert_eq!(sum.early, 1);

    let unacknowledged = Account {
        placed: None,
        ..cancelled(100)
    };
    assert!(!reconcile(vec![unacknowledged], vec![at(0)]).is_good());
}

#[test]
fn what_fell_due_during_an_outage_is_no_lateness() {
    let sum = reconcile(vec![cancelled(9_000)], vec![at(0), at(8_990)]);
    assert!(sum.is_good());
    assert_eq!((sum.overdue, sum.lateness.len()), (1, 0));
    // Due before the second run, but cancelled by the first one already.
    let sum = reconcile(vec![cancelled(101)], vec![at(0), at(8_990)]);
    assert_eq!((sum.overdue, sum.lateness.len()), (0, 1));
}
