//! Tests of `punctual-torture verify`.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;

use crate::support::run;

/// Whether `verify` finds that all below a folder is as it was judged, and clean.
fn verifies(folder: &Path) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-torture"));
    let output = command.arg("verify").arg(folder).output();
    output.expect("the program starts").status.success()
}

#[test]
fn a_round_is_verified_as_long_as_it_is_what_was_judged() {
    let arguments = ["--engine", "embedded-http", "--minutes", "0.1"];
    let run = run(&[&arguments[..], &["--seed", "2"]].concat());
    assert!(run.is_clean(), "{}", run.said());
    let folder = run.folder();
    assert!(verifies(&folder));
    let round = folder.join("seed-2/embedded-http/round-000");
    let with = |file: &str, from: &str, to: &str| {
        let path = round.join(file);
        let text = fs::read_to_string(&path).expect("it was written");
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).expect("a disk");
        let is_found = !verifies(&folder);
        fs::write(&path, text).expect("a disk");
        is_found
    };
    let setting = with(
        "setting.json",
        r#""is_elsewhere": false"#,
        r#""is_elsewhere": true"#,
    );
    assert!(setting, "verdicts rest on the setting");
    let snapshot = with("snapshot.json", r#""blind":null"#, r#""blind":"""#);
    assert!(snapshot, "and on the snapshot");
    let checked = with("round.json", r#""checked": "#, r#""checked": 1"#);
    assert!(checked, "what was said of it is held against it");
    assert!(verifies(&folder), "all is as it was");
    // A kill while it was packed leaves both, of which the packed one may be torn.
    let packed = round.join("history/nemesis.jsonl.gz");
    let (plain, whole) = (round.join("history/nemesis.jsonl"), read(&packed));
    let mut lines = Vec::new();
    let unpacked = GzDecoder::new(&*whole).read_to_end(&mut lines);
    unpacked.expect("it is whole");
    fs::write(&plain, lines).expect("a disk");
    assert!(verifies(&folder), "both are whole");
    fs::write(&packed, &whole[..whole.len() / 2]).expect("a disk");
    assert!(verifies(&folder), "it was packed from what is whole");
    fs::remove_file(&plain).expect("a disk");
    assert!(!verifies(&folder), "nothing of it is whole");
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("it was kept")
}

#[test]
fn a_round_is_held_against_the_totals_that_it_was_added_to() {
    let folder = tempfile::tempdir().expect("a directory");
    let totals = folder.path().join("totals.json");
    let path = totals.to_str().expect("a name in ASCII");
    let arguments = ["--engine", "embedded-http", "--minutes", "0.1"];
    let run = run(&[&arguments[..], &["--seed", "3", "--totals", path]].concat());
    assert!(run.is_clean(), "{}", run.said());
    let holds = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-torture"));
        let command = command.args(["verify", "--totals", path]).arg(run.folder());
        let output = command.output().expect("the program starts");
        output.status.success()
    };
    assert!(holds());
    let text = fs::read_to_string(&totals).expect("it was written");
    let rounds = run.rounds();
    let hash = rounds[0]["hash"].as_str().expect("a text");
    for (from, to) in [
        (hash, &hash[..15]),
        (hash, &hash.chars().rev().collect::<String>()),
        ("\"seed\":3", "\"seed\":4"),
        ("\"cell\":\"embedded-http\"", "\"cell\":\"embedded\""),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&totals, text.replace(from, to)).expect("a disk");
        assert!(!holds(), "{from} is {to}");
    }
    fs::write(&totals, text.replace(hash, &hash[..16])).expect("a disk");
    assert!(holds(), "older rows have so many digits");
}

#[test]
fn where_nothing_is_to_be_judged_nothing_is_verified() {
    let folder = tempfile::tempdir().expect("a directory");
    assert!(!verifies(folder.path()));
}
