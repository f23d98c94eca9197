//! Unit tests of `stash`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::make_room;
use crate::cell::CellKind;
use crate::report::tests::round;
use crate::{run, setting};

/// The folder of a run with one round, of which this was written.
fn of_a_run(written: Option<&run::Round>) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a directory");
    let folder = place.path().join("seed-7");
    leave(&folder, written);
    (place, folder)
}

fn leave(folder: &Path, written: Option<&run::Round>) {
    let round = folder.join("embedded/round-000");
    fs::create_dir_all(&round).expect("a directory");
    fs::write(round.join(setting::FILE), "{}").expect("a disk");
    if let Some(written) = written {
        let text = serde_json::to_vec(written).expect("JSON");
        fs::write(round.join(run::FILE), text).expect("a disk");
    }
}

#[test]
fn a_run_without_a_finding_makes_room() {
    let clean = round(CellKind::RedisRdb, "I1 nothing lost");
    assert!(clean.is_clean(), "it may lose");
    let (_place, folder) = of_a_run(Some(&clean));
    assert_eq!(make_room(&folder).expect("a disk"), None);
    assert!(!folder.exists());
    assert_eq!(make_room(&folder).expect("a disk"), None, "there is none");
}

#[test]
fn a_run_with_a_finding_or_an_unjudged_round_is_stashed() {
    let found = round(CellKind::Embedded, "I1 nothing lost");
    let (place, folder) = of_a_run(Some(&found));
    for (written, stash) in [
        (Some(&found), "seed-7.finding-1"),
        (None, "seed-7.finding-2"),
    ] {
        if !folder.exists() {
            leave(&folder, written);
        }
        let stash = place.path().join(stash);
        assert_eq!(make_room(&folder).expect("a disk"), Some(stash.clone()));
        assert!(stash.join("embedded/round-000").exists());
        assert!(!folder.exists());
    }
    assert!(place.path().join("seed-7.finding-1").exists());
}
