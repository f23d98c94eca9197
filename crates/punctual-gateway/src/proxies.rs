//! Trusted proxies in front of a gateway, and the clients they forward.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;
use punctual::{Error, ErrorKind, Result};

/// Addresses of proxies that are believed: one, or a network such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proxy {
    network: IpAddr,
    prefix: u32,
}

/// All that are believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxies(pub(crate) Vec<Proxy>);

/// What each proxy adds the address to that asks it. `Forwarded` is not read: a proxy that knows
/// only this one passes on what its client wrote there.
const FORWARDED: &str = "x-forwarded-for";

impl Proxies {
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|proxy| proxy.has(address))
    }

    /// The address of the client, if `peer` is the other end of the connection: the last in line
    /// that is none of ours. What stands before that, any client may have written.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all(FORWARDED).into_iter().rev();
        let mut hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        let mut client = peer.to_canonical();
        while self.has(client)
            && let Some(hop) = hops.next().and_then(hop_of)
        {
            client = hop;
        }
        client
    }
}

/// Some proxies write the port too. What a client wrote before may be any bytes.
fn hop_of(bytes: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(bytes).ok()?.trim();
    let alone = text.trim_start_matches('[').trim_end_matches(']').parse();
    let address = alone.or_else(|_| text.parse().map(|place: SocketAddr| place.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

impl Proxy {
    fn has(&self, address: IpAddr) -> bool {
        let differ = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                u128::from(network.to_bits() ^ address.to_bits()) << 96
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => network.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= self.prefix
    }
}

/// Bits before an address of IPv4 that is written as one of IPv6.
const MAPPED: u32 = 96;

impl FromStr for Proxy {
    type Err = Error;

    /// Reads an address, or a network with its bits. One of IPv4 may be written as IPv6
    /// (`::ffff:10.0.0.0/104`).
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let message = "not an address of a proxy; write one such as 10.0.0.7, or a network such as 10.0.0.0/8";
            Error::new(ErrorKind::InvalidInput, message)
        };
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().map_err(|_| wrong())?;
        let bits = if network.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| wrong()))?;
        if prefix > bits {
            return Err(wrong());
        }
        // The address that is sought is canonical too.
        Ok(match network.to_canonical() {
            IpAddr::V4(v4) if network.is_ipv6() && prefix >= MAPPED => Self {
                network: v4.into(),
                prefix: prefix - MAPPED,
            },
            _ => Self { network, prefix },
        })
    }
}

#[cfg(test)]
mod tests;
