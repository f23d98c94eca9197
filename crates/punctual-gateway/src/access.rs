//! The tokens of a gateway, and the limit of wrong ones.

mod failures;

use std::sync::{Arc, RwLock, RwLockReadGuard};

use punctual::sync::SharedLock;
use sha2::{Digest, Sha256};

use self::failures::Failures;
pub(crate) use self::failures::unauthorized;
use crate::http::{Peer, Result, Token};

/// All tokens of a gateway. Clones are the same tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    known: Arc<RwLock<Vec<Token>>>,
    open: bool,
    failures: Arc<Failures>,
}

impl Tokens {
    /// Only callers with one of these may call.
    pub fn new(known: Vec<Token>) -> Self {
        Self {
            known: Arc::new(RwLock::new(known)),
            open: false,
            failures: Arc::default(),
        }
    }

    /// From now on these are good, and no others: what a token that is gone began ends. A socket
    /// that it opened is closed within half a minute.
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
        *self.known.writing() = known;
    }

    fn known(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        self.known.reading()
    }

    /// Whether a token that was good is so still.
    pub(crate) fn has_still(&self, token: &Token) -> bool {
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
            let is_compared = blocked.is_none() || self.failures.is_at_home(peer, token);
            if is_compared && token.has(&hash) {
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

#[cfg(test)]
mod tests;
