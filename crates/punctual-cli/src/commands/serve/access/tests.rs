//! Tests of where tokens come from.

use std::net::IpAddr;

use super::*;

const STRONG: &str = "5f2b0c9d4e7a1b8c3d6e9f0a5f2b0c9d";
const WEAK: &str = "0123456789abcdef";

fn of_file(path: &Path) -> Access {
    let namespace = Namespace::default();
    let access = Access::by(Some(path.into()), None, &Config::default(), &namespace);
    access.expect("tokens")
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn weak_tokens_are_named_where_others_reach_them_without_tls() {
    let file = written(&format!("{STRONG} shop read\n{WEAK} shop admin\n"));
    let access = of_file(file.path());
    let (here, there): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [0, 0, 0, 0].into());
    assert_eq!(access.weak_at(there, false).len(), 1);
    assert!(
        access.weak_at(there, true).is_empty(),
        "no other user reads it"
    );
    assert!(access.weak_at(here, false).is_empty());
    let file = written(&format!("{STRONG} shop read\n"));
    assert!(of_file(file.path()).weak_at(there, false).is_empty());
}

#[test]
fn a_file_that_is_read_again_revokes_what_it_has_no_more() {
    let file = written(&format!("{STRONG} shop read\n{WEAK} shop admin\n"));
    let access = of_file(file.path());
    std::fs::write(file.path(), format!("{STRONG} shop read\n")).expect("written");
    let read = access.read_again().expect("there is a file");
    assert_eq!(read.expect("it is sound"), 1);
    // What cannot be read changes nothing.
    std::fs::write(file.path(), "short shop read\n").expect("written");
    let failure = access.read_again().expect("there is a file").err();
    let logged = failure.expect("it is too short").in_a_line();
    assert!(logged.starts_with("line 1 of "), "{logged}");
    assert!(
        logged.contains("at least 16 visible characters"),
        "{logged}"
    );
    assert!(Access::open(Namespace::default()).read_again().is_none());
}
