//! Unit tests of `foreign`.

use super::Foreign;
use crate::plan::Track;

fn of(text: &str) -> Foreign {
    Foreign::named(text).expect("an address")
}

#[test]
fn names_of_cells_are_no_addresses() {
    for name in ["redis-always", "all", "lossy", "redis", "file:", "redis:"] {
        assert_eq!(Foreign::named(name), None, "{name}");
    }
}

#[test]
fn a_proxy_stands_before_what_is_here_and_in_the_clear() {
    let past = |text: &str| of(text).port().map(|_| of(text).behind(7));
    let behind = [
        ("redis://127.0.0.1:1/3", "redis://127.0.0.1:7/3"),
        (
            "redis://u:p@localhost?durability=os",
            "redis://u:p@127.0.0.1:7?durability=os",
        ),
        (
            "http://127.0.0.1:1",
            "http://127.0.0.1:7?token=PUNCTUAL_TOKEN",
        ),
    ];
    for (text, expected) in behind {
        assert_eq!(past(text).as_deref(), Some(expected), "{text}");
    }
    let others = [
        "rediss://127.0.0.1:1",
        "https://127.0.0.1:1",
        "redis://192.0.2.1:1",
        "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main",
    ];
    for text in others {
        assert_eq!(past(text), None, "{text}");
        assert!(!of(text).is_hit_in(Track::Network), "{text}");
    }
}

#[test]
fn only_what_is_on_the_loopback_keeps_the_time_of_this_machine() {
    let here = [
        "redis://u:p@127.0.0.1:1/3",
        "rediss://localhost",
        "http://127.0.0.1:1",
        "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main",
        "./data",
    ];
    let elsewhere = [
        "redis://192.0.2.1:1",
        "https://h:1",
        "redis+cluster://127.0.0.1:1,h:2",
    ];
    assert!(here.iter().all(|text| !of(text).is_elsewhere()));
    assert!(elsewhere.iter().all(|text| of(text).is_elsewhere()));
}

#[test]
fn nothing_is_done_to_a_server_of_another_operator() {
    for text in ["redis://127.0.0.1:1", "http://127.0.0.1:1", "https://h:1"] {
        assert!(!of(text).is_hit_in(Track::Servers), "{text}");
        assert!(of(text).is_hit_in(Track::Workers), "{text}");
    }
    assert!(of("http://127.0.0.1:1").is_hit_in(Track::RogueClients));
    assert!(!of("redis://127.0.0.1:1").is_hit_in(Track::RogueClients));
    assert!(
        of("./data").is_hit_in(Track::Servers),
        "the gateway is the run's"
    );
}

#[test]
fn a_directory_in_which_something_is_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(super::is_empty(&directory.path().join("new")), Ok(()));
    assert_eq!(super::is_empty(directory.path()), Ok(()));
    std::fs::write(directory.path().join("file"), "").expect("a file");
    let refused = super::is_empty(directory.path()).expect_err("it is not empty");
    assert!(
        refused.contains("a directory that is not there yet"),
        "{refused}"
    );
}
