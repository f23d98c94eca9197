//! What an export has beside jobs, one line each: settings and pauses of queues, schedules,
//! subscriptions, and parts of flows.

use punctual::NewJob;
use punctual::engine::{LIMIT_PREFIX, LimitSettings, QueueSettings, RecordValue, SETTINGS_PREFIX};
use punctual::schedule::{SCHEDULE_PREFIX, Schedule, Success};
use punctual::time::Timestamp;
use punctual::topic::{Subscription, TOPICS};
use serde::{Deserialize, Serialize};

use super::flow_part::{FlowPart, FlowPartLine};
use super::limits::{RateLine, SharesLine, rate_of, shares_of};
use super::named::LimitOf;
use super::queue::OnFullLine;
use super::schedule::{LastSuccess, ScheduleLine};
use crate::decode::{self, DecodeError};
use crate::http::Problem;
use crate::job_json::{InstantText, LineError};

/// The settings of a queue.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsOf {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_pending: Option<u64>,
    #[serde(default)]
    on_full: OnFullLine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<RateLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shares: Option<SharesLine>,
}

/// A line of an export that is no job. It begins with `{"record"`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordJson {
    /// `queue/NAME`, `schedule/NAME`, `limit/NAME`, `flow/NAME` or `topics`.
    record: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsOf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<Box<ScheduleLine>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_success: Option<Box<LastSuccess>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subscription: Option<Box<Subscription>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flow: Option<Box<FlowPartLine>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<LimitOf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<BlockOf>,
}

/// What starts no job: a share of the queue, or the named limit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockOf {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    /// None of a share that is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<InstantText>,
}

/// A share or a named limit of which no job starts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Block {
    /// A share of a queue, until an instant; without one it is paused.
    Share {
        /// The queue.
        queue: String,
        /// The share.
        share: String,
        /// When time opens it.
        until: Option<Timestamp>,
    },
    /// A named limit, until an instant.
    Limit {
        /// Its name.
        name: String,
        /// When time opens it.
        until: Timestamp,
    },
}

/// Records under this prefix are parts of flows.
const FLOW_PREFIX: &str = "flow/";

impl RecordJson {
    fn bare(record: String) -> Self {
        Self {
            record,
            settings: None,
            paused: false,
            schedule: None,
            last_success: None,
            subscription: None,
            flow: None,
            limit: None,
            block: None,
        }
    }

    /// A share or a named limit of which no job starts.
    pub fn of_block(block: &Block) -> Self {
        let (record, share, until) = match block {
            Block::Share {
                queue,
                share,
                until,
            } => (format!("{SETTINGS_PREFIX}{queue}"), Some(share), *until),
            Block::Limit { name, until } => (format!("{LIMIT_PREFIX}{name}"), None, Some(*until)),
        };
        let block = BlockOf {
            share: share.cloned(),
            until: until.map(Into::into),
        };
        Self {
            block: Some(block),
            ..Self::bare(record)
        }
    }

