//! Where jobs may be posted: the public network, and places that the operator opened.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use punctual::push::AmqpTarget;
use punctual::{Error, ErrorKind, Result};
use url::{Host, Url};

use crate::range::why_refused;

/// Decides which targets may be posted to.
///
/// A target is an `http` or `https` URL of at most 2,048 bytes, without user or password, on port
/// 80, 443, 8080 or 8443, whose host is a public address or a name that resolves to nothing else.
/// [`allow`](Self::allow) opens more.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allowed: Vec<Allow>,
    trusted: Vec<String>,
}

/// What an operator opens: `HOST`, `HOST:PORT`, `CIDR` or `CIDR:PORT`, such as
/// `hooks.internal:9000`, `10.0.0.0/8` or `[fd00::/8]:8080`. Without a port the usual ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    place: Place,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Name(String),
    Network(IpAddr, u32),
}

impl From<IpAddr> for Place {
    fn from(address: IpAddr) -> Self {
        Self::Network(address, if address.is_ipv4() { 32 } else { 128 })
    }
}

/// A URL whose form is good, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Place,
    port: u16,
    trusted: bool,
}

/// Ports that need no opening.
const PORTS: [u16; 4] = [80, 443, 8080, 8443];
/// Bytes of a URL.
const URL_BYTES_MAX: usize = 2_048;
/// Ends of names that are never public.
const INNER_NAMES: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "onion"];

impl Guard {
    /// Opens nothing but the public network.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens places on purpose.
    #[must_use]
    pub fn allow(mut self, places: impl IntoIterator<Item = Allow>) -> Self {
        self.allowed.extend(places);
        self
    }

    /// Lets one URL pass that the operator chose, wherever it leads; compared as a whole.
    #[must_use]
    pub fn trust(mut self, url: &str) -> Self {
        self.trusted.push(url.to_owned());
        self
    }

    /// Checks all that a URL says of itself; the addresses of its name are checked at delivery.
    ///
    /// An error is `Permanent`: it starts with `target_refused` and says what is wrong.
    pub fn check(&self, text: &str) -> Result<Target> {
        if text.len() > URL_BYTES_MAX {
            return Err(refused("the URL is over 2048 bytes"));
        }
        // Before it is parsed: parsers mend much of what is wrong, each in its own way.
        if text
            .chars()
            .any(|c| c == '\\' || c.is_whitespace() || c.is_control())
        {
            return Err(refused(
                "it has spaces, backslashes or control characters; write them as %20, %5C and so on",
            ));
        }
        let authority = authority(text);
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Err(refused("it has a user or password; send a header instead"));
        }
        let url = Url::parse(text).map_err(|error| {
            refused(&format!(
                "it is not a URL ({error}); write https://HOST/PATH"
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(
                "its scheme is neither http nor https; write https://HOST/PATH",
            ));
        }
        let Some(authority) = authority else {
            return Err(refused("it lacks slashes; write https://HOST/PATH"));
        };
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(refused("it has no host"));
        };
        let host = match host {
            Host::Domain(name) => Place::Name(name.trim_end_matches('.').to_lowercase()),
            Host::Ipv4(address) => IpAddr::from(address).into(),
            Host::Ipv6(address) => IpAddr::from(address).into(),
        };
        let trusted = self.trusted.iter().any(|own| own == text);
        let target = Target {
            url,
            host,
            port,
            trusted,
        };
        if !trusted {
            self.check_host(&target, authority)?;
        }
        Ok(target)
    }

    /// Checks the target of a job: a URL as [`check`](Self::check) does, or one on RabbitMQ.
    pub fn check_target(&self, target: &str) -> Result<()> {
        match AmqpTarget::is(target) {
            true => AmqpTarget::parse(target).map(drop),
            false => self.check(target).map(drop),
        }
    }

