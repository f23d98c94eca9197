//! Unit tests of `commands::work::tree`.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, getpid};

use super::{Process, below, read, signal};

fn pid(id: u32) -> Pid {
    Pid::from_raw(id as i32).expect("not 0")
}

#[test]
fn a_name_with_spaces_and_parentheses_hides_nothing() {
    let stat = "42 (a) R 1 (b) S 7 41 41 0 -1 4194560 100";
    let process = Process {
        id: pid(42),
        parent: pid(7),
        group: pid(41),
    };
    assert_eq!(read(42, stat), Some(process));
    assert_eq!(read(42, "42 (cut off"), None);
}

#[test]
fn grandchildren_in_other_sessions_are_below() {
    let mut shell = Command::new("sh")
        .args(["-c", "setsid sh -c 'echo $$; read end; :'; :"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut line = String::new();
    let mut said = std::io::BufReader::new(shell.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
    let grandchild = pid(line.trim().parse().expect("a process id"));
    let found = below(getpid());
    assert!(found.iter().any(|it| it.id == pid(shell.id())));
    assert!(found.iter().any(|it| it.id == grandchild), "{found:?}");

    // The group of the shell is that of this test, so `leader` is a group that has ended.
    signal(pid(shell.id()), grandchild, false, Signal::KILL);
    assert!(shell.wait().expect("it ends").success());
}
