//! Tests of permissions: other users read nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use punctual::engine::Durability;
use punctual_embedded::EmbeddedEngine;

use super::{options, parent};
use crate::client::enqueue;

/// The user that made the directory may have let others in: what is kept there is not for them.
#[tokio::test]
async fn no_other_user_reads_data_even_in_an_open_directory() {
    let parent = parent();
    let path = parent.path().join("data");
    fs::create_dir(&path).expect("a directory");
    for open in [parent.path(), &path] {
        fs::set_permissions(open, Permissions::from_mode(0o755)).expect("ours");
    }
    let options = options()
        .durability(Durability::Os)
        .checkpoint_bytes(20_000);
    let engine = EmbeddedEngine::open(&path, options).expect("it is new");
    for _ in 0..200 {
        enqueue(&engine, 300).await.expect("enqueue");
    }
    engine.close().await.expect("it ends in good order");
    let files = closed_files(&path);
    assert!(
        files.iter().any(|name| name.starts_with("base/tables/")),
        "{files:?}"
    );

    if fs::metadata(&path).expect("metadata").uid() == 0 {
        let mut reads = Command::new("find");
        let reads = reads
            .arg(&path)
            .args(["-type", "f", "-exec", "cat", "{}", "+"]);
        let read = reads.uid(65_534).gid(65_534).output().expect("find runs");
        assert_eq!(String::from_utf8_lossy(&read.stdout), "");
    }
}

/// The names of all files, each of which is closed to others, by itself or by a directory that it
/// lies in.
fn closed_files(below: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut left = vec![(below.to_owned(), false)];
    while let Some((directory, is_closed)) = left.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let about = fs::metadata(&path).expect("it is there");
            let is_closed = is_closed || about.permissions().mode() & 0o077 == 0;
            if about.is_dir() {
                left.push((path, is_closed));
                continue;
            }
            let name = path
                .strip_prefix(below)
                .expect("below")
                .display()
                .to_string();
            assert!(is_closed, "{name} may be read by others");
            names.push(name);
        }
    }
    names
}
