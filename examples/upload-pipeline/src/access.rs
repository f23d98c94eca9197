//! Who may do what: the upload token, and pages of other sites.

use axum::http::{HeaderMap, StatusCode, header};
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::refusal::Refusal;

/// Uploads and deletions need the token, if there is one, and come from no page of another site.
/// Reading needs the id of a file, which cannot be guessed.
pub(crate) fn may_write(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    is_from_here(app, headers)?;
    let Some(token) = &app.settings.token else {
        return Ok(());
    };
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    match given {
        Some(given) if bool::from(given.as_bytes().ct_eq(token.as_bytes())) => Ok(()),
        Some(_) => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "wrong_token",
            "the upload token is wrong",
        )),
        None => {
            let message = "an upload needs the token: curl -H 'Authorization: Bearer TOKEN'";
            Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "missing_token",
                message,
            ))
        }
    }
}

/// A browser says which page asks. And who listens on this machine alone is asked by its names: a
/// page whose name was made to point here is refused.
pub(crate) fn is_from_here(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &header::HeaderValue| value.to_str().ok())
    };
    let host = text(header::HOST).unwrap_or_default();
    if app.settings.is_local && !is_local_name(host) {
        let message = "the name of this server is 127.0.0.1 or localhost; it answers to no other";
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            message,
        ));
    }
    let Some(origin) = text(header::ORIGIN) else {
        return Ok(());
    };
    let from = origin.split_once("://").map_or("", |(_, from)| from);
    match from == host {
        true => Ok(()),
        false => {
            let message = "a page of another site asks; open the page of this server";
            Err(Refusal::new(StatusCode::FORBIDDEN, "wrong_origin", message))
        }
    }
}

fn is_local_name(host: &str) -> bool {
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, port)| match port.ends_with(']') {
            true => host,
            false => name,
        });
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    name == "localhost" || is_address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local_name;

    #[test]
    fn names_of_this_machine_are_known() {
        for name in [
            "127.0.0.1",
            "127.0.0.1:4190",
            "localhost:1",
            "[::1]:4190",
            "[::1]",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "",
            "example.com",
            "127.0.0.1.example.com:80",
            "192.168.0.7:4190",
        ] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
