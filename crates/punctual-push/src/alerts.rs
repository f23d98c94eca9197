//! Alerts: a problem of a queue, posted once, and once more when it is resolved.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{
    Action, Edit, EnqueueVerdict, List, ListBy, QueueStats, Select, Stats, StatsRequest,
};
use punctual::schedule::Overdue;
use punctual::time::{Timestamp, days, format_span, minutes, seconds};
use punctual::{
    Due, Engine, Error, ErrorKind, JobId, JobRecord, JobState, Namespace, NewJob, Result,
    UniquePolicy, push,
};
use serde_json::{Value, json};

use crate::maintenance::{Heartbeat, Periodic};

/// What is worth an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlertRules {
    /// The oldest due job of a queue waits longer; 1 minute by default.
    pub late: Duration,
    /// A queue has that many dead letters or more; 1 by default.
    pub dead: u64,
}

impl AlertRules {
    /// An alert when the oldest due job of a queue waits longer than that.
    #[must_use]
    pub fn late(mut self, late: Duration) -> Self {
        self.late = late;
        self
    }

    /// An alert when a queue has that many dead letters.
    #[must_use]
    pub fn dead(mut self, dead: u64) -> Self {
        self.dead = dead;
        self
    }
}

impl Default for AlertRules {
    fn default() -> Self {
        Self {
            late: minutes(1),
            dead: 1,
        }
    }
}

/// Watches namespaces and posts alerts to a URL, as jobs of the operator's namespace in the queue
/// `http:alerts`.
///
/// With an alert a second job is enqueued, the all-clear: held, under a unique key, until the
/// trouble is over. It records the trouble: several watchers, and one that was restarted, find it
/// and post nothing twice. Both are of one serial group, so that the messages of a trouble are
/// posted in order.
///
/// A trouble that is back while its all-clear is on its way is posted anew: the all-clear is
/// replaced by a held one, or has been posted by the next check, and an alert of the new one
/// follows.
#[derive(Clone)]
pub struct Alerts {
    engine: Arc<dyn Engine>,
    home: Namespace,
    watched: Vec<Namespace>,
    url: String,
    rules: AlertRules,
    /// Troubles that were seen, by key, and the all-clear of which both jobs were enqueued for
    /// sure; `None` until the engine was asked.
    open: Option<BTreeMap<String, Option<JobId>>>,
    heartbeat: Option<Heartbeat>,
}

/// How often it checks.
const INTERVAL: Duration = seconds(10);
/// Due jobs without a worker are an alert after that.
const IDLE_MIN: Duration = seconds(10);
/// How long an alert is known after it was posted, so that it is not posted again.
const ALERT_KEPT: Duration = days(7);

/// Something that is wrong.
struct Trouble {
    rule: &'static str,
    /// Whether it is of a queue or a schedule.
    of: &'static str,
    name: String,
    message: String,
    value: u64,
    limit: u64,
}

/// An all-clear that is held.
struct Clear {
    id: JobId,
    /// It was enqueued so long ago that its alert may be forgotten.
    is_old: bool,
}

impl Alerts {
    /// Watches `watched`, and posts from `home`.
    pub fn new(
        engine: Arc<dyn Engine>,
        home: Namespace,
        watched: Vec<Namespace>,
        url: impl Into<String>,
        rules: AlertRules,
    ) -> Self {
        Self {
            engine,
            home,
            watched,
            url: url.into(),
            rules,
            open: None,
            heartbeat: None,
        }
    }

    /// Checks every ten seconds, until it shall end; an error leaves the rest for the next check.
    pub async fn run(mut self, heartbeat: Heartbeat) {
        self.heartbeat = Some(heartbeat.clone());
        heartbeat.repeat(self).await;
    }

    /// Checks once and posts what has changed. An error leaves the rest for the next check.
    pub async fn check(&mut self) -> Result<()> {
        let held = self.held().await?;
        let mut open = match self.open.take() {
            Some(open) => open,
            // Of a young one the alert may be missing: a kill came between the all-clear and the
            // alert.
            None => (held.iter())
                .map(|(key, clear)| (key.clone(), clear.is_old.then_some(clear.id)))
                .collect(),
        };
        let changed = self.compare(&held, &mut open).await;
        self.open = Some(open);
        changed
    }

