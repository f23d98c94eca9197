//! Bytes of bodies on their way in, bounded per token and per process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use metrics::Gauge;
use punctual::sync::Lock;

use crate::http::{Problem, Result};
use crate::limits::GatewayLimits;

/// Of each body so many bytes are not counted: small requests pass whatever large ones take.
pub(crate) const UNCOUNTED: usize = 16 << 10;

/// What all bodies take together, and those of each token.
pub(crate) struct Bodies {
    all_max: usize,
    each_max: usize,
    taken: Mutex<Taken>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_owner: HashMap<Arc<str>, usize>,
}

impl Bodies {
    pub(crate) fn new(limits: &GatewayLimits, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self {
            all_max: limits.body_bytes,
            each_max: limits.body_bytes_per_token,
            taken: Mutex::default(),
            gauge,
        })
    }

    /// A body that a token's owner begins to send.
    pub(crate) fn begin(self: &Arc<Self>, owner: Arc<str>) -> BodyPermit {
        BodyPermit {
            bodies: self.clone(),
            owner,
            counted: 0,
        }
    }

    /// Counts `now` bytes instead of `before`.
    fn count(&self, owner: &Arc<str>, before: usize, now: usize) -> Result<()> {
        let mut taken = self.taken.locked();
        let own = taken.by_owner.get(owner).copied().unwrap_or(0);
        let (all, own) = (taken.all - before + now, own - before + now);
        if now > before {
            let (what, max, name) = match (own > self.each_max, all > self.all_max) {
                (true, _) => ("this token", self.each_max, "body_bytes_per_token"),
                (_, true) => ("all callers", self.all_max, "body_bytes"),
                _ => ("", 0, ""),
            };
            if !what.is_empty() {
                return Err(too_many(what, max, name));
            }
        }
        taken.all = all;
        match own {
            0 => drop(taken.by_owner.remove(owner)),
            own => drop(taken.by_owner.insert(owner.clone(), own)),
        }
        self.gauge.set(all as f64);
        Ok(())
    }
}

fn too_many(what: &str, max: usize, name: &str) -> Problem {
    let status = match name {
        "body_bytes" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    };
    let message = format!("request bodies of {what} would exceed {max} bytes at the same time");
    Problem::new(status, "too_many_bodies", message)
        .hint(format!(
            "send fewer or smaller bodies at the same time, or raise {name} under [limits] of punctual.toml"
        ))
        .retry_after(1)
}

impl fmt::Debug for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bodies(of {} bytes)", self.all_max)
    }
}

/// What one body takes; dropping it gives that back.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    bodies: Arc<Bodies>,
    owner: Arc<str>,
    counted: usize,
}

impl BodyPermit {
    /// It takes so many bytes of memory now; refused, and as before, if that is too much.
    pub(crate) fn takes(&mut self, bytes: usize) -> Result<()> {
        let now = bytes.saturating_sub(UNCOUNTED);
        if now != self.counted {
            self.bodies.count(&self.owner, self.counted, now)?;
            self.counted = now;
        }
        Ok(())
    }

    /// Another body of the same owner.
    pub(crate) fn another(&self) -> Self {
        self.bodies.begin(self.owner.clone())
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        // To take less is never refused.
        let _ = self.takes(0);
    }
}

#[cfg(test)]
mod tests;
