//! Unit tests of `address`.

use punctual::time::seconds;

use super::*;

fn read(text: &str) -> Options {
    text.parse().expect("a good address")
}

#[test]
fn a_plain_address_has_every_default() {
    let options = read("redis://127.0.0.1");
    let host = Host {
        name: "127.0.0.1".into(),
        port: 6_379,
    };
    assert_eq!(options.place, Place::Standalone(host));
    assert_eq!((options.database, options.shards), (0, None));
    assert_eq!(options.durability, None);
    assert!(!options.tls.on);
}

#[test]
fn every_part_of_an_address_is_read() {
    let options =
        read("rediss://ann:p%40ss%2Fword@[::1]:7000/3?durability=replica(2)&shards=4&ca=/ca.pem");
    assert_eq!(options.user.as_deref(), Some("ann"));
    assert_eq!(options.password, Some(Secret("p@ss/word".into())));
    assert_eq!(options.database, 3);
    assert_eq!(options.durability, Some(Durability::Replica(2)));
    assert_eq!(options.shards, Some(4));
    assert!(options.tls.on);
    assert_eq!(options.tls.authority, Some("/ca.pem".into()));
    match options.place {
        Place::Standalone(host) => assert_eq!(host.to_string(), "[::1]:7000"),
        other => panic!("one server, got {other:?}"),
    }
}

#[test]
fn sentinels_and_clusters_name_several_hosts() {
    match read("redis+sentinel://:secret@a,b:26380/main/2?plaintext=allow").place {
        Place::Sentinel { sentinels, master } => {
            let names: Vec<_> = sentinels.iter().map(ToString::to_string).collect();
            assert_eq!(names, ["a:26379", "b:26380"]);
            assert_eq!(master, "main");
        }
        other => panic!("sentinels, got {other:?}"),
    }
    match read("redis+cluster://a:7000,b:7001?plaintext=allow").place {
        Place::Cluster(hosts) => assert_eq!(hosts.len(), 2),
        other => panic!("a cluster, got {other:?}"),
    }
}

#[test]
fn another_machine_is_refused_in_the_clear_by_default() {
    for here in [
        "localhost",
        "LocalHost:7000",
        "127.0.0.1",
        "127.9.9.9",
        "[::1]:1",
    ] {
        assert!(!read(&format!("redis://{here}")).is_in_the_clear());
    }
    read("redis://[::ffff:127.0.0.1]:6379");
    for there in [
        "redis://u:secret@10.0.0.7/1",
        "redis://u:secret@redis",
        "redis://localhost.example",
        "redis://[::ffff:10.0.0.7]",
        "redis://[fe80::1%25lo]",
        "redis+sentinel://127.0.0.1,10.0.0.7/main",
        "redis+cluster://127.0.0.1,10.0.0.7",
    ] {
        let error = there.parse::<Options>().expect_err(there);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{there}");
        let said = error.to_string();
        assert!(said.contains("in the clear"), "{there}: {said}");
        assert!(!said.contains("secret"), "{there}: {said}");
        // The remedies that it names are ones.
        assert!(said.contains("rediss://") && said.contains("?plaintext=allow"));
        assert!(read(&format!("{there}?plaintext=allow")).is_in_the_clear());
        assert!(!read(&there.replacen("redis", "rediss", 1)).is_in_the_clear());
    }
    for wrong in ["redis://h?plaintext=yes", "rediss://h?plaintext=allow"] {
        wrong.parse::<Options>().expect_err(wrong);
    }
}

#[test]
fn what_is_wrong_is_named_and_never_the_password() {
    for wrong in [
        "redis:secret",
        "http://u:secret@h",
        "redis://u:secret@",
        "redis://u:secret@h:port",
        "redis://u:secret@h:0",
        "redis://u:secret@h/x",
        "redis://u:secret@a,b",
        "redis://u:not?secret@h",
        "redis://u:sec%zzret@h",
        "redis://u:secret@h?durability=secret",
        "redis://u:secret@h?shards=0",
        "redis+sentinel://u:secret@h",
        "redis+sentinel://h/main?sentinel_password=a@secret",
        "redis://h?sentinel_password=secret",
        "redis+cluster://u:secret@h/1",
        "redis://u:secret@a b",
    ] {
        let error = wrong.parse::<Options>().expect_err(wrong);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("secret"), "{wrong}: {shown}");
    }
}

#[test]
fn an_address_says_how_long_settled_jobs_are_kept() {
    let limits = read("redis://127.0.0.1?settled_window=5s&retention=7s").limits;
    assert_eq!(limits.settled_window, seconds(5));
    assert_eq!(limits.cancelled_retention, seconds(7));
    assert_eq!(limits.dead_retention, seconds(7));
    assert_eq!(
        read("redis://127.0.0.1").limits,
        punctual::Limits::default()
    );
    for wrong in ["settled_window=0s", "settled_window=5", "retention=long"] {
        let error = format!("redis://127.0.0.1?{wrong}").parse::<Options>();
        let error = error.expect_err(wrong);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
    }
}

#[test]
fn debug_shows_no_password() {
    for address in [
        "redis://ann:hunter2@h?plaintext=allow",
        "rediss+sentinel://h/main?sentinel_user=sen&sentinel_password=hunter2",
    ] {
        let options = read(address);
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
