//! What the tests share: the program and its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The program, with what it wrote.
pub(crate) struct Run {
    folder: TempDir,
    output: Output,
}

/// Runs the program with these arguments and a folder of its own.
pub(crate) fn run(arguments: &[&str]) -> Run {
    run_with_token(arguments, "")
}

/// The same with the token of a gateway that is not of the run.
pub(crate) fn run_with_token(arguments: &[&str], token: &str) -> Run {
    let folder = tempfile::Builder::new()
        .prefix("torture-")
        .tempdir()
        .expect("the system refuses to make a directory");
    let output = run_in(folder.path(), arguments, token);
    Run { folder, output }
}

fn run_in(folder: &Path, arguments: &[&str], token: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-torture"));
    let command = command.arg("run").args(arguments);
    let command = command.arg("--folder").arg(folder);
    let output = command.env("PUNCTUAL_TOKEN", token).output();
    output.expect("the program starts")
}

/// Whether this line says that an invariant is broken whose name begins so.
fn is_broken(line: &str, invariant: &str) -> bool {
    line.trim().starts_with(invariant) && line.contains(": BROKEN by ")
}

/// What the program says to these arguments.
pub(crate) fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual-torture"))
        .args(arguments)
        .output();
    text(&output.expect("the program starts"))
}

impl Run {
    /// Whether nothing promised was broken.
    pub(crate) fn is_clean(&self) -> bool {
        self.output.status.success()
    }

    pub(crate) fn said(&self) -> String {
        text(&self.output)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Files that hold a text as it is.
    pub(crate) fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let (mut found, mut left) = (Vec::new(), vec![self.folder()]);
        while let Some(path) = left.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(path).expect("a folder of the run is there");
                left.extend(entries.map(|entry| entry.expect("it is there").path()));
                continue;
            }
            let bytes = std::fs::read(&path).expect("it was written");
            if bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(path);
            }
        }
        found
    }

    /// What the program says that runs once more in the same folder.
    pub(crate) fn again(&self, arguments: &[&str]) -> String {
        text(&run_in(self.folder.path(), arguments, ""))
    }

    /// Whether it said that an invariant is broken whose name begins so.
    pub(crate) fn breaks(&self, invariant: &str) -> bool {
        let said = self.said();
        said.lines().any(|line| is_broken(line, invariant))
    }

    /// Whether it said that of this one, and of no other.
    pub(crate) fn breaks_only(&self, invariant: &str) -> bool {
        let said = self.said();
        let mut broken = said.lines().filter(|line| is_broken(line, "")).peekable();
        broken.peek().is_some() && broken.all(|line| is_broken(line, invariant))
    }

    /// What every round came to.
    pub(crate) fn rounds(&self) -> Vec<Value> {
        let mut rounds = Vec::new();
        let mut folders = vec![self.folder()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder of the run is there") {
                let path = entry.expect("a folder of the run is there").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.ends_with("round.json") {
                    let text = std::fs::read(path).expect("it was written");
                    rounds.push(serde_json::from_slice(&text).expect("a round is JSON"));
                }
            }
        }
        rounds
    }
}

fn text(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}
