//! What relays of a namespace may reach: addresses, exchanges, topics, commands. By default none.

use serde::Deserialize;

use crate::commands::relay::Reach;

/// Each list has names, and beginnings of names that end with `*`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Allow {
    addresses: Vec<String>,
    pub(super) exchanges: Vec<String>,
    topics: Vec<String>,
    commands: Vec<String>,
}

impl Allow {
    /// An error names what is not allowed, and the line that allows it.
    pub(super) fn check(&self, namespace: &str, reach: &Reach) -> Result<(), String> {
        let (list, what, name) = match reach {
            Reach::Address(address) => (&self.addresses, "addresses", place_of(address)?),
            Reach::Exchange(name) => (&self.exchanges, "exchanges", name.clone()),
            Reach::Topic(name) => (&self.topics, "topics", name.clone()),
            Reach::Topics(begin) => return self.check_all(namespace, begin),
            Reach::Command(line) => (&self.commands, "commands", line.clone()),
        };
        if list.iter().any(|pattern| matches(pattern, &name)) {
            return Ok(());
        }
        let shown = format!("{name:?}");
        Err(format!(
            "the namespace {namespace} may not reach {shown}; add it to {what} of [allow.{namespace}]"
        ))
    }

    /// Whether every name with that beginning is allowed.
    fn check_all(&self, namespace: &str, begin: &str) -> Result<(), String> {
        let covers = |pattern: &String| {
            let allowed = pattern.strip_suffix('*');
            allowed.is_some_and(|allowed| begin.starts_with(allowed))
        };
        if self.topics.iter().any(covers) {
            return Ok(());
        }
        Err(format!(
            "the namespace {namespace} may not reach every name that begins with {begin:?}; add \
             \"{begin}*\" to topics of [allow.{namespace}]"
        ))
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => pattern == name,
    }
}

/// The host and the port of an address, without user, password and path; or the file of SQLite.
pub(super) fn place_of(address: &str) -> Result<String, String> {
    let (scheme, rest) = address.split_once(':').unwrap_or(("", address));
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme == "sqlite" {
        return Ok(format!("sqlite:{place}"));
    }
    // A database's client takes a host from there too.
    let names = query
        .split('&')
        .filter_map(|pair| pair.split('=').next())
        .map(str::to_ascii_lowercase);
    for name in names {
        if ["host", "hostaddr", "port", "socket"].contains(&name.as_str()) {
            return Err(format!(
                "the address has {name} behind its `?`; write the host in front"
            ));
        }
    }
    let place = place.split('/').next().unwrap_or_default();
    let place = place.rsplit('@').next().unwrap_or_default();
    if place.is_empty() {
        return Err("the address has no host; write one such as redis://127.0.0.1:6379".into());
    }
    let has_port = match place.rsplit_once(']') {
        Some((_, port)) => port.starts_with(':'),
        None => place.contains(':'),
    };
    let port = match scheme {
        _ if has_port => return Ok(place.to_ascii_lowercase()),
        "redis" | "rediss" => 6379,
        "amqp" => 5672,
        "amqps" => 5671,
        "postgres" | "postgresql" => 5432,
        "mysql" | "mariadb" => 3306,
        "http" => 15672,
        _ => return Err(format!("the address has an unknown scheme {scheme:?}")),
    };
    Ok(format!("{}:{port}", place.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port_without_secrets() {
        for (address, place) in [
            ("redis://ann:p@ss@Cache.internal", "cache.internal:6379"),
            ("redis://127.0.0.1:7000/3", "127.0.0.1:7000"),
            ("rediss://[::1]", "[::1]:6379"),
            ("amqp://guest:guest@broker/%2f", "broker:5672"),
            ("postgres://app:x@db:5433/shop?sslmode=require", "db:5433"),
            ("mysql://app@db/shop", "db:3306"),
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("sqlite://shop.db?mode=rwc", "sqlite:shop.db"),
        ] {
            assert_eq!(place_of(address).as_deref(), Ok(place), "{address}");
        }
        for address in [
            "postgres://allowed/shop?host=other",
            "postgres://allowed/shop?sslmode=x&HOSTADDR=1.2.3.4",
            "mysql://allowed/shop?socket=/tmp/other",
            "kafka://broker",
            "redis://",
            "amqp:///vhost",
        ] {
            assert!(place_of(address).is_err(), "{address}");
        }
    }

    #[test]
    fn nothing_is_allowed_by_default_and_patterns_end_with_a_star() {
        let none = Allow::default();
        let orders = Reach::Exchange("orders.paid".into());
        let why = none.check("shop", &orders).expect_err("not allowed");
        assert!(why.contains("exchanges of [allow.shop]"), "{why}");
        let allow: Allow =
            toml::from_str("exchanges = [\"orders.*\"]\ntopics = [\"mail\"]").expect("a list");
        assert_eq!(allow.check("shop", &orders), Ok(()));
        let list = Reach::Topic("orders.paid".into());
        assert!(allow.check("shop", &list).is_err());
        let longer = Reach::Topic("mail2".into());
        assert!(allow.check("shop", &longer).is_err());
    }

    #[test]
    fn a_name_on_the_list_is_no_beginning_of_others() {
        let check = |list: &str, begin: &str| {
            let allow: Allow = toml::from_str(&format!("topics = [{list:?}]")).expect("a list");
            allow.check("shop", &Reach::Topics(begin.into()))
        };
        let why = check("mail", "mail").expect_err("others begin so");
        let remedy =
            "every name that begins with \"mail\"; add \"mail*\" to topics of [allow.shop]";
        assert!(why.contains(remedy), "{why}");
        for (list, begin, is_allowed) in [
            ("mail*", "mail", true),
            ("mail*", "mail:", true),
            ("*", "", true),
            ("mail:*", "mail", false),
            ("mail2", "mail", false),
            ("mail*", "", false),
        ] {
            assert_eq!(check(list, begin).is_ok(), is_allowed, "{list} {begin}");
        }
    }
}
