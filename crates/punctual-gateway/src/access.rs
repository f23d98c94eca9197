//! Who may ask for what.

mod failures;
mod token;

use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use punctual::Namespace;
use sha2::{Digest, Sha256};

use self::failures::Failures;
pub use self::token::{Scope, Token};
use crate::listener::Peer;
use crate::problem::{Problem, RequestContext, Result};
use crate::state::Shared;

/// All tokens of a gateway. Clones are the same tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    known: Arc<RwLock<Vec<Token>>>,
    open: bool,
    failures: Arc<Failures>,
}

impl Tokens {
    /// Only who shows one of these may ask.
    pub fn new(known: Vec<Token>) -> Self {
        Self {
            known: Arc::new(RwLock::new(known)),
            open: false,
            failures: Arc::default(),
        }
    }

    /// From now on these are good, and no others: what a token that is gone began ends. A socket that it opened is closed
    /// within half a minute.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual_gateway::{Token, Tokens};
    ///
    /// let old = Token::parse("0123456789abcdef shop read")?;
    /// let new = Token::parse("fedcba9876543210 shop read")?;
    /// let tokens = Tokens::new(vec![old]);
    /// // A gateway was given a clone of `tokens`.
    /// tokens.replace(vec![new]);
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn replace(&self, known: Vec<Token>) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a token that was good is so still.
    fn has_still(&self, token: &Token) -> bool {
        !token.has_expired(self.failures.now()) && self.known().contains(token)
    }

    pub(crate) fn failures_max(self, max: u32) -> Self {
        self.failures.max(max);
        self
    }

    /// Everybody may do everything in every namespace: for loopback and tests.
    pub fn open() -> Self {
        Self {
            open: true,
            ..Self::new(Vec::new())
        }
    }

    /// Whether everybody may do everything.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether they are of several namespaces, which see nothing of each other.
    pub(crate) fn are_of_many(&self) -> bool {
        let known = self.known();
        let mut namespaces = known.iter().map(Token::namespace);
        let first = namespaces.next();
        namespaces.any(|namespace| Some(namespace) != first)
    }

    /// The token of that text; as slow for a wrong one as for a right one. For an address that has
    /// shown too many wrong ones only those are compared that were good there before.
    pub(crate) fn find(&self, text: &str, peer: Peer) -> Result<Token> {
        let blocked = self.failures.block(peer);
        let hash: [u8; 32] = Sha256::digest(text).into();
        let mut found = None;
        for token in self.known().iter() {
            let is_looked_at = blocked.is_none() || self.failures.is_at_home(peer, token);
            if is_looked_at && token.has(&hash) {
                found = Some(token.clone());
            }
        }
        match found {
            Some(token) if token.has_expired(self.failures.now()) => {
                tracing::info!(name = token.name(), "a client sent an expired token");
                Err(failures::expired())
            }
            Some(token) => {
                self.failures.is_good(peer, &token);
                Ok(token)
            }
            None => Err(blocked.unwrap_or_else(|| self.failures.count(peer))),
        }
    }
}

/// Who asks, and in which namespace.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) namespace: Namespace,
    /// Of a process of the same user, and where nobody needs one, there is none.
    token: Option<Token>,
    is_local: bool,
}

impl Caller {
    /// The caller that shows this token (or none) and names this namespace (or none).
    pub(crate) fn of(
        shared: &Shared,
        token: Option<&str>,
        namespace: Option<&str>,
        peer: Peer,
    ) -> Result<Self> {
        if shared.tokens.open || peer == Peer::Local {
            let namespace = namespace.map(Namespace::new).transpose()?;
            return Ok(Self {
                is_local: peer == Peer::Local,
                ..Self::local(namespace.unwrap_or_default())
            });
        }
        let Some(text) = token else {
            // Who shows none guesses none, and is not counted: or many of them would hide who does.
            return Err(failures::unauthorized());
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
        Ok(Self {
            namespace: token.namespace().clone(),
            token: Some(token),
            is_local: false,
        })
    }

    /// Whether its token is good still; for what goes on after it was shown.
    pub(crate) fn may_go_on(&self, shared: &Shared) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| shared.tokens.has_still(token))
    }

    /// A process of the same user.
    pub(crate) fn local(namespace: Namespace) -> Self {
        Self {
            namespace,
            token: None,
            is_local: true,
        }
    }

    /// Whether no token bounds it to a namespace: it could as well name any.
    pub(crate) fn sees_all(&self) -> bool {
        self.token.is_none()
    }

    /// Whether it may know what is of no one namespace.
    pub(crate) fn sees_engine(&self) -> bool {
        self.allows(Scope::Operator)
    }

    /// What the audit record calls it.
    pub(crate) fn who(&self) -> &str {
        match &self.token {
            Some(token) => token.name(),
            None if self.is_local => "local",
            None => "anybody",
        }
    }

    /// Whom its bodies are counted for.
    pub(crate) fn owner(&self) -> Arc<str> {
        format!("{}/{}", self.namespace, self.who()).into()
    }

    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(scope))
    }

    pub(crate) fn need(&self, scope: Scope) -> Result<()> {
        if self.allows(scope) {
            return Ok(());
        }
        let message = format!("the token lacks the scope {}", scope.name());
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .hint("use a token with that scope; the operator of the gateway issues them"))
    }

    pub(crate) fn scopes(&self) -> Vec<&'static str> {
        match &self.token {
            Some(token) => token.scopes(),
            None => Scope::ALL.map(Scope::name).into(),
        }
    }
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
    Administering: [Scope::Admin]
);

/// A caller who may do what the route needs; refused before the body is read.
#[derive(Debug)]
pub(crate) struct Allowed<N>(pub(crate) Caller, pub(crate) PhantomData<N>);

impl<N: Needs> FromRequestParts<Shared> for Allowed<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self> {
        let caller = caller_of(parts, shared)?;
        if let Some(context) = parts.extensions.get::<RequestContext>() {
            context.is_of(&caller);
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
    Caller::of(shared, token, header("x-punctual-namespace"), peer)
}

#[cfg(test)]
mod tests;
