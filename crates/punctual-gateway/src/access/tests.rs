use std::net::{IpAddr, Ipv4Addr};

use punctual::Namespace;

use super::{Scope, Token, Tokens};
use crate::doors::Peer;

const PEER: Peer = Peer::Network(IpAddr::V4(Ipv4Addr::LOCALHOST));

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

#[test]
fn guessing_is_slowed_down_but_the_right_token_passes() {
    let tokens = Tokens::new(vec![token("0123456789abcdef shop read")]).failures_max(5);
    let code = |text: &str| match tokens.find(text, PEER) {
        Ok(_) => "found".to_owned(),
        Err(problem) => problem.code().to_owned(),
    };
    for _ in 0..5 {
        assert_eq!(code("0123456789abcdeg"), "unauthorized");
    }
    assert_eq!(code("0123456789abcdeg"), "too_many_requests");
    assert_eq!(code("0123456789abcdef"), "found");
}
