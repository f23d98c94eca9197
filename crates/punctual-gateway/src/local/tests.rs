//! Unit tests of `local`.

use super::*;

#[test]
fn only_the_same_user_and_root_may_enter() {
    assert!(may_enter(1000, 1000));
    assert!(may_enter(0, 1000));
    assert!(!may_enter(1001, 1000));
    assert!(!may_enter(1001, 0));
}

#[tokio::test]
async fn a_stale_socket_gives_way_and_goes_with_its_maker() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(NAME);
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "as a kill leaves it");
    let listener = LocalListener::open(dir.path()).expect("it is replaced");
    let mode = fs::symlink_metadata(&path).expect("a file").mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_of_a_later_holder_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = LocalListener::open(dir.path()).expect("a socket");
    let _second = LocalListener::open(dir.path()).expect("another");
    drop(first);
    assert!(dir.path().join(NAME).exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join(NAME), "mine").expect("a file");
    assert!(LocalListener::open(dir.path()).is_err());
    assert_eq!(fs::read(dir.path().join(NAME)).expect("a file"), b"mine");
}