    fn check_host(&self, target: &Target, authority: &str) -> Result<()> {
        if let Place::Network(address, _) = &target.host {
            let written = authority.to_ascii_lowercase();
            let is = |plain: &str| {
                let port = written.strip_prefix(plain);
                port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
            };
            let plain = target.url.host_str().unwrap_or_default();
            // `[::ffff:127.0.0.1]` is usual too, and parsers write it in another way.
            if !is(plain) && !is(&format!("[{address}]")) {
                return Err(refused(&format!(
                    "its address is written in an unusual way; write {plain}"
                )));
            }
        }
        if !PORTS.contains(&target.port) && !self.may_open_port(target) {
            let (port, open) = (target.port, opening(&target.host, target.port));
            return Err(refused(&format!(
                "port {port} is not 80, 443, 8080 or 8443; {open}"
            )));
        }
        match &target.host {
            Place::Network(address, _) => self.admit(target, *address),
            Place::Name(name) if self.opens_name(name, target.port) => Ok(()),
            Place::Name(name) => {
                let is_inner = |end: &&str| {
                    name.strip_suffix(*end)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                if !name.contains('.') || INNER_NAMES.iter().any(is_inner) {
                    let open = opening(&target.host, target.port);
                    return Err(refused(&format!(
                        "{name} is an internal network name; {open}"
                    )));
                }
                Ok(())
            }
        }
    }

    /// Checks an address that the target's name resolved to, or that it is.
    pub fn admit(&self, target: &Target, address: IpAddr) -> Result<()> {
        let why = why_refused(address);
        let is_usual = PORTS.contains(&target.port);
        if target.trusted || (why.is_none() && is_usual) {
            return Ok(());
        }
        let named = match &target.host {
            Place::Name(name) => self.opens_name(name, target.port),
            Place::Network(..) => false,
        };
        let opens = |allow: &Allow| allow.has_address(address) && allow.has_port(target.port);
        if named || self.allowed.iter().any(opens) {
            return Ok(());
        }
        let what = why.unwrap_or("not opened for this port");
        let open = opening(&address.into(), target.port);
        Err(refused(&format!("the address {address} is {what}; {open}")))
    }

    fn opens_name(&self, name: &str, port: u16) -> bool {
        self.allowed.iter().any(|allow| match &allow.place {
            Place::Name(own) => own == name && allow.has_port(port),
            Place::Network(..) => false,
        })
    }

    /// Whether an option opened this port for the host, or for addresses that its name may have.
    fn may_open_port(&self, target: &Target) -> bool {
        self.allowed.iter().any(|allow| {
            let place = match (&allow.place, &target.host) {
                (Place::Name(own), Place::Name(name)) => own == name,
                (Place::Network(..), Place::Network(address, _)) => allow.has_address(*address),
                (Place::Network(..), Place::Name(_)) => true,
                (Place::Name(_), Place::Network(..)) => false,
            };
            place && allow.port == Some(target.port)
        })
    }
}

/// What is between the slashes of a URL, if it has them.
fn authority(text: &str) -> Option<&str> {
    let rest = text.split_once(':')?.1.strip_prefix("//")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|authority| !authority.is_empty())
}

/// What lets a target through that is refused for its host or port, in a form that [`Allow`] reads.
fn opening(host: &Place, port: u16) -> String {
    let place = match (host, PORTS.contains(&port)) {
        (Place::Name(name), true) => name.clone(),
        (Place::Name(name), false) => format!("{name}:{port}"),
        (Place::Network(address, _), true) => address.to_string(),
        (Place::Network(address, _), false) => SocketAddr::new(*address, port).to_string(),
    };
    format!("start with --push-allow {place} to open it")
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Permanent, format!("target_refused: {why}"))
}

impl Target {
    /// The URL as it is posted to.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is reached over TLS.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The host without brackets.
    pub fn name(&self) -> String {
        match &self.host {
            Place::Name(name) => name.clone(),
            Place::Network(address, _) => address.to_string(),
        }
    }

    /// Its address, if its host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Place::Name(_) => None,
            Place::Network(address, _) => Some(*address),
        }
    }
}

impl Allow {
    fn has_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => PORTS.contains(&port),
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        match (&self.place, address) {
            (Place::Network(IpAddr::V4(network), prefix), IpAddr::V4(address)) => {
                let differ = u32::from(*network) ^ u32::from(address);
                differ.checked_shr(32 - prefix).unwrap_or(0) == 0
            }
            (Place::Network(IpAddr::V6(network), prefix), IpAddr::V6(address)) => {
                let differ = u128::from(*network) ^ u128::from(address);
                differ.checked_shr(128 - prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Allow {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let message = "not a host or network; write HOST, HOST:PORT, CIDR or CIDR:PORT, \
                           such as hooks.internal:9000 or 10.0.0.0/8";
            Error::new(ErrorKind::InvalidInput, message).with("value", format!("{text:?}"))
        };
        // An IPv6 address alone has colons of its own.
        let (place, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
            (Some(rest), _) => {
                let (place, port) = rest.split_once(']').ok_or_else(wrong)?;
                (place, port.strip_prefix(':'))
            }
            (None, Some((place, port))) if !place.contains(':') => (place, Some(port)),
            (None, _) => (text, None),
        };
        let port = port.map(|port| port.parse().map_err(|_| wrong()));
        Ok(Self {
            place: place_of(place).ok_or_else(wrong)?,
            port: port.transpose()?,
        })
    }
}

fn place_of(text: &str) -> Option<Place> {
    if let Some((address, prefix)) = text.split_once('/') {
        let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return (prefix <= bits).then_some(Place::Network(address, prefix));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.into());
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) => Some(Place::Name(name.trim_end_matches('.').to_lowercase())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
