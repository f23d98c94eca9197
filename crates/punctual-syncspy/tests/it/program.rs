//! A small program that does to one file what it is asked, says what came of it, and waits to be
//! killed. It is this test binary, started again.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use punctual_syncspy::{Cut, SyncSpy, Tear};
use tempfile::TempDir;

const FILE: &str = "PUNCTUAL_TEST_SPIED_FILE";
const ACTS: &str = "PUNCTUAL_TEST_SPIED_ACTS";

/// A spy and what it watches, gone with the test.
pub(crate) struct Watched {
    pub(crate) spy: SyncSpy,
    directory: TempDir,
}

impl Watched {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("data")).expect("a directory");
        let control = directory.path().join("spy");
        let spy = SyncSpy::new(control, directory.path().join("data")).expect("a spy");
        Self { spy, directory }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        std::fs::read(self.data().join("file")).expect("the file is there")
    }

    /// Runs a program that does these acts one by one, to the last; answers what came of each.
    pub(crate) fn run(&self, acts: &str) -> (Child, Vec<String>) {
        let mut child = self.start(acts);
        let pipe = child.stdout.take().expect("its output is a pipe");
        let lines = BufReader::new(pipe).lines().map_while(Result::ok);
        let said = lines
            .filter_map(|line| line.strip_prefix("#").map(str::to_owned))
            .take(acts.split(',').count())
            .collect();
        (child, said)
    }

    /// Starts such a program, and waits for none of its acts.
    pub(crate) fn start(&self, acts: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
        command
            .args(["program::a_program_to_be_killed", "--exact", "--nocapture"])
            .env(FILE, self.data().join("file"))
            .env(ACTS, acts)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let command = self.spy.arm(&mut command).expect("it is built");
        command.spawn().expect("it starts")
    }

    /// The same, and then a power cut.
    pub(crate) fn run_and_cut(&self, acts: &str, seed: u64, tear: Tear) -> Cut {
        let (mut child, said) = self.run(acts);
        assert!(said.iter().all(|said| said == "done"), "{acts}: {said:?}");
        let cut = self.spy.power_cut(seed, tear).expect("a power cut");
        child.wait().expect("it is dead");
        assert_eq!(cut.killed, [child.id()]);
        cut
    }
}

/// Does nothing, unless it is that program.
#[test]
fn a_program_to_be_killed() {
    let (Ok(path), Ok(acts)) = (std::env::var(FILE), std::env::var(ACTS)) else {
        return;
    };
    let mut options = OpenOptions::new();
    let mut file = options
        .create(true)
        .append(true)
        .open(&path)
        .expect("it opens");
    for act in acts.split(',') {
        let words: Vec<&str> = act.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let done = match words[0] {
            "append" => file.write_all(&content(number(1), words[2])),
            "put" => {
                let file = OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .expect("it opens");
                file.write_all_at(&content(number(2), words[3]), number(1))
            }
            "cut" => file.set_len(number(1)),
            "anew" => std::fs::write(&path, content(number(1), words[2])),
            "sync" => file.sync_data(),
            // At a word from outside, while a sync is under way.
            "remove" => std::thread::scope(|scope| {
                let sync = scope.spawn(|| file.sync_data());
                let word = std::io::stdin().read_line(&mut String::new());
                assert_eq!(word.expect("its input is open"), 1);
                std::fs::remove_file(&path).and(sync.join().expect("it ends"))
            }),
            "run" => std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .map(|run| println!("\n#{}", run.trim())),
            other => panic!("{other} is no act"),
        };
        match done {
            Ok(()) if words[0] == "run" => {}
            Ok(()) => println!("\n#done"),
            Err(error) => println!("\n#{:?}", error.raw_os_error()),
        }
    }
    // Until it is killed; the end of the test that started it ends it too.
    let _ = std::io::stdin().read(&mut [0]);
}

fn content(len: u64, letter: &str) -> Vec<u8> {
    letter
        .repeat(usize::try_from(len).expect("small"))
        .into_bytes()
}
