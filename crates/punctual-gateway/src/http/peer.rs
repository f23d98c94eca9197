//! Where a request comes from.

use std::net::IpAddr;

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over the network, loopback too.
    Network(IpAddr),
    /// A process of the same user, on the socket in the directory.
    Local,
    Unknown,
}

impl Peer {
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Network(address) => Some(address),
            Self::Local | Self::Unknown => None,
        }
    }
}
