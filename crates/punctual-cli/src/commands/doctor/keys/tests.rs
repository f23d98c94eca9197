//! Unit tests of `keys`.

use super::super::Status;
use super::*;

fn key(bytes: u64) -> KeySize {
    KeySize::new("punctual:{default/0}:n:orders", bytes)
}

#[test]
fn a_key_over_256_mib_is_a_warning_that_names_the_remedy() {
    let found = judged(&[key(600 << 20), key((256 << 20) + 1), key(256 << 20)]);
    assert_eq!(found.status, Status::Warning);
    assert_eq!(
        found.finding,
        "the largest, punctual:{default/0}:n:orders, has about 600 MiB; 2 over 256 MiB"
    );
    let remedy = found.remedy.expect("a remedy");
    assert!(remedy.contains("proto-max-bulk-len"), "{remedy}");
}

#[test]
fn keys_that_can_be_moved_are_good() {
    assert_eq!(judged(&[key(256 << 20)]).status, Status::Good);
    assert_eq!(judged(&[]).status, Status::Good);
}
