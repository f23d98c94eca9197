//! Those who guess tokens.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use punctual::time::{Clock, SystemClock, Timestamp, minutes};

use crate::crowd::site;
use crate::doors::Peer;
use crate::limits::GatewayLimits;
use crate::problem::Problem;

/// Wrong tokens by address within the present minute.
#[derive(Debug)]
pub(super) struct Failures {
    clock: Arc<dyn Clock>,
    /// Wrong tokens of one address in a minute that are told to be wrong.
    pub(super) max: u32,
    minute: Mutex<Minute>,
    /// Tokens, by their place, and addresses from which they were shown: whoever guesses there too is no reason to
    /// lock these out.
    at_home: Mutex<HashSet<(IpAddr, usize)>>,
}

#[derive(Debug, Default)]
struct Minute {
    since: Timestamp,
    by_address: HashMap<Option<IpAddr>, u32>,
}

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
            max: GatewayLimits::default().failures,
            minute: Mutex::default(),
            at_home: Mutex::default(),
        }
    }

    /// A token that was good, from there.
    pub(super) fn is_good(&self, peer: Peer, place: usize) {
        let Some(address) = peer.address().map(site) else {
            return;
        };
        let mut at_home = self.at_home.lock().unwrap_or_else(PoisonError::into_inner);
        if at_home.len() < ADDRESSES_MAX {
            at_home.insert((address, place));
        }
    }

    /// Whether it was good from there before.
    pub(super) fn is_at_home(&self, peer: Peer, place: usize) -> bool {
        let at_home = self.at_home.lock().unwrap_or_else(PoisonError::into_inner);
        peer.address()
            .is_some_and(|address| at_home.contains(&(site(address), place)))
    }

    /// The answer to whoever has shown so many wrong tokens that no new one of his is looked at.
    ///
    /// This machine is let pass: a proxy on it that nobody has named is one address for everybody, and
    /// anyone could lock all others out.
    pub(super) fn block(&self, peer: Peer) -> Option<Problem> {
        let address = peer.address().map(site);
        let address = address.filter(|address| !address.is_loopback())?;
        let (minute, left) = self.minute();
        let wrong = *minute.by_address.get(&Some(address))?;
        let hint = format!(
            "wait {left} s: until then no token that is new from this address is looked at; if many share a proxy, \
             name it in trusted_proxies of punctual.toml"
        );
        (wrong >= self.max).then(|| too_many(left, hint))
    }

    /// Counts a wrong one; the answer to it.
    pub(super) fn count(&self, peer: Peer) -> Problem {
        let (mut minute, left) = self.minute();
        let is_crowded = minute.by_address.len() >= ADDRESSES_MAX;
        let address = peer.address().map(|address| Some(site(address)));
        let counted = address.filter(|known| !is_crowded || minute.by_address.contains_key(known));
        let wrong = minute.by_address.entry(counted.flatten()).or_default();
        *wrong = wrong.saturating_add(1);
        if *wrong > self.max {
            let hint = format!(
                "wait {left} s, or send the right token; if many share a proxy, \
                 name it in trusted_proxies of punctual.toml"
            );
            return too_many(left, hint);
        }
        unauthorized()
    }

    /// The present minute, and how many seconds of it are left.
    fn minute(&self) -> (MutexGuard<'_, Minute>, u8) {
        let now = self.clock.now();
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back begins another one.
        if now < minute.since || now.since(minute.since) >= minutes(1) {
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

/// The answer to who shows no token that is good here.
pub(super) fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "no token that is good here was shown",
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
