//! Whether a value of a relay file is for few eyes.

/// Words for secrets, as parameters and variables have them.
const WORDS: [&str; 5] = ["password", "passwd", "secret", "token", "api_key"];

/// Whether an address or a command line has a password, or names a secret and says it.
pub(super) fn is_secret(text: &str) -> bool {
    let parts = text.split(|letter: char| letter.is_whitespace() || "'\"`".contains(letter));
    parts.into_iter().any(has_password) || says_secret(&text.to_ascii_lowercase())
}

/// Whether an address has a user info with a password.
fn has_password(address: &str) -> bool {
    let rest = match address.split_once("://") {
        Some((_, rest)) => rest,
        None => address,
    };
    let rest = rest.split('?').next().unwrap_or_default();
    let Some((user, password)) = rest.split_once(':') else {
        return false;
    };
    // A password may have a `/`, and a path after the port may have an `@`.
    let port = password.split_once('/').map(|(port, _)| port);
    let has_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let has_host = |at: usize| at > 0 && at + 1 < password.len();
    !user.contains('/') && !has_port && password.find('@').is_some_and(has_host)
}

/// Whether one of the words is followed by a value that is no variable.
fn says_secret(text: &str) -> bool {
    WORDS.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let mut rest = text[at + word.len()..].chars();
            let joins = matches!(rest.next(), Some('=' | ' '));
            joins && rest.next().is_some_and(|first| !"$&- ".contains(first))
        })
    })
}