    async fn compare(
        &self,
        held: &BTreeMap<String, Clear>,
        open: &mut BTreeMap<String, Option<JobId>>,
    ) -> Result<()> {
        let mut now: BTreeMap<String, (Namespace, Trouble)> = BTreeMap::new();
        for namespace in &self.watched {
            self.goes_on();
            let stats = self.engine.stats(namespace, StatsRequest::default());
            for trouble in troubles(&stats.await?, &self.rules) {
                let key = key_of(namespace, &trouble);
                now.insert(key, (namespace.clone(), trouble));
            }
        }
        let mut failed = None;
        for (key, (namespace, trouble)) in &now {
            let posted = open.entry(key.clone()).or_default();
            // Another watcher may have posted that it is over, and that it is back.
            let stands = held.get(key).map(|clear| clear.id);
            if posted.is_none() || *posted != stands {
                self.goes_on();
                *posted = None;
                match self.begin(key, namespace, trouble).await {
                    Ok(clear) => *posted = clear,
                    Err(error) => {
                        let is_full = error.kind() == ErrorKind::EngineFull;
                        failed.get_or_insert(error);
                        if !is_full {
                            break;
                        }
                    }
                }
            }
        }
        let over: Vec<String> = (open.keys())
            .filter(|key| !now.contains_key(*key))
            .cloned()
            .collect();
        for key in over {
            self.goes_on();
            if let Some(clear) = held.get(&key) {
                // Its group goes by due: behind the alert, which was enqueued after it.
                self.edit(clear.id, Action::Reschedule(Due::Now)).await?;
                self.edit(clear.id, Action::RunNow).await?;
            }
            open.remove(&key);
        }
        // After that: where nothing fits in, what is over makes room.
        failed.map_or(Ok(()), Err)
    }

    /// The all-clears that are held for what is watched, by key.
    async fn held(&self) -> Result<BTreeMap<String, Clear>> {
        let mut clears = BTreeMap::new();
        let mut cursor = None;
        loop {
            self.goes_on();
            let list = List::new(ListBy::State {
                queue: push::ALERT_QUEUE.to_owned(),
                state: JobState::Held,
            })
            .cursor(cursor)
            .limit(1_000)
            .payloads(true);
            let listing = self.engine.list(&self.home, list).await?;
            for job in listing.jobs {
                let is_old = job.enqueued_at + ALERT_KEPT <= listing.now;
                let clear = Clear { id: job.id, is_old };
                if self.is_watched(&job)
                    && let Some(unique) = job.unique
                {
                    clears.insert(unique.key, clear);
                }
            }
            cursor = listing.cursor;
            if cursor.is_none() {
                return Ok(clears);
            }
        }
    }

    /// Whether it is of a namespace that is watched here: others may post from the same home.
    fn is_watched(&self, clear: &JobRecord) -> bool {
        let said: Value = serde_json::from_slice(&clear.payload).unwrap_or_default();
        let mut watched = self.watched.iter();
        watched.any(|namespace| said["namespace"] == namespace.as_str())
    }

    /// A check asks for every namespace and posts every trouble, however many there are: it does
    /// not hang meanwhile.
    fn goes_on(&self) {
        self.heartbeat.iter().for_each(Heartbeat::works);
    }

    /// Enqueues what is missing of the all-clear and the alert; the all-clear, once both are there.
    async fn begin(
        &self,
        key: &str,
        namespace: &Namespace,
        trouble: &Trouble,
    ) -> Result<Option<JobId>> {
        let clear = |id, policy| {
            self.message(key, namespace, trouble, "resolved")
                .id(id)
                .unique_with(key.to_owned(), policy, Default::default())
                .wait_for(vec!["over".to_owned()])
        };
        let new = JobId::new();
        let id = match self.put(clear(new, UniquePolicy::Keep)).await? {
            EnqueueVerdict::Merged(holder) => match self.state(holder).await? {
                Some(JobState::Held) => holder,
                // It may be posted right now: once it has ended the key is free, or it waits.
                Some(JobState::Active) | None => return Ok(None),
                // It is on its way, and no longer true. Every watcher replaces it by the same one.
                _ => {
                    let next = JobId::derived("all-clear", &holder.to_string());
                    let put = self.put(clear(next, UniquePolicy::Replace)).await?;
                    if let EnqueueVerdict::UniqueActive(_) | EnqueueVerdict::Merged(_) = put {
                        return Ok(None);
                    }
                    self.edit(alert_of(holder), Action::Cancel).await?;
                    next
                }
            },
            _ => new,
        };
        // Its id comes from that of the all-clear: several watchers enqueue one alert, and the next
        // one makes up for a watcher that was killed between the two.
        let alert = self
            .message(key, namespace, trouble, "firing")
            .id(alert_of(id))
            .retention(ALERT_KEPT);
        if self.put(alert).await? == EnqueueVerdict::Created {
            let Trouble {
                of, name, message, ..
            } = trouble;
            tracing::warn!(namespace = %namespace, of, name, "{message}");
        }
        Ok(Some(id))
    }

