//! Unit tests of `worker::queues`.

use super::*;

fn queues<const N: usize>(shares: [impl Into<QueueShare>; N]) -> Result<Queues> {
    Queues::new(&shares.map(Into::into))
}

#[test]
fn strict_order_never_changes() {
    let mut queues = queues(["critical", "default"]).unwrap();
    for _ in 0..10 {
        assert_eq!(queues.next(), ["critical", "default"]);
    }
}

#[test]
fn weights_take_turns_smoothly() {
    let mut queues = queues([("a", 5), ("b", 1), ("c", 1)]).unwrap();
    let firsts: Vec<_> = (0..7).map(|_| queues.next()[0].clone()).collect();
    assert_eq!(firsts.join(" "), "a a b a c a a");
}

#[test]
fn weights_give_their_shares() {
    let mut queues = queues([("critical", 6), ("default", 3), ("low", 1)]).unwrap();
    let mut firsts = std::collections::BTreeMap::new();
    for _ in 0..1_000 {
        *firsts.entry(queues.next()[0].clone()).or_insert(0) += 1;
    }
    let counts: Vec<_> = firsts.into_values().collect();
    assert_eq!(counts, [600, 300, 100]);
}

#[test]
fn every_claim_names_every_queue() {
    let mut queues = queues([("a", 9), ("b", 1)]).unwrap();
    for _ in 0..20 {
        let mut names = queues.next();
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }
}

#[test]
fn bad_lists_are_refused_by_name() {
    assert!(queues::<0>([] as [&str; 0]).is_err());
    assert!(queues(["a{b}"]).is_err());
    assert!(queues([("a", 0)]).is_err());
    let twice = queues(["mail", "mail"]).unwrap_err();
    assert!(twice.to_string().contains("named twice"), "{twice}");
}
