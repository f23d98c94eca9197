//! The one error type: what went wrong, in which operation, with what, and whether to try again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::sync::Lock;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What kind of thing went wrong; the part of an [`Error`] that a program matches on.
///
/// [`ErrorKind::code`] is the stable text form, the same on the wire, in logs and in the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value is malformed or out of range; the message names it and the allowed range.
    InvalidInput,
    /// A namespace, queue, kind, key or header name breaks the naming rule.
    InvalidName,
    /// A delay or instant is negative, overflows, or lies after the year 9999.
    InvalidDelay,
    /// A payload, result or header set is over its limit.
    PayloadTooLarge,
    /// A call carries more items or bytes than one call may.
    BatchTooLarge,
    /// The id has a form that only the engine gives out: that of a schedule's runs.
    ReservedId,
    /// The job, queue or record does not exist (any more).
    NotFound,
    /// The token is not (or no longer) the job's lease; nothing was changed.
    LeaseLost,
    /// Another job stands in the way: it has the id with other content, is active and holds the
    /// unique key, or is in the queue that is to be deleted.
    Conflict,
    /// Another caller changed a versioned record since it was read.
    VersionConflict,
    /// This engine does not have the capability that the call needs.
    Unsupported,
    /// The store is full and the call was refused: nothing was changed. Where full was foreseen
    /// only enqueue is, everything else goes on.
    EngineFull,
    /// The engine cannot be reached or has stopped; whether a change took place is unknown.
    EngineUnavailable,
    /// The engine has stopped itself, because of a failure that it cannot go on after: every later
    /// call answers this. Open it again, or end the process so that it is started again.
    EngineStopped,
    /// The engine cannot keep the durability asked for.
    DurabilityUnavailable,
    /// Another process holds the data directory.
    DataLocked,
    /// Stored data is damaged; the message names file, offset and remedy.
    DataDamaged,
    /// Stored data was written by a newer version.
    DataNewer,
    /// The store that held jobs holds them no more: it was emptied, or is another one.
    DataMissing,
    /// The store could not be read or written.
    Io,
    /// A payload could not be encoded or decoded as its type.
    Codec,
    /// A handler failed; retried by policy.
    Handler,
    /// A handler failed in a way that no retry can mend; the job goes to dead.
    Permanent,
    /// The call was given up because the process is shutting down.
    ShuttingDown,
    /// A bug in punctual; please report it.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 25] = [
        Self::InvalidInput,
        Self::InvalidName,
        Self::InvalidDelay,
        Self::PayloadTooLarge,
        Self::BatchTooLarge,
        Self::ReservedId,
        Self::NotFound,
        Self::LeaseLost,
        Self::Conflict,
        Self::VersionConflict,
        Self::Unsupported,
        Self::EngineFull,
        Self::EngineUnavailable,
        Self::EngineStopped,
        Self::DurabilityUnavailable,
        Self::DataLocked,
        Self::DataDamaged,
        Self::DataNewer,
        Self::DataMissing,
        Self::Io,
        Self::Codec,
        Self::Handler,
        Self::Permanent,
        Self::ShuttingDown,
        Self::Internal,
    ];

    /// The stable text form, such as `lease_lost`.
    ///
    /// ```
    /// assert_eq!(punctual::ErrorKind::LeaseLost.code(), "lease_lost");
    /// ```
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::InvalidName => "invalid_name",
            Self::InvalidDelay => "invalid_delay",
            Self::PayloadTooLarge => "payload_too_large",
            Self::BatchTooLarge => "batch_too_large",
            Self::ReservedId => "reserved_id",
            Self::NotFound => "not_found",
            Self::LeaseLost => "lease_lost",
            Self::Conflict => "conflict",
            Self::VersionConflict => "version_conflict",
            Self::Unsupported => "unsupported",
            Self::EngineFull => "engine_full",
            Self::EngineUnavailable => "engine_unavailable",
            Self::EngineStopped => "engine_stopped",
            Self::DurabilityUnavailable => "durability_unavailable",
            Self::DataLocked => "data_locked",
            Self::DataDamaged => "data_damaged",
            Self::DataNewer => "data_newer",
            Self::DataMissing => "engine_data_missing",
            Self::Io => "io",
            Self::Codec => "codec",
            Self::Handler => "handler",
            Self::Permanent => "permanent",
            Self::ShuttingDown => "shutting_down",
            Self::Internal => "internal",
        }
    }
}

/// One error: kind, operation, context, source.
///
/// `Display` is one line for a log; the [source](std::error::Error::source) is kept apart.
///
/// ```
/// use punctual::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::InvalidDelay, "delay is over the limit of 7974 years")
///     .operation("enqueue")
///     .with("index", 3);
/// assert_eq!(
///     error.to_string(),
///     "enqueue: delay is over the limit of 7974 years (invalid_delay, index: 3)"
/// );
/// assert!(!error.is_retryable());
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    operation: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<Source>,
}

impl Error {
    /// An error of a kind; the message is lower case, names the thing and, where there is one, the
    /// remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operation: "",
            context: Vec::new(),
            source: None,
        }))
    }

    /// A failure that no retry can mend: the job goes to dead at once.
    ///
    /// ```
    /// let error = punctual::Error::permanent("order 7 has no customer");
    /// assert_eq!(error.kind(), punctual::ErrorKind::Permanent);
    /// ```
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Permanent, message)
    }

    /// Names the operation that failed, once: the outermost caller does not overwrite it.
    #[must_use]
    pub fn operation(mut self, operation: &'static str) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        self
    }

    /// Adds one named value that helps to find the cause.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed; empty if unknown.
    pub fn operation_name(&self) -> &'static str {
        self.0.operation
    }

    /// The message without operation and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The named values, in the order in which they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0
            .context
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }

    /// Whether the same call may succeed later without any change to it.
    ///
    /// Send the same ids again: a call that had taken effect answers `duplicate`.
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::*;
        matches!(
            self.0.kind,
            EngineFull | EngineUnavailable | Io | Handler | ShuttingDown
        )
    }
}

/// A text that outlives the process's callers: names in errors and of engines that came over a
/// wire. Remembers a bounded number of short ones; the rest are called `other`.
pub(crate) fn interned(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.locked();
    if let Some(found) = known.get(text) {
        return found;
    }
    if known.len() >= 256 || text.len() > 64 {
        return "other";
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(kept);
    kept
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.operation.is_empty() {
            write!(f, "{}: ", self.0.operation)?;
        }
        write!(f, "{} ({}", self.0.message, self.0.kind.code())?;
        for (name, value) in &self.0.context {
            write!(f, ", {name}: {value}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{self}")?;
        if let Some(source) = &self.0.source {
            writeln!(f, "  caused by: {source}")?;
            let mut next = source.source();
            while let Some(cause) = next {
                writeln!(f, "  caused by: {cause}")?;
                next = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
