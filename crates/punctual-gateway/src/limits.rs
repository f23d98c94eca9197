//! What a gateway takes at the same time, and how long it waits for others.

use std::time::Duration;

use punctual::time::seconds;

/// Bounds of a gateway that are worth setting; the rest is fixed and listed in `docs/http-api.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Connections at the same time at one address; more wait in the system's queue. 16,384.
    pub connections: usize,
    /// Those of one address among them; more are closed at once. Half of them by default. Of IPv6
    /// the addresses of one network (/64) are one; this machine is not counted, nor are clients of
    /// a socket in a directory.
    pub connections_per_address: Option<usize>,
    /// How long a head may take to arrive before its connection is closed, and a connection be
    /// silent that waits for one, at least 1 ms. 10 s.
    pub head: Duration,
    /// How long a body may take to arrive, a line of `/v1/bulk` and a frame of a socket too. 30 s.
    pub body: Duration,
    /// Bytes that bodies on their way may take at the same time; 16 KiB of each are not counted.
    /// 160 MiB.
    pub body_bytes: usize,
    /// Those of all tokens of one namespace among them. 96 MiB.
    pub body_bytes_per_namespace: usize,
    /// Those of one token among them. 64 MiB.
    pub body_bytes_per_token: usize,
    /// How long the reader of an answer may take nothing of it, and that of a socket take for one
    /// frame, before it is dropped. 10 s.
    pub reader: Duration,
    /// How often a socket gets a ping; it is dropped if it has not answered by the next one. 30 s.
    pub(crate) ping: Duration,
    /// How long a loop of the engine or of this process may be at the same work before health is
    /// red. 60 s.
    pub round: Duration,
    /// Wrong tokens from one address within a minute that get `401`; then it is `429`. 20.
    pub failures: u32,
}

impl GatewayLimits {
    pub(crate) fn per_address(&self) -> usize {
        let half = self.connections.div_ceil(2);
        self.connections_per_address.unwrap_or(half).max(1)
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_address: None,
            head: seconds(10),
            body: seconds(30),
            body_bytes: 160 << 20,
            body_bytes_per_namespace: 96 << 20,
            body_bytes_per_token: 64 << 20,
            reader: seconds(10),
            ping: seconds(30),
            round: seconds(60),
            failures: 20,
        }
    }
}
