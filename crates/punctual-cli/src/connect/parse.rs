//! Reads the text of an address.

use std::time::Duration;

use punctual::engine::Durability;
use punctual::time::parse_span;
use punctual_client::Transport;

use super::kept::Kept;
use super::{Address, RedisAddress, SUPPORTED};
use crate::failure::{Exit, Failure, Result};

impl Address {
    /// Reads an address such as `file:./punctual-data?durability=os`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| refuse(format!("engine address {text:?} has no scheme")))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let options = options.split('&').filter(|option| !option.is_empty());
        match scheme {
            "memory" => parse_memory(place, options),
            "file" => parse_file(place, options),
            "http" | "https" => parse_gateway(scheme, place, options),
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" => {
                text.parse::<punctual_redis::Options>()?;
                Ok(Self::Redis(RedisAddress(text.to_owned())))
            }
            "amqp" | "amqps" | "kafka" => {
                Err(refuse(format!("{scheme}: engines are not in this build")))
            }
            _ => Err(refuse(format!(
                "{scheme:?} is not an engine address scheme"
            ))),
        }
    }
}

fn refuse(message: String) -> Failure {
    Failure::new(Exit::Usage, "invalid_address", message).hint(format!(
        "this build supports {SUPPORTED}, such as file:./punctual-data?durability=os"
    ))
}

fn parse_memory<'a>(place: &str, options: impl Iterator<Item = &'a str>) -> Result<Address> {
    if !place.is_empty() {
        return Err(refuse("memory: takes no path".into()));
    }
    let mut kept = Kept::default();
    for option in options {
        if !kept.set(option)? {
            return Err(refuse(format!(
                "memory: has no option {option:?}; it has settled_window and retention"
            )));
        }
    }
    Ok(Address::Memory(kept))
}

fn parse_file<'a>(place: &str, options: impl Iterator<Item = &'a str>) -> Result<Address> {
    let place = place.strip_prefix("//").unwrap_or(place);
    if place.is_empty() {
        return Err(refuse("file: names no directory".into()));
    }
    let (mut durability, mut reserve) = (Durability::Fsync, None);
    let mut kept = Kept::default();
    for option in options {
        match option.split_once('=') {
            Some(("durability", value)) => durability = parse_durability(value)?,
            Some(("reserve", value)) => reserve = Some(parse_bytes(value)?),
            _ if kept.set(option)? => {}
            _ => {
                return Err(refuse(format!(
                    "file: has no option {option:?}; it has durability, reserve, \
                     settled_window and retention"
                )));
            }
        }
    }
    Ok(Address::File {
        dir: place.into(),
        durability,
        reserve,
        kept,
    })
}

fn parse_gateway<'a>(
    scheme: &str,
    place: &str,
    options: impl Iterator<Item = &'a str>,
) -> Result<Address> {
    let authority = place.strip_prefix("//").unwrap_or(place);
    let authority = authority.trim_end_matches('/');
    let odd = |c: char| matches!(c, '/' | '@' | '#') || c.is_whitespace();
    if authority.is_empty() || authority.contains(odd) {
        return Err(refuse(format!(
            "{scheme}: takes a host and a port, such as http://127.0.0.1:4180"
        )));
    }
    let mut transport = match scheme {
        "https" => Transport::Tls(None),
        _ => Transport::Plain,
    };
    let mut deadline = None;
    for option in options {
        match (option.split_once('='), &mut transport) {
            (Some(("deadline", span)), _) => deadline = Some(parse_deadline(span)?),
            (Some(("ca", file)), Transport::Tls(ca)) if !file.is_empty() => {
                *ca = Some(file.into());
            }
            (Some(("plaintext", "allow")), Transport::Plain) => {
                transport = Transport::PlainAnywhere;
            }
            _ => {
                return Err(refuse(format!(
                    "{scheme}: has no option {option:?}; both have deadline=30s, \
                     https: has ca=FILE, http: has plaintext=allow"
                )));
            }
        }
    }
    Ok(Address::Gateway {
        authority: authority.into(),
        transport,
        deadline,
    })
}

fn parse_deadline(text: &str) -> Result<Duration> {
    let span = parse_span(text)?;
    if span.is_zero() {
        let message = "deadline must be above 0";
        return Err(Failure::new(Exit::Usage, "invalid_address", message)
            .hint("write a span such as deadline=30s"));
    }
    Ok(span)
}

fn parse_bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = (number.zip(unit)).and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| {
        let message = format!("{text:?} is not a number of bytes");
        Failure::new(Exit::Usage, "invalid_address", message)
            .hint("write a number, or one of KiB, MiB or GiB, such as reserve=16MiB")
    })
}

fn parse_durability(text: &str) -> Result<Durability> {
    let span = text
        .strip_prefix("interval(")
        .and_then(|rest| rest.strip_suffix(')'));
    match (text, span) {
        ("fsync", _) => Ok(Durability::Fsync),
        ("os", _) => Ok(Durability::Os),
        (_, Some(span)) => Ok(Durability::Interval(parse_span(span)?)),
        _ => Err(Failure::new(
            Exit::Usage,
            "invalid_address",
            format!("{text:?} is not a durability"),
        )
        .hint("write fsync (the default), os, or interval(50ms)")),
    }
}
