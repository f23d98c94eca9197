//! Alerts: what is wrong with a queue, posted once, and once more when it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{
    Action, Edit, EnqueueVerdict, Filter, List, ListBy, QueueStats, Select, Stats, StatsRequest,
    Target,
};
use punctual::time::{days, format_span, minutes, pause, seconds};
use punctual::{Engine, JobId, Namespace, NewJob, Result, State, Unique, push};
use serde_json::json;

use crate::duties::Pulse;

/// What is worth an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertRules {
    /// The oldest due job of a queue waits longer; 1 minute by default.
    pub late: Duration,
    /// A queue has that many dead letters or more; 1 by default.
    pub dead: u64,
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
/// With an alert a second job is put in, the all-clear: held, under a unique key, until the trouble
/// is over. It is what is known of the trouble: several watchers, and one that was started again,
/// find it and tell nothing twice.
#[derive(Clone)]
pub struct Alerts {
    engine: Arc<dyn Engine>,
    home: Namespace,
    watched: Vec<Namespace>,
    url: String,
    rules: AlertRules,
    /// Troubles that were told, by key; `None` until the engine was asked.
    open: Option<BTreeSet<String>>,
    pulse: Option<Pulse>,
}

/// How often it looks.
const LOOK: Duration = seconds(10);
/// Due jobs without a worker are told after that.
const IDLE_MIN: Duration = seconds(10);
/// How long an alert is known after it was posted, so that it is not posted again.
const ALERT_KEPT: Duration = days(7);

/// Something that is wrong.
struct Trouble {
    rule: &'static str,
    queue: String,
    message: String,
    value: u64,
    limit: u64,
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
            pulse: None,
        }
    }

    /// Looks again and again, until it shall end; an error leaves the rest for the next look.
    pub async fn run(mut self, pulse: Pulse) {
        self.pulse = Some(pulse.clone());
        let looking = async {
            loop {
                pulse.works();
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "alerts could not look; they look again");
                }
                pulse.rests();
                pause(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            () = pulse.ended() => {}
            () = looking => {}
        }
    }

    /// Looks once and tells what has changed. An error leaves the rest for the next look.
    pub async fn look(&mut self) -> Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.told().await?,
        };
        let changed = self.compare(&mut open).await;
        self.open = Some(open);
        changed
    }

    async fn compare(&self, open: &mut BTreeSet<String>) -> Result<()> {
        let mut now: BTreeMap<String, (Namespace, Trouble)> = BTreeMap::new();
        for namespace in &self.watched {
            self.goes_on();
            let stats = self.engine.stats(namespace, StatsRequest::default());
            for trouble in troubles(&stats.await?, &self.rules) {
                let key = key_of(namespace, &trouble);
                now.insert(key, (namespace.clone(), trouble));
            }
        }
        for (key, (namespace, trouble)) in &now {
            if !open.contains(key) {
                self.goes_on();
                self.begin(key, namespace, trouble).await?;
                open.insert(key.clone());
            }
        }
        let over: Vec<String> = (open.iter())
            .filter(|key| !now.contains_key(*key))
            .cloned()
            .collect();
        for key in over {
            self.goes_on();
            self.end(&key).await?;
            open.remove(&key);
        }
        Ok(())
    }

    /// The keys of the all-clears that are held.
    async fn told(&self) -> Result<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        let mut cursor = None;
        loop {
            self.goes_on();
            let list = List {
                by: ListBy::State {
                    queue: push::ALERT_QUEUE.to_owned(),
                    state: State::Held,
                },
                filter: Filter::default(),
                cursor,
                limit: 1_000,
                payloads: false,
            };
            let listing = self.engine.list(&self.home, list).await?;
            let found = listing.jobs.into_iter().filter_map(|job| job.unique);
            keys.extend(found.map(|unique| unique.key));
            cursor = listing.cursor;
            if cursor.is_none() {
                return Ok(keys);
            }
        }
    }

    /// A look asks for every namespace and tells every trouble, however many there are: it does not hang meanwhile.
    fn goes_on(&self) {
        self.pulse.iter().for_each(Pulse::works);
    }

    async fn begin(&self, key: &str, namespace: &Namespace, trouble: &Trouble) -> Result<()> {
        let mut clear = self.message(namespace, trouble, "resolved");
        clear.unique = Some(Unique {
            key: key.to_owned(),
            policy: Default::default(),
            hold: Default::default(),
        });
        clear.wait_for = vec!["over".to_owned()];
        let id = clear.id;
        let put = self.engine.enqueue(&self.home, vec![clear]).await?;
        let id = match put.receipts.first().map(|receipt| receipt.verdict) {
            Some(EnqueueVerdict::Merged(holder)) => holder,
            _ => id,
        };
        // Its id is that of the all-clear, so that of several watchers one is heard, and one that
        // was killed between the two is not missed.
        let alert = NewJob {
            id: JobId::derived(push::ALERT_QUEUE, &id.to_string()),
            retention: ALERT_KEPT,
            ..self.message(namespace, trouble, "firing")
        };
        self.engine.enqueue(&self.home, vec![alert]).await?;
        tracing::warn!(namespace = %namespace, queue = trouble.queue, "{}", trouble.message);
        Ok(())
    }

    async fn end(&self, key: &str) -> Result<()> {
        let clear = Target::Unique {
            queue: push::ALERT_QUEUE.to_owned(),
            key: key.to_owned(),
        };
        let edit = Edit {
            select: Select::Targets(vec![clear]),
            action: Action::RunNow,
            dry_run: false,
        };
        self.engine.edit(&self.home, edit).await?;
        Ok(())
    }

    fn message(&self, namespace: &Namespace, trouble: &Trouble, state: &str) -> NewJob {
        let payload = json!({
            "alert": trouble.rule,
            "state": state,
            "namespace": namespace.as_str(),
            "queue": trouble.queue,
            "message": trouble.message,
            "value": trouble.value,
            "limit": trouble.limit,
        });
        let mut job = NewJob {
            kind: "alert".to_owned(),
            ..NewJob::new(push::ALERT_QUEUE, payload.to_string())
        };
        push::set(&mut job, push::TARGET, &self.url);
        job
    }
}

fn key_of(namespace: &Namespace, trouble: &Trouble) -> String {
    let key = format!("{}/{namespace}/{}", trouble.rule, trouble.queue);
    if key.len() <= 256 {
        return key;
    }
    JobId::derived(push::ALERT_QUEUE, &key).to_string()
}

fn troubles(stats: &Stats, rules: &AlertRules) -> Vec<Trouble> {
    // Alerts that cannot be posted are no reason for more of them.
    let watched = (stats.queues.iter()).filter(|queue| queue.queue != push::ALERT_QUEUE);
    watched
        .flat_map(|queue| troubles_of(queue, stats, rules))
        .collect()
}

fn troubles_of(queue: &QueueStats, stats: &Stats, rules: &AlertRules) -> Vec<Trouble> {
    let name = &queue.queue;
    let trouble = |rule, message, value, limit| Trouble {
        rule,
        queue: name.clone(),
        message,
        value,
        limit,
    };
    let ms = |span: Duration| span.as_millis() as u64;
    let mut found = Vec::new();
    let dead = queue.counts.of(State::Dead);
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
