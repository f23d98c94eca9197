//! Named limits: their settings, how they stand, and blocks.

use std::time::Duration;

use crate::Queue;
use crate::engine::{
    Control, Controlled, LIMIT_PREFIX, LimitSettings, NamedLimit, Rate, RecordValue, WhenFull,
};
use crate::error::{Error, ErrorKind, Result};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: u32 = 10;
/// Limits that one call reads.
const PART: usize = 1_000;

impl Queue {
    /// A named limit, which holds over the jobs of all queues that name it: set it, read it, take
    /// it off, or block it for a while.
    ///
    /// A name may have a key after a colon: the settings of `smtp` hold for `smtp:gmail.com` too,
    /// counted for each key by itself, unless that has settings of its own. Safe at every start of
    /// a program: the same settings again change nothing.
    ///
    /// ```
    /// use punctual::engine::Rate;
    /// use punctual::{MemoryEngine, NewJob, Queue, time::minutes};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// queue
    ///     .limit("smtp")
    ///     .concurrency(4)
    ///     .rate(Rate::window(100, minutes(1)))
    ///     .set()
    ///     .await?;
    /// queue
    ///     .enqueue_job(NewJob::new("mail", "{}").limit("smtp:gmail.com").cost(2))
    ///     .await?;
    /// let stands = queue.limit("smtp:gmail.com").get().await?;
    /// assert_eq!(stands.settings.and_then(|set| set.concurrency), Some(4));
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn limit(&self, name: impl Into<String>) -> Limit {
        Limit::new(Some(self.clone()), name)
    }

    /// Every named limit with settings, active or waiting jobs, a block, or starts that count
    /// still; in order of their names.
    pub async fn named_limits(&self) -> Result<Vec<NamedLimit>> {
        let mut all: Vec<NamedLimit> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |last| last.name.clone());
            let limit = PART;
            let read = Control::Limits { after, limit };
            let Controlled::Limits(part) = control(self, read).await? else {
                return Err(strange());
            };
            let is_last = part.len() < PART;
            all.extend(part);
            if is_last {
                return Ok(all);
            }
        }
    }
}

/// A named limit.
#[derive(Debug)]
pub struct Limit {
    handle: Option<Queue>,
    name: String,
    settings: LimitSettings,
    expected: Option<u64>,
}

impl Limit {
    /// The limit of a context; without an engine only in tests.
    pub(crate) fn new(handle: Option<Queue>, name: impl Into<String>) -> Self {
        Self {
            handle,
            name: name.into(),
            settings: LimitSettings::new(),
            expected: None,
        }
    }

    /// At most that many jobs with the limit are active at once, 1 to 1,000,000.
    #[must_use = "nothing is written until it is set"]
    pub fn concurrency(mut self, jobs: u64) -> Self {
        self.settings.concurrency = Some(jobs);
        self
    }

    /// At most that many units start in a span of time; a job takes as many as it costs.
    #[must_use = "nothing is written until it is set"]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.settings.rate = Some(rate);
        self
    }

    /// What becomes of a new job while the concurrency is fully taken: it waits by default.
    ///
    /// ```
    /// use punctual::engine::WhenFull;
    /// use punctual::{MemoryEngine, NewJob, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let build = queue.limit("build").concurrency(1);
    /// build.when_full(WhenFull::CancelRunning).set().await?;
    /// // Each new build of a branch asks the one that runs to stop.
    /// queue
    ///     .enqueue_job(NewJob::new("ci", "{}").limit("build:main"))
    ///     .await?;
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use = "nothing is written until it is set"]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.settings.when_full = when_full;
        self
    }

    /// Writes only if its own settings have that version: see [`version`](Self::version).
    #[must_use = "nothing is written until it is set"]
    pub fn if_version(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// The version of its own settings; 0 if it has none. Each write has a larger one.
    pub async fn version(&self) -> Result<u64> {
        self.read().await.map(|(_, version)| version)
    }

    /// Writes these settings instead of those that the limit has.
    ///
    /// # Errors
    /// As [`LimitSettings::check`]; `engine_full` over 10,000 limits with settings;
    /// `version_conflict` if they have another version than was asked for; `unsupported` where the
    /// engine has no named limits.
    pub async fn set(self) -> Result<()> {
        self.settings
            .check()
            .map_err(|error| error.operation("limit"))?;
        self.write(Some(self.settings)).await.map(drop)
    }

    /// Takes its settings off; whether there were any.
    pub async fn remove(self) -> Result<bool> {
        self.write(None).await
    }

    /// How it stands.
    pub async fn get(&self) -> Result<NamedLimit> {
        let name = self.name.clone();
        match control(self.queue()?, Control::Limit { name }).await? {
            Controlled::Limit(limit) => Ok(*limit),
            _ => Err(strange()),
        }
    }

    /// Starts no job with the limit for a while: the other side said that it is asked too often
    /// (429). No attempt is counted; a handler that blocks ends its own with
    /// [`Outcome::Released`](crate::Outcome::Released). A block replaces the one before; zero ends
    /// it. The limit needs no settings. Whether that changed anything.
    ///
    /// # Errors
    /// `invalid_input` over 365 days; `engine_full` while 10,000 limits are blocked; `unsupported`
    /// where the engine has no named limits.
    pub async fn block_for(&self, span: Duration) -> Result<bool> {
        let name = self.name.clone();
        let block = Control::BlockLimit { name, span };
        match control(self.queue()?, block).await? {
            Controlled::Done(changed) => Ok(changed),
            _ => Err(strange()),
        }
    }

    fn queue(&self) -> Result<&Queue> {
        let message = "limit: the context belongs to no engine; run the handler in a worker";
        let none = || Error::new(ErrorKind::Unsupported, message).operation("limit");
        self.handle.as_ref().ok_or_else(none)
    }

    fn record(&self) -> String {
        format!("{LIMIT_PREFIX}{}", self.name)
    }

    /// Its own settings, with the version of their record.
    async fn read(&self) -> Result<(Option<RecordValue>, u64)> {
        let name = self.record();
        let Controlled::Record(known) = control(self.queue()?, Control::Read { name }).await?
        else {
            return Err(strange());
        };
        let version = known.as_ref().map_or(0, |known| known.version);
        Ok((known.map(|known| known.value), version))
    }

    /// Whether that changed anything.
    async fn write(&self, value: Option<LimitSettings>) -> Result<bool> {
        let mut tries = 1;
        loop {
            let (before, expected) = self.read().await?;
            let name = self.record();
            Control::expect_version(&name, self.expected, expected)
                .map_err(|error| error.operation("limit"))?;
            let value = value.map(RecordValue::Limit);
            if before == value {
                return Ok(false);
            }
            let write = Control::Write {
                name,
                expected,
                value,
            };
            match control(self.queue()?, write).await {
                Ok(_) => return Ok(true),
                // With a version that was asked for, the next turn refuses.
                Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => return Err(error.operation("limit")),
            }
        }
    }
}

async fn control(queue: &Queue, control: Control) -> Result<Controlled> {
    queue.0.engine.control(&queue.0.namespace, control).await
}

fn strange() -> Error {
    Error::new(ErrorKind::Internal, "the engine answered another call").operation("limit")
}
