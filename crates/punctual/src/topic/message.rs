//! A message: what is published under a subject, and the copies that become of it.

use std::time::Duration;

use super::{
    DEPTH_HEADER, Delivery, Matcher, PUBLISHES_MAX, SUBJECT_HEADER, Subscription, check_subject,
};
use crate::error::{Error, ErrorKind, Result};
use crate::injected::{Bug, is_injected};
use crate::job::{Due, Effect, JobId, Limits, NewJob};
use crate::push::header;
use crate::time::Timestamp;

/// A job that is published under a subject. Its id is that of the message: publishing the same
/// message again stores no second copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    subject: String,
    job: NewJob,
    /// Whether its kind was named; else that of a copy is the name of its queue.
    names_kind: bool,
    publishes: u32,
}

/// What becomes of a message for one subscription.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Copied {
    /// The name of the subscription.
    pub subscription: String,
    /// Its queue.
    pub queue: String,
    /// The id of the copy; `None` if a job is to be cancelled instead.
    pub id: Option<JobId>,
}

impl Message {
    /// A message under that subject; its queue is that of each subscription. A kind that is the
    /// name of the job's own queue becomes that of each subscription's.
    ///
    /// # Errors
    /// `invalid_input` for a malformed subject, for a job that cannot be copied, and for one that
    /// came through 32 publishes.
    pub fn new(subject: impl Into<String>, job: NewJob) -> Result<Self> {
        let subject = subject.into();
        check_subject(&subject)?;
        if job.history.is_some() || job.flow.is_some() || !job.after.is_empty() {
            let message = "publish: a message is no import and no step of a flow; publish a job \
                           of its own";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let came_through = header(&job.headers, DEPTH_HEADER);
        let publishes: u32 = came_through.map_or(Ok(0), |text| {
            text.parse().map_err(|_| {
                let message = "publish: header punctual-publishes is no number; leave it out";
                Error::new(ErrorKind::InvalidInput, message)
            })
        })?;
        check_publishes(publishes, &subject)?;
        Ok(Self {
            subject,
            names_kind: job.kind != job.queue,
            job,
            publishes: publishes + 1,
        })
    }

    /// Counts the publishes that a job came through whose worker publishes this.
    ///
    /// # Errors
    /// `invalid_input` after 32 of them.
    #[doc(hidden)]
    pub fn caused_by(&mut self, headers: &[(String, String)]) -> Result<()> {
        let came_through = header(headers, DEPTH_HEADER).and_then(|text| text.parse::<u32>().ok());
        let came_through = came_through.unwrap_or(0);
        check_publishes(came_through, &self.subject)?;
        self.publishes = self.publishes.max(came_through + 1);
        Ok(())
    }

    /// Keeps the kind, whatever the queue is called.
    #[must_use]
    pub(crate) fn of_kind(mut self) -> Self {
        self.names_kind = true;
        self
    }

    /// The subject.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The job as it was published.
    pub fn job(&self) -> &NewJob {
        &self.job
    }

    /// Checks its job, whether a subscription receives it or not.
    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        if self.job.queue.is_empty() {
            let mut job = self.job.clone();
            job.queue.push_str("topics");
            if job.kind.is_empty() {
                job.kind.push_str("topics");
            }
            return job.check(limits);
        }
        self.job.check(limits)
    }

    /// How far off its due is; from an instant that is asked for only if it has to be.
    pub(crate) fn due_in(&self, now: Option<Timestamp>) -> Duration {
        match self.job.due {
            Due::Now => Duration::ZERO,
            Due::After(span) => span,
            Due::At(at) => now.map_or(Duration::ZERO, |now| at.since(now)),
        }
    }

    /// Whether it is due at an instant, so that the time decides how far off that is.
    pub(crate) fn is_due_at(&self) -> bool {
        matches!(self.job.due, Due::At(_))
    }

    /// What becomes of it, and the effect that does it, for each subscription that it matches.
    pub(crate) fn copies(
        &self,
        matcher: &Matcher,
        now: Option<Timestamp>,
    ) -> Vec<(Copied, Effect)> {
        let matching = matcher.matching(self, self.due_in(now)).into_iter();
        matching.map(|one| self.copy(one)).collect()
    }

    fn copy(&self, subscription: &Subscription) -> (Copied, Effect) {
        let queue = subscription.queue.clone();
        let copied = |id| Copied {
            subscription: subscription.name.clone(),
            queue: queue.clone(),
            id,
        };
        if subscription.delivery == Delivery::Cancel {
            let key = self.job.unique.as_ref().map(|unique| unique.key.clone());
            let key = key.unwrap_or_default();
            return (
                copied(None),
                Effect::Cancel {
                    queue: queue.clone(),
                    key,
                },
            );
        }
        let mut job = self.job.clone();
        job.id = match is_injected(Bug::CopyIdDrawn) {
            true => JobId::new(),
            false => JobId::derived(&self.job.id.to_string(), &subscription.name),
        };
        if !self.names_kind {
            job.kind.clone_from(&queue);
        }
        job.queue.clone_from(&queue);
        set(&mut job, SUBJECT_HEADER, &self.subject);
        set(&mut job, DEPTH_HEADER, &self.publishes.to_string());
        (copied(Some(job.id)), Effect::Enqueue(Box::new(job)))
    }
}

/// Refuses a message that came through too many publishes.
fn check_publishes(publishes: u32, subject: &str) -> Result<()> {
    if publishes < PUBLISHES_MAX {
        return Ok(());
    }
    let message = "publish: the message came through 32 publishes, which suggests a loop: a handler \
                   publishes what its own queue is subscribed to; publish it under another subject, \
                   or narrow the pattern of the subscription";
    Err(Error::new(ErrorKind::InvalidInput, message).with("subject", subject))
}

/// Sets a header; former values are replaced.
pub(crate) fn set(job: &mut NewJob, name: &str, value: &str) {
    job.headers
        .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    job.headers.push((name.to_owned(), value.to_owned()));
}
