//! Topics: messages that are published under a subject, and subscriptions, each of which has a copy
//! enqueued into a queue of its own.
//!
//! All subscriptions of a namespace are one versioned record, [`TOPICS`]. The library matches; the
//! engine compares the version in the step that stores the copies. So a publish reaches every
//! subscription of one version, each once, or none. See `docs/topics.md`.

mod filter;
mod filter_text;
mod matcher;
pub(crate) mod message;
mod pattern;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use filter::Filter;
pub use matcher::{Match, Matcher};
pub use message::{Copied, Message};
pub use pattern::{check_pattern, check_subject};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{check_key, check_name};
use crate::push;

/// The record of all subscriptions of a namespace.
pub const TOPICS: &str = "topics";
/// Subscriptions of a namespace.
pub const SUBSCRIPTIONS_MAX: usize = 1_000;
/// Bytes of the record of all subscriptions of a namespace.
pub const TOPICS_BYTES_MAX: usize = 256 << 10;
/// Filters of one subscription.
pub const FILTERS_MAX: usize = 16;
/// Publishes that a message may come through, from handler to handler.
pub const PUBLISHES_MAX: u32 = 32;
/// The header of a copy that names the subject it was published under.
pub const SUBJECT_HEADER: &str = "punctual-subject";
/// The header of a copy that counts the publishes it came through.
pub const DEPTH_HEADER: &str = "punctual-publishes";

/// What happens to a message that a subscription matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// A copy of it is enqueued.
    #[default]
    Enqueue,
    /// The job that holds the message's unique key in the queue is cancelled.
    Cancel,
}

/// A pattern, filters, and the queue that receives a copy of each message that matches.
///
/// ```
/// use punctual::topic::{Filter, Subscription};
///
/// let mail = Subscription::to("mail").filter(Filter::header("country").one_of(["de", "at"]));
/// assert!(mail.name("mailer").matching("orders.*.paid").check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Subscription {
    /// Its name, one of its namespace: 1 to 256 bytes of printable text.
    pub name: String,
    /// Which subjects it matches.
    pub pattern: String,
    /// The queue that receives a copy, or in which a job is cancelled.
    pub queue: String,
    /// What happens to what it matches.
    #[serde(default, skip_serializing_if = "is_enqueue")]
    pub delivery: Delivery,
    /// What a message must pass besides, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

fn is_enqueue(delivery: &Delivery) -> bool {
    *delivery == Delivery::Enqueue
}

impl Subscription {
    /// Has copies enqueued into that queue.
    pub fn to(queue: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            pattern: String::new(),
            queue: queue.into(),
            delivery: Delivery::Enqueue,
            filters: Vec::new(),
        }
    }

    /// Has the job of that queue cancelled that holds the message's unique key: the reminder of an
    /// order that was paid.
    pub fn cancels(queue: impl Into<String>) -> Self {
        Self {
            delivery: Delivery::Cancel,
            ..Self::to(queue)
        }
    }

    /// Names it; else its name is `QUEUE:PATTERN`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Lets only messages pass that pass this filter too.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Sets the pattern of its subjects; `#` at the end is the same as `>`.
    #[must_use]
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = pattern::canonical(pattern.into());
        if self.name.is_empty() {
            self.name = format!("{}:{}", self.queue, self.pattern);
        }
        self
    }

    /// Checks its name, pattern, queue and filters.
    ///
    /// # Errors
    /// `invalid_name` or `invalid_input`, with what to use instead.
    pub fn check(&self) -> Result<()> {
        let named = |error: Error| error.with("subscription", &self.name);
        check_key("subscription", &self.name)?;
        check_pattern(&self.pattern).map_err(named)?;
        check_name("queue", &self.queue).map_err(named)?;
        if push::is_queue(&self.queue) || push::is_amqp_queue(&self.queue) {
            let message = "subscription: jobs of a queue `http:` or `amqp:` go to targets of their \
                           own, which copies do not have; subscribe a queue whose handler sends";
            return Err(named(
                Error::new(ErrorKind::InvalidInput, message).with("queue", &self.queue),
            ));
        }
        if self.filters.len() > FILTERS_MAX {
            let message = "subscription has too many filters; use at most 16";
            return Err(named(
                Error::new(ErrorKind::InvalidInput, message).with("filters", self.filters.len()),
            ));
        }
        self.filters
            .iter()
            .try_for_each(Filter::check)
            .map_err(named)
    }
}

/// The value of the record of all subscriptions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Subscriptions {
    /// In order of their names.
    pub subscriptions: Vec<Subscription>,
}

impl Subscriptions {
    /// Those that the bytes of the record hold.
    ///
    /// # Errors
    /// `invalid_input` if they hold something else, or more than may be.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let read: Self = serde_json::from_slice(bytes).map_err(|error| {
            let message = "record topics holds no subscriptions; use `punctual topics`";
            Error::new(ErrorKind::InvalidInput, message).with("why", error)
        })?;
        read.check(bytes.len())?;
        Ok(read)
    }

    /// The bytes of the record.
    ///
    /// # Errors
    /// `invalid_input` if one of them is malformed or they are too many.
    pub fn write(&self) -> Result<Bytes> {
        let bytes = serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Codec, "subscriptions could not be written").source(error)
        })?;
        self.check(bytes.len())?;
        Ok(bytes.into())
    }

    fn check(&self, bytes: usize) -> Result<()> {
        let count = self.subscriptions.len();
        if count > SUBSCRIPTIONS_MAX {
            let message = "namespace has 1,000 subscriptions, the most that it may have; remove \
                           some, or let one subscriber enqueue for several";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("subscriptions", count));
        }
        if bytes > TOPICS_BYTES_MAX {
            let message = "subscriptions of the namespace are over 256 KiB; use shorter filters";
            return Err(Error::new(ErrorKind::PayloadTooLarge, message).with("bytes", bytes));
        }
        self.subscriptions
            .iter()
            .try_for_each(Subscription::check)?;
        let pairs = self.subscriptions.windows(2);
        match pairs.into_iter().find(|pair| pair[0].name >= pair[1].name) {
            Some(pair) => {
                let message = "record topics: subscriptions are not in order of their names, each \
                               once";
                Err(Error::new(ErrorKind::InvalidInput, message)
                    .with("subscription", &pair[1].name))
            }
            None => Ok(()),
        }
    }

    /// Adds a subscription, in the place of one of the same name; whether anything changed.
    pub fn put(&mut self, subscription: Subscription) -> bool {
        match self.place(&subscription.name) {
            Ok(at) => {
                let before = std::mem::replace(&mut self.subscriptions[at], subscription);
                before != self.subscriptions[at]
            }
            Err(at) => {
                self.subscriptions.insert(at, subscription);
                true
            }
        }
    }

    /// Removes a subscription; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        match self.place(name) {
            Ok(at) => {
                self.subscriptions.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    fn place(&self, name: &str) -> std::result::Result<usize, usize> {
        self.subscriptions
            .binary_search_by(|one| one.name.as_str().cmp(name))
    }
}

#[cfg(test)]
mod tests;
