//! Setters of a job as sent, of its unique key and of its group: each takes and returns the whole.

use std::time::Duration;

use bytes::Bytes;

use super::{Due, Group, Hold, JobId, JobRecord, JobState, NewJob, OnRetry, Unique, UniquePolicy};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// What programs that pass jobs on set; the options of a producer are in `queue`.
impl NewJob {
    /// Sets the payload.
    #[must_use]
    pub fn payload(mut self, payload: Bytes) -> Self {
        self.payload = payload;
        self
    }

    /// Sets the names and values that the handler gets.
    #[must_use]
    pub fn headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets when it may first run.
    #[must_use]
    pub fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// Adds what an import knows of its past.
    #[must_use]
    pub fn history(mut self, history: JobRecord) -> Self {
        self.history = Some(Box::new(history));
        self
    }
}

impl Unique {
    /// A key with the policy [`UniquePolicy::Keep`], held until the job settles.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            policy: UniquePolicy::default(),
            hold: Hold::default(),
        }
    }

    /// Sets what happens while another job holds the key.
    #[must_use]
    pub fn policy(mut self, policy: UniquePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how long the key is held.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }
}

impl Group {
    /// A group that a job which is to be retried holds back.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            on_retry: OnRetry::default(),
        }
    }

    /// Sets what a job that is to be retried does to the rest.
    #[must_use]
    pub fn on_retry(mut self, on_retry: OnRetry) -> Self {
        self.on_retry = on_retry;
        self
    }
}

impl JobRecord {
    /// The record of a job as an engine took it: nothing has become of it yet.
    ///
    /// The job is held if it waits for names, else scheduled.
    pub fn new(job: NewJob, due: Timestamp, enqueued_at: Timestamp) -> Self {
        let state = match job.wait_for.is_empty() {
            true => JobState::Scheduled,
            false => JobState::Held,
        };
        Self {
            queue: job.queue,
            kind: job.kind,
            payload: job.payload,
            content_type: job.content_type,
            headers: job.headers,
            expires_at: job.expires_at,
            priority: job.priority,
            unique: job.unique,
            group: job.group,
            share: job.share,
            limits: job.limits,
            cost: job.cost,
            max_attempts: job.max_attempts,
            max_crashes: job.max_crashes,
            retry: job.retry,
            timeout: job.timeout,
            retention: job.retention,
            remember: job.remember,
            wait_for: job.wait_for,
            state,
            due,
            enqueued_at,
            ..Self::blank(job.id)
        }
    }

    /// A record that says nothing yet; it allocates nothing.
    pub(crate) fn blank(id: JobId) -> Self {
        Self {
            id,
            queue: String::new(),
            kind: String::new(),
            payload: Bytes::new(),
            content_type: String::new(),
            headers: Vec::new(),
            expires_at: None,
            priority: 0,
            unique: None,
            group: None,
            share: None,
            limits: Vec::new(),
            cost: 0,
            max_attempts: 0,
            max_crashes: None,
            retry: RetryPolicy::List(Vec::new()),
            timeout: None,
            retention: Duration::ZERO,
            remember: None,
            wait_for: Vec::new(),
            schedule: None,
            flow: None,
            state: JobState::Scheduled,
            due: Timestamp::ZERO,
            attempt: 0,
            failures: 0,
            crashes: 0,
            enqueued_at: Timestamp::ZERO,
            started_at: None,
            finished_at: None,
            last_error: None,
            result: None,
            progress: None,
            cancel_requested: false,
            cancelled: None,
            dead: None,
            stopped: None,
            worker: None,
            lease_until: None,
            attempts: Vec::new(),
            log: Vec::new(),
            memos: Vec::new(),
        }
    }
}
