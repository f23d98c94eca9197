//! The limits of a queue: how many of its jobs are active, and how many start in a span of time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Queue;
use crate::engine::{
    BlockedShare, Control, Controlled, LimitStats, QueueSettings, Rate, RecordValue,
    SETTINGS_PREFIX, ShareSettings, ShareStats, StatsRequest,
};
use crate::error::{Error, ErrorKind, Result};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: u32 = 10;
/// Shares that one call examines.
const PAGE: usize = 1_000;

impl Queue {
    /// The limits of a queue, by any number of workers: set them, read them, or take them off.
    ///
    /// Safe at every start of a program: the same limits again change nothing.
    ///
    /// ```
    /// use punctual::engine::Rate;
    /// use punctual::{MemoryEngine, Queue, time::minutes};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// queue
    ///     .limits("mail")
    ///     .concurrency(50)
    ///     .rate(Rate::window(1_000, minutes(1)))
    ///     .set()
    ///     .await?;
    /// let limits = queue.limits("mail").get().await?.unwrap();
    /// assert_eq!((limits.concurrency, limits.closed), (Some(50), None));
    /// assert!(queue.limits("mail").remove().await?);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn limits(&self, queue: impl Into<String>) -> QueueLimits {
        QueueLimits {
            handle: self.clone(),
            queue: queue.into(),
            concurrency: None,
            rate: None,
            shares: ShareSettings::new(),
            expected: None,
        }
    }
}

/// The limits of one queue.
#[derive(Debug)]
pub struct QueueLimits {
    handle: Queue,
    queue: String,
    concurrency: Option<u64>,
    rate: Option<Rate>,
    shares: ShareSettings,
    expected: Option<u64>,
}

impl QueueLimits {
    /// At most that many jobs are active at once, 1 to 1,000,000.
    #[must_use = "nothing is written until it is set"]
    pub fn concurrency(mut self, jobs: u64) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// At most that many jobs start in a span of time.
    #[must_use = "nothing is written until it is set"]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// At most that many jobs of each share are active at once, start in a span of time, and wait;
    /// the weights of `limits` are taken too.
    #[must_use = "nothing is written until it is set"]
    pub fn per_share(mut self, limits: ShareSettings) -> Self {
        (self.shares.concurrency, self.shares.rate) = (limits.concurrency, limits.rate);
        self.shares.max_pending = limits.max_pending;
        for (share, weight) in limits.weights {
            self.shares = self.shares.weight(share, weight);
        }
        self
    }

    /// Gives a share that many turns, 1 to 1,000, for one of a share without a weight.
    #[must_use = "nothing is written until it is set"]
    pub fn weight(mut self, share: impl Into<String>, weight: u32) -> Self {
        self.shares = self.shares.weight(share, weight);
        self
    }

