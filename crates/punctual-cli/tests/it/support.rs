//! Helpers that the tests share.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The binary, in an empty directory of its own.
pub(crate) struct Punctual {
    dir: TempDir,
}

/// How a run of it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Punctual {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    /// One whose data directory is there, empty.
    pub(crate) fn with_data() -> Self {
        let punctual = Self::new();
        punctual.write("none.jsonl", "");
        punctual.run(&["import", "none.jsonl"]).exits(0);
        punctual
    }

    /// The command, not yet started; nothing of the tester's environment reaches it.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command
            .args(args)
            .current_dir(&self.dir)
            .env_remove("PUNCTUAL_ENGINE")
            .env_remove("PUNCTUAL_NAMESPACE")
            .env_remove("PUNCTUAL_OUTPUT")
            .env_remove("PUNCTUAL_TOKEN")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        self.command(args).output().expect("the binary runs").into()
    }

    pub(crate) fn run_with_input<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input).expect("it reads its input");
        drop(stdin);
        child.wait_with_output().expect("it ends").into()
    }

    /// Runs with JSON output, expects success, answers the documents.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let mut args = args.to_vec();
        args.extend(["--output", "json"]);
        let ran = self.run(&args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.documents()
    }

    /// The only document.
    pub(crate) fn one(&self, args: &[&str]) -> Value {
        let mut documents = self.json(args);
        assert_eq!(documents.len(), 1, "{args:?}: {documents:?}");
        documents.remove(0)
    }

    /// Enqueues a job and answers its id.
    pub(crate) fn enqueue(&self, args: &[&str]) -> String {
        let receipt = self.one(&[&["enqueue"], args].concat());
        assert_eq!(receipt["verdict"], "created", "{receipt}");
        text(&receipt["id"])
    }

    /// The state of a job.
    pub(crate) fn state(&self, id: &str) -> String {
        text(&self.one(&["jobs", "show", id])["state"])
    }
}

impl Ran {
    pub(crate) fn documents(&self) -> Vec<Value> {
        let read =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(read).collect()
    }

    /// The error of a run with JSON output.
    pub(crate) fn error(&self) -> Value {
        let last = self.stderr.lines().last().unwrap_or_default();
        let document: Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        document["error"].clone()
    }

    /// Expects that exit code and answers the run.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is text");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    text.lines().map(str::to_owned).collect()
}

/// Numbers from a seed: SplitMix64.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    pub(crate) fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.below(all.len() as u64) as usize]
    }
}
