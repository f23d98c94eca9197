//! Unit tests of `guard`.

use super::*;

fn why(guard: &Guard, url: &str) -> String {
    match guard.check(url) {
        Ok(target) => panic!("{url} passes as {target:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Permanent, "{url}");
            let text = error.message().to_owned();
            assert!(text.starts_with("target_refused: "), "{url}: {text}");
            text
        }
    }
}

#[test]
fn what_lies_inside_is_refused_however_it_is_written() {
    let rows = [
        ("http://127.0.0.1/", "loopback"),
        ("http://127.9.8.7:8080/", "loopback"),
        ("http://10.0.0.1/", "private"),
        ("http://172.16.0.1/", "private"),
        ("http://172.31.255.255/", "private"),
        ("http://192.168.1.1/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://168.63.129.16/machine", "Azure"),
        ("http://[::ffff:168.63.129.16]/", "Azure"),
        ("http://[64:ff9b::a83f:8110]/", "Azure"),
        ("http://100.64.0.1/", "carrier-grade NAT"),
        ("http://100.127.255.255/", "carrier-grade NAT"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://0.1.2.3/", "unspecified"),
        ("http://224.0.0.1/", "multicast"),
        ("http://255.255.255.255/", "reserved"),
        ("http://192.0.2.1/", "documentation"),
        ("http://198.51.100.1/", "documentation"),
        ("http://203.0.113.1/", "documentation"),
        ("http://198.19.0.1/", "benchmarks"),
        ("http://192.0.0.8/", "reserved"),
        ("http://192.88.99.1/", "6to4"),
        ("http://[::]/", "unspecified"),
        ("http://[::1]/", "loopback"),
        ("http://[::127.0.0.1]/", "unusual"),
        ("http://[::7f00:1]/", "reserved"),
        ("http://[::ffff:7f00:1]/", "loopback"),
        ("http://[::ffff:a00:1]/", "private"),
        ("http://[64:ff9b::7f00:1]/", "loopback"),
        ("http://[64:ff9b::a9fe:a9fe]/", "link-local"),
        ("http://[64:ff9b:1::a00:1]/", "reserved"),
        ("http://[2002:7f00:1::]/", "loopback"),
        ("http://[2002:c0a8:101::1]/", "private"),
        ("http://[2001:0:5ef5:79fd::1]/", "protocols"),
        ("http://[2001:db8::1]/", "documentation"),
        ("http://[3fff::1]/", "documentation"),
        ("http://[2600::5efe:a00:1]/", "private"),
        ("http://[fc00::1]/", "private"),
        ("http://[fd12:3456::1]/", "private"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fec0::1]/", "reserved"),
        ("http://[ff02::1]/", "multicast"),
        ("http://[100::1]/", "reserved"),
        // One number, octal, hexadecimal, fewer parts, wide digits: all of them 127.0.0.1.
        ("http://2130706433/", "unusual"),
        ("http://0x7f000001/", "unusual"),
        ("http://017700000001/", "unusual"),
        ("http://0177.0.0.1/", "unusual"),
        ("http://0x7f.0.0.1/", "unusual"),
        ("http://127.1/", "unusual"),
        ("http://127.0.0.1./", "unusual"),
        ("http://①②⑦.⓪.⓪.①/", "unusual"),
        ("http://%31%32%37.0.0.1/", "unusual"),
        ("http://134744072/", "unusual"),
        ("http://localhost/", "internal network"),
        ("http://LOCALHOST./", "internal network"),
        // Masked: wide letters, and a name in Punycode that needs none.
        ("http://ｌｏｃａｌｈｏｓｔ/", "internal network"),
        ("http://xn--localhost-/", "international"),
        ("http://xn--127-.0.0.1/", "international"),
        ("http://app.localhost/", "internal network"),
        ("http://metadata.google.internal/", "internal network"),
        ("http://printer.local/", "internal network"),
        ("http://nas.home.arpa/", "internal network"),
        ("http://redis/", "internal network"),
        ("http://user@example.com/", "user or password"),
        ("http://user:secret@example.com/", "user or password"),
        ("http://@example.com/", "user or password"),
        ("http://example.com\\@10.0.0.1/", "backslashes"),
        ("http://example.com/a\\b", "backslashes"),
        ("http:\\\\example.com/", "backslashes"),
        ("http:/user@example.com/?://8.8.8.8/", "slashes"),
        ("http:///example.com/", "slashes"),
        ("http://example.com:22/", "port 22"),
        ("http://example.com:6379/", "port 6379"),
        ("http://example.com:0/", "port 0"),
        ("ftp://example.com/", "write https://HOST/PATH"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://example.com/", "scheme"),
        ("example.com/hook", "not a URL"),
        ("http:example.com", "slashes"),
        (" http://example.com/", "spaces"),
        ("http://exa\tmple.com/", "spaces"),
        ("http://exa\nmple.com/", "spaces"),
        ("http://example.com/\u{85}", "spaces"),
        ("http://user\n@example.com/", "spaces"),
        ("http://", "not a URL"),
    ];
    let guard = Guard::new();
    for (url, wanted) in rows {
        let text = why(&guard, url);
        assert!(text.contains(wanted), "{url}: {text}");
    }
    let long = format!("http://example.com/{}", "a".repeat(2_048));
    assert!(why(&guard, &long).contains("2048"));
}

#[test]
fn public_hosts_pass() {
    let guard = Guard::new();
    for (url, host, port) in [
        ("https://example.com/hook?a=1", "example.com", 443),
        ("http://example.com", "example.com", 80),
        ("HTTPS://Example.COM:8443/x", "example.com", 8443),
        ("http://8.8.8.8:8080/", "8.8.8.8", 8080),
        ("https://[2606:4700::1111]/", "2606:4700::1111", 443),
        ("http://[64:ff9b::808:808]/", "64:ff9b::808:808", 80),
        ("https://bücher.example/", "xn--bcher-kva.example", 443),
        ("https://mylocal.example/", "mylocal.example", 443),
    ] {
        let target = guard.check(url).expect(url);
        assert_eq!((&*target.name(), target.port()), (host, port), "{url}");
    }
}

#[test]
fn only_what_was_opened_is_open() {
    let allow = |text: &str| Guard::new().allow([text.parse().expect("a place")]);
    let passes = |guard: &Guard, url: &str| guard.check(url).is_ok();

    let guard = allow("10.0.0.0/8");
    assert!(passes(&guard, "http://10.1.2.3/"));
    assert!(!passes(&guard, "http://10.1.2.3:6379/"));
    assert!(!passes(&guard, "http://11.0.0.1:6379/"));
    assert!(!passes(&guard, "http://192.168.0.1/"));

    let guard = allow("127.0.0.1:3000");
    assert!(passes(&guard, "http://127.0.0.1:3000/"));
    assert!(!passes(&guard, "http://127.0.0.1/"));
    assert!(!passes(&guard, "http://127.0.0.2:3000/"));

    let guard = allow("hooks.internal:9000");
    assert!(passes(&guard, "http://hooks.internal:9000/x"));
    assert!(passes(&guard, "http://HOOKS.internal:9000/x"));
    assert!(!passes(&guard, "http://hooks.internal/x"));
    assert!(!passes(&guard, "http://a.hooks.internal:9000/x"));

    let guard = allow("[fd00::/8]:9000");
    assert!(passes(&guard, "http://[fd00::1]:9000/"));
    assert!(!passes(&guard, "http://[fc00::1]:9000/"));
    assert!(passes(&allow("::1"), "http://[::1]/"));
    assert!(passes(&allow("0.0.0.0/0"), "http://127.0.0.1/"));

    for wrong in [
        "",
        "a b",
        "10.0.0.0/33",
        "host:70000",
        "host:",
        "[::1",
        "http://x/",
    ] {
        assert!(wrong.parse::<Allow>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_refusal_names_what_lets_it_through() {
    for (url, address) in [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1:4571/", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://[::1]:4571/", "::1"),
        ("http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1"),
        ("http://[::ffff:127.0.0.1]:4571/", "::ffff:127.0.0.1"),
        ("http://[::ffff:7f00:1]:4571/", "::ffff:127.0.0.1"),
        ("http://8.8.8.8:4571/", "8.8.8.8"),
        ("http://localhost/", "127.0.0.1"),
        ("http://localhost:4571/", "::1"),
        ("http://hooks.internal:8080/", "10.0.0.1"),
        ("http://example.com:4571/", "93.184.216.34"),
        ("http://example.com/", "10.0.0.1"),
    ] {
        let address: IpAddr = address.parse().expect("an address");
        // A network that opens the port for some: it must not take the port off the advice.
        for first in [
            Guard::new(),
            Guard::new().allow(["192.168.0.0/16:4571".parse().expect("a")]),
        ] {
            let pass = |guard: &Guard| guard.check(url).and_then(|to| guard.admit(&to, address));
            let refused = pass(&first).expect_err(url);
            let advice = refused.message().split_once("--push-allow ").expect(url).1;
            let place = advice.split(' ').next().expect("a place");
            let allow = place
                .parse()
                .unwrap_or_else(|error| panic!("{url}: {place}: {error}"));
            pass(&first.allow([allow])).unwrap_or_else(|error| panic!("{url}: {place}: {error}"));
        }
    }
}

#[test]
fn addresses_of_a_name_are_judged_with_its_port() {
    let at = |guard: &Guard, url: &str, address: &str| {
        let target = guard.check(url).expect(url);
        guard.admit(&target, address.parse().expect("an address"))
    };
    let plain = Guard::new();
    assert!(at(&plain, "http://example.com/", "93.184.216.34").is_ok());
    assert!(at(&plain, "http://example.com/", "10.0.0.1").is_err());
    assert!(at(&plain, "http://example.com/", "::ffff:10.0.0.1").is_err());

    // A port opened for a network is open in that network alone.
    let guard = Guard::new().allow(["10.0.0.0/8:6000".parse().expect("a place")]);
    assert!(at(&guard, "http://example.com:6000/", "10.0.0.1").is_ok());
    assert!(at(&guard, "http://example.com:6000/", "93.184.216.34").is_err());
    assert!(at(&guard, "http://example.com/", "10.0.0.1").is_err());

    let named = Guard::new().allow(["shop.example:9000".parse().expect("a place")]);
    assert!(at(&named, "http://shop.example:9000/", "10.0.0.1").is_ok());
    assert!(at(&named, "http://shop.example/", "10.0.0.1").is_err());
}

#[test]
fn a_trusted_url_leads_anywhere_and_no_other_does() {
    let guard = Guard::new().trust("http://localhost:3000/hook");
    let target = guard.check("http://localhost:3000/hook").expect("trusted");
    assert!(
        guard
            .admit(&target, "127.0.0.1".parse().expect("an address"))
            .is_ok()
    );
    why(&guard, "http://localhost:3000/other");
    // Trust is in where it leads, not in what it is.
    let guard = Guard::new().trust("ftp://localhost/");
    why(&guard, "ftp://localhost/");
}
