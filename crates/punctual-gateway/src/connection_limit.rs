//! How many connections each address has, so that none takes the places of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

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

/// A place of an address; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limit: Arc<ConnectionLimit>,
    counted: Option<IpAddr>,
}

impl ConnectionLimit {
    /// Lets that many in from one address.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            here: Mutex::default(),
        })
    }

    /// How many one address may have.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// A place for one more of that address, unless it has all that one may have. This machine is not
    /// counted: a proxy on it is one address for everybody.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<AddressPermit> {
        let counted = address.map(site);
        let counted = counted.filter(|address| !address.is_loopback());
        if let Some(address) = counted {
            let mut all = self.here.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Whoever has an IPv6 address has the 2^64 beside it.
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
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = all.get_mut(&address) {
            here.connections -= 1;
            if here.connections == 0 {
                all.remove(&address);
            }
        }
    }
}
