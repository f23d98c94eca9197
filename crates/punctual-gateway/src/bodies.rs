//! Bytes of bodies on their way in, bounded per token, namespace and process.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use metrics::Gauge;
use punctual::sync::Lock;

use crate::http::{BodyOwner, Problem, Result};
use crate::limits::GatewayLimits;

/// Of each body so many bytes are not counted: small requests pass whatever large ones take.
pub(crate) const UNCOUNTED: usize = 16 << 10;

/// What all bodies take together, those of each namespace, and those of each token.
pub(crate) struct Bodies {
    all_max: usize,
    namespace_max: usize,
    token_max: usize,
    taken: Mutex<Taken>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_namespace: HashMap<Arc<str>, usize>,
    by_token: HashMap<BodyOwner, usize>,
}

impl Bodies {
    pub(crate) fn new(limits: &GatewayLimits, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self {
            all_max: limits.body_bytes,
            namespace_max: limits.body_bytes_per_namespace,
            token_max: limits.body_bytes_per_token,
            taken: Mutex::default(),
            gauge,
        })
    }

    /// A body that a token's owner begins to send.
    pub(crate) fn begin(self: &Arc<Self>, owner: BodyOwner) -> BodyPermit {
        BodyPermit {
            bodies: self.clone(),
            owner,
            counted: 0,
        }
    }

    /// Counts `now` bytes instead of `before`.
    fn count(&self, owner: &BodyOwner, before: usize, now: usize) -> Result<()> {
        let mut taken = self.taken.locked();
        let of_token = taken.by_token.get(owner).copied().unwrap_or(0) - before + now;
        let of_namespace = taken.by_namespace.get(&owner.namespace).copied();
        let of_namespace = of_namespace.unwrap_or(0) - before + now;
        let all = taken.all - before + now;
        let bounds = [
            (of_token, self.token_max, "this token", PER_TOKEN),
            (
                of_namespace,
                self.namespace_max,
                "this namespace",
                PER_NAMESPACE,
            ),
            (all, self.all_max, "all callers", OF_ALL),
        ];
        let over = bounds.iter().find(|(bytes, max, ..)| bytes > max);
        if let Some((_, max, whose, name)) = over.filter(|_| now > before) {
            return Err(too_many(whose, *max, name));
        }
        taken.all = all;
        set(&mut taken.by_token, owner, of_token);
        set(&mut taken.by_namespace, &owner.namespace, of_namespace);
        self.gauge.set(all as f64);
        Ok(())
    }
}

/// The limits by their names in the configuration.
const PER_TOKEN: &str = "body_bytes_per_token";
const PER_NAMESPACE: &str = "body_bytes_per_namespace";
const OF_ALL: &str = "body_bytes";

/// Remembers the bytes of a key that has some.
fn set<K: Clone + Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    match bytes {
        0 => drop(counts.remove(key)),
        bytes => drop(counts.insert(key.clone(), bytes)),
    }
}

fn too_many(what: &str, max: usize, name: &str) -> Problem {
    let status = match name {
        OF_ALL => StatusCode::SERVICE_UNAVAILABLE,
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
    owner: BodyOwner,
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
