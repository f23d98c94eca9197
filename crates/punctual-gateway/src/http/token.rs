//! Tokens and their scopes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use punctual::time::Timestamp;
use punctual::{Error, ErrorKind, Namespace, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Scope {
    /// To look at everything.
    Read = 1,
    /// To enqueue jobs.
    Enqueue = 2,
    /// To claim, extend and settle.
    Work = 4,
    /// To change jobs and queues; it includes those above.
    Admin = 8,
    /// To look at what is of no one namespace: how large the store is, how its servers are set up.
    /// For operators of the server; no other scope includes it.
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

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|scope| scope.name() == name);
        known.ok_or_else(|| {
            let message = "unknown token scope; use read, enqueue, work, admin or operator";
            Error::new(ErrorKind::InvalidInput, message)
        })
    }
}

/// One token: kept as its hash, good for one namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    name: Arc<str>,
    hash: [u8; 32],
    namespace: Namespace,
    scopes: u8,
    expires: Option<Timestamp>,
    is_weak: bool,
}

/// The least characters of a token that a person chose.
const TOKEN_CHARS_MIN: usize = 16;
/// One with fewer characters, or with fewer different ones, can be guessed over a network in time.
const STRONG_CHARS_MIN: usize = 24;
const STRONG_KINDS_MIN: usize = 8;

impl Token {
    /// A token with these scopes in that namespace; refused if it is easy to guess.
    pub fn new(text: &str, namespace: Namespace, scopes: &[Scope]) -> Result<Self> {
        let sound = text.len() >= TOKEN_CHARS_MIN && text.bytes().all(|c| c.is_ascii_graphic());
        if !sound {
            let message = "a token is too short or has a space; \
                           use at least 16 visible characters, for example from `openssl rand -hex 24`";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let mut token = Self::of_hash(Sha256::digest(text).into(), namespace, scopes);
        let kinds = text.bytes().collect::<BTreeSet<_>>().len();
        token.is_weak = text.len() < STRONG_CHARS_MIN || kinds < STRONG_KINDS_MIN;
        Ok(token)
    }

    /// The token that has this SHA-256, for files that shall not have the token itself.
    pub fn of_hash(hash: [u8; 32], namespace: Namespace, scopes: &[Scope]) -> Self {
        let name: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            name: name.into(),
            hash,
            namespace,
            scopes: scopes.iter().fold(0, |bits, scope| bits | *scope as u8),
            expires: None,
            is_weak: false,
        }
    }

    /// Good until that instant.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual::Namespace;
    /// use punctual_gateway::{Scope, Token};
    ///
    /// let token = Token::new("0123456789abcdef", Namespace::default(), &[Scope::Read])?;
    /// let token = token.until("2027-01-01T00:00:00Z".parse()?);
    /// # Ok::<(), punctual::Error>(())
    /// ```
    #[must_use]
    pub fn until(mut self, instant: Timestamp) -> Self {
        self.expires = Some(instant);
        self
    }

    /// Whether it is short or made of few different characters. Of one that is known by its hash
    /// nothing is known.
    pub fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// Calls it so in the audit record, instead of by the begin of its SHA-256.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Reads `TOKEN NAMESPACE SCOPE[,SCOPE] [until=INSTANT]`.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual_gateway::Token;
    ///
    /// Token::parse("0123456789abcdef shop read,work")?;
    /// Token::parse("0123456789abcdef shop read until=2027-01-01T00:00:00Z")?;
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn parse(line: &str) -> Result<Self> {
        let wrong = |message: &str| Error::new(ErrorKind::InvalidInput, message);
        let mut words = line.split_whitespace();
        let (Some(text), Some(namespace), Some(scopes), until, None) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) else {
            return Err(wrong(
                "a line needs TOKEN NAMESPACE SCOPE[,SCOPE], with scopes of read, enqueue, work, admin and operator",
            ));
        };
        let until = until.map(|word| {
            let instant = word.strip_prefix("until=").and_then(|at| at.parse().ok());
            instant.ok_or_else(|| {
                wrong("the fourth word is not an expiry; write until=INSTANT, such as until=2027-01-01T00:00:00Z")
            })
        });
        let until: Option<Timestamp> = until.transpose()?;
        let scopes: Result<Vec<Scope>> = scopes.split(',').map(str::parse).collect();
        let scopes = scopes?;
        let token = Self::new(text, Namespace::new(namespace)?, &scopes)?;
        Ok(match until {
            Some(instant) => token.until(instant),
            None => token,
        })
    }

    /// A fresh text for a token, with more bits than can be tried.
    pub fn generate() -> String {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        format!("pct_{}{}", random(), &random()[..16])
    }

    /// Whether this is its SHA-256; takes as long if it is not.
    pub(crate) fn has(&self, hash: &[u8; 32]) -> bool {
        self.hash.ct_eq(hash).into()
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        self.hash
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// What the audit record calls it.
    pub fn name(&self) -> &str {
        &self.name
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
