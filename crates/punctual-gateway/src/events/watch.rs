//! The watch of a socket: coalesced changes, bounded, with `resync` when some were lost.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use punctual::JobState;
use punctual::engine::{Change, StatsRequest, WaitFor, Waited};
use punctual::job::check_name;
use punctual::time::{Timestamp, millis, pause, seconds};

use super::frames::{ChangeLine, Reply, Wish};
use crate::http::Caller;
use crate::http::{Problem, Result};
use crate::json::queue::{QueueLine, QueueList};
use crate::shared::Shared;

/// Changes within that span go in one frame.
const GATHER: Duration = millis(50);
/// The shortest span between two frames of counts.
const STATS_SPAN_MIN: Duration = millis(250);
/// Queues that one socket may name.
const QUEUES_MAX: usize = 1_000;
/// After the engine refused to say what changed.
const REFUSED_PAUSE: Duration = seconds(1);

type Coming<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What one socket watches.
pub(super) struct Watch {
    shared: Shared,
    caller: Caller,
    after: Option<u64>,
    wish: Option<Wanted>,
    changes: Option<Coming<punctual::Result<Waited>>>,
    counts: Option<Coming<Option<QueueList>>>,
    reported: Vec<QueueLine>,
}

struct Wanted {
    queues: BTreeSet<String>,
    states: Vec<JobState>,
    stats: Option<Duration>,
}

impl Wanted {
    /// Each queue and state once, and only such as there can be: a socket keeps them as long as it
    /// watches.
    fn of(wish: Wish) -> Result<Self> {
        let mut states: Vec<JobState> = Vec::new();
        for state in wish.states {
            let state = state.parse()?;
            if !states.contains(&state) {
                states.push(state);
            }
        }
        let mut queues = BTreeSet::new();
        for queue in wish.queues {
            check_name("queue", &queue)?;
            queues.insert(queue);
            if queues.len() > QUEUES_MAX {
                let problem = Problem::invalid("watch names too many queues");
                return Err(problem.hint("name at most 1,000"));
            }
        }
        Ok(Self {
            queues,
            states,
            stats: wish.stats.map(|span| span.0.max(STATS_SPAN_MIN)),
        })
    }
}

/// What there is to say.
pub(super) enum WatchEvent {
    Reply(Reply),
    /// Something changed that this socket does not watch.
    Nothing,
}

impl Watch {
    pub(super) fn new(shared: Shared, caller: Caller, after: Option<u64>) -> Self {
        Self {
            shared,
            caller,
            after,
            wish: None,
            changes: None,
            counts: None,
            reported: Vec::new(),
        }
    }

    /// Watches that, and nothing else any more.
    pub(super) async fn start(&mut self, wish: Wish) -> Result<Reply> {
        let wanted = Wanted::of(wish)?;
        if self.after.is_none() {
            // From here on: what happens after this answer is sent.
            let what = WaitFor::Changes(None);
            let waited = self
                .shared
                .engine
                .wait(&self.caller.namespace, what, Timestamp::ZERO);
            if let Waited::Changes { cursor, .. } = waited.await? {
                self.after = Some(cursor);
            }
        }
        self.changes = Some(self.ask(Duration::ZERO));
        self.counts = wanted
            .stats
            .map(|_| self.count(Duration::ZERO, &wanted.queues));
        self.reported.clear();
        self.wish = Some(wanted);
        Ok(Reply::Watching {
            cursor: self.after.unwrap_or(0),
        })
    }

    /// The next thing to say; never, while nothing is watched.
    pub(super) async fn next(&mut self) -> WatchEvent {
        tokio::select! {
            waited = coming(&mut self.changes) => {
                self.changes = None;
                self.changed(waited)
            }
            counts = coming(&mut self.counts) => {
                self.counts = None;
                self.counted(counts)
            }
        }
    }

    fn changed(&mut self, waited: punctual::Result<Waited>) -> WatchEvent {
        let (changes, gap) = match waited {
            Ok(Waited::Changes {
                changes,
                cursor,
                gap,
            }) => {
                self.after = Some(cursor);
                (changes, gap)
            }
            Ok(_) => (Vec::new(), false),
            Err(error) => {
                // Every socket asks each second: of all of them one is logged, as of requests. It
                // is no request: the first of those is logged with its id.
                let cause = format!("changes: {}", error.message());
                if self
                    .shared
                    .log_throttle
                    .is_first(error.kind().code(), &cause)
                {
                    tracing::warn!(%error, "the change feed failed; retrying");
                } else {
                    tracing::debug!(%error, "the change feed failed; retrying");
                }
                self.changes = Some(self.ask(REFUSED_PAUSE));
                return WatchEvent::Nothing;
            }
        };
        self.changes = Some(self.ask(GATHER));
        let cursor = self.after.unwrap_or(0);
        if gap {
            return WatchEvent::Reply(Reply::Resync { cursor });
        }
        let changes = self.wanted(changes);
        if changes.is_empty() {
            return WatchEvent::Nothing;
        }
        WatchEvent::Reply(Reply::Jobs { changes, cursor })
    }

    /// Those that are watched, of each job the last.
    fn wanted(&self, changes: Vec<Change>) -> Vec<ChangeLine> {
        let Some(wish) = &self.wish else {
            return Vec::new();
        };
        let mut last = HashMap::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            last.insert(change.id, index);
        }
        let watched = changes.iter().enumerate().filter(|(index, change)| {
            last.get(&change.id) == Some(index)
                && (wish.queues.is_empty() || wish.queues.contains(&change.queue))
                && (wish.states.is_empty() || wish.states.contains(&change.state))
        });
        let line = |(_, change): (usize, &Change)| ChangeLine {
            id: change.id.to_string(),
            queue: change.queue.clone(),
            state: change.state.name(),
            at: change.at.to_string(),
        };
        watched.map(line).collect()
    }

    fn counted(&mut self, counts: Option<QueueList>) -> WatchEvent {
        if let Some(wish) = &self.wish
            && let Some(span) = wish.stats
        {
            self.counts = Some(self.count(span, &wish.queues));
        }
        match counts {
            Some(list) if list.queues != self.reported => {
                self.reported.clone_from(&list.queues);
                WatchEvent::Reply(Reply::Stats(list))
            }
            _ => WatchEvent::Nothing,
        }
    }

    fn ask(&self, after_span: Duration) -> Coming<punctual::Result<Waited>> {
        let (shared, namespace) = (self.shared.clone(), self.caller.namespace.clone());
        let after = self.after;
        Box::pin(async move {
            pause(after_span).await;
            let what = WaitFor::Changes(after);
            shared.engine.wait(&namespace, what, Timestamp::MAX).await
        })
    }

    fn count(&self, after_span: Duration, queues: &BTreeSet<String>) -> Coming<Option<QueueList>> {
        let queues = queues.iter().cloned().collect();
        let (shared, namespace) = (self.shared.clone(), self.caller.namespace.clone());
        Box::pin(async move {
            pause(after_span).await;
            let request = StatsRequest::default().queues(queues);
            let stats = shared.engine.stats(&namespace, request).await.ok()?;
            Some(QueueList::from(&stats))
        })
    }
}

/// What a future answers, kept across calls that are given up; never, if there is none.
fn coming<T>(slot: &mut Option<Coming<T>>) -> impl Future<Output = T> {
    match slot {
        Some(future) => future.as_mut().left_future(),
        None => std::future::pending().right_future(),
    }
}
