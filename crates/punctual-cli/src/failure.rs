//! How a command ends other than well: an exit code, and two or three lines with the remedy.

use std::ffi::OsString;
use std::io;

use punctual::time::{Timestamp, parse_span};
use punctual::{Error, ErrorKind};

use crate::output::{Format, Object, object, plain, raw};

/// The exit codes; `punctual --help` lists them, scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Anything that has no code of its own.
    Failed = 1,
    /// What was asked for is malformed: a flag, a name, a line of a file.
    Usage = 2,
    /// The job, queue or file does not exist.
    NotFound = 3,
    /// The engine refused at least one item, by a verdict of its own or because it is full.
    Refused = 4,
    /// The engine cannot be reached, or another process holds its directory.
    Unavailable = 5,
    /// Stored data is damaged, or written by a newer version.
    Damaged = 6,
    /// The engine stopped itself: started again, it goes on.
    Stopped = 7,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    code: &'static str,
    pub(crate) message: String,
    hint: Option<String>,
    lines: Vec<(u64, String)>,
    /// Values of the message, by the name of their field.
    values: Vec<(&'static str, String)>,
    is_reported: bool,
    closed: bool,
}

impl Failure {
    /// A failure with a stable code and one line of text.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code,
            message: message.into(),
            hint: None,
            lines: Vec::new(),
            values: Vec::new(),
            is_reported: false,
            closed: false,
        }
    }

    /// Something in the request is malformed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// The output has shown what was refused: only the exit code is left to say.
    pub(crate) fn reported(exit: Exit) -> Self {
        Self {
            is_reported: true,
            ..Self::new(exit, "reported", "")
        }
    }

    /// A file or directory could not be read or written.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let message = format!("cannot {doing} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(Exit::NotFound, "not_found", message)
                .hint("check the path; it is relative to the present directory"),
            io::ErrorKind::IsADirectory => {
                Self::new(Exit::Usage, "usage", message).hint("name a file, not a directory")
            }
            io::ErrorKind::PermissionDenied => Self::new(Exit::Failed, "io", message)
                .hint("check the owner and the permissions of the path and its directories"),
            _ => Self::new(Exit::Failed, "io", message),
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the lines of a file that are at fault, each with its number.
    #[must_use]
    pub(crate) fn lines(mut self, lines: Vec<(u64, String)>) -> Self {
        self.lines = lines;
        self
    }

    /// Puts what it is about in front: a file, and a part of it.
    #[must_use]
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Shows spans and instants as the command line has them.
    #[must_use]
    pub(crate) fn with_arguments(mut self, args: &[OsString]) -> Self {
        for (name, value) in std::mem::take(&mut self.values) {
            if let Some(written) = written(args, name, &value) {
                let read = format!("{name}: {value}");
                let written = format!("{name}: {written}");
                self.message = self.message.replacen(&read, &written, 1);
            }
        }
        self
    }

    /// What is wrong, without the remedy.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The remedy, if there is one.
    pub(crate) fn shown_hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Both in one line, for the log.
    pub(crate) fn in_a_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The number to exit with; a reader that closed the pipe is no failure.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.closed { 0 } else { self.exit as u8 }
    }

    /// What to write to standard error, if anything.
    pub(crate) fn text(&self, format: Format) -> Option<String> {
        if self.is_reported || self.closed {
            return None;
        }
        if format == Format::Json {
            let mut error = object!({
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
            });
            if !self.lines.is_empty() {
                let line =
                    |(line, message): &(u64, String)| object!({"line": line, "message": message});
                let lines: Vec<Object> = self.lines.iter().map(line).collect();
                error.0.push(("lines", raw(&lines)));
            }
            return serde_json::to_string(&object!({ "error": error })).ok();
        }
        let mut text = format!("error: {}", plain(&self.message));
        for (number, message) in &self.lines {
            text += &format!("\n line {number}: {}", plain(message));
        }
        if let Some(hint) = &self.hint {
            text += &format!("\n hint: {}", plain(hint));
        }
        Some(text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        // Messages say "what is wrong; what to do": the second half is the hint.
        let (what, remedy) = match error.message().split_once("; ") {
            Some((what, remedy)) => (what, Some(remedy.to_owned())),
            None => (error.message(), None),
        };
        let context = error
            .context()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>();
        let mut message = what.to_owned();
        if !context.is_empty() {
            message = format!("{message} ({})", context.join(", "));
        }
        if let Some(source) = std::error::Error::source(&error) {
            message = format!("{message}: {source}");
        }
        let remedy = remedy.or_else(|| remedy_for(kind).map(Into::into));
        let values = error.context();
        Self {
            hint: remedy,
            values: values
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
            ..Self::new(exit_for(kind), kind.code(), message)
        }
    }
}

/// The text of the arguments that means that span or instant: behind the option of the field, else
/// in any argument, where it may stand beside others as in `fixed:10s` and `5/1h`.
fn written<'a>(args: &'a [OsString], name: &str, value: &str) -> Option<&'a str> {
    let (span, at) = (parse_span(value).ok(), value.parse::<Timestamp>().ok());
    let means = |text: &&str| {
        (span.is_some() && parse_span(text).ok() == span)
            || (at.is_some() && text.parse().ok() == at)
    };
    let field = name.rsplit('.').next().unwrap_or(name).replace('_', "-");
    let mut all = args.iter().filter_map(|arg| arg.to_str());
    let mut own = all.clone().skip_while(|arg| {
        let option = arg.split('=').next().unwrap_or_default();
        option.strip_prefix("--") != Some(field.as_str())
    });
    let parts = |arg: &'a str| {
        let parts = arg
            .split(['=', '/', ','])
            .chain(arg.split_once(':').map(|(_, rest)| rest));
        parts.flat_map(|part| part.split("..")).chain([arg])
    };
    let first = own.next().into_iter().chain(own.next());
    let first = first.flat_map(parts).find(means);
    first.or_else(|| all.by_ref().flat_map(parts).find(means))
}

fn exit_for(kind: ErrorKind) -> Exit {
    use ErrorKind::*;
    match kind {
        InvalidInput | InvalidName | InvalidDelay | ReservedId | PayloadTooLarge
        | BatchTooLarge | Unsupported => Exit::Usage,
        NotFound => Exit::NotFound,
        EngineFull | LeaseLost | Conflict | VersionConflict => Exit::Refused,
        EngineUnavailable | DurabilityUnavailable | DataLocked | Io | ShuttingDown => {
            Exit::Unavailable
        }
        DataDamaged | DataNewer => Exit::Damaged,
        EngineStopped => Exit::Stopped,
        _ => Exit::Failed,
    }
}

fn remedy_for(kind: ErrorKind) -> Option<&'static str> {
    use ErrorKind::*;
    Some(match kind {
        DataLocked => {
            "one process holds a data directory; end that one, or name another with --engine"
        }
        DataDamaged => "keep a copy of the directory, then look with `punctual repair`",
        DataNewer => "use the version of punctual that wrote it, or a newer one",
        EngineFull => "free space or delete settled jobs, then send the same again",
        EngineUnavailable => {
            "check that it runs and is reachable; whether this took effect is unknown, so retry with the same ids"
        }
        EngineStopped => "start it again; the log says why it stopped",
        Internal => "this is a bug in punctual; please report it with the command",
        _ => return None,
    })
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self {
            closed: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(Exit::Failed, "io", format!("cannot write output: {error}"))
        }
    }
}

/// The result of every command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;