    /// The share or limit of which no job starts, if it is about one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn block(&self) -> Result<Option<Block>, LineError> {
        let Some(block) = &self.block else {
            return Ok(None);
        };
        let is_only = self.settings.is_none()
            && self.schedule.is_none()
            && self.limit.is_none()
            && !self.paused;
        let until = block.until.as_ref().map(|until| until.0);
        let queue = self.record.strip_prefix(SETTINGS_PREFIX);
        let limit = self.record.strip_prefix(LIMIT_PREFIX);
        match (queue, limit, &block.share, until) {
            (Some(queue), _, Some(share), until) if is_only => Ok(Some(Block::Share {
                queue: queue.to_owned(),
                share: share.clone(),
                until,
            })),
            (_, Some(name), None, Some(until)) if is_only => Ok(Some(Block::Limit {
                name: name.to_owned(),
                until,
            })),
            _ => Err(
                "is no record of an export: a block is of a share of `queue/NAME`, or of \
                 `limit/NAME` until an instant"
                    .into(),
            ),
        }
    }

    /// A part of a flow.
    pub fn of_flow(name: &str, part: &FlowPart) -> Self {
        Self {
            flow: Some(Box::new(part.into())),
            ..Self::bare(format!("{FLOW_PREFIX}{name}"))
        }
    }

    /// Whether it is a part of a flow.
    pub fn is_of_flow(&self) -> bool {
        self.flow.is_some()
    }

    /// The flow and the part of it, if it is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn into_flow(self) -> Result<Option<(String, FlowPart)>, LineError> {
        let Some(part) = self.flow else {
            return Ok(None);
        };
        let name = self.record.strip_prefix(FLOW_PREFIX).unwrap_or("");
        let only = self.settings.is_none() && self.schedule.is_none() && self.limit.is_none();
        if punctual::job::check_name("flow", name).is_err() || !only || self.subscription.is_some()
        {
            return Err("is no record of an export: a part of a flow is of `flow/NAME`".into());
        }
        Ok(Some((name.to_owned(), part.into_part()?)))
    }

    /// The settings of a queue, if it has any, and whether it is paused.
    pub fn queue(name: &str, settings: Option<&QueueSettings>, paused: bool) -> Self {
        Self {
            settings: settings.map(|settings| SettingsOf {
                max_pending: settings.max_pending,
                on_full: settings.on_full.into(),
                concurrency: settings.concurrency,
                rate: settings.rate.as_ref().map(Into::into),
                shares: settings.shares.as_deref().map(Into::into),
            }),
            paused,
            ..Self::bare(format!("{SETTINGS_PREFIX}{name}"))
        }
    }

    /// The settings of a named limit.
    pub fn limit(name: &str, settings: &LimitSettings) -> Self {
        Self {
            limit: Some(settings.into()),
            ..Self::bare(format!("{LIMIT_PREFIX}{name}"))
        }
    }

    /// A schedule as its user wrote it, with its last run that completed.
    pub fn schedule(name: &str, schedule: &Schedule, last_success: Option<&Success>) -> Self {
        Self {
            schedule: Some(Box::new(ScheduleLine::of(schedule))),
            last_success: last_success.map(|success| Box::new(success.into())),
            ..Self::bare(format!("{SCHEDULE_PREFIX}{name}"))
        }
    }

    /// One of the subscriptions of the namespace.
    pub fn of_subscription(subscription: &Subscription) -> Self {
        Self {
            subscription: Some(Box::new(subscription.clone())),
            ..Self::bare(TOPICS.to_owned())
        }
    }

    /// The subscription, if it is one.
    pub fn subscription(&self) -> Option<&Subscription> {
        self.subscription.as_deref()
    }

    /// Whether a line is one of these; else it is a job.
    pub fn is_one(text: &str) -> bool {
        text.trim_start().starts_with("{\"record\"")
    }

    /// Reads one line.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        decode::read(text.as_bytes()).map_err(DecodeError::into_line)
    }

    /// The name of the record.
    pub fn name(&self) -> &str {
        &self.record
    }

    /// Whether it is about a queue.
    pub fn is_of_queue(&self) -> bool {
        self.record.starts_with(SETTINGS_PREFIX)
    }

    /// Whether it has the settings of a named limit.
    pub fn is_of_limit(&self) -> bool {
        self.record.starts_with(LIMIT_PREFIX)
    }

    /// The queue that is paused.
    pub fn paused_queue(&self) -> Option<&str> {
        let queue = self.record.strip_prefix(SETTINGS_PREFIX)?;
        self.paused.then_some(queue)
    }

    /// The last run of the schedule that completed, if it is one that had one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take_last_success(&mut self) -> Result<Option<Success>, LineError> {
        let Some(success) = self.last_success.take() else {
            return Ok(None);
        };
        if self.schedule.is_none() {
            return Err("is no record of an export: last_success is of a schedule".into());
        }
        success.into_success().map(Some)
    }

    /// The value of the record; none of a queue that is only paused, of a part of a flow, and of a
    /// subscription, which is a part of one.
    pub fn into_value(mut self) -> Result<Option<RecordValue>, LineError> {
        self.take_last_success()?;
        let reported = |problem: Problem| problem.message().to_owned();
        let is_queue = self.record.starts_with(SETTINGS_PREFIX);
        let is_schedule = self.record.starts_with(SCHEDULE_PREFIX);
        if self.is_of_flow() {
            return self.into_flow().map(|_| None);
        }
        if self.block.is_some() {
            return self.block().map(|_| None);
        }
        if let Some(subscription) = self.subscription {
            let is_one =
                self.record == TOPICS && self.settings.is_none() && self.schedule.is_none();
            return match is_one {
                true => subscription
                    .check()
                    .map(|()| None)
                    .map_err(|error| error.to_string()),
                false => Err("is no record of an export: a subscription is of `topics`".into()),
            };
        }
        if let Some(limit) = &self.limit {
            let is_one = self.record.starts_with(LIMIT_PREFIX)
                && self.settings.is_none()
                && self.schedule.is_none();
            return match is_one {
                true => Ok(Some(RecordValue::Limit(
                    limit.settings().map_err(reported)?,
                ))),
                false => Err("is no record of an export: a limit is of `limit/NAME`".into()),
            };
        }
        match (self.settings, self.schedule) {
            (Some(settings), None) if is_queue => {
                let mut value = QueueSettings::new();
                value.max_pending = settings.max_pending;
                value.on_full = settings.on_full.into();
                value.concurrency = settings.concurrency;
                let rate = settings.rate.as_ref().map(rate_of).transpose();
                value.rate = rate.map_err(reported)?;
                let shares = settings.shares.map(shares_of).transpose();
                let value = value.shares(shares.map_err(reported)?.unwrap_or_default());
                Ok(Some(RecordValue::Queue(value)))
            }
            (None, Some(line)) if is_schedule => {
                let job = |line: crate::JobJson| {
                    let job = line.into_new_job(&NewJob::new("", ""));
                    job.map_err(|why| Problem::of_line(&format!("the job {why}")))
                };
                let schedule = line.into_schedule_of(job).map_err(reported)?;
                Ok(Some(RecordValue::Schedule(Box::new(schedule))))
            }
            (None, None) if is_queue && self.paused => Ok(None),
            _ => Err(
                "is no record of an export: settings of `queue/NAME`, a schedule or a limit".into(),
            ),
        }
    }
}
