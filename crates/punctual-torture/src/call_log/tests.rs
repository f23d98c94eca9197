//! Unit tests of `history`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{FOLDER, History, hash, pack, read, remove};
use crate::event::Event;

/// A round with two histories of some lines.
fn round() -> TempDir {
    let round = tempfile::tempdir().expect("a directory");
    for process in ["nemesis", "producer-0.0"] {
        let history = History::create(round.path(), process).expect("a disk");
        for _ in 0..100 {
            history.note(Event::Enough);
        }
    }
    round
}

/// The names of the files that are there, in order.
fn names(round: &Path) -> Vec<String> {
    let entries = fs::read_dir(round.join(FOLDER)).expect("it is there");
    let name = |path: PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| name(entry.expect("it is there").path()))
        .collect();
    names.sort();
    names
}

/// What a reader of the round comes to: its hash, and each process with how many lines it has.
fn read_as(round: &Path) -> (String, Vec<(String, usize)>) {
    let accounts = read(round).expect("every history is whole").into_iter();
    let accounts = accounts.map(|account| (account.process, account.lines.len()));
    (hash(round, &[]).expect("it is there"), accounts.collect())
}

#[test]
fn packed_histories_are_read_as_before() {
    let round = round();
    let before = read_as(round.path());
    let bytes = pack(round.path()).expect("a disk");
    assert_eq!(
        names(round.path()),
        ["nemesis.jsonl.gz", "producer-0.0.jsonl.gz"]
    );
    assert!(bytes > 0);
    assert_eq!(read_as(round.path()), before);
    assert_eq!(
        pack(round.path()).expect("a disk"),
        0,
        "nothing is left to do"
    );
}

/// What a kill may leave: a packed file that was begun, one beside what it was packed from, and, by
/// a program that packed under the last name at once, a torn one.
#[test]
fn a_killed_packing_leaves_every_history_whole_and_can_run_again() {
    let left: [fn(&Path); 3] = [
        |nemesis| fs::write(nemesis.with_extension("jsonl.begun"), "torn").expect("a disk"),
        |nemesis| {
            let bytes = fs::read(nemesis).expect("it is there");
            pack(nemesis.ancestors().nth(2).expect("a round")).expect("a disk");
            fs::write(nemesis, bytes).expect("a disk");
        },
        |nemesis| fs::write(nemesis.with_extension("jsonl.gz"), "torn").expect("a disk"),
    ];
    for leaves in left {
        let round = round();
        let before = read_as(round.path());
        leaves(&round.path().join(FOLDER).join("nemesis.jsonl"));
        let names_left = names(round.path());
        assert_eq!(read_as(round.path()), before, "{names_left:?}");
        pack(round.path()).expect("a disk");
        assert_eq!(read_as(round.path()), before, "{names_left:?}");
        let packed = ["nemesis.jsonl.gz", "producer-0.0.jsonl.gz"];
        assert_eq!(names(round.path()), packed, "{names_left:?}");
    }
}

/// A disk that cannot read a history to its end cuts the pack where a kill would.
#[test]
fn nothing_has_the_name_of_a_packed_history_before_it_is_whole() {
    let round = round();
    let unreadable = round.path().join(FOLDER).join("worker.jsonl");
    fs::create_dir(&unreadable).expect("a disk");
    pack(round.path()).expect_err("a directory has no bytes");
    assert!(unreadable.exists());
    assert!(
        !unreadable.with_extension("jsonl.gz").exists(),
        "{:?}",
        names(round.path())
    );
}

#[test]
fn removed_histories_are_gone_all_at_once() {
    let round = round();
    remove(round.path()).expect("a disk");
    let left = fs::read_dir(round.path()).expect("it is there").count();
    assert_eq!(left, 0);
}
