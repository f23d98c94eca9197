//! The options of a job, written once for a job to be sent and for an enqueue under way.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, Group, Hold, Job, JobId, NewJob, OnRetry, Unique, UniquePolicy};
use crate::queue::{Enqueue, Publish};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

macro_rules! options {
    ($type:ty) => {
        impl $type {
            /// Runs that span after the engine took it; the engine alone adds it to its time.
            pub fn delay(self, span: Duration) -> Self {
                self.edit(|job| job.due = Due::After(span))
            }

            /// Runs at that instant; one in the past is due now, and the receipt says `late`.
            pub fn at(self, instant: Timestamp) -> Self {
                self.edit(|job| job.due = Due::At(instant))
            }

            /// Runs before jobs of a higher number: 0 (first) to 9 (last), 5 by default.
            pub fn priority(self, priority: u8) -> Self {
                self.edit(|job| job.priority = priority)
            }

            /// Is merged into an unsettled job of the queue that holds the same key.
            pub fn unique(self, key: impl Into<String>) -> Self {
                self.unique_with(key, UniquePolicy::Keep, Hold::UntilSettled)
            }

            /// Holds a unique key, with what happens if it is taken and how long it is held.
            pub fn unique_with(
                self,
                key: impl Into<String>,
                policy: UniquePolicy,
                hold: Hold,
            ) -> Self {
                let key = key.into();
                self.edit(|job| job.unique = Some(Unique { key, policy, hold }))
            }

            /// Debounce: runs that span after the last of the jobs with the same key, with the last
            /// content, and at most `max_wait` after the first. One that comes while the job runs
            /// makes one more.
            ///
            /// ```
            /// use punctual::time::{minutes, seconds};
            /// use punctual::{MemoryEngine, NewJob, Queue, engine::EnqueueVerdict};
            /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            /// let queue = Queue::new(MemoryEngine::new());
            /// let change = |content: &str| {
            ///     let job = NewJob::new("index", content.to_owned());
            ///     job.debounce("doc:7", seconds(5), minutes(1))
            /// };
            /// let first = queue.enqueue_job(change("1")).await?;
            /// let second = queue.enqueue_job(change("2")).await?;
            /// assert_eq!(second.verdict, EnqueueVerdict::Refreshed(first.id));
            /// # Ok::<(), punctual::Error>(())
            /// # }).unwrap();
            /// ```
            pub fn debounce(
                self,
                key: impl Into<String>,
                quiet: Duration,
                max_wait: Duration,
            ) -> Self {
                let policy = UniquePolicy::Refresh { max_wait };
                self.delay(quiet)
                    .unique_with(key, policy, Hold::UntilSettled)
            }

            /// Throttle: runs at most once per span for the same key; later jobs within the span
            /// are merged into the first, even after it settled.
            pub fn throttle(self, key: impl Into<String>, per: Duration) -> Self {
                self.unique_with(key, UniquePolicy::Keep, Hold::For(per))
            }

            /// Singleton: one unsettled job of the same key at a time; another is merged into it.
            pub fn singleton(self, key: impl Into<String>) -> Self {
                self.unique(key)
            }

            /// Joins a serial group: its jobs run one at a time and in order; one that waits for
            /// its retry holds the others back.
            pub fn group(self, key: impl Into<String>) -> Self {
                self.group_with(key, OnRetry::Hold)
            }

            /// Joins a serial group, with what its retry does to the others.
            pub fn group_with(self, key: impl Into<String>, on_retry: OnRetry) -> Self {
                let key = key.into();
                self.edit(|job| job.group = Some(Group { key, on_retry }))
            }

            /// Belongs to a share: a tenant or a customer, whose jobs take turns with those of
            /// others, so that none of them waits behind a flood of another.
            pub fn share(self, key: impl Into<String>) -> Self {
                let key = key.into();
                self.edit(|job| job.share = Some(key))
            }

            /// Is held by a named limit, at most three of them: over all queues no more jobs with
            /// that name are active or start than [its settings](crate::Queue::limit) say. Without
            /// settings a name limits nothing, until it is blocked.
            pub fn limit(self, name: impl Into<String>) -> Self {
                let name = name.into();
                self.edit(|job| job.limits.push(name))
            }

            /// Takes that many units of the rates of its named limits, 1 to 1,000; 1 by default.
            pub fn cost(self, units: u32) -> Self {
                self.edit(|job| job.cost = units)
            }

            /// Is `cancelled: expired` from that instant on, unless it is active then.
            pub fn expires_at(self, instant: Timestamp) -> Self {
                self.edit(|job| job.expires_at = Some(instant))
            }

            /// Is dead after that many failures; 20 by default.
            pub fn max_attempts(self, max: u32) -> Self {
                self.edit(|job| job.max_attempts = max)
            }

            /// Is dead after that many crashes: leases that ran out, because its worker ended or
            /// hung. Three by default. With 1 it runs alone from its first attempt on, and its
            /// first crash ends it.
            pub fn max_crashes(self, max: u32) -> Self {
                self.edit(|job| job.max_crashes = Some(max))
            }

            /// Waits by that policy after a failure.
            pub fn retry(self, policy: RetryPolicy) -> Self {
                self.edit(|job| job.retry = policy)
            }

            /// Fails an attempt that runs longer.
            pub fn timeout(self, span: Duration) -> Self {
                self.edit(|job| job.timeout = Some(span))
            }

            /// Is kept that long once completed; by default only its tombstone is, for two minutes.
            pub fn retention(self, span: Duration) -> Self {
                self.edit(|job| job.retention = span)
            }

            /// Recognises a resend of its id for that long after it settled, up to 7 days; by
            /// default for two minutes.
            pub fn remember(self, span: Duration) -> Self {
                self.edit(|job| job.remember = Some(span))
            }

            /// Carries one more name and value to the handler. A W3C `traceparent` is shown by the
            /// worker's span and passed on to follow-ups, with its `tracestate`.
            pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
                let header = (name.into(), value.into());
                self.edit(|job| job.headers.push(header))
            }

            /// Carries the trace of the span that this is called in, if OpenTelemetry follows it.
            ///
            /// Not done unasked: it stays with the job, some seventy bytes of it.
            #[cfg(feature = "otel")]
            pub fn traced(self) -> Self {
                match crate::otel::parent_under(&tracing::Span::current()) {
                    Some(parent) => self.header("traceparent", parent),
                    None => self,
                }
            }

            /// Is held until each of these names was cleared.
            pub fn wait_for<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
                let names = names.into_iter().map(Into::into);
                self.edit(|job| job.wait_for.extend(names))
            }

            /// Is sent under that id: the same id twice is the same job.
            pub fn id(self, id: JobId) -> Self {
                self.edit(|job| job.id = id)
            }

            /// Goes to that queue instead.
            pub fn queue(self, name: impl Into<String>) -> Self {
                let name = name.into();
                self.edit(|job| job.queue = name)
            }

            /// Goes to the handler of that name instead.
            pub fn kind(self, name: impl Into<String>) -> Self {
                let name = name.into();
                self.edit(|job| job.kind = name)
            }

            /// Says what the payload is; `application/json` by default.
            pub fn content_type(self, name: impl Into<String>) -> Self {
                let name = name.into();
                self.edit(|job| job.content_type = name)
            }
        }
    };
}

