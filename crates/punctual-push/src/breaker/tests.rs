//! Unit tests of `breaker`.

use super::*;

const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn broken() -> Breaker {
    let mut breaker = Breaker::default();
    for nth in 1..=FAILURES_MAX {
        assert_eq!(breaker.admit(START), Admission::Go);
        assert_eq!(breaker.ill(START), nth == FAILURES_MAX);
    }
    breaker
}

#[test]
fn failures_in_a_row_open_it_and_one_probe_closes_it() {
    let mut breaker = broken();
    assert_eq!(breaker.admit(START), Admission::Wait(OPEN_FIRST));
    let later = START + OPEN_FIRST;
    assert_eq!(breaker.admit(later), Admission::Probe);
    // The others wait for what it finds.
    assert!(matches!(breaker.admit(later), Admission::Wait(_)));
    breaker.well();
    assert_eq!(breaker.admit(later), Admission::Go);
    assert!(breaker.is_fresh());
}

#[test]
fn an_answer_between_failures_keeps_it_closed() {
    let mut breaker = Breaker::default();
    for _ in 0..100 {
        for _ in 1..FAILURES_MAX {
            assert!(!breaker.ill(START));
        }
        breaker.well();
    }
    assert_eq!(breaker.admit(START), Admission::Go);
}

#[test]
fn each_probe_that_fails_doubles_the_wait_up_to_its_bound() {
    let mut breaker = broken();
    let mut now = START;
    let mut waits = Vec::new();
    for _ in 0..8 {
        let Admission::Wait(span) = breaker.admit(now) else {
            panic!("{breaker:?} is not open");
        };
        waits.push(span.as_secs());
        now = now + span;
        assert_eq!(breaker.admit(now), Admission::Probe);
        assert!(breaker.ill(now));
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600, 600]);
}

#[test]
fn failures_that_began_before_it_opened_do_not_prolong_it() {
    let mut breaker = broken();
    assert!(!breaker.ill(START + seconds(10)));
    assert_eq!(breaker.admit(START + OPEN_FIRST), Admission::Probe);
}

#[test]
fn a_probe_that_learned_nothing_leaves_the_next_one_to_probe() {
    let mut breaker = broken();
    let later = START + OPEN_FIRST;
    assert_eq!(breaker.admit(later), Admission::Probe);
    breaker.unknown(later);
    assert_eq!(breaker.admit(later), Admission::Probe);
}