    async fn put(&self, job: NewJob) -> Result<EnqueueVerdict> {
        let put = self.engine.enqueue(&self.home, vec![job]).await?;
        match put.receipts.first().map(|receipt| receipt.verdict) {
            Some(verdict) if verdict != EnqueueVerdict::Full => Ok(verdict),
            _ => {
                let message = "the queue of alerts is full; raise its max_pending";
                Err(Error::new(ErrorKind::EngineFull, message).with("queue", push::ALERT_QUEUE))
            }
        }
    }

    async fn state(&self, id: JobId) -> Result<Option<JobState>> {
        let got = self.engine.get(&self.home, vec![id.into()], false).await?;
        Ok(got.into_iter().flatten().next().map(|got| got.state()))
    }

    async fn edit(&self, id: JobId, action: Action) -> Result<()> {
        let edit = Edit::new(Select::Targets(vec![id.into()]), action);
        self.engine.edit(&self.home, edit).await?;
        Ok(())
    }

    fn message(&self, key: &str, namespace: &Namespace, trouble: &Trouble, state: &str) -> NewJob {
        let payload = json!({
            "alert": trouble.rule,
            "state": state,
            "namespace": namespace.as_str(),
            trouble.of: trouble.name,
            "message": trouble.message,
            "value": trouble.value,
            "limit": trouble.limit,
        });
        let mut job = NewJob::new(push::ALERT_QUEUE, payload.to_string())
            .kind("alert")
            .group(key.to_owned());
        push::set(&mut job, push::TARGET, &self.url);
        job
    }
}

impl Periodic for Alerts {
    const INTERVAL: Duration = INTERVAL;
    const FAILED: &'static str = "the alert check failed; it will be retried";

    async fn once(&mut self) -> Result<()> {
        self.check().await
    }
}

fn alert_of(clear: JobId) -> JobId {
    JobId::derived(push::ALERT_QUEUE, &clear.to_string())
}

fn key_of(namespace: &Namespace, trouble: &Trouble) -> String {
    let key = format!("{}/{namespace}/{}", trouble.rule, trouble.name);
    if key.len() <= 256 {
        return key;
    }
    JobId::derived(push::ALERT_QUEUE, &key).to_string()
}

fn troubles(stats: &Stats, rules: &AlertRules) -> Vec<Trouble> {
    // Alerts that cannot be posted are no reason for more of them.
    let watched = (stats.queues.iter()).filter(|queue| queue.queue != push::ALERT_QUEUE);
    let of_queues = watched.flat_map(|queue| troubles_of(queue, stats, rules));
    of_queues
        .chain(stats.overdue.iter().map(|it| overdue(it, stats.now)))
        .collect()
}

fn overdue(overdue: &Overdue, now: Timestamp) -> Trouble {
    let name = overdue.schedule.clone();
    let message = format!(
        "schedule {name} has had no run that completed for longer than expected, since {}",
        overdue.since
    );
    Trouble {
        rule: "schedule_overdue",
        of: "schedule",
        name,
        message,
        value: (now - overdue.since).as_millis() as u64,
        limit: 0,
    }
}

fn troubles_of(queue: &QueueStats, stats: &Stats, rules: &AlertRules) -> Vec<Trouble> {
    let name = &queue.queue;
    let trouble = |rule, message, value, limit| Trouble {
        rule,
        of: "queue",
        name: name.clone(),
        message,
        value,
        limit,
    };
    let ms = |span: Duration| span.as_millis() as u64;
    let mut found = Vec::new();
    let dead = queue.counts.of(JobState::Dead);
    if dead >= rules.dead.max(1) {
        let message = format!("queue {name} has {dead} dead letters");
        found.push(trouble("dead", message, dead, rules.dead));
    }
    // A paused queue waits on purpose.
    let waits = queue.oldest_due.filter(|_| !queue.paused);
    let Some(waits) = waits else { return found };
    if waits > rules.late {
        let message = format!(
            "the oldest due job of queue {name} waits {}",
            format_span(waits)
        );
        found.push(trouble("late", message, ms(waits), ms(rules.late)));
    }
    let has_worker = (stats.workers.iter()).any(|seen| seen.worker.queues.contains(name));
    if !has_worker && waits >= IDLE_MIN {
        let message = format!("queue {name} has due jobs and no worker");
        found.push(trouble("no_workers", message, ms(waits), ms(IDLE_MIN)));
    }
    found
}

impl fmt::Debug for Alerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alerts")
            .field("watched", &self.watched)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
