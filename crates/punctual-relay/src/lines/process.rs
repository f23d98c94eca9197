//! A process at whose ends lines come and go.

use std::process::Stdio;

use punctual::{Error, ErrorKind, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Bytes that one line may have: a payload in base64, and what belongs to it.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Variables that a command gets besides those of this process.
pub(super) type Environment = Vec<(&'static str, String)>;

/// A command that runs, its input and its output.
type Started = (Child, ChildStdin, Lines<BufReader<ChildStdout>>);

/// Starts a command, run by `sh -c`. It ends when the child is dropped.
pub(super) fn start(command: &str, environment: &Environment) -> Result<Started> {
    let mut child = Command::new("sh")
        .arg("-c")
        // The shell becomes the command, so that a kill reaches it.
        .arg(format!("exec {command}"))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| unavailable("the command does not start", error))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::new(ErrorKind::Internal, "the command has no pipes"));
    };
    Ok((child, input, BufReader::new(output).lines()))
}

pub(super) async fn write(input: &mut ChildStdin, lines: &str) -> Result<()> {
    let written = input.write_all(lines.as_bytes()).await;
    written.map_err(|error| unavailable("the command reads no more", error))
}

/// The next line; `None` once the command writes no more.
pub(super) async fn read(output: &mut Lines<BufReader<ChildStdout>>) -> Result<Option<String>> {
    let line = output.next_line().await;
    let line = line.map_err(|error| unavailable("the command cannot be read", error))?;
    if line
        .as_ref()
        .is_some_and(|line| line.len() > LINE_BYTES_MAX)
    {
        let message = "the command wrote a line of over 4 MiB; a payload is smaller";
        return Err(Error::new(ErrorKind::EngineUnavailable, message));
    }
    Ok(line)
}

pub(super) fn unavailable(what: &'static str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::EngineUnavailable, what).with("error", error)
}
