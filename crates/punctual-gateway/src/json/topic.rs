//! Subscriptions, messages and what becomes of them, as JSON.

use punctual::NewJob;
use punctual::queue::{Copy, MatchLine, Published};
use punctual::topic::{Subscription, TOPICS};
use punctual_push::Guard;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::{Problem, Result};
use crate::job_json::JobJson;
use crate::json::job::holder;
use crate::json::new_job::new_job;
use crate::words::{Id, Name};

/// What a message must pass: all tests that are given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SubscriptionFilter)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterLine {
    /// The name of a header, or `@kind`, `@group` or `@due`.
    #[schema(example = "country")]
    on: String,
    /// It is one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<String>>,
    /// It is none of these, or not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    none_of: Option<Vec<String>>,
    /// It begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// It is there, or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exists: Option<bool>,
    /// It is a number that is no less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    /// It is a number that is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    /// It is due in at most that span, such as `1h`; only with `@due`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within: Option<String>,
}

/// A subscription as it is sent; its name is in the path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionLine {
    /// Which subjects: tokens between dots, `*` any one, `>` at the end one or more.
    #[schema(example = "orders.*.paid")]
    pattern: String,
    /// The queue that receives a copy of what matches.
    #[schema(value_type = Name)]
    queue: String,
    /// `enqueue` a copy, or `cancel` the job of the queue that holds the message's unique key.
    #[serde(default = "enqueue")]
    #[schema(default = "enqueue")]
    delivery: String,
    #[serde(default)]
    filters: Vec<FilterLine>,
}

fn enqueue() -> String {
    "enqueue".into()
}

impl SubscriptionLine {
    /// The subscription of that name.
    pub(crate) fn named(self, name: &str) -> Result<Subscription> {
        let pattern = self.pattern.clone();
        let mut json = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = json.as_object_mut() {
            fields.insert("name".into(), name.into());
        }
        let read: Subscription = serde_json::from_value(json)
            .map_err(|error| Problem::invalid(format!("the subscription: {error}")))?;
        Ok(read.matching(pattern))
    }
}

/// A subscription with its name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionAnswer {
    name: String,
    pattern: String,
    #[schema(value_type = Name)]
    queue: String,
    /// `enqueue` or `cancel`.
    delivery: String,
    filters: Vec<FilterLine>,
}

impl From<&Subscription> for SubscriptionAnswer {
    fn from(one: &Subscription) -> Self {
        let mut json = serde_json::to_value(one).unwrap_or_default();
        if let Some(fields) = json.as_object_mut() {
            fields.remove("name");
        }
        let line: SubscriptionLine = serde_json::from_value(json).unwrap_or_default();
        Self {
            name: one.name.clone(),
            pattern: line.pattern,
            queue: line.queue,
            delivery: line.delivery,
            filters: line.filters,
        }
    }
}

/// A message: a job without a queue, under a subject.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageLine {
    /// Tokens between dots.
    #[schema(example = "orders.eu.paid")]
    pub(crate) subject: String,
    /// The job that each subscriber gets a copy of. Its id names the message: the same again stores
    /// no second copy.
    pub(crate) job: JobJson,
}

/// The subject and the job of a message, whose queue is that of each subscription.
pub(crate) fn message_of(line: MessageLine, guard: &Guard) -> Result<(String, NewJob)> {
    let MessageLine { subject, mut job } = line;
    if job.queue.is_some() || job.target.is_some() {
        return Err(Problem::invalid("a message has a queue or a target")
            .hint("leave them out: each subscription names a queue"));
    }
    job.queue = Some(TOPICS.into());
    Ok((subject, new_job(job, guard)?))
}

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedAnswer {
    /// The id of the message.
    #[schema(value_type = Id)]
    id: String,
    /// How many subscriptions it matched; 0 if none does.
    matched: usize,
    copies: Vec<CopyLine>,
}

/// The copy of a message for one subscription.
#[derive(Debug, Serialize, ToSchema)]
struct CopyLine {
    subscription: String,
    queue: String,
    /// The id of the copy; absent where a job was cancelled instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    id: Option<String>,
    /// As of an enqueue; absent for a cancel, and for a copy that is on its way to another shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    /// The other job that a verdict names.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

impl From<&Copy> for CopyLine {
    fn from(copy: &Copy) -> Self {
        Self {
            subscription: copy.subscription.clone(),
            queue: copy.queue.clone(),
            id: copy.id.map(|id| id.to_string()),
            verdict: copy.verdict.map(|verdict| verdict.name()),
            holder: copy.verdict.and_then(holder),
        }
    }
}

impl From<&Published> for PublishedAnswer {
    fn from(published: &Published) -> Self {
        Self {
            id: published.id.to_string(),
            matched: published.matched,
            copies: published.copies.iter().map(Into::into).collect(),
        }
    }
}

/// Who would receive a message, and who not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MatchAnswer {
    /// How many would.
    matched: usize,
    subscriptions: Vec<MatchedLine>,
}

/// A subscription, and why a message would not match it.
#[derive(Debug, Serialize, ToSchema)]
struct MatchedLine {
    #[serde(flatten)]
    subscription: SubscriptionAnswer,
    matches: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

impl From<&[MatchLine]> for MatchAnswer {
    fn from(lines: &[MatchLine]) -> Self {
        let line = |line: &MatchLine| MatchedLine {
            subscription: (&line.subscription).into(),
            matches: line.why_not.is_none(),
            why_not: line.why_not.clone(),
        };
        let subscriptions: Vec<MatchedLine> = lines.iter().map(line).collect();
        Self {
            matched: subscriptions.iter().filter(|line| line.matches).count(),
            subscriptions,
        }
    }
}
