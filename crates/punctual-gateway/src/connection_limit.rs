//! The connection limit per address, so that one address cannot take all connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use punctual::sync::Lock;

/// Counts connections by address.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    most: usize,
    here: Mutex<HashMap<IpAddr, Here>>,
}

#[derive(Debug, Default)]
struct Here {
    connections: usize,
    was_refused: bool,
}

/// A permit for one connection of an address; dropping it releases it.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limit: Arc<ConnectionLimit>,
    counted: Option<IpAddr>,
}

impl ConnectionLimit {
    /// Allows that many connections per address.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            here: Mutex::default(),
        })
    }

    /// Connections that one address may have.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// A permit for one more connection of that address, or `None` at the limit. Loopback is not
    /// counted: clients behind a local proxy share it.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<AddressPermit> {
        let counted = address.map(site);
        let counted = counted.filter(|address| !address.is_loopback());
        if let Some(address) = counted {
            let mut all = self.here.locked();
            let here = all.entry(address).or_default();
            if here.connections >= self.most {
                if !std::mem::replace(&mut here.was_refused, true) {
                    let most = self.most;
                    tracing::warn!(%address, most, "an address has reached connections_per_address; the gateway closes further connections");
                }
                return None;
            }
            here.connections += 1;
        }
        let limit = self.clone();
        Some(AddressPermit { limit, counted })
    }
}

/// The unit that is counted: an IPv6 host owns the whole /64 of its address.
pub(crate) fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        other => other,
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some(address) = self.counted else { return };
        let all = &self.limit.here;
        let mut all = all.locked();
        if let Some(here) = all.get_mut(&address) {
            here.connections -= 1;
            if here.connections == 0 {
                all.remove(&address);
            }
        }
    }
}
