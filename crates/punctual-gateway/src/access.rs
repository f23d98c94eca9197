//! Who may ask for what: tokens, their scopes and namespace, and those who guess.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use punctual::time::Stopwatch;
use punctual::{Error, ErrorKind, Namespace};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::crowd::site;
use crate::doors::Peer;
use crate::limits::GatewayLimits;
use crate::problem::{Problem, Result};
use crate::state::Shared;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// To look at everything.
    Read = 1,
    /// To put jobs in.
    Enqueue = 2,
    /// To claim, extend and settle.
    Work = 4,
    /// To change jobs and queues; it includes those above.
    Admin = 8,
    /// To look at what is of no one namespace: how large the store is, how its servers are set up. For who
    /// runs the server; no other scope includes it.
    Operator = 16,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Enqueue,
        Self::Work,
        Self::Admin,
        Self::Operator,
    ];

    /// The name on the wire and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Enqueue => "enqueue",
            Self::Work => "work",
            Self::Admin => "admin",
            Self::Operator => "operator",
        }
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(name: &str) -> punctual::Result<Self> {
        let known = Self::ALL.into_iter().find(|scope| scope.name() == name);
        known.ok_or_else(|| {
            let message =
                "a token's scope is not known; write read, enqueue, work, admin or operator";
            Error::new(ErrorKind::InvalidInput, message)
        })
    }
}

/// One token: kept as its hash, good for one namespace.
#[derive(Clone)]
pub struct Token {
    /// What the audit record calls it.
    name: Arc<str>,
    hash: [u8; 32],
    namespace: Namespace,
    scopes: u8,
}

/// The least characters of a token that somebody chose.
const TOKEN_CHARS_MIN: usize = 16;

impl Token {
    /// A token with these scopes in that namespace; refused if it is easy to guess.
    pub fn new(text: &str, namespace: Namespace, scopes: &[Scope]) -> punctual::Result<Self> {
        let sound = text.len() >= TOKEN_CHARS_MIN && text.bytes().all(|c| c.is_ascii_graphic());
        if !sound {
            let message = "a token is too short or has a space; \
                           use at least 16 visible characters, such as `openssl rand -hex 24` gives";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Self::of_hash(
            Sha256::digest(text).into(),
            namespace,
            scopes,
        ))
    }

    /// The token that has this SHA-256, for files that shall not have the token itself.
    pub fn of_hash(hash: [u8; 32], namespace: Namespace, scopes: &[Scope]) -> Self {
        let name: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            name: name.into(),
            hash,
            namespace,
            scopes: scopes.iter().fold(0, |bits, scope| bits | *scope as u8),
        }
    }

    /// Calls it so in the audit record, instead of by the begin of its SHA-256.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Reads `TOKEN NAMESPACE SCOPE[,SCOPE]`.
    pub fn parse(line: &str) -> punctual::Result<Self> {
        let wrong = |message: &str| Error::new(ErrorKind::InvalidInput, message);
        let mut words = line.split_whitespace();
        let (Some(text), Some(namespace), Some(scopes), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong(
                "a line needs TOKEN NAMESPACE SCOPE[,SCOPE], with scopes of read, enqueue, work, admin and operator",
            ));
        };
        let scopes: Result<Vec<Scope>, Error> = scopes.split(',').map(str::parse).collect();
        let scopes = scopes?;
        Self::new(text, Namespace::new(namespace)?, &scopes)
    }

    /// A fresh text for a token, with more bits than anybody can try.
    pub fn generate() -> String {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        format!("pct_{}{}", random(), &random()[..16])
    }

    /// The one namespace that it is good for.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn allows(&self, scope: Scope) -> bool {
        let also = match scope {
            Scope::Operator => 0,
            _ => Scope::Admin as u8,
        };
        self.scopes & (scope as u8 | also) != 0
    }

    pub(crate) fn scopes(&self) -> Vec<&'static str> {
        let held = Scope::ALL.into_iter().filter(|scope| self.allows(*scope));
        held.map(Scope::name).collect()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Token({}, {}, {})",
            self.name,
            self.namespace,
            self.scopes().join(",")
        )
    }
}

/// All tokens of a gateway.
#[derive(Debug)]
pub struct Tokens {
    known: Vec<Token>,
    open: bool,
    failures: Failures,
}

impl Tokens {
    /// Only who shows one of these may ask.
    pub fn new(known: Vec<Token>) -> Self {
        Self {
            known,
            open: false,
            failures: Failures::default(),
        }
    }

    pub(crate) fn failures_max(mut self, max: u32) -> Self {
        self.failures.max = max;
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
        let mut namespaces = self.known.iter().map(Token::namespace);
        let first = namespaces.next();
        namespaces.any(|namespace| Some(namespace) != first)
    }

    /// The token of that text; as slow for a wrong one as for a right one.
    pub(crate) fn find(&self, text: &str, peer: Peer) -> Result<&Token> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        let mut found = None;
        for token in &self.known {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        found.ok_or_else(|| self.failures.count(peer))
    }

    fn missing(&self, peer: Peer) -> Problem {
        self.failures.count(peer)
    }
}

/// Wrong tokens by address within the present minute.
#[derive(Debug)]
struct Failures {
    started: Stopwatch,
    /// Failures of one address in a minute that are told what is wrong.
    max: u32,
    minute: Mutex<(u64, HashMap<Option<IpAddr>, u32>)>,
}

/// Addresses that are counted; more are counted as one.
const ADDRESSES_MAX: usize = 4_096;

impl Default for Failures {
    fn default() -> Self {
        Self {
            started: Stopwatch::start(),
            max: GatewayLimits::default().failures,
            minute: Mutex::default(),
        }
    }
}

impl Failures {
    /// Counts one; the answer to it.
    fn count(&self, peer: Peer) -> Problem {
        let elapsed = self.started.elapsed().as_secs();
        let (now, left) = (elapsed / 60, 60 - elapsed % 60);
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        if minute.0 != now {
            *minute = (now, HashMap::new());
        }
        let crowded = minute.1.len() >= ADDRESSES_MAX;
        let address = peer.address().filter(|_| !crowded).map(site);
        let failures = minute.1.entry(address).or_default();
        *failures = failures.saturating_add(1);
        if *failures > self.max {
            return Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                "too many wrong tokens from this address",
            )
            .hint(format!(
                "wait {left} s, or send the right token: it passes all the same; if many share a proxy, \
                 name it in trusted_proxies of punctual.toml"
            ))
            .retry_after(left as u8);
        }
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "no token that is good here was shown",
        )
        .hint("send the header Authorization: Bearer TOKEN; `punctual serve` printed the token")
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
            return Err(shared.tokens.missing(peer));
        };
        let token = shared.tokens.find(text, peer)?;
        if namespace.is_some_and(|name| name != token.namespace().as_str()) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "namespace_mismatch",
                "this token is not for that namespace",
            )
            .hint("leave X-Punctual-Namespace out, or show a token of that namespace"));
        }
        Ok(Self {
            namespace: token.namespace().clone(),
            token: Some(token.clone()),
            is_local: false,
        })
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

    /// What the audit record calls it.
    pub(crate) fn who(&self) -> &str {
        match &self.token {
            Some(token) => &token.name,
            None if self.is_local => "local",
            None => "anybody",
        }
    }

    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(scope))
    }

    pub(crate) fn need(&self, scope: Scope) -> Result<()> {
        if self.allows(scope) {
            return Ok(());
        }
        let message = format!("this token has not the scope {}", scope.name());
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .hint("show another token; who runs the gateway says what each may"))
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
