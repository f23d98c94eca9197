use std::fs;
use std::path::Path;
use std::process::Command;

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
    let look = with("look.json", r#""blind":null"#, r#""blind":"""#);
    assert!(look, "and on the last look");
    let checked = with("round.json", r#""checked": "#, r#""checked": 1"#);
    assert!(checked, "what was said of it is held against it");
    assert!(verifies(&folder), "all is as it was");
}

#[test]
fn where_nothing_is_to_be_judged_nothing_is_verified() {
    let folder = tempfile::tempdir().expect("a directory");
    assert!(!verifies(folder.path()));
}
