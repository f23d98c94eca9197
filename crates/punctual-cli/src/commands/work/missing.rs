//! Commands that do not exist: refused at the start, reported while jobs come.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Stopwatch, format_span, minutes};

use crate::failure::{Failure, Result};

/// Exit codes 126 and 127 while jobs run, of which one a minute is reported.
#[derive(Debug, Default)]
pub(super) struct Missing(Mutex<Option<Stopwatch>>);

const ONE_PER: Duration = minutes(1);

impl Missing {
    pub(super) fn report(&self, what: &str, snooze: Duration) {
        let mut last = self.0.locked();
        if last.as_ref().is_none_or(|last| last.elapsed() >= ONE_PER) {
            *last = Some(Stopwatch::start());
            let snooze = format_span(snooze);
            tracing::warn!("{what}: its jobs retry every {snooze}; make the command available");
        }
    }
}

/// Refuses a command that a shell cannot read, or whose first word it does not find.
pub(super) fn check(command: &str) -> Result<()> {
    let refused = |message: String| {
        Failure::usage(message).hint("check its spelling; --exec runs its text by sh -c, here")
    };
    let read = shell(&["-n", "-c", command]);
    if let Some((false, said)) = read {
        return Err(refused(format!("--exec is not a shell command: {said}")));
    }
    let Some(word) = first_word(command) else {
        return Ok(());
    };
    if word.contains('/') {
        if std::path::Path::new(word).is_dir() {
            return Err(refused(format!("--exec {word} is a directory")));
        }
        return match rustix::fs::access(word, rustix::fs::Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::ACCESS) => {
                let message = format!("--exec {word} cannot be executed");
                Err(Failure::usage(message).hint(format!("run chmod +x {word}")))
            }
            Err(error) => Err(refused(format!("--exec {word} cannot be run: {error}"))),
        };
    }
    match shell(&["-c", r#"command -v -- "$1""#, "sh", word]) {
        Some((false, _)) => Err(refused(format!("--exec {word} is not found"))),
        _ => Ok(()),
    }
}

/// Whether `sh` with these arguments exits with 0, and the first line of its errors.
fn shell(args: &[&str]) -> Option<(bool, String)> {
    let ran = Command::new("sh").args(args).stdin(Stdio::null()).output();
    let ran = ran.ok()?;
    let errors = String::from_utf8_lossy(&ran.stderr);
    let said = errors.lines().next().unwrap_or_default().to_owned();
    Some((ran.status.success(), said))
}

/// The first word of a command, if the shell takes it as it stands.
fn first_word(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    let plain = |c: char| c.is_alphanumeric() || "./_-+:,@%".contains(c);
    word.chars().all(plain).then_some(word)
}

#[cfg(test)]
mod tests;
