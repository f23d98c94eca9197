//! Unit tests of `proxies`.

use axum::http::HeaderValue;

use super::*;

fn proxies(places: &[&str]) -> Proxies {
    let read = places.iter().map(|place| place.parse().expect("a place"));
    Proxies(read.collect())
}

/// Whom these proxies ask for, by the lines of the header.
fn client(places: &[&str], peer: &str, lines: &[impl AsRef<[u8]>]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        let value = HeaderValue::from_bytes(line.as_ref());
        headers.append(FORWARDED, value.expect("a value"));
    }
    let peer = peer.parse().expect("an address");
    proxies(places).client(peer, &headers).to_string()
}

#[test]
fn a_header_of_an_unknown_peer_is_not_believed() {
    let spoofed = ["127.0.0.1"];
    assert_eq!(client(&[], "203.0.113.7", &spoofed), "203.0.113.7");
    assert_eq!(client(&["10.0.0.7"], "10.0.0.8", &spoofed), "10.0.0.8");
    assert_eq!(client(&["::1"], "127.0.0.1", &["1.1.1.1"]), "127.0.0.1");
}

#[test]
fn the_client_is_the_last_in_line_that_is_no_proxy() {
    let ours = ["10.0.0.0/8", "2001:db8::/32"];
    for (lines, reported) in [
        (&["198.51.100.1"][..], "198.51.100.1"),
        // What the client itself wrote stands first.
        (&["127.0.0.1, 10.9.9.9, 198.51.100.1"], "198.51.100.1"),
        (&["127.0.0.1", "198.51.100.1, 10.0.0.9"], "198.51.100.1"),
        (&["198.51.100.1:50000, [2001:db8::1]:80"], "198.51.100.1"),
        (&["::ffff:198.51.100.1"], "198.51.100.1"),
        (&["[2001:db9::1]"], "2001:db9::1"),
        (&["10.0.0.9"], "10.0.0.9"),
        (&["198.51.100.1, unknown"], "10.0.0.7"),
        (&[], "10.0.0.7"),
    ] {
        assert_eq!(client(&ours, "10.0.0.7", lines), reported, "{lines:?}");
        assert_eq!(
            client(&ours, "::ffff:10.0.0.7", lines),
            reported,
            "{lines:?}"
        );
    }
}

#[test]
fn no_bytes_of_a_client_hide_its_peer() {
    let ours = ["10.0.0.0/8"];
    for (lines, reported) in [
        (&[&b"\xff, 198.51.100.1"[..]][..], "198.51.100.1"),
        (&[b"\xff", b"198.51.100.1, 10.0.0.9"], "198.51.100.1"),
        // A proxy of ours wrote no such thing: who is before it is not known.
        (&[b"127.0.0.1, \xff, 10.0.0.9"], "10.0.0.9"),
    ] {
        assert_eq!(client(&ours, "10.0.0.7", lines), reported, "{lines:?}");
    }
}

#[test]
fn a_network_has_its_addresses_and_no_others() {
    for (place, inside, outside) in [
        ("10.0.0.7", "10.0.0.7", "10.0.0.6"),
        ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
        ("0.0.0.0/0", "203.0.113.7", "::1"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
        ("::1", "::1", "::2"),
        ("::ffff:10.0.0.7", "10.0.0.7", "10.0.0.6"),
        ("::ffff:10.1.0.0/112", "10.1.255.255", "10.2.0.0"),
        ("::ffff:0.0.0.0/96", "203.0.113.7", "::1"),
    ] {
        let proxies = proxies(&[place]);
        assert!(proxies.has(inside.parse().expect("one")), "{place}");
        assert!(!proxies.has(outside.parse().expect("one")), "{place}");
    }
    for wrong in [
        "",
        "proxy.example",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "10.0.0.1:80",
    ] {
        let error = wrong.parse::<Proxy>().expect_err(wrong);
        assert!(error.to_string().contains("10.0.0.0/8"), "{error}");
    }
}
