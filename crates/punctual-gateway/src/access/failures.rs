//! Rate limit of wrong tokens per address.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::http::StatusCode;
use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp, minutes};

use crate::connection_limit::site;
use crate::http::{Peer, Problem, Token};
use crate::limits::GatewayLimits;

/// Wrong tokens by address within the present minute.
#[derive(Debug)]
pub(super) struct Failures {
    clock: Arc<dyn Clock>,
    /// Wrong tokens of one address in a minute that get `401`.
    max: AtomicU32,
    minute: Mutex<Minute>,
    /// Tokens, by their hash, and addresses from which they were shown: another client that guesses
    /// there does not lock these out.
    at_home: Mutex<HashSet<(IpAddr, [u8; 32])>>,
}

#[derive(Debug, Default)]
struct Minute {
    since: Timestamp,
    by_address: HashMap<Option<IpAddr>, u32>,
    /// Addresses that the log names.
    logged: usize,
    /// Wrong tokens beyond those in the log.
    unlogged: u64,
}

/// Addresses that the log names in a minute; more are counted there.
const LOGGED_MAX: usize = 20;

/// Addresses that are counted; more are counted as one.
const ADDRESSES_MAX: usize = 4_096;

impl Default for Failures {
    fn default() -> Self {
        Self::by(Arc::new(SystemClock))
    }
}

impl Failures {
    pub(super) fn by(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            max: AtomicU32::new(GatewayLimits::default().failures),
            minute: Mutex::default(),
            at_home: Mutex::default(),
        }
    }

    pub(super) fn max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A token that was good, from there.
    pub(super) fn is_good(&self, peer: Peer, token: &Token) {
        let Some(address) = peer.address().map(site) else {
            return;
        };
        let mut at_home = self.at_home.locked();
        if at_home.len() < ADDRESSES_MAX {
            at_home.insert((address, token.hash()));
        }
    }

    /// Whether it was good from there before.
    pub(super) fn is_at_home(&self, peer: Peer, token: &Token) -> bool {
        let at_home = self.at_home.locked();
        peer.address()
            .is_some_and(|address| at_home.contains(&(site(address), token.hash())))
    }

    /// The answer to an address that sent so many wrong tokens that the gateway checks no new one
    /// of it.
    ///
    /// This machine is never blocked: an unlisted proxy on it is one address for all clients, and
    /// any of them could lock all others out.
    pub(super) fn block(&self, peer: Peer) -> Option<Problem> {
        let address = peer.address().map(site);
        let address = address.filter(|address| !address.is_loopback())?;
        let (minute, left) = self.minute();
        let wrong = *minute.by_address.get(&Some(address))?;
        let hint = format!(
            "wait {left} s: until then the gateway checks no new token from this address; if many clients share a proxy, list it in trusted_proxies of punctual.toml"
        );
        (wrong >= self.max.load(Ordering::Relaxed)).then(|| too_many(left, hint))
    }

    /// Counts a wrong one; the answer to it.
    pub(super) fn count(&self, peer: Peer) -> Problem {
        let (mut minute, left) = self.minute();
        let is_full = minute.by_address.len() >= ADDRESSES_MAX;
        let address = peer.address().map(|address| Some(site(address)));
        let counted = address.filter(|known| !is_full || minute.by_address.contains_key(known));
        let wrong = minute.by_address.entry(counted.flatten()).or_default();
        *wrong = wrong.saturating_add(1);
        let (wrong, max) = (*wrong, self.max.load(Ordering::Relaxed));
        minute.log(counted.flatten(), wrong, max);
        if wrong > max {
            let hint = format!(
                "wait {left} s, or send the right token; if many clients share a proxy, list it in trusted_proxies of punctual.toml"
            );
            return too_many(left, hint);
        }
        unauthorized()
    }

    /// The present minute, and how many seconds of it are left.
    fn minute(&self) -> (MutexGuard<'_, Minute>, u8) {
        let now = self.clock.now();
        let mut minute = self.minute.locked();
        // A clock that was set back begins another one.
        if now < minute.since || now.since(minute.since) >= minutes(1) {
            if minute.unlogged > 0 {
                let (more, addresses) = (minute.unlogged, minute.by_address.len());
                tracing::warn!(
                    more,
                    addresses,
                    "clients sent more wrong tokens within a minute"
                );
            }
            *minute = Minute {
                since: now,
                ..Minute::default()
            };
        }
        let left = 60 - now.since(minute.since).as_secs();
        (minute, left as u8)
    }

    #[cfg(test)]
    pub(super) fn addresses(&self) -> usize {
        self.minute().0.by_address.len()
    }
}

impl Minute {
    /// Logs the first wrong token of an address, and the one from which on it is refused.
    fn log(&mut self, address: Option<IpAddr>, wrong: u32, max: u32) {
        let is_first = wrong == 1 && self.logged < LOGGED_MAX;
        let address = address.map_or_else(|| "others".to_owned(), |it| it.to_string());
        if is_first {
            self.logged += 1;
            tracing::warn!(address, "a client sent a wrong token");
        } else if wrong == max && self.logged < 2 * LOGGED_MAX {
            self.logged += 1;
            tracing::warn!(
                address,
                wrong,
                "an address sent too many wrong tokens; the gateway refuses more"
            );
        } else {
            self.unlogged += 1;
        }
    }
}

/// The answer to a token that has expired.
pub(super) fn expired() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "the token has expired",
    )
    .hint("ask the operator of the gateway for a new one")
}

/// The answer to a call without a valid token.
pub(crate) fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "no valid token was sent",
    )
    .hint("send the header Authorization: Bearer TOKEN; `punctual serve` printed the token")
}

fn too_many(left: u8, hint: String) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_requests",
        "too many wrong tokens from this address",
    )
    .hint(hint)
    .retry_after(left)
}
