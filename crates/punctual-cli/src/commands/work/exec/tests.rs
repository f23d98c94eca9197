use std::process::{Command, Stdio};

use super::WHEN_TOLD;

fn output(told: Stdio) -> String {
    let command = Command::new("sh")
        .args(["-c", WHEN_TOLD, "sh", "echo begun; cat"])
        .stdin(told)
        .output();
    String::from_utf8(command.expect("a shell").stdout).expect("text")
}

#[test]
fn a_command_that_was_never_told_to_begin_does_not() {
    assert_eq!(output(Stdio::null()), "");
}

#[test]
fn a_command_reads_the_payload_and_nothing_before_it() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "\n{\"order\": 7}\n").expect("it is written");
    let told = std::fs::File::open(file.path()).expect("it is there");
    assert_eq!(output(told.into()), "begun\n{\"order\": 7}\n");
}
