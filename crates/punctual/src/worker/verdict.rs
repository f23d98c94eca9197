//! How the result of a handler becomes an outcome.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, ErrorKind};
use crate::job::{Outcome, Stop};
use crate::lock::SnoozeFor;
use crate::worker::steps::Suspended;

/// Any error; every error type, text, and the boxes of error crates turn into it by `?`.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What a handler may return besides its own error type: `?` works on every error.
pub type HandlerResult<T = Outcome> = Result<T, BoxError>;

/// How a handler ended, in full: what layers see and raw handlers may return.
///
/// ```
/// use punctual::{Outcome, time::seconds, worker::Verdict};
///
/// let verdict = Verdict::retry("exit status 1").after(seconds(10));
/// assert_eq!(verdict.outcome, Outcome::Retry { after: Some(seconds(10)) });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// How the attempt ended.
    pub outcome: Outcome,
    /// What went wrong; kept as the job's last error with its causes. A verdict that carries an
    /// error leaves out the effects and the result of the attempt.
    pub error: Option<BoxError>,
    /// A small result to keep with a completed job, instead of the one given to
    /// [`Context::result`](crate::Context::result).
    pub result: Option<Bytes>,
    /// How the attempt was stopped, where the handler knows better than the worker.
    pub stopped: Option<Stop>,
}

impl Verdict {
    /// An outcome without error or result.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            error: None,
            result: None,
            stopped: None,
        }
    }

    /// Done.
    pub fn completed() -> Self {
        Self::new(Outcome::Completed)
    }

    /// Failed; due again by the job's policy.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::new(Outcome::Retry { after: None })
        }
    }

    /// Failed for good.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::new(Outcome::Dead)
        }
    }

    /// Failed: for good if the error or one of its causes is [`Error::permanent`], else due again.
    /// An error that makes the job snooze ([`or_snooze`](crate::lock::Lock::or_snooze)) is no
    /// failure.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        if let Some(after) = snooze_for(error.as_ref()) {
            return Self::new(Outcome::Snooze { after });
        }
        let waits = causes(error.as_ref()).find_map(|cause| cause.downcast_ref::<Suspended>());
        if let Some(Suspended { names, limit }) = waits {
            return Self::new(Outcome::Hold {
                names: names.clone(),
                limit: *limit,
            });
        }
        if is_permanent(error.as_ref()) {
            Self::dead(error)
        } else {
            Self::retry(error)
        }
    }

    /// A retry waits that span, whatever the job's policy says; other outcomes stay as they are.
    #[must_use]
    pub fn after(mut self, span: Duration) -> Self {
        if let Outcome::Retry { after } = &mut self.outcome {
            *after = Some(span);
        }
        self
    }

    /// Keeps a small result with a completed job.
    #[must_use]
    pub fn result(mut self, bytes: impl Into<Bytes>) -> Self {
        self.result = Some(bytes.into());
        self
    }

    /// Says how the attempt was stopped.
    #[must_use]
    pub fn stopped(mut self, how: Stop) -> Self {
        self.stopped = Some(how);
        self
    }

    /// The error with its causes in one line.
    pub fn error_text(&self) -> Option<String> {
        self.error.as_deref().map(|error| {
            let mut text = error.to_string();
            for cause in causes(error).skip(1) {
                let cause = cause.to_string();
                // Many errors print their cause themselves.
                if !text.ends_with(&cause) {
                    text.push_str(": ");
                    text.push_str(&cause);
                }
            }
            text
        })
    }
}

fn is_permanent(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| {
        let ours = cause.downcast_ref::<Error>();
        ours.is_some_and(|ours| ours.kind() == ErrorKind::Permanent)
    })
}

fn snooze_for(error: &(dyn StdError + 'static)) -> Option<Duration> {
    causes(error).find_map(|cause| {
        cause
            .downcast_ref::<SnoozeFor>()
            .map(|snooze_for| snooze_for.0)
    })
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What a handler may return: nothing or an [`Outcome`], alone or in a `Result` with any error.
///
/// An error means retry by the job's policy; [`Error::permanent`] anywhere among its causes means
/// dead.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()`, `Outcome` or `Verdict`, or a `Result` of one of them with any error type",
    note = "write `Box<dyn std::error::Error + Send + Sync>` for `Box<dyn std::error::Error>`"
)]
pub trait IntoVerdict {
    /// The verdict.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Verdict {
        self
    }
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Verdict::completed()
    }
}

impl IntoVerdict for Outcome {
    fn into_verdict(self) -> Verdict {
        Verdict::new(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoVerdict, E: Into<BoxError>> IntoVerdict for Result<T, E> {
    fn into_verdict(self) -> Verdict {
        match self {
            Ok(value) => value.into_verdict(),
            Err(error) => Verdict::failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
