//! A process at whose ends lines come and go.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use punctual::time::{seconds, within};
use punctual::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Bytes that one line may have: a payload in base64, and what belongs to it.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Variables that a command gets besides those of this process.
pub(super) type Environment = Vec<(&'static str, String)>;

/// A command that runs. Dropping it kills it, and every process of its group.
pub(super) struct Process {
    child: Child,
    /// Ends with the standard error of the command; its last line.
    errors: JoinHandle<String>,
}

/// What is kept of a line of standard error.
const ERROR_BYTES_MAX: usize = 1_024;
/// How long the last line of standard error is waited for once the command has ended.
const ERRORS: Duration = seconds(1);

impl Process {
    /// Its end, and the last line of its standard error.
    pub(super) async fn wait(&mut self) -> Result<(ExitStatus, String)> {
        let status = self.child.wait().await;
        let status = status.map_err(|error| unavailable("the command is lost", error))?;
        // A process that it left behind may hold the pipe open.
        let last = within(ERRORS, &mut self.errors).await;
        Ok((status, last.and_then(Result::ok).unwrap_or_default()))
    }
}

/// The exit status by which a command says that its settings are wrong: no retry mends them.
/// `EX_CONFIG` of sysexits.
const WRONG_SETTING: i32 = 78;

/// Why a command ended, with the last line of its standard error. A wrong setting is an error that
/// no retry mends, but for a command that has worked: its other side has changed, and may again.
pub(super) fn ended(what: &'static str, status: ExitStatus, last: &str, has_worked: bool) -> Error {
    if status.code() == Some(WRONG_SETTING) && !has_worked {
        return wrong_setting(last);
    }
    with_last(unavailable(what, status), last)
}

/// The error of a command that ended for a wrong setting, with its last line.
pub(super) fn wrong_setting(last: &str) -> Error {
    let message = "a setting of the relay is wrong; mend it and start the relay again";
    with_last(Error::new(ErrorKind::InvalidInput, message), last)
}

fn with_last(error: Error, last: &str) -> Error {
    match last.is_empty() {
        true => error,
        false => error.with("stderr", last),
    }
}

/// Passes on what a command writes to its standard error; answers the last line.
async fn pass_on(errors: ChildStderr) -> String {
    let (mut errors, mut last) = (BufReader::new(errors), Vec::new());
    loop {
        let mut line = Vec::new();
        // A line without an end is read in pieces.
        let mut piece = (&mut errors).take(ERROR_BYTES_MAX as u64);
        match piece.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let _ = tokio::io::stderr().write_all(&line).await;
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            last = line;
        }
    }
    let text = String::from_utf8_lossy(&last).into_owned();
    text.trim().trim_start_matches("error: ").to_owned()
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is no id once its end was seen.
        let id = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

/// Starts a command, run by `sh -c`; answers it with its input and its output.
pub(super) fn start(
    command: &str,
    environment: &Environment,
) -> Result<(Process, ChildStdin, LineReader)> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| unavailable("the command does not start", error))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(input), Some(output), Some(errors)) = pipes else {
        return Err(Error::new(ErrorKind::Internal, "the command has no pipes"));
    };
    let errors = tokio::spawn(pass_on(errors));
    let process = Process { child, errors };
    Ok((process, input, LineReader(BufReader::new(output))))
}

pub(super) async fn write(input: &mut ChildStdin, lines: &str) -> Result<()> {
    let written = input.write_all(lines.as_bytes()).await;
    written.map_err(|error| unavailable("the command reads no more", error))
}

/// Reads lines of a bounded length.
pub(super) struct LineReader(BufReader<ChildStdout>);

impl LineReader {
    /// The next line; `None` once the command writes no more.
    pub(super) async fn next(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            let found = self.0.fill_buf().await;
            let found = found.map_err(|error| unavailable("the command cannot be read", error))?;
            let end = found.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&found[..end.unwrap_or(found.len())]);
            let (read, is_over) = (end.map_or(found.len(), |end| end + 1), found.is_empty());
            self.0.consume(read);
            if line.len() > LINE_BYTES_MAX {
                let message = "the command wrote a line of over 4 MiB; a payload is smaller";
                return Err(Error::new(ErrorKind::EngineUnavailable, message));
            }
            if end.is_some() || is_over && !line.is_empty() {
                let text = String::from_utf8(line);
                let text =
                    text.map_err(|error| unavailable("the command wrote no UTF-8", error))?;
                return Ok(Some(text));
            }
            if is_over {
                return Ok(None);
            }
        }
    }
}

pub(super) fn unavailable(what: &'static str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::EngineUnavailable, what).with("error", error)
}
