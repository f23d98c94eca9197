//! What engine and sink hold, once nothing is left to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use punctual::engine::{Action, Edit, Got, List, ListBy, QueueStats, Select, StatsRequest, Target};
use punctual::{Engine, JobId, JobState, Namespace, Queue, Result};
use serde::{Deserialize, Serialize};

use crate::flows::{self, SeenFlow};
use crate::limits;
use crate::relayed::{self, SeenRelayed};
use crate::schedules::{self, SeenRun};
use crate::setting::QUEUES;
use crate::sink::{Rows, Sink};

/// What was there at the end of a round.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// How each job that was sent ended, as the engine says; those it does not know are left out.
    pub(crate) jobs: BTreeMap<JobId, Seen>,
    /// The rows of the sink.
    pub(crate) rows: BTreeMap<JobId, Rows>,
    /// What is left although nothing should be.
    pub(crate) leftovers: Vec<String>,
    /// Jobs that are not settled, and keys that they hold. In a round that did not drain there are
    /// some.
    #[serde(default)]
    pub(crate) unsettled: Vec<String>,
    /// Jobs that no process of this run sent.
    #[serde(default)]
    pub(crate) rogue_clients: Vec<String>,
    /// Counts that differ from what a walk finds.
    pub(crate) miscounts: Vec<String>,
    /// Bytes of all keys once every job was deleted: after the first round of the cell, and now.
    #[serde(default)]
    pub(crate) remains: Option<(u64, u64)>,
    /// Why those bytes could not be asked for.
    #[serde(default)]
    pub(crate) unmeasured: Option<String>,
    /// Jobs whose tombstones may be among those bytes: of this round, and of rounds shortly before.
    #[serde(default)]
    pub(crate) tombstones: Option<u64>,
    /// Flows that were sent, by name; those that the engine does not know are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) flows: BTreeMap<String, SeenFlow>,
    /// What came of messages, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) relayed: Option<SeenRelayed>,
    /// Runs of schedules, by schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) runs: BTreeMap<String, Vec<SeenRun>>,
    /// Why the engine could not be read: it did not open, or did not answer.
    #[serde(default)]
    pub(crate) blind: Option<String>,
    /// Why jobs of the round are left in the engine: they could not be deleted.
    #[serde(default)]
    pub(crate) uncleared: Option<String>,
    /// Keys searched for, and counts compared.
    pub(crate) keys: u64,
    pub(crate) counts: u64,
}

/// A job at the end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) state: JobState,
    /// Whether it is `dead: poison`.
    pub(crate) poison: bool,
    /// Its attempts, where more than its tombstone is left.
    pub(crate) attempt: Option<u32>,
}

/// What is written of it.
pub(crate) const FILE: &str = "snapshot.json";

impl Snapshot {
    /// A snapshot of an engine that cannot be read.
    pub(crate) fn blind(sink: &dyn Sink, why: String) -> io::Result<Self> {
        Ok(Self {
            rows: sink.rows()?,
            blind: Some(why),
            ..Self::default()
        })
    }

    /// Asks the engine and the sink for all of it.
    pub(crate) async fn at(
        engine: &Arc<dyn Engine>,
        sink: &dyn Sink,
        ids: &[JobId],
        keys: &[(String, String)],
        flows: &[String],
    ) -> Result<Self> {
        let mut snapshot = Self {
            rows: sink.rows().map_err(unreadable)?,
            ..Self::default()
        };
        for ids in ids.chunks(500) {
            let targets = ids.iter().copied().map(Target::Id).collect();
            let got = engine.get(&Namespace::default(), targets, false).await?;
            let found = ids
                .iter()
                .zip(got)
                .filter_map(|(id, got)| Some((*id, seen(&got?))));
            snapshot.jobs.extend(found);
        }
        for keys in keys.chunks(500) {
            let target = |(queue, key): &(String, String)| Target::Unique {
                queue: queue.clone(),
                key: key.clone(),
            };
            let got = engine
                .get(
                    &Namespace::default(),
                    keys.iter().map(target).collect(),
                    false,
                )
                .await?;
            for ((queue, key), got) in keys.iter().zip(got) {
                snapshot.keys += 1;
                if let Some(got) = got.filter(|got| !got.state().is_settled()) {
                    snapshot.unsettled.push(format!(
                        "unique key {key} of {queue} is held by a {} job",
                        got.state()
                    ));
                }
            }
        }
        let of_flows = Queue::new(engine).flows();
        for name in flows {
            let Some(status) = of_flows.get(name).await? else {
                continue;
            };
            let recounted = of_flows.recount(name).await?;
            let differs = (!recounted.agrees()).then(|| format!("{recounted:?}"));
            let seen = SeenFlow {
                state: status.state.name().into(),
                fired: status.callbacks.iter().map(|it| it.fired).collect(),
                differs,
            };
            snapshot.flows.insert(name.clone(), seen);
        }
        snapshot.runs = schedules::runs(&**engine).await?;
        let runs = snapshot.runs.values().flatten().map(|run| run.id);
        let mut known: Vec<JobId> = ids.iter().copied().chain(runs).collect();
        known.sort_unstable();
        snapshot.compare(&**engine, &known).await?;
        Ok(snapshot)
    }

