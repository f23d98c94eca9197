//! Unit tests of `commands::demo::ledger`.

use super::*;
use punctual::time::seconds;

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000) + seconds(second)
}

fn placed(order: u64) -> Entry {
    Entry::Placed {
        order,
        at: at(0),
        due: at(9),
    }
}

fn paid(order: u64, payment: usize) -> Entry {
    Entry::Paid {
        order,
        payment,
        at: at(1),
    }
}

fn cancelled(order: u64) -> Entry {
    Entry::Cancelled { order, at: at(9) }
}

#[tokio::test]
async fn each_effect_of_an_order_is_written_once_and_read_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path, false).expect("a ledger");
    for (entry, expected) in [
        (placed(1), Written::New),
        (placed(1), Written::Refused),
        (paid(1, 1), Written::New),
        (paid(1, 2), Written::Refused),
        (placed(2), Written::New),
        (cancelled(2), Written::New),
        (cancelled(2), Written::Refused),
    ] {
        assert_eq!(
            ledger.write(entry.clone()).await.expect("written"),
            expected,
            "{entry:?}"
        );
    }
    let bytes = std::fs::read(&path).expect("the file");
    let (book, whole) = Book::read(&bytes).expect("a good ledger");
    assert_eq!(whole, bytes.len());
    assert_eq!(book, *ledger.book());
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 4);
}

#[tokio::test]
async fn a_payment_of_a_cancelled_order_is_refused_but_not_the_reverse() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = Ledger::open(&dir.path().join("l"), false).expect("a ledger");
    ledger.write(cancelled(1)).await.expect("written");
    assert_eq!(
        ledger.write(paid(1, 1)).await.expect("answered"),
        Written::Refused
    );
    // The reverse would be the queue's fault, which the reconciliation must be able to see.
    ledger.write(paid(2, 1)).await.expect("written");
    assert_eq!(
        ledger.write(cancelled(2)).await.expect("answered"),
        Written::New
    );
}

#[test]
fn a_torn_last_line_was_never_written_and_a_torn_middle_is_refused() {
    let good = serde_json::to_string(&placed(1)).expect("json") + "\n";
    for cut in 0..good.len() {
        let bytes = format!("{good}{}", &good[..cut]);
        let (book, whole) = Book::read(bytes.as_bytes()).expect("a good ledger");
        assert_eq!((book.accounts.len(), whole), (1, good.len()));
    }
    let torn = format!("{}\n{good}", &good[..20]);
    assert!(Book::read(torn.as_bytes()).is_err_and(|error| error.to_string().contains("line 1")));
}
