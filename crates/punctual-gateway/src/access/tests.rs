//! Unit tests of `access`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use punctual::time::{Clock, ManualClock, Timestamp, seconds};
use punctual::{MemoryEngine, Namespace};

use super::{Failures, Tokens};
use crate::auth::authenticate;
use crate::http::{Peer, Scope, Token};
use crate::log::Log;
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
    tokens.failures = Arc::new(Failures::by(Arc::new(clock.clone())));
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
fn an_address_with_too_many_guesses_is_blocked_for_the_minute() {
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
fn a_known_client_is_not_locked_out_by_a_guesser_beside_it() {
    let (tokens, _clock) = guarded();
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
    for _ in 0..6 {
        shown(&tokens, WRONG, "203.0.113.7");
    }
    assert_eq!(shown(&tokens, WRONG, "203.0.113.7"), "too_many_requests");
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
}

#[test]
fn a_clock_that_is_set_back_lengthens_no_lockout() {
    let (tokens, clock) = guarded();
    for _ in 0..6 {
        shown(&tokens, WRONG, "203.0.113.7");
    }
    clock.set(Timestamp::from_micros(1_780_000_000_000_000));
    assert_eq!(shown(&tokens, RIGHT, "203.0.113.7"), "found");
}

#[test]
fn on_this_machine_the_right_token_passes_beside_guesses() {
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
fn a_client_without_a_token_takes_no_place_of_guessers() {
    let (tokens, _clock) = guarded();
    let limits = GatewayLimits {
        failures: 5,
        ..GatewayLimits::default()
    };
    let engine = Arc::new(MemoryEngine::new());
    let shared = Gateway::new(engine, tokens).limits(limits).shared();
    let asks = |text: Option<&str>, from: Ipv4Addr| {
        let peer = Peer::Network(from.into());
        match authenticate(&shared, text, None, peer) {
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
    // Those beyond are counted as one, and not locked out for each other.
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

#[test]
fn a_token_is_good_until_it_expires_or_is_replaced() {
    let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
    let until = clock.now() + seconds(60);
    let lines = [
        format!("{RIGHT} shop read until={until}"),
        format!("{OTHER} shop read"),
    ];
    let mut tokens = Tokens::new(lines.iter().map(|line| token(line)).collect());
    tokens.failures = Arc::new(Failures::by(Arc::new(clock.clone())));
    let here = Peer::Network([203, 0, 113, 7].into());
    let found = tokens.find(RIGHT, here).expect("it is good");
    assert!(tokens.has_still(&found));
    clock.advance(seconds(60));
    assert!(!tokens.has_still(&found));
    let refused = tokens.find(RIGHT, here).expect_err("it has expired");
    assert_eq!(refused.status.as_u16(), 401);
    assert!(refused.message().contains("expired"), "{refused:?}");
    // Who shows it guesses nothing.
    assert_eq!(tokens.failures.addresses(), 0);

    let other = tokens.find(OTHER, here).expect("it never expires");
    tokens.replace(vec![token(&lines[0])]);
    assert!(!tokens.has_still(&other));
    assert_eq!(shown(&tokens, OTHER, "203.0.113.8"), "unauthorized");
    // One that may do less than it might is another one.
    tokens.replace(vec![token(&format!("{OTHER} shop enqueue"))]);
    assert!(!tokens.has_still(&other));
    assert_eq!(shown(&tokens, OTHER, "203.0.113.8"), "found");
}

const OTHER: &str = "fedcba9876543210";

#[test]
fn an_end_of_a_token_that_is_none_is_refused() {
    for end in ["2027-01-01T00:00:00Z", "until=tomorrow", "until="] {
        let line = format!("{RIGHT} shop read {end}");
        let said = Token::parse(&line).expect_err(end).to_string();
        assert!(said.contains("until=2027"), "{said}");
    }
}

#[test]
fn short_tokens_and_those_of_few_characters_are_weak() {
    let strong = Token::generate();
    for (text, is_weak) in [
        (RIGHT, true),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
        ("passwordpasswordpassword", true),
        (&*strong, false),
        ("5f2b0c9d4e7a1b8c3d6e9f0a", false),
    ] {
        let token = Token::new(text, Namespace::default(), &Scope::ALL);
        assert_eq!(token.expect("16 characters").is_weak(), is_weak, "{text}");
    }
}

#[test]
fn wrong_tokens_are_in_the_log_with_their_address_and_bounded() {
    let log = Log::default();
    let _keeps = log.keep();
    let (tokens, clock) = guarded();
    for _ in 0..1_000 {
        shown(&tokens, WRONG, "203.0.113.7");
    }
    for of in 0..1_000_u32 {
        let address = Ipv4Addr::from(0xc633_0000 + of).to_string();
        shown(&tokens, WRONG, &address);
    }
    clock.advance(seconds(60));
    shown(&tokens, WRONG, "203.0.113.9");
    let lines = log.lines();
    let reported = lines.join("\n");
    assert!(lines[0].contains("203.0.113.7"), "{reported}");
    assert!(reported.contains("too many wrong tokens"), "{reported}");
    assert!(
        reported.contains("more wrong tokens within a minute"),
        "{reported}"
    );
    assert!(
        lines
            .last()
            .is_some_and(|line| line.contains("203.0.113.9"))
    );
    assert!(!reported.contains(WRONG), "{reported}");
    assert!(lines.len() < 50, "{reported}");
}