    /// Writes only if the settings of the queue have that version: see [`version`](Self::version).
    #[must_use = "nothing is written until it is set"]
    pub fn if_version(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// The version of the settings of the queue; 0 if they were never set. Each write has a larger
    /// one.
    pub async fn version(&self) -> Result<u64> {
        self.read().await.map(|(_, version)| version)
    }

    /// Starts no job of a share for a while: the other side said that this customer asks too often
    /// (429). No attempt is counted. A block replaces the one before; zero ends it. Whether that
    /// changed anything.
    ///
    /// # Errors
    /// `invalid_input` over 365 days; `engine_full` while 10,000 shares of the queue are blocked;
    /// `unsupported` where the engine has no shares.
    pub async fn block_share(&self, share: impl Into<String>, span: Duration) -> Result<bool> {
        let (queue, share) = (self.queue.clone(), share.into());
        let block = Control::BlockShare { queue, share, span };
        match self.control(block).await? {
            Controlled::Done(changed) => Ok(changed),
            _ => Err(strange()),
        }
    }

    /// Starts no job of a share until it is resumed; no attempt is counted, and active jobs go on.
    /// A block for a span does not end it. Whether that changed anything.
    ///
    /// # Errors
    /// As [`block_share`](Self::block_share): a paused share counts as a blocked one.
    pub async fn pause_share(&self, share: impl Into<String>) -> Result<bool> {
        let (queue, share) = (self.queue.clone(), share.into());
        match self.control(Control::PauseShare { queue, share }).await? {
            Controlled::Done(changed) => Ok(changed),
            _ => Err(strange()),
        }
    }

    /// Ends a pause of a share, or a block. Whether that changed anything.
    ///
    /// # Errors
    /// As [`block_share`](Self::block_share).
    pub async fn resume_share(&self, share: impl Into<String>) -> Result<bool> {
        self.block_share(share, Duration::ZERO).await
    }

    /// The shares that are blocked or paused, by key; at most 10,000 are.
    ///
    /// # Errors
    /// `unsupported` where the engine has no shares.
    pub async fn blocked_shares(&self) -> Result<Vec<BlockedShare>> {
        let mut found = BTreeMap::new();
        let mut cursor = None;
        loop {
            let read = Control::BlockedShares {
                queue: self.queue.clone(),
                cursor,
                limit: PAGE,
            };
            let Controlled::BlockedShares {
                shares,
                cursor: next,
            } = self.control(read).await?
            else {
                return Err(strange());
            };
            let by_key = shares.into_iter().map(|one| (one.share.clone(), one));
            found.extend(by_key);
            cursor = next;
            if cursor.is_none() {
                return Ok(found.into_values().collect());
            }
        }
    }

    /// Settings of the shares of the queue.
    pub async fn share_settings(&self) -> Result<ShareSettings> {
        let (settings, _) = self.read().await?;
        Ok(settings
            .shares
            .map_or(ShareSettings::new(), |shares| *shares))
    }

    /// The shares with the most ready jobs, then the most active ones; at most 100.
    pub async fn top_shares(&self, limit: usize) -> Result<Vec<ShareStats>> {
        let request = StatsRequest {
            queues: vec![self.queue.clone()],
            shares: limit,
            ..StatsRequest::default()
        };
        let inner = &self.handle.0;
        let stats = inner.engine.stats(&inner.namespace, request).await?;
        let queue = stats.queues.into_iter().next();
        Ok(queue.map(|queue| queue.shares).unwrap_or_default())
    }

    /// Writes these limits instead of those that the queue has; other settings stay.
    ///
    /// # Errors
    /// As [`QueueSettings::check`]; `invalid_input` without a limit; `version_conflict` if the
    /// settings have another version than was asked for; `unsupported` where the engine keeps none.
    pub async fn set(self) -> Result<()> {
        let none = self.concurrency.is_none() && self.rate.is_none();
        if none && self.shares == ShareSettings::new() {
            let message = "set names no limit; name a concurrency, a rate or one of shares, or call \
                           `remove`";
            return Err(Error::new(ErrorKind::InvalidInput, message).operation("limits"));
        }
        self.write().await.map(drop)
    }

    /// Takes the limits off; whether there were any.
    pub async fn remove(mut self) -> Result<bool> {
        (self.concurrency, self.rate) = (None, None);
        self.shares = ShareSettings::new();
        self.write().await
    }

    /// The limits and how they stand; `None` if the queue has none.
    pub async fn get(&self) -> Result<Option<LimitStats>> {
        let request = StatsRequest {
            queues: vec![self.queue.clone()],
            ..StatsRequest::default()
        };
        let inner = &self.handle.0;
        let stats = inner.engine.stats(&inner.namespace, request).await?;
        Ok(stats.queues.into_iter().next().and_then(|one| one.limits))
    }

    /// Writes the settings with other limits, again if another caller wrote in between; whether
    /// that changed anything.
    async fn write(&self) -> Result<bool> {
        let name = format!("{SETTINGS_PREFIX}{}", self.queue);
        let mut tries = 1;
        loop {
            let (before, version) = self.read().await?;
            Control::expect_version(&name, self.expected, version)
                .map_err(|error| error.operation("limits"))?;
            let after = QueueSettings {
                concurrency: self.concurrency,
                rate: self.rate,
                shares: (self.shares != ShareSettings::new())
                    .then(|| Box::new(self.shares.clone())),
                ..before.clone()
            };
            if after == before {
                return Ok(false);
            }
            let write = Control::Write {
                name: name.clone(),
                expected: version,
                // Settings that say nothing would keep an idle queue for ever.
                value: (after != QueueSettings::new()).then_some(RecordValue::Queue(after)),
            };
            match self.control(write).await {
                Ok(_) => return Ok(true),
                // With a version that was asked for, the next turn refuses.
                Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The settings of the queue, with the version of their record.
    async fn read(&self) -> Result<(QueueSettings, u64)> {
        let name = format!("{SETTINGS_PREFIX}{}", self.queue);
        let Controlled::Record(record) = self.control(Control::Read { name }).await? else {
            return Err(strange());
        };
        let version = record.as_ref().map_or(0, |record| record.version);
        let settings = match record.map(|record| record.value) {
            Some(RecordValue::Queue(settings)) => settings,
            _ => QueueSettings::new(),
        };
        Ok((settings, version))
    }

    async fn control(&self, control: Control) -> Result<Controlled> {
        let inner = &self.handle.0;
        inner.engine.control(&inner.namespace, control).await
    }
}

fn strange() -> Error {
    Error::new(ErrorKind::Internal, "the engine answered another call").operation("limits")
}
