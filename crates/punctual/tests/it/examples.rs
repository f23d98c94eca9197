//! Every example runs to its end; they are built with these tests.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_example_runs_to_its_end() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let names: Vec<_> = std::fs::read_dir(sources)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned())
        .collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let output = Command::new(built().join(&name)).output();
        let output = output.unwrap_or_else(|error| panic!("{name:?} cannot be run: {error}"));
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name:?} failed: {reported}");
        assert!(!output.stdout.is_empty(), "{name:?} shows nothing");
    }
}

/// Where cargo puts examples: beside the directory of the tests.
fn built() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let deps = this.parent().unwrap();
    deps.parent().unwrap().join("examples")
}
