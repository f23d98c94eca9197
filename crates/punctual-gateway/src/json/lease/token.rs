//! A lease's token as it is written.

use punctual::engine::Token;

use crate::decode::shown;
use crate::http::{Problem, Result};

/// Reads a token as it is written: `FENCE-NONCE`.
pub(crate) fn token_of(text: &str) -> Result<Token> {
    let read = || {
        let (fence, nonce) = text.split_once('-')?;
        Some(Token::new(fence.parse().ok()?, hex(nonce)?))
    };
    read().ok_or_else(|| {
        Problem::invalid(format!(
            "token is \"{}\", which is not a token",
            shown(text)
        ))
        .hint("send the token as the claim returned it")
    })
}

/// Sixteen digits as a number.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|c| c.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}
