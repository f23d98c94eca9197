//! Authentication of requests, and the scopes that routes need.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use punctual::Namespace;

use crate::access::unauthorized;
use crate::http::{Caller, Peer, Problem, RequestContext, Result, Scope};
use crate::shared::Shared;

/// The caller that sends this token (or none) and names this namespace (or none).
pub(crate) fn authenticate(
    shared: &Shared,
    token: Option<&str>,
    namespace: Option<&str>,
    peer: Peer,
) -> Result<Caller> {
    if shared.tokens.is_open() || peer == Peer::Local {
        let namespace = namespace.map(Namespace::new).transpose()?;
        let namespace = namespace.unwrap_or_default();
        return Ok(match peer {
            Peer::Local => Caller::local(namespace),
            _ => Caller::open(namespace),
        });
    }
    let Some(text) = token else {
        // A request without a token is no guess and is not counted: many of them would hide
        // guesses.
        return Err(unauthorized());
    };
    let token = shared.tokens.find(text, peer)?;
    if namespace.is_some_and(|name| name != token.namespace().as_str()) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "namespace_mismatch",
            "the token belongs to another namespace",
        )
        .hint("omit X-Punctual-Namespace, or send a token of that namespace"));
    }
    Ok(Caller::with_token(token))
}

/// Whether the token of a caller is still valid, for requests that last.
pub(crate) fn may_go_on(shared: &Shared, caller: &Caller) -> bool {
    let token = caller.token();
    token.is_none_or(|token| shared.tokens.has_still(token))
}

/// A scope as a type, so that a route's signature says what it needs.
pub(crate) trait Needs: Send + Sync {
    /// Any of these.
    const ANY: &'static [Scope];
}

macro_rules! needs {
    ($($name:ident: $any:expr),*) => {$(
        #[derive(Debug)]
        pub(crate) struct $name;
        impl Needs for $name {
            const ANY: &'static [Scope] = &$any;
        }
    )*};
}
needs!(
    Anything: Scope::ALL,
    Reading: [Scope::Read],
    Asking: [Scope::Read, Scope::Enqueue],
    Enqueuing: [Scope::Enqueue],
    Working: [Scope::Work],
    Blocking: [Scope::Work, Scope::Admin],
    Administering: [Scope::Admin]
);

/// A caller with a scope that the route needs; refused before the body is read.
#[derive(Debug)]
pub(crate) struct Allowed<N>(pub(crate) Caller, pub(crate) PhantomData<N>);

impl<N: Needs> FromRequestParts<Shared> for Allowed<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self> {
        let caller = caller_of(parts, shared)?;
        if let Some(context) = parts.extensions.get::<RequestContext>() {
            context.set_caller(caller.sees_engine(), caller.owner());
        }
        if N::ANY.iter().any(|scope| caller.allows(*scope)) {
            return Ok(Self(caller, PhantomData));
        }
        caller.need(N::ANY[0])?;
        Ok(Self(caller, PhantomData))
    }
}

/// The caller by the headers of a request.
pub(crate) fn caller_of(parts: &Parts, shared: &Shared) -> Result<Caller> {
    let header = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let peer = parts.extensions.get().copied().unwrap_or(Peer::Unknown);
    let authorization = header(header::AUTHORIZATION.as_str());
    let token = authorization.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    authenticate(shared, token, header("x-punctual-namespace"), peer)
}
