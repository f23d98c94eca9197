use std::net::Ipv4Addr;
use std::sync::Arc;

use punctual::time::{ManualClock, Timestamp, seconds};
use punctual::{MemoryEngine, Namespace};

use super::{Caller, Failures, Scope, Token, Tokens};
use crate::doors::Peer;
use crate::{Gateway, GatewayLimits};

fn token(line: &str) -> Token {
    Token::parse(line).expect(line)
}

#[test]
fn scopes_allow_what_they_name_and_admin_all_of_a_namespace() {
    let reader = token("0123456789abcdef shop read,work");
    assert!(reader.allows(Scope::Read) && reader.allows(Scope::Work));
    assert!(!reader.allows(Scope::Enqueue) && !reader.allows(Scope::Admin));
    let admin = token("0123456789abcdef shop admin");
    let of_a_namespace = |scope: &Scope| *scope != Scope::Operator;
    let mut scopes = Scope::ALL.into_iter().filter(of_a_namespace);
    assert!(scopes.all(|scope| admin.allows(scope)));
    assert!(!admin.allows(Scope::Operator));
    let operator = token("0123456789abcdef shop operator");
    assert!(operator.allows(Scope::Operator) && !operator.allows(Scope::Read));
}

#[test]
fn tokens_that_are_easy_to_guess_or_unclear_are_refused() {
    for line in [
        "short shop read",
        "0123456789abcdef shop",
        "0123456789abcdef shop all",
        "0123456789abcdef {shop} read",
        "0123456789abcdef shop read more",
    ] {
        assert!(Token::parse(line).is_err(), "{line}");
    }
}

#[test]
fn generated_tokens_are_good_and_new() {
    let (one, other) = (Token::generate(), Token::generate());
    assert_ne!(one, other);
    Token::new(&one, Namespace::default(), &Scope::ALL).expect("a good token");
}

#[test]
fn tokens_are_not_shown() {
    let tokens = Tokens::new(vec![token("0123456789abcdef shop read")]);
    assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
}

const RIGHT: &str = "0123456789abcdef";
const WRONG: &str = "0123456789abcdeg";

/// Tokens of which five wrong ones may be shown in a minute of that clock.
fn guarded() -> (Tokens, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
    let mut tokens = Tokens::new(vec![token(&format!("{RIGHT} shop read"))]);
    tokens.failures = Failures::by(Arc::new(clock.clone()));
    (tokens.failures_max(5), clock)
}

fn shown(tokens: &Tokens, text: &str, from: &str) -> String {
    let peer = Peer::Network(from.parse().expect("an address"));
    match tokens.find(text, peer) {
        Ok(_) => "found".to_owned(),
        Err(problem) => problem.code().to_owned(),
    }
}

#[test]
fn who_has_guessed_too_often_is_looked_at_no_more_until_the_minute_is_over() {
    let (tokens, clock) = guarded();
    for (guesser, beside, others) in [
        ("203.0.113.7", "::ffff:203.0.113.7", "203.0.113.8"),
        ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
    ] {
        for _ in 0..5 {
            assert_eq!(shown(&tokens, WRONG, guesser), "unauthorized");
        }
        for text in [WRONG, RIGHT] {
            assert_eq!(shown(&tokens, text, guesser), "too_many_requests");
            assert_eq!(shown(&tokens, text, beside), "too_many_requests");
        }
        assert_eq!(shown(&tokens, RIGHT, others), "found");
    }
    clock.advance(seconds(59));
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "too_many_requests");
    clock.advance(seconds(1));
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
}

#[test]
fn who_was_let_in_before_is_not_locked_out_by_who_guesses_beside_it() {
    let (tokens, _clock) = guarded();
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
    for _ in 0..6 {
        shown(&tokens, WRONG, "203.0.113.7");
    }
    assert_eq!(shown(&tokens, WRONG, "203.0.113.7"), "too_many_requests");
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
}

#[test]
fn a_clock_that_is_set_back_locks_out_nobody_for_longer() {
    let (tokens, clock) = guarded();
    for _ in 0..6 {
        shown(&tokens, WRONG, "203.0.113.7");
    }
    clock.set(Timestamp::from_micros(1_780_000_000_000_000));
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
}

#[test]
fn on_this_machine_the_right_token_passes_whoever_guesses() {
    let (tokens, _clock) = guarded();
    for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        for _ in 0..6 {
            shown(&tokens, WRONG, here);
        }
        assert_eq!(shown(&tokens, WRONG, here), "too_many_requests");
        assert_eq!(shown(&tokens, RIGHT, here), "found");
    }
}

#[test]
fn who_shows_no_token_takes_no_place_of_those_who_guess() {
    let (tokens, _clock) = guarded();
    let limits = GatewayLimits {
        failures: 5,
        ..GatewayLimits::default()
    };
    let engine = Arc::new(MemoryEngine::new());
    let shared = Gateway::new(engine, tokens).limits(limits).shared();
    let asks = |text: Option<&str>, from: Ipv4Addr| {
        let peer = Peer::Network(from.into());
        match Caller::of(&shared, text, None, peer) {
            Ok(_) => "found".to_owned(),
            Err(problem) => problem.code().to_owned(),
        }
    };
    // More than are remembered, and one of them more often than one may guess.
    let guesser = Ipv4Addr::new(198, 51, 100, 7);
    let many = (0..20_000_u32).map(|of| Ipv4Addr::from(0xcb00_0000 + of));
    for from in many.chain([guesser; 20]) {
        assert_eq!(asks(None, from), "unauthorized");
    }
    for _ in 0..5 {
        assert_eq!(asks(Some(WRONG), guesser), "unauthorized");
    }
    assert_eq!(asks(Some(RIGHT), guesser), "too_many_requests");
    assert_eq!(asks(Some(RIGHT), Ipv4Addr::new(198, 51, 100, 8)), "found");
}

#[test]
fn however_many_guess_a_bounded_number_is_remembered_and_others_pass() {
    let (tokens, clock) = guarded();
    for of in 0..20_000_u32 {
        let address = Ipv4Addr::from(0xcb00_0000 + of);
        tokens.failures.count(Peer::Network(address.into()));
    }
    assert_eq!(tokens.failures.addresses(), 4_097);
    // Those beyond are told as one, and not locked out for each other.
    assert_eq!(shown(&tokens, WRONG, "203.0.60.1"), "too_many_requests");
    assert_eq!(shown(&tokens, RIGHT, "203.0.60.1"), "found");
    // Who is known is counted on.
    for _ in 0..4 {
        assert_eq!(shown(&tokens, WRONG, "203.0.0.0"), "unauthorized");
    }
    assert_eq!(shown(&tokens, RIGHT, "203.0.0.0"), "too_many_requests");
    clock.advance(seconds(60));
    assert_eq!(tokens.failures.addresses(), 0);
}