    /// Holds what is counted against what a walk finds, and that against the jobs that are known,
    /// which are in order.
    async fn compare(&mut self, engine: &dyn Engine, known: &[JobId]) -> Result<()> {
        let stats = engine
            .stats(&Namespace::default(), StatsRequest::default())
            .await?;
        for queue in &stats.queues {
            for state in JobState::ALL {
                let found = walk(engine, &queue.queue, state).await?;
                let counted = queue.counts.of(state);
                self.counts += 1;
                if found.len() as u64 != counted {
                    let what = format!(
                        "{}: {counted} {state} counted, {} found",
                        queue.queue,
                        found.len()
                    );
                    self.miscounts.push(what);
                }
                let strange = found.iter().filter(|id| known.binary_search(id).is_err());
                let line =
                    strange.map(|id| format!("{id} of {} was not sent by this run", queue.queue));
                self.rogue_clients.extend(line.take(LEFT));
                if !state.is_settled() {
                    let left = found
                        .iter()
                        .map(|id| format!("{id} of {} is {state}", queue.queue));
                    self.unsettled.extend(left.take(20));
                }
            }
        }
        let known = [
            &QUEUES[..],
            &flows::QUEUES,
            &limits::QUEUES,
            &schedules::QUEUES,
        ]
        .concat();
        let messages = relayed::queues();
        let known =
            |queue: &str| known.contains(&queue) || messages.iter().any(|known| known == queue);
        let strange = stats.queues.iter().filter(|queue| !known(&queue.queue));
        self.leftovers
            .extend(strange.map(|queue| format!("queue {} is not of this run", queue.queue)));
        Ok(())
    }

    /// What is not settled yet: counts, and why some of it waits.
    pub(crate) async fn left(engine: &dyn Engine) -> String {
        match Self::try_left(engine).await {
            Ok(text) => text,
            Err(error) => format!("the engine does not say what is left: {error}\n"),
        }
    }

    async fn try_left(engine: &dyn Engine) -> Result<String> {
        let mut text = String::new();
        let namespace = Namespace::default();
        let stats = engine.stats(&namespace, StatsRequest::default()).await?;
        let line = |queue: &QueueStats| format!("{queue:?}\n");
        text.extend(stats.queues.iter().map(line));
        text.extend(stats.workers.iter().map(|worker| format!("{worker:?}\n")));
        for queue in &stats.queues {
            for state in JobState::ALL
                .into_iter()
                .filter(|state| !state.is_settled())
            {
                let ids = walk(engine, &queue.queue, state).await?;
                let some = ids.into_iter().take(LEFT).map(Target::Id).collect();
                let got = engine.get(&namespace, some, true).await?;
                text.extend(got.iter().flatten().map(|got| format!("{got:?}\n")));
            }
        }
        text.push_str(&format!("{:?}\n", engine.info().await?.health));
        Ok(text)
    }

    /// Deletes jobs, so that what belongs to none is seen.
    pub(crate) async fn clear(engine: &dyn Engine, ids: &[JobId]) -> Result<()> {
        for ids in ids.chunks(500) {
            let edit = Edit::new(
                Select::Targets(ids.iter().copied().map(Target::Id).collect()),
                Action::Delete,
            );
            engine.edit(&Namespace::default(), edit).await?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, round: &Path) -> io::Result<()> {
        fs::write(round.join(FILE), serde_json::to_vec(self)?)
    }

    pub(crate) fn read(round: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(round.join(FILE))?)?)
    }
}

/// Jobs of a queue and state that are named, where some stand for all.
const LEFT: usize = 3;

fn seen(got: &Got) -> Seen {
    let poison = got
        .job()
        .is_some_and(|job| job.dead == Some(punctual::job::DeadReason::Poison));
    Seen {
        state: got.state(),
        poison,
        attempt: got.job().map(|job| job.attempt),
    }
}

async fn walk(engine: &dyn Engine, queue: &str, state: JobState) -> Result<Vec<JobId>> {
    let mut list = List::new(ListBy::State {
        queue: queue.into(),
        state,
    })
    .limit(1_000);
    let mut ids = Vec::new();
    loop {
        let listing = engine.list(&Namespace::default(), list.clone()).await?;
        ids.extend(listing.jobs.iter().map(|job| job.id));
        list.cursor = listing.cursor;
        if list.cursor.is_none() {
            return Ok(ids);
        }
    }
}

fn unreadable(error: io::Error) -> punctual::Error {
    punctual::Error::new(
        punctual::ErrorKind::Io,
        format!("sink cannot be read: {error}"),
    )
}
