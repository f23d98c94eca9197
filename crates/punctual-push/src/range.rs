//! Address ranges that are not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused; `None` for one of the public network.
///
/// IPv6 addresses that carry an IPv4 address are judged by that one.
pub(crate) fn why_refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => why_v4(v4),
        IpAddr::V6(v6) => why_v6(v6),
    }
}

/// Network, prefix length, and what it is (RFC 6890 and its registry).
const V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "carrier-grade NAT"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    // Public by its number; only machines of that cloud reach it, and it serves their secrets.
    (
        Ipv4Addr::new(168, 63, 129, 16),
        32,
        "the host of an Azure machine",
    ),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

fn why_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let holds = |(network, prefix, _): &&(Ipv4Addr, u32, &str)| {
        (bits ^ u32::from(*network)) >> (32 - prefix) == 0
    };
    V4.iter().find(holds).map(|(_, _, what)| *what)
}

fn why_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| why_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0] if (g, h) == (0, 0) => Some("unspecified"),
        [0, 0, 0, 0, 0, 0] if (g, h) == (0, 1) => Some("loopback"),
        [0, 0, 0, 0, 0, 0xffff] => v4(g, h),
        [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        // A tunnel to what it carries.
        [0x2002, ..] => v4(b, c),
        // Teredo among them: its client's address is hidden in the end of it.
        [0x2001, 0..=0x01ff, ..] => Some("reserved for protocols"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("for documentation"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // Interface identifiers of ISATAP tunnel to an IPv4 address.
        [0x2000..=0x3fff, _, _, _, 0 | 0x0200, 0x5efe] => v4(g, h),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}
