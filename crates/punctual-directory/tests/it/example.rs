//! The example `shared_directory` in two processes.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Cargo builds examples beside the folder of this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("the folder of the profile");
    profile.join("examples").join("shared_directory")
}

fn start(directory: &std::path::Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(example())
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo has built the example");
    let output = child.stdout.take().expect("its output");
    (child, BufReader::new(output).lines())
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = lines.next_line().await.expect("readable output");
    line.expect("another line")
}

#[tokio::test]
async fn two_processes_of_the_example_share_one_directory() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("data");
    let (mut first, mut of_first) = start(&directory);
    assert!(next(&mut of_first).await.ends_with("opened the directory"));
    let (mut second, mut of_second) = start(&directory);
    assert!(
        next(&mut of_second)
            .await
            .ends_with("joined the process that holds the directory")
    );

    // A process that is killed leaves its place to the other one, which still runs its job.
    first.kill().await.expect("the first is killed");
    let stored = format!("stored by process {}", second.id().expect("it runs"));
    loop {
        let line = next(&mut of_second).await;
        if line.contains("runs a job") && line.ends_with(&stored) {
            break;
        }
    }
    second.kill().await.expect("the second is killed");
}