options!(NewJob);
options!(Enqueue);
options!(Publish);

impl NewJob {
    /// A typed payload as a job for its queue and handler, with a fresh id and every default.
    ///
    /// For [`Context::then`](crate::Context::then) and
    /// [`Queue::enqueue_many`](crate::Queue::enqueue_many), with the same options as an enqueue.
    ///
    /// ```
    /// use punctual::{Job, NewJob, time::days};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind { rider: u64 }
    /// # impl Job for Remind { const KIND: &str = "remind"; }
    ///
    /// let job = NewJob::of(&Remind { rider: 7 })?.delay(days(7)).unique("rider:7");
    /// assert_eq!(job.kind, "remind");
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn of<J: Job>(payload: &J) -> Result<Self> {
        let bytes = serde_json::to_vec(payload).map_err(|cause| {
            Error::new(ErrorKind::Codec, "payload cannot be written as JSON")
                .with("kind", J::KIND)
                .source(cause)
        })?;
        Ok(Self::new(J::QUEUE, bytes).kind(J::KIND))
    }

    fn edit(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// What [`Queue::enqueue_many`](crate::Queue::enqueue_many) takes: typed payloads, or jobs whose
/// options are set.
pub trait IntoNewJob {
    /// The job to send.
    fn into_new_job(self) -> Result<NewJob>;
}

impl<J: Job> IntoNewJob for J {
    fn into_new_job(self) -> Result<NewJob> {
        NewJob::of(&self)
    }
}

impl IntoNewJob for NewJob {
    fn into_new_job(self) -> Result<NewJob> {
        Ok(self)
    }
}

impl IntoNewJob for Result<NewJob> {
    fn into_new_job(self) -> Result<NewJob> {
        self
    }
}
