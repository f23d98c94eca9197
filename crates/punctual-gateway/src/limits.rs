//! What a gateway takes at the same time, and how long it waits for others.

use std::time::Duration;

use punctual::time::seconds;

/// Bounds of a gateway that are worth setting; the rest is fixed and told by `docs/http-api.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Connections at the same time at one address; more wait in the system's queue. 16,384.
    pub connections: usize,
    /// How long a head may take to arrive before its connection is closed, at least 1 ms. 10 s.
    pub head: Duration,
    /// How long the reader of a socket may take for one frame before it is dropped. 10 s.
    pub reader: Duration,
    /// Wrong tokens from one address within a minute that are told so; then it is `429`. 20.
    pub failures: u32,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            head: seconds(10),
            reader: seconds(10),
            failures: 20,
        }
    }
}
