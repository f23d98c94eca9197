//! The relays of a round: started before its producers, and ended once their sources are empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{future::ready, io};

use punctual::engine::{List, ListBy};
use punctual::time::millis;
use punctual::{Engine, JobState, Namespace};

use super::{RoundRun, holds};
use crate::call_log::History;
use crate::process::{Kept, Recipe};
use crate::relayed::{Places, SeenMessage, SeenRelayed, name_in, queues};
use crate::relays::refused_rows;
use crate::waits::Waits;

/// The relays that run in a round.
pub(super) struct Running {
    kept: Arc<Vec<Kept>>,
    ends: Arc<AtomicBool>,
}

impl RoundRun<'_> {
    /// Where the messages of the round go, if any do.
    pub(super) fn places(&self) -> Option<Places> {
        let relays = self.cell.relays.as_ref()?;
        Some(relays.places(&self.folder))
    }

    /// Starts them; none, in a cell without.
    pub(super) fn start_relays(
        &self,
        history: &Arc<History>,
        waits: &Arc<Waits>,
    ) -> io::Result<Running> {
        let ends = Arc::new(AtomicBool::new(false));
        let mut kept = Vec::new();
        if let (Some(relays), Some(places)) = (&self.cell.relays, self.places()) {
            relays.prepare(&places)?;
            for system in places.systems() {
                for number in 0..system.relays() {
                    let engine = self.cell.address();
                    let recipe = Recipe {
                        name: format!("{}-{number}", system.process()),
                        program: Some(relays.program()),
                        arguments: relays.arguments(system, &places, &engine, ends.clone())?,
                        environment: [self.environment(), vec![relays.environment()]].concat(),
                        log: self.folder.join("processes.log"),
                        says_ready: false,
                        // It says that its engine is away, as a supervisor expects.
                        again_after: millis(200),
                        ends_by_itself: true,
                    };
                    kept.push(Kept::start(recipe, history.clone(), waits.clone()));
                }
            }
        }
        let kept = Arc::new(kept);
        Ok(Running { kept, ends })
    }

    /// Starts each relay once more, to end when its source is empty, and waits until all have.
    pub(super) async fn end_relays(&self, running: Running, waits: &Waits) {
        running.ends.store(true, Relaxed);
        for relay in &*running.kept {
            relay.terminate().await;
        }
        for relay in &*running.kept {
            let over = holds(|| ready(relay.is_over()));
            let what = format!("{} to have nothing left to take", relay.name());
            waits.on(self.wanted.drain, what, over).await;
        }
        for relay in Arc::into_inner(running.kept).into_iter().flatten() {
            relay.end().await;
        }
    }
}

impl Running {
    /// What faults may hit.
    pub(super) fn kept(&self) -> Arc<Vec<Kept>> {
        self.kept.clone()
    }
}

/// Every job in a queue of messages, and what the outbox refused.
pub(super) async fn see(engine: &dyn Engine, places: &Places) -> punctual::Result<SeenRelayed> {
    let mut seen = SeenRelayed::default();
    for queue in queues() {
        for state in JobState::ALL {
            see_some(engine, &queue, state, &mut seen.jobs).await?;
        }
    }
    let rows = refused_rows(places).map_err(|error| {
        punctual::Error::new(punctual::ErrorKind::Io, format!("no outbox: {error}"))
    })?;
    let named = rows
        .iter()
        .map(|row| name_in(row.as_bytes()).unwrap_or_default());
    seen.refused_rows = named.collect();
    Ok(seen)
}

async fn see_some(
    engine: &dyn Engine,
    queue: &str,
    state: JobState,
    seen: &mut Vec<SeenMessage>,
) -> punctual::Result<()> {
    let mut list = List::new(ListBy::State {
        queue: queue.into(),
        state,
    })
    // What is in quarantine is large.
    .limit(50)
    .payloads(true);
    loop {
        let listing = engine.list(&Namespace::default(), list.clone()).await?;
        let jobs = listing.jobs.iter().map(|job| SeenMessage {
            id: job.id,
            queue: queue.to_owned(),
            state,
            name: name_in(&job.payload),
        });
        seen.extend(jobs);
        list.cursor = listing.cursor;
        if list.cursor.is_none() {
            return Ok(());
        }
    }
}
