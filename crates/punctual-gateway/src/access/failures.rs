//! Those who guess tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use punctual::time::Stopwatch;

use crate::crowd::site;
use crate::doors::Peer;
use crate::limits::GatewayLimits;
use crate::problem::Problem;

/// Wrong tokens by address within the present minute.
#[derive(Debug)]
pub(super) struct Failures {
    started: Stopwatch,
    /// Failures of one address in a minute that are told what is wrong.
    pub(super) max: u32,
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
    pub(super) fn count(&self, peer: Peer) -> Problem {
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
