//! Unit tests of `connect`.

use super::*;
use punctual::Limits;
use punctual::time::{millis, seconds};

fn file(dir: &str, durability: Durability) -> Address {
    Address::File {
        dir: dir.into(),
        durability,
        reserve: None,
        kept: Kept::default(),
    }
}

#[test]
fn addresses_name_directories_and_durabilities() {
    let reads = |text: &str| Address::parse(text).expect(text);
    assert_eq!(reads("memory:"), Address::Memory(Kept::default()));
    assert_eq!(reads("file:./data"), file("./data", Durability::Fsync));
    assert_eq!(
        reads("file:/var/lib/p?durability=os"),
        file("/var/lib/p", Durability::Os)
    );
    assert_eq!(
        reads("file:///var/lib/p"),
        file("/var/lib/p", Durability::Fsync)
    );
    assert_eq!(
        reads("file:d?durability=interval(50ms)"),
        file("d", Durability::Interval(millis(50)))
    );
    let gateway = |authority: &str, transport| Address::Gateway {
        authority: authority.into(),
        transport,
        deadline: None,
    };
    let patient = Address::Gateway {
        authority: "h:1".into(),
        transport: Transport::Tls(Some("a.pem".into())),
        deadline: Some(seconds(5)),
    };
    assert_eq!(reads("https://h:1?deadline=5s&ca=a.pem"), patient);
    for (text, authority, transport) in [
        ("http://127.0.0.1:4180", "127.0.0.1:4180", Transport::Plain),
        ("http://127.0.0.1:4180/", "127.0.0.1:4180", Transport::Plain),
        (
            "http://h:1?plaintext=allow",
            "h:1",
            Transport::PlainAnywhere,
        ),
        ("https://h:4180", "h:4180", Transport::Tls(None)),
        (
            "https://h:1?ca=a.pem",
            "h:1",
            Transport::Tls(Some("a.pem".into())),
        ),
    ] {
        assert_eq!(reads(text), gateway(authority, transport), "{text}");
    }
    for (text, bytes) in [("1000", 1_000), ("16MiB", 16 << 20), ("0", 0)] {
        let address = Address::File {
            dir: "d".into(),
            durability: Durability::Os,
            reserve: Some(bytes),
            kept: Kept::default(),
        };
        let read = reads(&format!("file:d?durability=os&reserve={text}"));
        assert_eq!(read, address);
    }
}

#[test]
fn addresses_say_how_long_settled_jobs_are_kept() {
    let limits = |text: &str| match Address::parse(text).expect(text) {
        Address::Memory(kept) | Address::File { kept, .. } => kept.limits(),
        other => panic!("{other:?}"),
    };
    for text in ["memory:?settled_window=5s", "file:d?settled_window=5s"] {
        let limits = limits(text);
        assert_eq!(limits.settled_window, seconds(5));
        assert_eq!(limits.dead_retention, Limits::default().dead_retention);
    }
    let limits = limits("file:d?durability=os&retention=7s");
    assert_eq!(limits.settled_window, Limits::default().settled_window);
    assert_eq!(
        (limits.cancelled_retention, limits.dead_retention),
        (seconds(7), seconds(7))
    );
}

#[test]
fn an_address_forgets_after_its_own_span_first() {
    let forgetting = |text: &str| {
        let address = Address::parse(text).expect(text);
        address.forgetting_after(seconds(5))
    };
    let parsed = |text: &str| Address::parse(text).expect(text);
    let both = parsed("memory:?settled_window=5s&retention=5s");
    assert_eq!(forgetting("memory:"), both);
    let own = parsed("memory:?settled_window=1m&retention=5s");
    assert_eq!(forgetting("memory:?settled_window=1m"), own);
    let full = tempfile::tempdir().expect("a directory");
    std::fs::write(full.path().join("jobs"), "").expect("a file");
    let full = format!("file:{}", full.path().display());
    assert_eq!(
        forgetting(&full),
        parsed(&full),
        "its jobs stay as long as before"
    );
    let Address::Redis(redis) = forgetting("redis://127.0.0.1?retention=1h") else {
        panic!("a server");
    };
    let options = format!("{:?}", redis.options());
    for span in ["settled_window: 5s", "cancelled_retention: 3600s"] {
        assert!(options.contains(span), "{options}");
    }
}

#[test]
fn wrong_addresses_are_refused() {
    for text in [
        "",
        "data",
        "file:",
        "file:?durability=os",
        "file:d?durability=maybe",
        "file:d?durability=interval(5)",
        "file:d?speed=fast",
        "file:d?reserve=lots",
        "file:d?reserve=99999999999GiB",
        "memory:x",
        "memory:?speed=fast",
        "memory:?settled_window=0s",
        "file:d?retention=long",
        "redis://h?plaintext=allow&settled_window=0s",
        "redis://127.0.0.1?retention=long",
        "http://",
        "http://127.0.0.1:4180?deadline=soon",
        "http://127.0.0.1:4180?deadline=0s",
        "http://127.0.0.1:4180/v1",
        "http://name@127.0.0.1:4180",
        "https://127.0.0.1:4180?ca=",
        "https://127.0.0.1:4180?plaintext=allow",
        "http://127.0.0.1:4180?ca=a.pem",
        "http://127.0.0.1:4180?plaintext=yes",
        "redis://",
        "redis://h",
        "redis://h:none",
        "redis://h?durability=interval(50ms)",
        "redis+sentinel://h",
        "amqp://127.0.0.1",
        "carrier-pigeon://roof",
    ] {
        assert!(Address::parse(text).is_err(), "{text}");
    }
}

#[test]
fn addresses_name_servers_and_no_log_shows_their_password() {
    for text in [
        "redis://127.0.0.1",
        "rediss://ann:hunter2@h:6380/2?durability=fsync",
        "redis+sentinel://:hunter2@a,b:26380/main?plaintext=allow",
        "redis+cluster://ann:hunter2@a:7000,b:7001?durability=replica(1)&plaintext=allow",
    ] {
        let address = Address::parse(text).expect(text);
        assert!(matches!(address, Address::Redis(_)), "{text}");
        assert!(!format!("{address:?}").contains("hunter2"), "{address:?}");
    }
    let refused = Address::parse("redis://ann:hunter2@h?speed=hunter2").expect_err("no option");
    assert!(!format!("{refused:?}").contains("hunter2"));
}

#[test]
fn an_address_is_shown_without_its_password() {
    let address = Address::parse("redis+sentinel://ann:s3cr@t@a:1,b:2/main?plaintext=allow");
    let shown = address.map(|address| address.to_string());
    assert_eq!(shown.ok().as_deref(), Some("redis+sentinel://a:1,b:2/main"));
}
